"""The constants of a search mode, and what they make of a rate: segments to send, and how long they take. Pure.

The constants come from searches of simulated replicas with known knees (continuous batching, Poisson arrivals).
"""

import math
from typing import TYPE_CHECKING, Literal

import msgspec

from core.config import Method, Mode, Safety, Slo
from core.records import Role, Segment

if TYPE_CHECKING:  # the command reads the modes before it knows whether it will ever need numpy
    import numpy as np
    from numpy.typing import NDArray

START_PER_IDLE = 2.0
"""The ramp starts at 2/s0: two requests in flight on average, which a server that batches at all can take."""
RAMP_FACTOR = 2.0
RAMP_SEGMENT_S = (6.0, 10.0)
RAMP_SEGMENT_REQUESTS = 12
RAMP_SEGMENT_STRETCH = 3.0
RAMP_SEGMENTS = 14
RAMP_REQUESTS = 6000
RAMP_SEGMENTS_EXPECTED = 5
"""From 2/s0 the simulated replicas failed in about the fifth segment."""

SHORTEST_WARMUP_S = 2.0
WARMUP_MEANS, WARMUP_BIASED = 2.0, 1.5
"""A warm-up lasts two mean E2E, or one and a half of the length-biased mean E[x²]/E[x] where that is more: how fast a server
settles follows the requests that are in it, and long ones are in it longer. With two means alone, and with a cap, a rate 5 % above
the knee passed in 16 and 24 of 30 lists of one rate where answers are long or heavy-tailed; now in one of each
(`python -m tests.benchmarks.listed_rates --replicas tests/data/replicas/long.json`)."""

LONG_WARMUP_S = 30.0
"""A warm-up longer than this is said before the load, and extends the time of a mode."""

WARMUP_BOOST = 1.5
"""An empty start flatters a server most just above its knee. 1.5x during the first of two mean E2E latencies settles it as
well as 4 to 5 of them at 1.0x, and is at most 1.5 points of attainment too strict at the knee; 2x is 4 to 23 too strict."""

WARMUP_MARGIN = 1.2
"""What one repeat needs varies from the next one's at the same rate, and a warm-up that was too short costs a repeat."""

WARMUP_GROWTH = 2.0
"""Mean E2E grows two- to fourfold from idle to the knee, and by no more than this from one rate to the next."""

E2E_LONGEST = 2.2
"""A repeat that is not curtailed waits for its slow requests: at simulated knees p95 of E2E is 2.3 to 2.5 times its mean."""

ENOUGH_MISSES = 5
"""A window asks for as many requests as may miss so often: with fewer, a handful of slow ones decides."""

HOLD_S = 24 * 3600.0
HOLD_REQUESTS = 500_000
"""One order of a held rate is drawn whole before it starts and kept account of in memory, so it must have an end."""


RECORDED_HOLD_REQUESTS = 50_000
"""The same where arrivals are given: each stands in the order, and so in the run file (1 MB)."""


class Stage(msgspec.Struct, frozen=True, kw_only=True):
    """Judging rates by `repeats` of at least `measure_s` each, until two neighbours within `grid` (a ratio) differ."""

    repeats: int
    measure_s: float
    grid: float


class ModeRules(msgspec.Struct, frozen=True, kw_only=True):
    """A search, in about `budget_s`. With `confirm`, what the search found only says where to look: the rates around it are
    judged by that stage, and the time left over goes into bringing the upper end within `clear_width` of the passing rate. `alone`
    judges rates that no search chose, where no other windows stand beside theirs.

    `confirms_expected`: repeats of the confirmation that an answer needs, as a multiple of its `repeats`; what is left of the
    budget after them goes into the width, so that a search spends `spends_frac` of it on average. `requests_within_s`: no window is
    made longer than this for the number of its requests, because the time that was set or announced allows no more.
    """

    search: Stage
    confirm: Stage | None = None
    alone: Stage | None = None
    clear_width: float = 1.0
    budget_s: float
    confirms_expected: float = 0.0
    spends_frac: float = 0.0
    requests_within_s: float = math.inf

    @property
    def final(self) -> Stage:
        """The stage that may set the passing rate."""
        return self.confirm or self.search

    @property
    def listed(self) -> Stage:
        """The stage that judges a rate by itself: of a list, a required one, one that is held."""
        return self.alone or self.final


