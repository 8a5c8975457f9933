"""The twin: an engine with the constants of a measured server, asked what it would do with a plan. Pure.

It is quick because its margins at every rate come from the same requests: a plan is not drawn anew, but comes faster or slower.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from core.config import Slo, Workload
from core.engine import BLOCK_TOKENS, EngineSpec, Limits, StepModel, blocks_for
from core.modes import WARMUP_BOOST
from core.records import RepeatOrder, Segment
from core.results import MOST_SHIFT
from core.schedule import Plan, draw
from core.slo import by_limits, needed_good
from core.twin.engine import Emitted, fast_engine

Floats = NDArray[np.float64]

Window = tuple[float, float]
"""From when to when requests count, in seconds after the plan's beginning."""

PassCurve = tuple[tuple[float, float], ...]
"""(ln(rate / knee), share of windows that pass there), rising rates, falling shares."""

LEAST_X, MOST_X = math.log(1e-3), math.log(30.0)
"""A window's figure is not told beyond these: drowning servers are off any line."""
LONG_REQUESTS = 48_000
"""By so many the knee is known to 0.8 to 1.5 %, in about a second (12,000: 1.3 to 2.1 %)."""
DRAWN_WINDOWS = 12
_ROUGHLY = 6
_FAR = math.log(8.0)
_SETTLED = (0.04, 0.99)
"""Of a long run, what counts: it starts empty, and ends on an emptying server."""
_BLOCKS = 24
_STRATA = 8
_OWN = 1_000_000
"""The draw of the twin's own plans: no step of a run has it."""
_CLOSE = 0.004
AROUND = (-0.3, -0.22, -0.15, -0.1, -0.06, -0.03, 0.0, 0.03, 0.06, 0.1, 0.15, 0.22, 0.3)
"""Where a pass curve is told: ln(rate / knee)."""


@dataclass(frozen=True, slots=True)
class LongKnee:
    """The rate that the twin carries in the long run, and its standard error by the draws, as a share of it."""

    rate_rps: float
    se_frac: float


