"""The same requests at the same rate on two servers: what the one does better, by pairs. Pure.

Runs of one seed and workload have the same draw wherever rate, phase, step and repeat are the same: a list of rates everywhere, a
search almost nowhere, since it draws anew at each step and chooses rates of its own. Of such a repeat request i is the same request
in both runs, so its difference is free of the luck of the draw (A/B pairs at the knee, 60 s: the variance of the difference of
attainment is 2 to 17 times less than without pairing, that of mean TTFT 12 to 30 times).

Neighbouring requests share their fate, so the interval is that of blocks of at least BLOCK_E2E mean durations, as independent
observations (Student's t); a repeat that is shorter is one block.
"""

import math
from collections.abc import Iterable, Sequence
from statistics import NormalDist, fmean
from typing import NamedTuple

import msgspec

from core.compare.side import SEEDS, Repeat, Request, Side, Step

BLOCK_E2E = 10.0
"""Attainment near a knee is correlated over 1.2 to 5.7 mean durations (simulated replicas): blocks of ten hardly share any."""
LEAST_BLOCKS = 3
LEAST_REQUESTS = 40
"""With fewer in common, two windows of one draw are no pair."""
_SAME = 1e-9
LEVEL = 0.95


class Interval(msgspec.Struct, frozen=True):
    """A mean with the ends of its interval at LEVEL, from so many blocks."""

    low: float
    mid: float
    high: float
    blocks: int

    @property
    def beyond_zero(self) -> bool:
        """Whether it leaves out 0."""
        return self.low > 0 or self.high < 0


class PairedRate(msgspec.Struct, frozen=True, kw_only=True):
    """A rate that both measured with one draw: the steps of A and B. `repeats` pairs of windows have `requests` in common (0: only
    repeats are known); `a_floor`, `b_floor`: the lowest attainment over the paired repeats, as intervals.

    `difference`: B's attainment less A's, a share; `margin`: ln of the factor by which the same requests use more of their limits
    on B. Each is None where there are too few blocks.
    """

    rate_rps: float
    repeats: int
    requests: int
    a_floor: tuple[float, float]
    b_floor: tuple[float, float]
    a: Step
    b: Step
    difference: Interval | None = None
    margin: Interval | None = None


class _Block(NamedTuple):
    total: float
    n: int


def one_draw(a: Side, b: Side) -> bool:
    """Whether their repeats can have the same requests: the seeds are the same (limits and workload are, of sides that are
    compared)."""
    return all(a.asked[name] == b.asked[name] for name in SEEDS)


def paired(a: Side, b: Side) -> tuple[PairedRate, ...]:
    """Every rate that both measured with one draw, the lowest first."""
    if not one_draw(a, b):
        return ()
    found = (_at(one, other) for one in a.steps for other in b.steps if _same_rate(one.rate_rps, other.rate_rps))
    return tuple(sorted((rate for rate in found if rate is not None), key=lambda rate: rate.rate_rps))


def _same_rate(a_rps: float, b_rps: float) -> bool:
    return math.isclose(a_rps, b_rps, rel_tol=_SAME)


def _at(a: Step, b: Step) -> PairedRate | None:
    drawn = {repeat.draw: repeat for repeat in a.repeats if repeat.counts and repeat.draw is not None}
    both = [(drawn[repeat.draw], repeat) for repeat in b.repeats if repeat.counts and repeat.draw in drawn]
    if not both:
        return None
    known = [pairs for one, other in both if (pairs := _common(one, other))]
    return PairedRate(
        rate_rps=a.rate_rps,
        repeats=len(both),
        requests=sum(map(len, known)),
        a_floor=_floor(one for one, _ in both),
        b_floor=_floor(other for _, other in both),
        a=a,
        b=b,
        difference=_difference(known) if known else _by_repeats(both),
        margin=_margins(known),
    )


def _floor(repeats: Iterable[Repeat]) -> tuple[float, float]:
    low, high = zip(*(repeat.attainment for repeat in repeats), strict=True)
    return min(low), min(high)


