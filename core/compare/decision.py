"""Is B better than A, worse, or not told apart, and what would tell? Pure.

A claim rests on two measured verdicts: what one holds, the other was measured not to hold, at a lower rate. The ends of a search
are guarded by all its windows; those of a list are not, so there the one must hold by two repeats and the other clearly fail, or
what is paired up to that rate says the same: at half or more of the rates an interval leaves out 0, or attainments are far apart.
Of such a list the two may also be one rate, since both had the same requests there. A server whose own speed changed during a run
by more than the rates are apart decides nothing, and pairs that say the opposite leave no claim. How often one is wrong is counted
by `tests/benchmarks/compare_claims.py`.
"""

import math
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

from core.compare.pairs import PairedRate
from core.compare.side import Side, Step
from core.config import Mode
from core.facts import Code, Fact, Figure, fact
from core.results import MOST_STEADY

Verdict = Literal["better", "worse", "not_told", "refused"]

NEAR = math.log(1.05)
"""Middles closer than this (ln) are the same for all that a bracket can tell."""
_MODE_S: tuple[tuple[Mode, float], ...] = (("quick", 240.0), ("standard", 1140.0), ("acceptance", 3360.0))
"""How long a search of each mode takes at the most, as the README has it."""
FAR = 0.2
"""Attainments of the same windows that are surely so far apart differ by no luck: their paired difference scatters by 3 to 9
points at a knee."""
MOST_REPEATS = 200
"""A list of rates that needs more is not proposed."""


class Decision(NamedTuple):
    """`tells`: what would tell them apart, empty where they are."""

    verdict: Verdict
    headline: Fact
    tells: tuple[Fact, ...] = ()


def decide(a: Side, b: Side, rates: Sequence[PairedRate], name: str, reference: str) -> Decision:
    """What is claimed of B, called `name`, against A, called `reference`."""
    names: dict[str, Figure] = {"name": name, "reference": reference}
    marks = tuple(_marks(a, reference)) + tuple(_marks(b, name))
    steady = max(drift_factor(a), drift_factor(b))
    claims = list(_claims(a, b, rates, steady, names, marks))
    if len({verdict for verdict, _ in claims}) == 1:
        return Decision(*claims[0])
    apart = _middles_apart(a, b)
    headline = fact(
        "compare_not_told",
        *marks,
        **names,
        a_pass_rps=a.low_rps,
        a_fail_rps=a.high_rps,
        b_pass_rps=b.low_rps,
        b_fail_rps=b.high_rps,
        apart_frac=None if apart is None else math.expm1(apart),
    )
    return Decision("not_told", headline, tuple(_tells(a, b, rates, steady, (reference, name))))


def drift_factor(side: Side) -> float:
    """How many times as long a step took in the slowest repeat as in the fastest; 1 of a server that was steady."""
    fastest, slowest = side.speeds
    factor = max(slowest, 1.0) / min(fastest, 1.0)
    return factor if factor >= MOST_STEADY else 1.0


def _marks(side: Side, name: str) -> Iterator[Fact]:
    """What weakens all that is said of a run, and so stands in the headline."""
    if drift_factor(side) > 1:
        fastest, slowest = side.speeds
        yield fact("compare_drift", name=name, fastest_frac=min(fastest, 1.0) - 1, slowest_frac=max(slowest, 1.0) - 1)
    if side.outcome == "interrupted":
        yield fact("compare_unfinished", name=name)


def _claims(
    a: Side, b: Side, rates: Sequence[PairedRate], steady: float, names: dict[str, Figure], marks: tuple[Fact, ...]
) -> Iterator[tuple[Verdict, Fact]]:
    for better, holds, fails in ((True, b, a), (False, a, b)):
        low, high = holds.low_rps, fails.high_rps
        if low is None or high is None:
            continue
        said = _paired_says(rates, low)
        if (not better) in said:
            continue
        verdict: Verdict = "better" if better else "worse"
        if low > high * steady and (_is_sure(holds, fails) or (better in said and steady == 1)):
            figures: dict[str, Figure] = {"pass_rps": low, "fail_rps": high, "more_frac": low / high - 1 if high else None}
            yield verdict, fact("compare_better" if better else "compare_worse", *marks, **names, **figures)
        elif steady == 1 and (rate := next((each for each in rates if each.rate_rps == low == high), None)) is not None:
            one, other = (rate.b, rate.a) if better else (rate.a, rate.b)
            if better in said or (not said and one.surely_holds and other.clearly_fails):
                code: Code = "compare_better_at" if better else "compare_worse_at"
                yield verdict, fact(code, *marks, **names, rate_rps=rate.rate_rps, **_counts(one, other))