STEPS_EXPECTED = 2.5
"""Full steps of the search after the ramp, on average over the simulated replicas."""

SURER_STEPS = 0.8
"""Full steps of a quick search, on average, that follow where its bracket is narrow and an end of it in doubt."""

STEP_SHARE = 0.7
"""Of a full step's length, what one that is still to come takes on average. In 80 quick and careful searches of the built-in
replicas half of the steps passed and took their whole length, the other half were cut short at a fail after a quarter to a third
of it. Reckoned with whole steps, the time that was promised was up to twice what a quick search took."""

_SHORT_SEARCH = Stage(repeats=1, measure_s=30.0, grid=1.42)

MODES: dict[Mode, ModeRules] = {
    "quick": ModeRules(search=Stage(repeats=1, measure_s=40.0, grid=1.42), budget_s=180.0),
    "standard": ModeRules(
        search=_SHORT_SEARCH,
        confirm=Stage(repeats=2, measure_s=60.0, grid=1.10),
        alone=Stage(repeats=3, measure_s=90.0, grid=1.10),
        clear_width=1.14,
        budget_s=720.0,
        confirms_expected=2.3,
        spends_frac=0.95,
    ),
    "acceptance": ModeRules(
        search=_SHORT_SEARCH,
        confirm=Stage(repeats=10, measure_s=60.0, grid=1.08),
        clear_width=1.15,
        budget_s=3600.0,
        confirms_expected=2.9,
        spends_frac=0.9,
    ),
}
"""How often the bracket of a mode holds the knee, and at which width and time, is told in docs/method.md."""

CAREFUL = Stage(repeats=2, measure_s=30.0, grid=1.42)
"""Quick with two shorter repeats. In 300 searches of five replicas, when all rates of a search shared a draw, it was above the true
knee in 5 %, and the knee inside in 84 %."""

Named = Literal["quick", "careful", "standard", "acceptance"]
_TOOK_S: dict[Named, tuple[float, float]] = {
    "quick": (154.0, 221.0),
    "careful": (214.0, 328.0),
    "standard": (761.0, 1132.0),
    "acceptance": (2256.0, 3336.0),
}
"""Seconds of a search: mean and 95th percentile. Standard: 400 searches of tests/data/replicas/fresh.json. The others: built-in
replicas, 60 searches each (acceptance 24)."""


def usual_time(mode: Named) -> str:
    """What a mode is expected to take, for help and README: "2 to 4 min"."""
    mean_s, p95_s = _TOOK_S[mode]
    return f"{math.floor(mean_s / 60)} to {math.ceil(p95_s / 60)} min"


def usual_s(method: Method) -> tuple[float, float]:
    """What a search of this method is expected to take before anything is known of the server, in seconds: mean and 95th
    percentile, in proportion where another budget was set."""
    named: Named = "careful" if method.careful else method.mode
    scale = rules_of(method).budget_s / MODES[method.mode].budget_s
    mean_s, p95_s = _TOOK_S[named]
    return scale * mean_s, scale * p95_s


def rules_of(method: Method) -> ModeRules:
    """The rules of the mode with what the user set instead; the repeats and M that are set are those of the final stage."""
    rules = MODES[method.mode]
    final = _as_set(CAREFUL if method.careful else rules.final, method)
    alone = None if rules.alone is None else _as_set(rules.alone, method)
    if rules.confirm is None:
        search, confirm = final, None
    else:
        shorter_s = min(rules.search.measure_s, final.measure_s)
        search, confirm = msgspec.structs.replace(rules.search, measure_s=shorter_s), final
    budget_s = rules.budget_s if method.budget_s is None else method.budget_s
    return msgspec.structs.replace(rules, search=search, confirm=confirm, alone=alone, budget_s=budget_s)


