"""When requests are due and how long each is: drawn whole before the first is sent, and what is drawn on the whole. Pure."""

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.random import PCG64, Generator, SeedSequence
from numpy.typing import NDArray

from core.config import Lengths, Workload
from core.records import ClosedOrder, Phase, RepeatOrder, Segment
from core.shared_blocks import known_tokens
from core.workloads import MixPart, Prefix

PHASE_KEY: dict[Phase, int] = {
    "ramp": 0,
    "search": 1,
    "confirm": 2,
    "tighten": 3,
    "single": 4,
    "preflight": 5,
    "list": 6,
    "lost": 6,
    "hold": 7,
    "prefix": 9,
}
"""First part of each repeat's spawn key, so that no two phases share a draw: but for a rate of a list that is judged again when
replicas were taken away, which is to meet the same requests."""

_CLOSED_KEY = 8
MOST_CLOSED_RPS = 10_000
"""A closed loop has lengths for so many requests a second: more than one client sends."""

_FRESH: frozenset[Phase] = frozenset({"search", "confirm", "tighten"})


def fresh_draw(phase: Phase, step: int) -> int | None:
    """The draw of a step: its own in a search, where one unlucky draw at every rate would fail them all (same search in virtual
    time: the bracket held the knee in .94 with fresh draws, in .87 with one). Rates of a list stay comparable by one draw: None."""
    return step if phase in _FRESH else None


def same_draw(phase: Phase, again: int) -> int | None:
    """The draw of a step in a search that is to be compared with others: the same at every rate, so that whatever rates a search
    comes to, it meets the same requests as the others. Only a rate that is judged for the `again`-th time (from 0) in a phase
    draws anew: windows of one rate count beside each other."""
    return again if phase in _FRESH else None


@dataclass(frozen=True, slots=True)
class Plan:
    """One repeat as drawn: request i is due at `offsets_s[i]` after the order's `start_at`, belongs to `segment[i]` of the
    order and asks for `input_tokens[i]`, `output_tokens[i]`; it is kind `part[i]` of the workload's mix where there is one, and its
    prompt begins with the prefix of `group[i]` where groups share one. `known_tokens[i]`: how many tokens at its beginning an
    earlier request of the order had, where prompts share what a trace names. All arrays have the same length and are read-only.

    Where conversations come, `after[i]` is the turn before request i (always i - 1), or -1 of a first turn; None: there are none.
    A later turn is due `think_s[i]` after the end of the answer before it. It belongs to the segment in which its conversation
    begins, and `offsets_s[i]` is when that begins: the earliest that it can be due.
    """

    offsets_s: NDArray[np.float64]
    segment: NDArray[np.int32]
    input_tokens: NDArray[np.int64]
    output_tokens: NDArray[np.int64]
    part: NDArray[np.int32] | None = None
    group: NDArray[np.int32] | None = None
    known_tokens: NDArray[np.int64] | None = None
    after: NDArray[np.int32] | None = None
    think_s: NDArray[np.float64] | None = None

    def __len__(self) -> int:
        return int(self.offsets_s.size)

    @property
    def said_before(self) -> NDArray[np.int64] | None:
        """Tokens of the turn before each request with its answer, as planned, 0 of a first turn; None without conversations."""
        if self.after is None:
            return None
        return np.where(self.after >= 0, (self.input_tokens + self.output_tokens)[self.after], 0)

    def part_of(self, low: int, high: int) -> "Plan":
        """The requests from `low` to before `high`; turns of a conversation whose beginning is left out have none before them."""
        after, cut = self.after, slice(low, high)
        if after is not None:
            after = np.where(after[cut] >= low, after[cut] - low, -1).astype(np.int32)
        return Plan(
            self.offsets_s[cut],
            self.segment[cut],
            self.input_tokens[cut],
            self.output_tokens[cut],
            part=None if self.part is None else self.part[cut],
            group=None if self.group is None else self.group[cut],
            known_tokens=None if self.known_tokens is None else self.known_tokens[cut],
            after=after,
            think_s=None if self.think_s is None else self.think_s[cut],
        )