def _common(a: Repeat, b: Repeat) -> list[tuple[Request, Request]]:
    """The requests that both windows have from their beginning on; warm-ups differ a little, and so does where a window begins."""
    mine = {request.index: request for request in a.requests}
    both = [(mine[request.index], request) for request in b.requests if request.index in mine]
    return both if len(both) >= LEAST_REQUESTS else []


def _difference(windows: Sequence[Sequence[tuple[Request, Request]]]) -> Interval | None:
    """Of attainment."""
    blocks = [block for pairs in windows for block in _blocks(pairs, [float(b.good) - float(a.good) for a, b in pairs])]
    return _doubted(interval(blocks), sum(map(len, windows)))


def _doubted(found: Interval | None, requests: int) -> Interval | None:
    """One request more or less is always in doubt: a figure of counts is no better than that."""
    if found is None:
        return None
    doubt = 1 / requests
    return Interval(max(found.low - doubt, -1.0), found.mid, min(found.high + doubt, 1.0), found.blocks)


def _margins(windows: Sequence[Sequence[tuple[Request, Request]]]) -> Interval | None:
    """Of the logarithm of margins, where both requests have one."""
    blocks = []
    for pairs in windows:
        told = [(a, b) for a, b in pairs if 0 < a.margin < math.inf and 0 < b.margin < math.inf]
        if told:
            blocks += _blocks(told, [math.log(b.margin / a.margin) for a, b in told])
    return interval(blocks)


def _blocks(pairs: Sequence[tuple[Request, Request]], values: Sequence[float]) -> list[_Block]:
    """Sums over equal stretches of time, each long enough to be an observation of its own."""
    durations = [request.e2e_s for pair in pairs for request in pair if request.e2e_s is not None]
    begin_s, end_s = pairs[0][0].due_s, pairs[-1][0].due_s
    length_s = BLOCK_E2E * fmean(durations) if durations else math.inf
    n = max(1, int((end_s - begin_s) / length_s))
    totals, counts = [0.0] * n, [0] * n
    for (a, _), value in zip(pairs, values, strict=True):
        at = min(int(n * (a.due_s - begin_s) / (end_s - begin_s)), n - 1) if end_s > begin_s else 0
        totals[at] += value
        counts[at] += 1
    return [_Block(total, count) for total, count in zip(totals, counts, strict=True) if count]


def _by_repeats(both: Sequence[tuple[Repeat, Repeat]]) -> Interval | None:
    """From the attainments of whole repeats, where no requests are known; one that was cut has none."""
    whole = [(a, b) for a, b in both if a.attainment[0] == a.attainment[1] and b.attainment[0] == b.attainment[1]]
    blocks = [_Block(b.attainment[0] - a.attainment[0], 1) for a, b in whole]
    return _doubted(interval(blocks), sum(min(a.planned, b.planned) for a, b in whole))


def interval(blocks: Sequence[tuple[float, int]]) -> Interval | None:
    """The mean over all of (sum, number) with its interval by the scatter between blocks, as the ratio of two sums; None of fewer
    than LEAST_BLOCKS."""
    k, n = len(blocks), sum(number for _, number in blocks)
    if k < LEAST_BLOCKS or not n:
        return None
    mean = sum(total for total, _ in blocks) / n
    squares = sum((total - mean * number) ** 2 for total, number in blocks)
    half = _t(k - 1) * math.sqrt(k / (k - 1) * squares) / n
    return Interval(mean - half, mean, mean + half, k)


def _t(freedom: int) -> float:
    """Two-sided quantile of Student's t at LEVEL, by the expansion of Cornish and Fisher (Abramowitz and Stegun 26.7.5): within 4 %
    at 2 degrees of freedom, within 0.3 % from 4 on."""
    z = NormalDist().inv_cdf((1 + LEVEL) / 2)
    return (
        z
        + (z**3 + z) / (4 * freedom)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * freedom**3)
    )