def _as_set(stage: Stage, method: Method) -> Stage:
    return Stage(
        repeats=stage.repeats if method.repeats is None else method.repeats,
        measure_s=stage.measure_s if method.measure_s is None else method.measure_s,
        grid=stage.grid,
    )


HELD_SEGMENTS = 3.0
"""A held rate with a limit to its time has at least so many segments."""


def repeats_expected(rules: ModeRules, method: Method) -> float:
    """How many repeats a run is expected to need."""
    if method.hold_rps is not None:
        return HELD_SEGMENTS
    repeats = float(len({*method.rates_rps, method.require_rps} - {None}) * rules.listed.repeats)
    if method.rates_rps:
        return repeats
    confirms = 0.0 if rules.confirm is None else rules.confirms_expected * rules.confirm.repeats
    return repeats + STEPS_EXPECTED * rules.search.repeats + confirms


def clip(value: float, low: float, high: float) -> float:
    return max(low, min(high, value))


def ramp_segments(start_rps: float, idle_e2e_s: float, max_rps: float | None) -> tuple[Segment, ...]:
    """The ramp: rates doubled from `start_rps`, all measured; the last is `max_rps` itself where doubling would pass it.

    A segment lasts clip(2*s0, 6, 10) s, up to three times that for its 12 requests. No segment follows after 6000 requests.
    """
    base_s = clip(2 * idle_e2e_s, *RAMP_SEGMENT_S)
    top_rps = float("inf") if max_rps is None else max_rps
    rate_rps, requests = min(start_rps, top_rps), 0.0
    segments: list[Segment] = []
    while len(segments) < RAMP_SEGMENTS and requests < RAMP_REQUESTS:
        duration_s = clip(RAMP_SEGMENT_REQUESTS / rate_rps, base_s, RAMP_SEGMENT_STRETCH * base_s)
        segments.append(Segment(rate_rps=rate_rps, duration_s=duration_s, role="measured"))
        requests += rate_rps * duration_s
        if rate_rps >= top_rps:
            break
        rate_rps = min(RAMP_FACTOR * rate_rps, top_rps)
    return tuple(segments)


def warmup_needed_s(e2e_s: "NDArray[np.float64]") -> float:
    """The warm-up W in seconds for requests whose E2E is like these, one or more: by their mean and their length-biased mean."""
    mean_s, biased_s = float(e2e_s.mean()), float((e2e_s**2).mean() / e2e_s.mean())
    return max(WARMUP_MEANS * mean_s, WARMUP_BIASED * biased_s)


def needed_s(slo: Slo, rate_rps: float) -> float:
    """Seconds until 5/(1-q) requests have come: with fewer (100 at 95 %) a handful of slow ones decides.

    A target of 100 % allows no miss at any count, so no count follows from it.
    """
    return 0.0 if slo.target == 1 else ENOUGH_MISSES / (1 - slo.target) / rate_rps


def measured_s(measure_s: float, slo: Slo, rate_rps: float, e2e_s: float, within_s: float = math.inf) -> float:
    """M in seconds: as asked, but at least 5E (shorter, repeats scatter by ten points and more) and `needed_s`, of that no more
    than `within_s`."""
    return max(measure_s, 5 * e2e_s, min(needed_s(slo, rate_rps), within_s))


def repeat_cost_s(
    measure_s: float, slo: Slo, rate_rps: float, e2e_s: float, warmup_s: float, within_s: float = math.inf, *, curtail_pass: bool
) -> float:
    """What one repeat takes if it passes, in seconds: W + M, and E to its last requests, or longer when it waits for all of
    them. One that fails is cut short."""
    tail_s = e2e_s if curtail_pass else E2E_LONGEST * e2e_s
    return max(SHORTEST_WARMUP_S, warmup_s) + measured_s(measure_s, slo, rate_rps, e2e_s, within_s) + tail_s