@dataclass(frozen=True, slots=True)
class Seeds:
    """Independent sources of one repeat. Each quantity has its own, so request i gets the same draw however many are drawn.

    `place`: where in the order of a dataset's rows the repeat begins, from 0 to 1, far from where others do (Weyl's sequences), so
    that repeats share few rows.
    """

    arrivals: SeedSequence
    input_lengths: SeedSequence
    output_lengths: SeedSequence
    prompts: SeedSequence
    groups: SeedSequence
    place: float


_STRIDES = (2**0.5, (5**0.5 - 1) / 2, 3**0.5)
"""From one repeat, draw or phase to the next a place moves on by this. Of these numbers no multiples come near each other."""


def seeds(order: RepeatOrder | ClosedOrder) -> Seeds:
    """The sources of an order: SeedSequence(seed, spawn_key=(phase, draw, repeat)).spawn(2) -> arrivals, workload. With a seed of
    its own, the arrivals are the first of that one's two.

    Without a draw (also in files from before there were any) the key is (phase, repeat), alike at every rate. A closed loop has
    one key at every concurrency.
    """
    key = _key(order)
    arrivals, workload = SeedSequence(order.seed, spawn_key=key).spawn(2)
    if isinstance(order, RepeatOrder) and order.arrival_seed is not None:
        arrivals = SeedSequence(order.arrival_seed, spawn_key=key).spawn(2)[0]
    input_lengths, output_lengths, prompts, groups = workload.spawn(4)
    place = sum(part * stride for part, stride in zip(reversed(key), _STRIDES, strict=False)) % 1
    return Seeds(arrivals, input_lengths, output_lengths, prompts, groups, place)


def _key(order: RepeatOrder | ClosedOrder) -> tuple[int, ...]:
    if isinstance(order, ClosedOrder):
        return (_CLOSED_KEY,)
    between = () if order.draw is None else (order.draw,)
    return (PHASE_KEY[order.phase], *between, order.repeat)


def senders(plan: Plan, count: int) -> NDArray[np.int64]:
    """Which of `count` senders sends each request: number i mod `count` does the i-th, and later turns of a conversation go where
    its first went. The plan is the same for any count."""
    begins = np.ones(len(plan), dtype=np.int64) if plan.after is None else (plan.after < 0).astype(np.int64)
    return (np.cumsum(begins) - 1) % count


def draw_closed(order: ClosedOrder, workload: Workload) -> Plan:
    """The lengths of a closed loop's requests, more of them than it can send; when they are sent the server decides, so that all
    offsets are 0."""
    n = int(order.duration_s * MOST_CLOSED_RPS) + order.in_flight
    return _plan(np.zeros(n), np.zeros(n, dtype=np.int32), workload, seeds(order))


def draw(order: RepeatOrder, workload: Workload) -> Plan:
    """The plan of an order; the same order and workload give the same plan in every process.

    Where the mix has conversations, these arrive by the segments, at rates that count their turns; requests at given offsets are
    single turns of any of them, with what was recorded before. Raises ValueError for segments or given offsets that are no
    schedule (negative, not finite, not in order).
    """
    source = seeds(order)
    if order.offsets_s is None and workload.turns:
        return _conversations(order.segments, workload, source)
    if order.offsets_s is not None:
        offsets_s = _given(order.offsets_s)
        segment = _segments_of(offsets_s, order.segments)
    else:
        offsets_s, segment = _arrivals(order.segments, workload.arrival_cv, Generator(PCG64(source.arrivals)))
    if order.groups is not None:
        return _prefixes(offsets_s, segment, workload.prefix, order.groups)
    plan = _plan(offsets_s, segment, workload, source, order.parts)
    return plan if order.shared is None else replace(plan, known_tokens=_frozen(known_tokens(order.shared)))