def _counts(holds: Step, fails: Step) -> dict[str, Figure]:
    judged = [repeat.verdict for repeat in fails.repeats if repeat.counts]
    return {"passed": sum(each.verdict == "pass" for each in holds.repeats), "failed": judged.count("fail"), "run": len(judged)}


def _is_sure(holds: Side, fails: Side) -> bool:
    """Whether the two ends stand by themselves: one repeat near the knee passes or fails by luck."""
    held = holds.asked["rates"] is None or holds.knee.pass_repeats >= 2
    clear = any(step.clearly_fails for step in fails.steps if step.rate_rps == fails.high_rps)
    return held and (fails.asked["rates"] is None or fails.outcome == "infeasible" or clear)


def _paired_says(rates: Sequence[PairedRate], to_rps: float) -> set[bool]:
    """Whether B is better, as at least half of the rates up to this one say of which something is known; empty where they do not:
    of several intervals one leaves out 0 by chance."""
    votes = [vote for rate in rates if rate.rate_rps <= to_rps and (vote := _vote(rate)) is not None]
    return {better for better in (True, False) if 0 < sum(better in vote for vote in votes) >= len(votes) / 2}


def _vote(rate: PairedRate) -> set[bool] | None:
    """Whether B is better at a rate, by what is sure there; None where nothing is known."""
    apart = {True: rate.b_floor[0] - rate.a_floor[1], False: rate.a_floor[0] - rate.b_floor[1]}
    said = {better for better, by in apart.items() if by >= FAR}
    if not said and rate.difference is None and rate.margin is None:
        return None
    if rate.difference is not None and rate.difference.beyond_zero:
        said.add(rate.difference.mid > 0)
    if rate.margin is not None and rate.margin.beyond_zero:
        said.add(rate.margin.mid < 0)
    return said


def _middles_apart(a: Side, b: Side) -> float | None:
    """ln of the factor from A's middle to B's; None where a bracket has no two ends."""
    middles = [_middle(side) for side in (a, b)]
    return None if middles[0] is None or middles[1] is None else middles[1] - middles[0]


def _middle(side: Side) -> float | None:
    low, high = side.low_rps, side.high_rps
    return math.log(low * high) / 2 if low and high else None


def _width(side: Side) -> float:
    """ln of upper over lower end."""
    low, high = side.low_rps, side.high_rps
    return math.log(high / low) if low and high else math.inf


def _tells(a: Side, b: Side, rates: Sequence[PairedRate], steady: float, names: Sequence[str]) -> Iterator[Fact]:
    """What would tell them apart; all of it estimates."""
    if steady > 1:
        yield fact("compare_unsteady", factor=steady)
        return
    for side, name in zip((a, b), names, strict=True):
        for end, known in (("lower", side.low_rps is not None), ("upper", side.high_rps is not None)):
            if not known and side.outcome != "infeasible":
                yield fact("compare_open", name=name, end=end)
    listed = a.asked["rates"] is not None or b.asked["rates"] is not None
    for holds, fails in ((a, b), (b, a)):
        if listed and holds.low_rps is not None and fails.high_rps is not None and holds.low_rps >= fails.high_rps:
            yield fact("compare_thin")
            return
    apart = _middles_apart(a, b)
    if apart is None:
        return
    if abs(apart) < NEAR:
        yield fact("compare_near", apart_frac=math.expm1(abs(apart)), near_frac=math.expm1(NEAR))
    else:
        yield _longer(a, b, abs(apart))
    yield from _more_repeats(rates)


def _longer(a: Side, b: Side, apart: float) -> Fact:
    """How long each would have to be measured for brackets as narrow as the middles are apart: widths fall with the root of the
    time, as they do of windows that are independent draws."""
    width = (_width(a) + _width(b)) / 2
    longer = max(width / apart, 1.0) ** 2
    known = [side.duration_s for side in (a, b) if side.duration_s]
    time_s = longer * max(known) if known else None
    mode = next((name for name, most_s in _MODE_S if time_s is not None and time_s <= most_s), None)
    return fact("compare_longer", apart_frac=math.expm1(apart), width_frac=math.expm1(width), time_s=time_s, mode=mode)


def _more_repeats(rates: Sequence[PairedRate]) -> Iterator[Fact]:
    """The rate of one draw that would tell by the fewest repeats, if its difference stays what it is."""
    needed = []
    for rate in rates:
        if rate.difference is not None and rate.difference.mid and not rate.difference.beyond_zero:
            half = (rate.difference.high - rate.difference.low) / 2
            repeats = math.ceil(rate.repeats * (half / abs(rate.difference.mid)) ** 2)
            if repeats <= MOST_REPEATS:
                needed.append((repeats, rate.rate_rps, rate.repeats, rate.difference.mid))
    if needed:
        repeats, rate_rps, had, difference = min(needed)
        yield fact("compare_repeats", repeats=repeats, rate_rps=rate_rps, had=had, difference=difference)
