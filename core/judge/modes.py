"""The constants of a search mode, and what they make of a rate: segments to send, and how long they take. Pure.

The constants come from searches of simulated replicas with known knees (continuous batching, Poisson arrivals).
"""

import msgspec

from core.config import Mode, Safety, Slo
from core.records import Segment

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

WARMUP_S = (2.0, 30.0)
WARMUP_BOOST = 1.5
"""An empty start flatters a server most just above its knee. 1.5x during the first of two mean E2E latencies settles it as
well as 4 to 5 of them at 1.0x, and is at most 1.5 points of attainment too strict at the knee; 2x is 4 to 23 too strict."""


class ModeRules(msgspec.Struct, frozen=True, kw_only=True):
    """`repeats` of at least `measure_s` at each rate, until the ends are within `grid`, in about `budget_s`."""

    repeats: int
    measure_s: float
    grid: float
    budget_s: float
    steps_expected: float


MODES: dict[Mode, ModeRules] = {
    "quick": ModeRules(repeats=1, measure_s=40.0, grid=1.42, budget_s=180.0, steps_expected=2.5),
}
"""quick: 131 s on average (p95 183 s) over six simulated replicas, 2.5 steps after the ramp."""


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


def warmup_s(e2e_s: float) -> float:
    """W = 2E, in seconds: no shorter and no longer than WARMUP_S."""
    return clip(2 * e2e_s, *WARMUP_S)


def measured_s(rules: ModeRules, slo: Slo, rate_rps: float, e2e_s: float) -> float:
    """M in seconds: as the mode says, but at least 5E and at least 5/(1-q) requests.

    Shorter than 5E, repeats scatter by ten points and more; with fewer than 5/(1-q) requests (100 at 95 %) a handful of
    slow ones decides. A target of 100 % allows no miss at any count, so no count follows from it.
    """
    needed = 0.0 if slo.target == 1 else 5 / (1 - slo.target) / rate_rps
    return max(rules.measure_s, 5 * e2e_s, needed)


def step_cost_s(rules: ModeRules, slo: Slo, rate_rps: float, e2e_s: float) -> float:
    """What one repeat takes if it passes: W + M + E, in seconds. One that fails is cut short."""
    return warmup_s(e2e_s) + measured_s(rules, slo, rate_rps, e2e_s) + e2e_s


def step_segments(rules: ModeRules, slo: Slo, safety: Safety, drain_s: float, rate_rps: float, e2e_s: float) -> tuple[Segment, ...]:
    """Warm-up in two halves, the measured part, and a tail that keeps the load up until the measured requests are decided.

    Without a tail the last requests finish on an emptying server, which adds 8 to 12 points just above the knee.
    """
    half_s = warmup_s(e2e_s) / 2
    # The boosted half is load like any other: max_rps holds for it too, at the price of a slightly kinder warm-up there.
    boosted_rps = WARMUP_BOOST * rate_rps
    if safety.max_rps is not None:
        boosted_rps = min(boosted_rps, safety.max_rps)
    limits_s = [limit for limit in (slo.ttft_s, slo.tpot_s, slo.e2e_s) if limit is not None]
    return (
        Segment(rate_rps=boosted_rps, duration_s=half_s, role="warmup"),
        Segment(rate_rps=rate_rps, duration_s=half_s, role="warmup"),
        Segment(rate_rps=rate_rps, duration_s=measured_s(rules, slo, rate_rps, e2e_s), role="measured"),
        Segment(rate_rps=rate_rps, duration_s=drain_s + max(limits_s), role="tail"),
    )