def planned_warmup_s(needed_s: float, rate_rps: float, passed_rps: float | None) -> float:
    """The warm-up planned at a rate, when one of `needed_s` was needed at `passed_rps` (None: on the idle server).

    E grows with the rate, the faster the nearer the knee, and a warm-up that proves too short costs a whole repeat. It is
    taken to grow as the square of the rate, from WARMUP_MARGIN on, and at most twofold: in simulated quick searches 0.14 repeats
    were done again instead of 0.68, and 157 s were needed instead of 178, with as many brackets right and no more false passes.
    """
    if passed_rps is None:
        return WARMUP_GROWTH * needed_s
    return needed_s * clip(WARMUP_MARGIN * (rate_rps / passed_rps) ** 2, WARMUP_MARGIN, WARMUP_GROWTH)


def step_segments(
    measure_s: float,
    slo: Slo,
    safety: Safety,
    drain_s: float,
    rate_rps: float,
    e2e_s: float,
    warmup_s: float,
    within_s: float = math.inf,
) -> tuple[Segment, ...]:
    """Warm-up in two halves, the measured part, and a tail that keeps the load up until the measured requests are decided.

    Without a tail the last requests finish on an emptying server, which adds 8 to 12 points just above the knee.
    """
    limits_s = [limit for each in slo.each for limit in (each.ttft_s, each.tpot_s, each.e2e_s) if limit is not None]
    return (
        *_warmup(warmup_s, rate_rps, safety),
        Segment(rate_rps=rate_rps, duration_s=measured_s(measure_s, slo, rate_rps, e2e_s, within_s), role="measured"),
        Segment(rate_rps=rate_rps, duration_s=drain_s + max(limits_s), role="tail"),
    )


def hold_segments(
    measure_s: float,
    slo: Slo,
    safety: Safety,
    rate_rps: float,
    e2e_s: float,
    warmup_s: float,
    within_s: float = math.inf,
    *,
    most: int = HOLD_REQUESTS,
) -> tuple[Segment, ...]:
    """A warm-up as in a step, then measured stretches of M one after another, for a day or so many requests at `most`."""
    block_s = measured_s(measure_s, slo, rate_rps, e2e_s, within_s)
    blocks = max(1, math.floor(min(HOLD_S, most / rate_rps) / block_s))
    block = Segment(rate_rps=rate_rps, duration_s=block_s, role="measured")
    return (*_warmup(warmup_s, rate_rps, safety), *[block] * blocks)


def with_warmup(segments: tuple[Segment, ...], warmup_s: float, rate_rps: float, safety: Safety) -> tuple[Segment, ...]:
    """The segments with a warm-up of `warmup_s`, if that is longer than theirs; else the segments themselves.

    E grows two- to fourfold from idle to the knee, so a warm-up planned for the last rate may be too short for this one.
    """
    planned_s = sum(segment.duration_s for segment in segments if segment.role == "warmup")
    if warmup_s <= planned_s * (1 + 1e-9):
        return segments
    rest = (segment for segment in segments if segment.role != "warmup")
    return (*_warmup(warmup_s, rate_rps, safety), *rest)


def _warmup(needed_s: float, rate_rps: float, safety: Safety) -> tuple[Segment, Segment]:
    length_s = max(SHORTEST_WARMUP_S, needed_s)
    # The boosted half is load like any other: max_rps holds for it too, at the price of a slightly kinder warm-up there.
    boosted_rps = WARMUP_BOOST * rate_rps
    if safety.max_rps is not None:
        boosted_rps = min(boosted_rps, safety.max_rps)
    return (
        Segment(rate_rps=boosted_rps, duration_s=length_s / 2, role="warmup"),
        Segment(rate_rps=rate_rps, duration_s=length_s / 2, role="warmup"),
    )


def recorded_s(segments: tuple[Segment, ...], mean_rps: float, *roles: Role) -> float:
    """How long the recording lasts that these segments take, of a mean rate, in its own seconds; of these roles alone where some
    are given."""
    taken = (s.rate_rps * s.duration_s for s in segments if not roles or s.role in roles)
    return sum(taken) / mean_rps
