"""What the judged rates amount to: the knee as a bracket, the evidence behind each end, and the sentences for it."""

import math
from collections.abc import Iterable

from core.records import Answer, FailCount, Knee, Outcome, StepResult

ONE_REPEAT = (
    "lower end rests on one repeat, which is no evidence by itself: in simulated quick searches it was above the true knee "
    "in 26 % and the bracket held the knee in 64 %; measure longer before you sign"
)
ONE_FAILING_STEP = "upper end rests on one failing step"
FROM_RAMP = "upper end comes from the ramp, a short segment"


def rate_text(rate_rps: float) -> str:
    """A rate with three significant digits and its unit: `16.0 requests/s`."""
    rounded = float(f"{rate_rps:.2e}")
    digits = max(0, 2 - math.floor(math.log10(rounded))) if rounded > 0 else 0
    return f"{rounded:.{digits}f} requests/s"


class Bracket:
    """Collects what held and what failed. A rate that failed once counts as failing, and nothing above it as holding."""

    def __init__(self) -> None:
        self._steps: list[StepResult] = []
        self._ramp_failed_rps: float | None = None

    def add_ramp(self, failed_rps: float | None) -> None:
        """A failing segment of the ramp is an upper end; a passing one is evidence of nothing."""
        self._ramp_failed_rps = failed_rps

    def add_step(self, result: StepResult) -> None:
        self._steps.append(result)

    @property
    def failed_rps(self) -> float | None:
        """The lowest rate with a failing repeat."""
        ramp = [] if self._ramp_failed_rps is None else [self._ramp_failed_rps]
        return min([*ramp, *self._failed_steps_rps()], default=None)

    @property
    def passed_rps(self) -> float | None:
        """The highest rate below the first fail at which a full step passed."""
        failed_rps = math.inf if self.failed_rps is None else self.failed_rps
        return max((rate for rate in self._passed_steps_rps() if rate < failed_rps), default=None)

    @property
    def failed_steps(self) -> int:
        """How many full steps have failed."""
        return len(self._failed_steps_rps())

    def knee(self, notes: tuple[str, ...] = ()) -> Knee:
        """The knee as far as it is known, with its notes and then those given."""
        passed_rps, failed_rps = self.passed_rps, self.failed_rps
        pass_repeats = self._count(passed_rps, "pass")
        failed = self._count(failed_rps, "fail")
        run = failed + self._count(failed_rps, "pass")
        first_fail = None if failed_rps is None else FailCount(failed=max(failed, 1), run=max(run, 1))
        return Knee(
            pass_rps=passed_rps,
            pass_repeats=pass_repeats,
            first_fail_rps=failed_rps,
            first_fail=first_fail,
            notes=(*self._notes(pass_repeats, failed, run), *notes),
        )

    def _notes(self, pass_repeats: int, failed: int, run: int) -> list[str]:
        notes: list[str] = []
        if self.failed_rps is not None and failed == 0:
            notes.append(FROM_RAMP)
        elif run == 1:
            notes.append(ONE_FAILING_STEP)
        if pass_repeats == 1:
            notes.append(ONE_REPEAT)
        above = [rate for rate in self._passed_steps_rps() if self.failed_rps is not None and rate > self.failed_rps]
        if above:
            notes.append(f"not monotone: a pass at {rate_text(max(above))}, above a failing rate; the lower one is the answer")
        return notes

    def _count(self, rate_rps: float | None, verdict: str) -> int:
        return sum(r.verdict == verdict for step in self._steps if step.rate_rps == rate_rps for r in step.repeats)

    def _passed_steps_rps(self) -> list[float]:
        return [step.rate_rps for step in self._steps if step.verdict == "pass"]

    def _failed_steps_rps(self) -> list[float]:
        return [step.rate_rps for step in self._steps if step.verdict in ("fail", "mixed")]


def knee_so_far(steps: Iterable[StepResult]) -> Knee:
    """The knee as far as these finished steps tell, for a search that is still on or was ended from outside."""
    bracket = Bracket()
    for step in steps:
        if step.phase != "ramp":
            bracket.add_step(step)
        elif step.verdict == "fail":
            bracket.add_ramp(step.rate_rps)
    return bracket.knee()


def conclude(outcome: Outcome, knee: Knee) -> Answer:
    """The answer of a search that came to its end by itself: bracket, at_least or below."""
    holds = "" if knee.pass_rps is None else f"holds at {rate_text(knee.pass_rps)}"
    fails = "" if knee.first_fail_rps is None else f"fails at {rate_text(knee.first_fail_rps)}"
    if outcome == "at_least":
        message = f"{holds}, the highest rate tried"
    elif outcome == "below":
        message = f"{fails}, the lowest rate tried"
    else:
        message = f"{holds}, {fails}"
    return Answer(outcome=outcome, message=message, knee=knee)
