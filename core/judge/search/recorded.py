"""How far a recording reaches: each repeat has a stretch of its own, which lasts the longer the higher its rate is. Pure."""

import math

from core import modes
from core.config import RATES_RPS, Safety, Slo
from core.facts import Fact, fact
from core.judge.search.actions import Step
from core.modes import ModeRules, Stage
from core.workloads import TraceUse

GROWS = 4.0
"""How far mean E2E, and with it warm-up and window, is taken to grow from idle to the highest rate: it grows two- to fourfold."""
_HALVINGS = 40
_DUST = 1e-9


class Reach:
    """What a recording is long enough for."""

    def __init__(self, trace: TraceUse, slo: Slo, safety: Safety) -> None:
        self._trace, self._slo, self._safety = trace, slo, safety

    def holds(self, step: Step) -> bool:
        """Whether it has a stretch of its own for each repeat of a step."""
        return self._needed_s(step) <= self._trace.window_s * (1 + _DUST)

    def stretch_s(self, step: Step) -> float:
        """How much of it one repeat of a step takes, in its own seconds."""
        return modes.recorded_s(step.segments, self._trace.mean_rps, "warmup", "measured")

    def highest_rps(self, rules: ModeRules, e2e_s: float, warmup_s: float) -> float:
        """The highest rate that all stages of a mode can judge in turn, by what the idle server's requests took; 0 for none."""
        stages = [rules.search] if rules.confirm is None else [rules.search, rules.confirm]

        def fits(rate_rps: float) -> bool:
            return sum(self._rows(stage, rate_rps, e2e_s, warmup_s, rules) for stage in stages) <= self._trace.rows

        low, high = RATES_RPS
        if not fits(low):
            return 0.0
        for _ in range(_HALVINGS):
            middle = math.sqrt(low * high)
            low, high = (middle, high) if fits(middle) else (low, middle)
        return low

    def nothing(self, rules: ModeRules) -> Fact:
        """That no rate can be searched for: at any, a window asks for so many requests."""
        repeats = rules.search.repeats + (0 if rules.confirm is None else rules.confirm.repeats)
        needed = math.ceil(modes.needed_s(self._slo, 1.0) - _DUST)
        return fact("trace_too_few", rows=self._trace.rows, repeats=repeats, needed=needed)

    def short(self, step: Step) -> Fact:
        """That a step finds too little of it."""
        return fact(
            "trace_short",
            rate_rps=step.rate_rps,
            scale=self._trace.scale(step.rate_rps),
            repeats=step.repeats,
            needed_s=self._needed_s(step),
            window_s=self._trace.window_s,
        )

    def end(self, rate_rps: float) -> Fact:
        """That nothing above a rate was tried, because it has no stretches for it."""
        return fact("trace_ends", rate_rps=rate_rps, scale=self._trace.scale(rate_rps), window_s=self._trace.window_s)

    def _needed_s(self, step: Step) -> float:
        return step.from_s + step.repeats * self.stretch_s(step)

    def _rows(self, stage: Stage, rate_rps: float, e2e_s: float, warmup_s: float, rules: ModeRules) -> float:
        """How many rows the repeats of a stage take at a rate."""
        grown_s, within_s = GROWS * e2e_s, rules.requests_within_s
        segments = modes.step_segments(stage.measure_s, self._slo, self._safety, 0.0, rate_rps, grown_s, GROWS * warmup_s, within_s)
        return stage.repeats * modes.recorded_s(segments, 1.0, "warmup", "measured")
