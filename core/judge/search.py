"""The ramp to the knee as a state machine without I/O: what to run next, given what was seen.

A fail is cheap and can be trusted, a pass is neither: a short ramp finds a failing rate fast, then full steps come down
from it, and only a full step may set the rate that holds.
"""

import math
from collections.abc import Sequence

import msgspec

from core.config import ProbeConfig
from core.judge import modes
from core.judge.bracket import Bracket, conclude
from core.judge.singles import idle_e2e_s, why_infeasible
from core.records import Answer, Outcome, Phase, RequestRecord, Segment, StepResult

FLOOR_FRAC = 1 / 16
"""Below this share of the ramp's first rate nothing is looked for: the server hardly carries a single user."""
GIVE_UP_AFTER = 3
"""So many full steps must have failed before the lack of time can end a search that has no pass yet."""
OVERTIME = 1.3
"""Without a pass there is no answer yet, so the search may take this much of its budget to find one."""
START_SHARE = 0.6
"""A step is begun if this share of its full length fits the budget: half of them fail, and those are cut short."""
E2E_GROWTH = 1.5
"""Mean E2E grows from idle to the knee (2 to 4 times in simulation); this is assumed until a step has passed."""
_DUST = 1e-9
"""Relative slack for a ratio of rates that were multiplied and rooted."""


class Ramp(msgspec.Struct, frozen=True, kw_only=True):
    """One continuous open-loop ramp through measured segments, without a drain between them."""

    segments: tuple[Segment, ...]


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """Judge one rate with up to `repeats` repeats (it stops at the first that fails)."""

    phase: Phase
    rate_rps: float
    repeats: int
    segments: tuple[Segment, ...]
    curtail_pass: bool


class Done(msgspec.Struct, frozen=True, kw_only=True):
    answer: Answer


Action = Ramp | Step | Done