def _conversations(segments: tuple[Segment, ...], workload: Workload, source: Seeds) -> Plan:
    """Conversations drawn like the rows of a dataset, each with all its turns behind its first one."""
    mix = workload.mix
    first = np.flatnonzero([part.turn == 0 for part in mix])
    turns = np.diff(np.append(first, len(mix)))
    rarer = tuple(Segment(rate_rps=each.rate_rps / turns.mean(), duration_s=each.duration_s, role=each.role) for each in segments)
    begins_s, segment = _arrivals(rarer, workload.arrival_cv, Generator(PCG64(source.arrivals)))
    talk = _rows(first.size, begins_s.size, source.place)
    n = turns[talk]
    turn = np.arange(int(n.sum())) - np.repeat(np.cumsum(n) - n, n)
    part = (np.repeat(first[talk], n) + turn).astype(np.int32)
    input_tokens, output_tokens = (
        np.array(tokens, dtype=np.int64)[part]
        for tokens in ([each.input_tokens for each in mix], [each.output_tokens for each in mix])
    )
    return Plan(
        _frozen(np.repeat(begins_s, n)),
        _frozen(np.repeat(segment, n)),
        _frozen(input_tokens),
        _frozen(output_tokens),
        _frozen(part),
        after=_frozen(np.where(turn > 0, np.arange(turn.size) - 1, -1).astype(np.int32)),
        think_s=_frozen(np.array([each.think_s for each in mix])[part]),
    )


def _prefixes(offsets_s: NDArray[np.float64], segment: NDArray[np.int32], prefix: Prefix, groups: tuple[int, ...]) -> Plan:
    """The prefixes of these groups, each with one token behind it: so all its blocks get into the cache. Answers of one token."""
    n = offsets_s.size
    tokens, group = np.full(n, prefix.tokens + 1, dtype=np.int64), np.array(groups, dtype=np.int32)
    lengths = _frozen(tokens), _frozen(np.ones(n, dtype=np.int64))
    return Plan(_frozen(offsets_s), _frozen(segment), *lengths, group=_frozen(group))


def _plan(
    offsets_s: NDArray[np.float64],
    segment: NDArray[np.int32],
    workload: Workload,
    source: Seeds,
    parts: tuple[int, ...] | None = None,
) -> Plan:
    n, mix = offsets_s.size, workload.mix
    group = _groups(workload.prefix, n, source.groups)
    if not mix:
        input_tokens = _lengths(workload.input_tokens, n, source.input_lengths)
        if workload.length_correlation:
            output_tokens = _following(workload, n, source)
        else:
            output_tokens = _lengths(workload.output_tokens, n, source.output_lengths)
        return Plan(_frozen(offsets_s), _frozen(segment), _frozen(input_tokens), _frozen(output_tokens), group=group)
    if parts is not None:
        part = np.array(parts, dtype=np.int32)
    else:
        part = _parts(mix, n, source.input_lengths) if mix[0].row is None else _rows(len(mix), n, source.place)
    input_tokens = np.array([each.input_tokens for each in mix], dtype=np.int64)[part]
    output_tokens = np.array([each.output_tokens for each in mix], dtype=np.int64)[part]
    return Plan(_frozen(offsets_s), _frozen(segment), _frozen(input_tokens), _frozen(output_tokens), _frozen(part), group)


def _groups(prefix: Prefix, n: int, seed: SeedSequence) -> NDArray[np.int32] | None:
    """Which group each request belongs to, by one uniform draw each; None where no group shares a prefix."""
    if prefix.kind != "shared":
        return None
    drawn = (Generator(PCG64(seed)).random(n) * prefix.groups).astype(np.int32)
    return _frozen(np.minimum(drawn, prefix.groups - 1))


def _parts(mix: tuple[MixPart, ...], n: int, seed: SeedSequence) -> NDArray[np.int32]:
    """Which kind each request is, by one uniform draw each: request i gets the same kind however many are drawn."""
    shares = np.cumsum([each.weight for each in mix])
    drawn = Generator(PCG64(seed)).random(n) * shares[-1]
    found: NDArray[np.int64] = np.searchsorted(shares, drawn, side="right")
    return np.minimum(found, len(mix) - 1).astype(np.int32)


def _rows(rows: int, n: int, place: float) -> NDArray[np.int32]:
    """Which row of a dataset each request is. They stand in a random order already, drawn from the workload's seed: request i is
    the i-th from a place on, so that none comes twice before all have come once."""
    return ((int(place * rows) + np.arange(n, dtype=np.int64)) % rows).astype(np.int32)