@dataclass(frozen=True, slots=True)
class Twin:
    """An engine that starts empty with every plan. `speed` 1.1 lets the requests of a plan come in 1/1.1 of the time.

    Plans with a request that does not fit into the KV cache raise ValueError. `slo`: where a workload is asked about, the limits
    of its run, and its kinds keep their own; where a plan is, those of its workload (`Workload.limits`).
    """

    steps: StepModel
    limits: Limits

    def margins(self, plan: Plan, slo: Slo, speed: float = 1.0, until: int | None = None) -> Floats:
        """Of each request of the plan the margin (`core.slo.margin`); of the first `until`, where that is given."""
        offsets_s = plan.offsets_s / speed
        asked = Plan(offsets_s, plan.segment, plan.input_tokens, plan.output_tokens)
        n = len(plan) if until is None else until
        first, last, left = [math.inf] * len(plan), [math.inf] * len(plan), n
        for t, begun, ended in self.served(asked):
            for i in begun:
                first[i] = t
            for i in ended:
                last[i] = t
                left -= i < n
            if not left:
                break
        return _shares(slo, offsets_s[:n], np.array(first[:n]), np.array(last[:n]), plan.input_tokens[:n], plan.output_tokens[:n])

    def served(self, plan: Plan) -> Iterator[Emitted]:
        """The plan served by the engine, starting empty."""
        return fast_engine(self.spec(plan), plan)

    def figure(self, plan: Plan, window: Window, slo: Slo, speed: float = 1.0) -> float:
        """X of the window: ln of the target quantile of the margins of the requests that are due in it before the plan is sped
        up. Raises ValueError for a window without any."""
        low, high = np.searchsorted(plan.offsets_s, window).tolist()
        if low == high:
            raise ValueError("no request is due in this window")
        return _figure(self.margins(plan, slo, speed, high)[low:], slo)

    def shift(self, plan: Plan, window: Window, slo: Slo, x: float, guess: float = 0.0) -> float:
        """By which factor, as a logarithm within MOST_SHIFT, the plan must be sped up for the twin to show this X. Above zero the
        twin is faster than the server was. `guess`: where to look first."""
        wanted = min(max(x, LEAST_X), MOST_X)

        def off(shift: float) -> float:
            return self.figure(plan, window, slo, math.exp(shift)) - wanted

        return _crossing(off, guess, 0.06, (-MOST_SHIFT, MOST_SHIFT), _CLOSE)

    def knee(self, workload: Workload, slo: Slo, near_rps: float, requests: int = LONG_REQUESTS, seed: int = 0) -> LongKnee | None:
        """The rate at which the target share of requests is good in the long run, looked for from `near_rps` on; None where there
        is none within a factor of 8. The same seed draws the same requests whatever the constants are."""
        rough, limits = self.rough_knee(workload, slo, near_rps, requests, seed), workload.limits(slo)
        return rough and self._long_knee(_long_plan(workload, requests, seed), limits, rough.rate_rps, 0.03, _CLOSE)

    def rough_knee(
        self, workload: Workload, slo: Slo, near_rps: float, requests: int = LONG_REQUESTS, seed: int = 0
    ) -> LongKnee | None:
        """The same by a sixth of the requests: enough to tell two twins apart by the same draw."""
        plan = _long_plan(workload, requests // _ROUGHLY, seed)
        return self._long_knee(plan, workload.limits(slo), near_rps, 0.06, _CLOSE)

    def _long_knee(self, plan: Plan, slo: Slo, near_rps: float, stride: float, close: float) -> LongKnee | None:
        low, high = (int(len(plan) * share) for share in _SETTLED)
        seen: dict[float, Floats] = {}

        def off(shift: float) -> float:
            seen[shift] = self.margins(plan, slo, near_rps * math.exp(shift), high)[low:]
            return min(max(_figure(seen[shift], slo), -1.0), 1.0)

        found = _crossing(off, 0.0, stride, (-_FAR, _FAR), close)
        return None if abs(found) >= _FAR else LongKnee(near_rps * math.exp(found), _standard_error(seen, found))

    def pass_curve(
        self,
        workload: Workload,
        slo: Slo,
        knee_rps: float,
        warmup_s: float,
        measure_s: float,
        draws: int = DRAWN_WINDOWS,
        seed: int = 0,
    ) -> PassCurve:
        """Which share of windows of `measure_s`, each after its warm-up, passes at rates around the knee: each is sped up until it
        just passes, and the share is that of a normal spread of these factors."""
        passes = []
        for each in range(draws):
            plan, window = _window_plan(workload, knee_rps, warmup_s, measure_s, seed, each)
            passes.append(self.shift(plan, window, workload.limits(slo), 0.0))
        usual, spread = float(np.mean(passes)), max(float(np.std(passes, ddof=1)), 0.01)
        below = NormalDist(usual, spread).cdf
        return tuple((around, 1 - below(around)) for around in AROUND)

    def spec(self, plan: Plan) -> EngineSpec:
        """The engine; where its KV cache is not known, one that never runs out of it."""
        steps, limits = self.steps, self.limits
        longest = int((plan.input_tokens + plan.output_tokens).max()) if len(plan) else 1
        everything = longest * (limits.max_seqs + 1)
        return EngineSpec(
            step_s=max(steps.a_s, 1e-6),
            per_sequence_s=steps.b_s,
            per_kv_token_s=steps.c_s,
            per_prefill_token_s=steps.p_s,
            kv_blocks=blocks_for(everything) if limits.kv_tokens is None else limits.kv_tokens // BLOCK_TOKENS,
            max_seqs=min(limits.max_seqs, limits.max_batched_tokens),
            max_batched_tokens=limits.max_batched_tokens,
        )


def _shares(slo: Slo, due: Floats, first: Floats, last: Floats, prompts: NDArray[np.int64], tokens: NDArray[np.int64]) -> Floats:
    """`core.slo.margin` of many; every first event brings one token."""
    shares = np.zeros(due.size)
    for own, whose in by_limits(slo, prompts, tokens):
        if own.ttft_s is not None:
            shares[whose] = np.maximum(shares[whose], (first[whose] - due[whose]) / own.ttft_s)
        if own.e2e_s is not None:
            shares[whose] = np.maximum(shares[whose], (last[whose] - due[whose]) / own.e2e_s)
        if own.tpot_s is not None:
            later = whose & (tokens > 1)
            shares[later] = np.maximum(shares[later], (last[later] - first[later]) / (tokens[later] - 1) / own.tpot_s)
    return shares


def _figure(margins: Floats, slo: Slo) -> float:
    ranked = max(needed_good(margins.size, slo.target), 1) - 1
    at_target = float(np.partition(margins, ranked)[ranked])
    return min(max(math.log(at_target) if at_target > 0 else LEAST_X, LEAST_X), MOST_X)


def _crossing(off: Callable[[float], float], guess: float, stride: float, ends: Window, close: float) -> float:
    """Where a rising function crosses zero, within `close`; the end it would have to be beyond, where it does not between them.
    First away from the guess in growing strides, then between the two last ones."""
    at = min(max(guess, ends[0]), ends[1])
    value = off(at)
    ahead = 1.0 if value < 0 else -1.0
    while True:
        if at == (ends[1] if ahead > 0 else ends[0]):
            return at
        nearer, at = at, min(max(at + ahead * stride, ends[0]), ends[1])
        before, value = value, off(at)
        if value * ahead >= 0:
            break
        stride *= 1.6
    low, high = ((nearer, before), (at, value)) if ahead > 0 else ((at, value), (nearer, before))
    return _between(off, low, high, close)


def _between(off: Callable[[float], float], low: Window, high: Window, close: float) -> float:
    """The line between two points, and halves where it is of no help (the functions here have steps and elbows)."""
    halve = False
    while high[0] - low[0] > close:
        width, share = high[0] - low[0], -low[1] / max(high[1] - low[1], 1e-12)
        at = low[0] + width * (0.5 if halve else min(max(share, 0.1), 0.9))
        point = (at, off(at))
        low, high = (point, high) if point[1] < 0 else (low, point)
        halve = high[0] - low[0] > 0.5 * width
    share = -low[1] / max(high[1] - low[1], 1e-12)
    return low[0] + (high[0] - low[0]) * min(max(share, 0.0), 1.0)


def _standard_error(seen: dict[float, Floats], found: float) -> float:
    """Of the knee: how the attainment scatters between stretches of the run, over how fast it falls with the rate."""
    near = min(seen, key=lambda shift: abs(shift - found))
    shares = [float((block <= 1).mean()) for block in np.array_split(seen[near], _BLOCKS)]
    scatter = float(np.std(shares, ddof=1)) / math.sqrt(len(shares))
    above = min((shift for shift in seen if shift > found), default=near)
    left = max((shift for shift in seen if shift <= above - 0.02), default=min(seen))  # nearer, a few requests are the slope
    fall = float((seen[left] <= 1).mean() - (seen[above] <= 1).mean())
    return min(scatter * (above - left) / fall, 1.0) if fall > 0 else 1.0


@lru_cache(maxsize=8)
def _long_plan(workload: Workload, requests: int, seed: int) -> Plan:
    """About so many requests at 1 request/s: the rate is the speed at which they come. They bring the work that is expected of
    them: lengths are evenly spread over what is drawn, and arrivals last as long as they should. That halves the variance of a
    knee on `chat` (standard deviation .018 to .013 with 12,000 requests)."""
    segments = _steadily(1.0, requests * _STRATA)
    order = RepeatOrder(order=0, phase="list", step=0, repeat=0, seed=seed, draw=_OWN, segments=segments, start_at=0.0)
    drawn, shuffled = draw(order, workload), np.random.default_rng(seed)
    n = len(drawn) // _STRATA
    offsets_s = drawn.offsets_s[:n] * (n / drawn.offsets_s[n])
    inputs, outputs = drawn.input_tokens, drawn.output_tokens
    if workload.joint:
        picked = shuffled.permutation(np.lexsort((outputs, inputs))[_STRATA // 2 :: _STRATA][:n])
        return Plan(offsets_s, drawn.segment[:n], inputs[picked], outputs[picked])

    def spread(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.asarray(shuffled.permutation(np.sort(lengths)[_STRATA // 2 :: _STRATA][:n]))

    return Plan(offsets_s, drawn.segment[:n], spread(inputs), spread(outputs))


def _window_plan(
    workload: Workload, rate_rps: float, warmup_s: float, measure_s: float, seed: int, repeat: int
) -> tuple[Plan, Window]:
    """A window as a step has it, with a tail that lets its requests end on a loaded server."""
    segments = (
        Segment(rate_rps=WARMUP_BOOST * rate_rps, duration_s=warmup_s / 2, role="warmup"),
        *_steadily(rate_rps, warmup_s / 2 + measure_s + max(warmup_s, 0.3 * measure_s)),
    )
    order = RepeatOrder(order=0, phase="list", step=1, repeat=repeat, seed=seed, draw=_OWN, segments=segments, start_at=0.0)
    return draw(order, workload), (warmup_s, warmup_s + measure_s)


def _steadily(rate_rps: float, duration_s: float) -> tuple[Segment, ...]:
    return (Segment(rate_rps=rate_rps, duration_s=float(duration_s), role="measured"),)