class Search:
    """Ask `next`, run what it says, `observe_*` how it ended, ask again, until Done.

    A step that ended void or unjudged is no evidence: observing it changes nothing and `next` asks for the rate again.
    """

    def __init__(self, config: ProbeConfig) -> None:
        self._config = config
        self._rules = modes.MODES[config.method.mode]
        self._bracket = Bracket()
        self._idle_e2e_s: float | None = None
        self._e2e_s = 0.0
        self._ramp: tuple[Segment, ...] = ()
        self._ramp_over = False
        self._ramp_passed_rps: float | None = None
        self._budget_s = self._rules.budget_s
        self._answer: Answer | None = None
        self._began_s: float | None = None

    def next(self, elapsed_s: float) -> Action:
        """What to do now; `elapsed_s` is the time since load began, for the budget. Raises RuntimeError before the singles."""
        action = self._decide(elapsed_s)
        self._began_s = elapsed_s
        if isinstance(action, Done):
            self._answer = action.answer
        return action

    def observe_singles(self, records: Sequence[RequestRecord]) -> None:
        """The three judged single requests of preflight; to be called first. All three missing means infeasible."""
        reason, idle_s = why_infeasible(records, self._config.slo), idle_e2e_s(records)
        if reason is not None or idle_s is None:
            self._answer = Answer(outcome="infeasible", message=f"infeasible at any rate: {reason}")
            return
        self._idle_e2e_s = self._e2e_s = idle_s
        start_rps = self._config.method.start_rps or modes.START_PER_IDLE / idle_s
        self._ramp = modes.ramp_segments(start_rps, idle_s, self._config.safety.max_rps)

    def observe_ramp(self, passed_rps: float | None, failed_rps: float | None) -> None:
        """`passed_rps`: the segment before the failing one (None: none); `failed_rps`: the failing one (None: none failed)."""
        self._began_s, self._ramp_over = None, True
        self._ramp_passed_rps = passed_rps
        self._bracket.add_ramp(failed_rps)
        if passed_rps is not None:
            self._e2e_s *= E2E_GROWTH
        # What 5E or 5/(1-q) requests need beyond the mode's own M is added: the number of requests wins over the budget.
        longer_s = self._measured_s(self._candidate()) - self._rules.measure_s
        self._budget_s += self._rules.steps_expected * longer_s

    def observe_step(self, result: StepResult, mean_e2e_s: float | None) -> None:
        """How a step ended; `mean_e2e_s` over its measured requests becomes E when it passed."""
        self._began_s = None
        self._bracket.add_step(result)
        if result.verdict == "pass" and mean_e2e_s is not None:
            self._e2e_s = max(mean_e2e_s, self._idle_e2e_s or 0.0)

    def left_s(self, elapsed_s: float) -> float | None:
        """Expected seconds to the answer: the rest of what runs now and the steps still expected; None when not known.

        A step counts as W + M + E, the ramp as its first five segments.
        """
        if self._answer is not None:
            return 0.0
        if not self._ramp:
            return None
        step_s = self._cost_s(self._candidate())
        if self._ramp_over:
            steps = self._steps_expected()
            now_s, later_s = min(steps, 1.0) * step_s, max(steps - 1, 0.0) * step_s
        else:
            now_s = sum(segment.duration_s for segment in self._ramp[: modes.RAMP_SEGMENTS_EXPECTED])
            later_s = self._rules.steps_expected * step_s
        spent_s = 0.0 if self._began_s is None else max(0.0, elapsed_s - self._began_s)
        return max(0.0, now_s - spent_s) + later_s

    def answer_so_far(self, outcome: Outcome, message: str) -> Answer:
        """What is known when the run has to end now (interrupted, void, server lost)."""
        return Answer(outcome=outcome, message=message, knee=self._bracket.knee())

    # --- what to do next ---

    def _decide(self, elapsed_s: float) -> Action:
        if self._answer is not None:
            return Done(answer=self._answer)
        if not self._ramp:
            raise RuntimeError("observe_singles comes before next: the first rate follows from the idle latency")
        if not self._ramp_over:
            return Ramp(segments=self._ramp)
        return self._narrow(elapsed_s)

    def _narrow(self, elapsed_s: float) -> Step | Done:
        """Full steps until the ends are within the grid, or the time is used up, or nothing is left to try."""
        passed_rps, failed_rps = self._bracket.passed_rps, self._bracket.failed_rps
        rate_rps = self._candidate()
        if passed_rps is not None and failed_rps is None:
            return self._done("at_least")
        if passed_rps is not None and failed_rps is not None:
            if self._near(passed_rps, failed_rps):
                return self._done("bracket")
            if elapsed_s + START_SHARE * self._cost_s(rate_rps) > self._budget_s:
                wide = f"the time was used up: the ends are a factor {failed_rps / passed_rps:.3g} apart, not {self._rules.grid:g}"
                return self._done("bracket", wide)
        elif failed_rps is not None:
            if rate_rps < FLOOR_FRAC * self._ramp[0].rate_rps * (1 - _DUST):
                return self._done("below")
            if self._bracket.failed_steps >= GIVE_UP_AFTER and elapsed_s > OVERTIME * self._budget_s:
                return self._done("below", "the time was used up before a rate passed")
        return self._step("search", rate_rps)

    def _candidate(self) -> float:
        """The rate of the next full step, from what is known now."""
        passed_rps, failed_rps, ramp_rps = self._bracket.passed_rps, self._bracket.failed_rps, self._ramp_passed_rps
        if not self._ramp_over:
            return self._ramp[: modes.RAMP_SEGMENTS_EXPECTED][-1].rate_rps
        if failed_rps is None:
            return self._ramp[-1].rate_rps
        if passed_rps is not None:
            return math.sqrt(passed_rps * failed_rps)
        if ramp_rps is not None and ramp_rps < failed_rps:
            return ramp_rps if self._near(ramp_rps, failed_rps) else math.sqrt(ramp_rps * failed_rps)
        return failed_rps / modes.RAMP_FACTOR

    def _steps_expected(self) -> float:
        """How many full steps are still to come, the next or running one included."""
        passed_rps, failed_rps, ramp_rps = self._bracket.passed_rps, self._bracket.failed_rps, self._ramp_passed_rps
        if failed_rps is None:
            return 1.0 if passed_rps is None else 0.0
        if passed_rps is not None:
            return self._halvings(passed_rps, failed_rps)
        if ramp_rps is not None and ramp_rps < failed_rps:
            return 1 + self._halvings(ramp_rps, failed_rps)
        return self._rules.steps_expected

    def _halvings(self, low_rps: float, high_rps: float) -> float:
        """How often the ratio must be rooted until the ends are within the grid."""
        if self._near(low_rps, high_rps):
            return 0.0
        return float(math.ceil(math.log2(math.log(high_rps / low_rps) / math.log(self._rules.grid)) - _DUST))

    def _near(self, low_rps: float, high_rps: float) -> bool:
        return high_rps / low_rps <= self._rules.grid * (1 + _DUST)

    def _measured_s(self, rate_rps: float) -> float:
        return modes.measured_s(self._rules, self._config.slo, rate_rps, self._e2e_s)

    def _cost_s(self, rate_rps: float) -> float:
        return modes.step_cost_s(self._rules, self._config.slo, rate_rps, self._e2e_s)

    def _step(self, phase: Phase, rate_rps: float) -> Step:
        config = self._config
        return Step(
            phase=phase,
            rate_rps=rate_rps,
            repeats=self._rules.repeats,
            segments=modes.step_segments(self._rules, config.slo, config.safety, config.method.drain_s, rate_rps, self._e2e_s),
            curtail_pass=phase == "search",
        )

    def _done(self, outcome: Outcome, *notes: str) -> Done:
        return Done(answer=conclude(outcome, self._bracket.knee(notes)))