def _segments_of(offsets_s: NDArray[np.float64], segments: tuple[Segment, ...]) -> NDArray[np.int32]:
    """The segment that each of some given offsets falls into; the last one has what comes later."""
    ends = np.cumsum([segment.duration_s for segment in segments])
    found: NDArray[np.int64] = np.searchsorted(ends, offsets_s, side="right")
    return np.minimum(found, max(len(segments) - 1, 0)).astype(np.int32)


def _given(offsets_s: tuple[float, ...]) -> NDArray[np.float64]:
    offsets = np.array(offsets_s, dtype=np.float64)
    if not np.isfinite(offsets).all() or (offsets < 0).any() or (np.diff(offsets) < 0).any():
        raise ValueError("offsets_s must be finite, not negative, and in order")
    return offsets


def _arrivals(segments: tuple[Segment, ...], cv: float, rng: Generator) -> tuple[NDArray[np.float64], NDArray[np.int32]]:
    """A renewal process at piecewise constant rates: gaps of mean 1, cumulated, mapped through the integrated rate.

    With a CV of 1 the time-rescaling theorem (Cinlar 1975) makes it exactly Poisson. In a first segment of constant rate it is
    u / rate, so repeats with one seed share their unit gaps at every rate.
    """
    rates = np.array([s.rate_rps for s in segments], dtype=np.float64)
    durations = np.array([s.duration_s for s in segments], dtype=np.float64)
    if not (np.isfinite(rates).all() and np.isfinite(durations).all()) or (rates < 0).any() or (durations < 0).any():
        raise ValueError("segments need finite rates and durations, not negative")
    mass_end, time_end = np.cumsum(rates * durations), np.cumsum(durations)
    units = _units_up_to(float(mass_end[-1]) if segments else 0.0, cv, rng)
    segment = np.searchsorted(mass_end, units, side="right").astype(np.int32)
    mass_start, time_start = np.append(0.0, mass_end), np.append(0.0, time_end)
    return time_start[segment] + (units - mass_start[segment]) / rates[segment], segment


def _units_up_to(mass: float, cv: float, rng: Generator) -> NDArray[np.float64]:
    """Arrivals of the unit-rate process in [0, mass). Block sizes do not show in the result: the draw is one sequence."""
    gaps = np.append(_first_gap(cv, rng), _gaps(cv, int(mass + 4 * cv * mass**0.5) + 16, rng))
    while gaps.sum() < mass:
        gaps = np.append(gaps, _gaps(cv, gaps.size, rng))
    units: NDArray[np.float64] = np.cumsum(gaps)
    return units[units < mass]


def _gaps(cv: float, n: int, rng: Generator) -> NDArray[np.float64]:
    """Gamma gaps of mean 1: their shape is 1 / CV², and that of exponentials is 1."""
    shape = 1 / cv**2
    return rng.standard_exponential(n) if cv == 1 else rng.standard_gamma(shape, n) / shape


def _first_gap(cv: float, rng: Generator) -> NDArray[np.float64]:
    """Up to the first arrival, as for one who comes at any moment: the rest of a gap, of which long ones are met more often (the
    equilibrium distribution; a gap met so has one more in its shape, and its rest is any share of it).

    With it a stretch of length t brings rate * t arrivals on average wherever it lies. Had the process begun with a whole gap, as
    if one had just arrived, there would be (CV² - 1) / 2 more near its beginning: 7 with a CV of 4, where a segment of a ramp
    has a dozen. Exponential gaps have no memory: their first is as any other.
    """
    if cv == 1:
        return rng.standard_exponential(1)
    shape = 1 / cv**2
    return np.array([rng.random() * rng.standard_gamma(shape + 1) / shape])


def answer_lengths(workload: Workload, n: int, source: SeedSequence) -> NDArray[np.int64]:
    """`n` lengths of answers in tokens, apart from those of prompts; the i-th is the same however many are drawn."""
    return _lengths(workload.output_tokens, n, source)


def _lengths(lengths: Lengths, n: int, source: SeedSequence) -> NDArray[np.int64]:
    if lengths.fixed:
        return np.full(n, int(lengths.median), dtype=np.int64)
    drawn = np.exp(Generator(PCG64(source)).normal(np.log(lengths.median), lengths.sigma, n))
    lengths_drawn: NDArray[np.int64] = np.floor(np.clip(drawn, lengths.minimum, lengths.maximum)).astype(np.int64)
    return lengths_drawn


def _following(workload: Workload, n: int, source: Seeds) -> NDArray[np.int64]:
    """Lengths of answers whose logarithms go with those of the prompts, which are drawn from the same source."""
    prompts, own = (Generator(PCG64(each)).standard_normal(n) for each in (source.input_lengths, source.output_lengths))
    r = workload.length_correlation
    return _tokens_at(workload.output_tokens, r * prompts + math.sqrt(1 - r**2) * own).astype(np.int64)


def _tokens_at(lengths: Lengths, z: NDArray[np.float64]) -> NDArray[np.float64]:
    """Lognormal lengths so many standard deviations of their logarithm above the median, cut to their limits, in whole tokens."""
    drawn = lengths.median * np.exp(lengths.sigma * z)
    return np.floor(np.clip(drawn, lengths.minimum, lengths.maximum))


@dataclass(frozen=True, slots=True)
class Joint:
    """Which lengths the requests of a workload have, both of each: so many tokens in and out, with their weights."""

    input_tokens: NDArray[np.float64]
    output_tokens: NDArray[np.float64]
    weights: NDArray[np.float64]

    def share(self, which: NDArray[np.bool_]) -> float:
        """The share of the requests that these are."""
        return float(self.weights[which].sum() / self.weights.sum())

    def mean(self, values: NDArray[np.float64]) -> float:
        """Over the requests."""
        return float(np.average(values, weights=self.weights))

    def at(self, values: NDArray[np.float64], shares: NDArray[np.float64]) -> NDArray[np.float64]:
        """The values that these shares of the requests do not exceed, by nearest rank."""
        order = np.argsort(values, kind="stable")
        below = np.cumsum(self.weights[order])
        ranks = np.searchsorted(below, shares * below[-1] * (1 - 1e-12))
        return np.asarray(values[order[np.minimum(ranks, order.size - 1)]])


def joint(workload: Workload, points: int) -> Joint:
    """The lengths of a workload's requests: each kind of its mix, or `points` equal shares of prompts with as many of answers for
    each; a fixed length is one share."""
    if workload.mix:
        columns = ([each.input_tokens, each.output_tokens, each.weight] for each in workload.mix)
        inputs, outputs, weights = np.array(list(columns), dtype=np.float64).T
        return Joint(inputs, outputs, weights)
    z = _middles(points)
    prompts, r = workload.input_tokens, workload.length_correlation
    of_prompts, of_answers = (np.zeros(1) if lengths.fixed else z for lengths in (prompts, workload.output_tokens))
    answers = r * of_prompts[:, None] + math.sqrt(1 - r**2) * of_answers[None, :]
    inputs = np.broadcast_to(_at(prompts, of_prompts)[:, None], answers.shape).ravel()
    return Joint(inputs, _at(workload.output_tokens, answers.ravel()), np.ones(answers.size))


def shares_of(lengths: Lengths, points: int) -> NDArray[np.float64]:
    """How many tokens so many equal shares of the requests have, the fewest first; a fixed length is one share."""
    return _at(lengths, np.zeros(1) if lengths.fixed else _middles(points))


def _at(lengths: Lengths, z: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.full(z.shape, lengths.median) if lengths.fixed else _tokens_at(lengths, z)


@lru_cache(maxsize=4)
def _middles(points: int) -> NDArray[np.float64]:
    """Where the middles of so many equal shares of a normal distribution are, in standard deviations."""
    normal = NormalDist()
    return _frozen(np.array([normal.inv_cdf((i + 0.5) / points) for i in range(points)]))


def _frozen(array: NDArray[Any]) -> NDArray[Any]:
    array.setflags(write=False)
    return array
