"""What stands after the end of a run: the figures of the step that the answer rests on, not those of the last second."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from core.results import Percentiles, RepeatResult, StepResult
from core.units import count, rate_brief
from core.view import RunView
from tui.draw.style import VERDICTS, Role
from tui.widgets.pieces import Piece


class Standing(NamedTuple):
    """A step and its repeats that count; of several each figure is the highest."""

    step: StepResult
    repeats: tuple[RepeatResult, ...]

    @property
    def where(self) -> str:
        """Its rate, and its verdict where it is no pass."""
        mark = "" if self.step.verdict == "pass" else f"{VERDICTS[self.step.verdict].glyph} "
        return f"{mark}at {rate_brief(self.step.rate_rps)}"

    def most(self, read: Callable[[RepeatResult], float | None]) -> float | None:
        """The highest of a figure; None where no repeat has it."""
        return max((value for repeat in self.repeats if (value := read(repeat)) is not None), default=None)

    def percentile(self, read: Callable[[RepeatResult], Percentiles], which: str) -> float | None:
        """The highest of a percentile."""
        return self.most(lambda repeat: getattr(read(repeat), which))

    @property
    def answers(self) -> tuple[int, int]:
        """The requests that ended well, whose latencies are known, and all that were sent but for errors, which have none."""
        return sum(repeat.succeeded for repeat in self.repeats), sum(repeat.sent - repeat.errors for repeat in self.repeats)


def standing(view: RunView) -> Standing | None:
    """Of the passing end of the knee, without one of the failing end, else of the last step; None before the end of the run, and
    where nothing was judged."""
    if view.answer is None:
        return None
    steps = [found for step in view.steps if step.phase != "ramp" and not step.set_aside and (found := _counted(step)).repeats]
    knee = view.answer.knee
    for rate_rps in (knee.pass_rps, knee.fail_rps, knee.first_fail_rps):
        at = [found for found in steps if found.step.rate_rps == rate_rps]
        if at:
            return at[-1]
    return steps[-1] if steps else None


def _counted(step: StepResult) -> Standing:
    valid = tuple(repeat for repeat in step.repeats if repeat.verdict in ("pass", "fail"))
    return Standing(step, valid or tuple(repeat for repeat in step.repeats if repeat.verdict == "unjudged"))


def population(found: Standing) -> tuple[tuple[Piece, ...], tuple[Piece, ...]]:
    """Whose latencies these are, as what stands before the figures and what behind them: where most have no answer, that comes
    first."""
    ended, sent = found.answers
    told = of_whom(ended, sent)._replace(rank=1)
    return ((told,), ()) if told.role == "breaks" else ((), (told,))


def of_whom(ended: int, sent: int) -> Piece:
    """Of so many requests that were sent those that ended, whose latencies are known."""
    if 2 * ended < sent:
        return Piece(f"only {count(ended)} of {count(sent)} ended", "breaks")
    return Piece(f"all {count(sent)} ended" if ended >= sent else f"{count(ended)} of {count(sent)} ended", "muted")


def role_over(value: float | None, limit: float | None) -> Role:
    """The colour of a figure beside its limit."""
    return "breaks" if value is not None and limit is not None and value > limit else "plain"


def ordered(target: float | None) -> Sequence[str]:
    """The percentiles, the one first that is nearest to what is judged."""
    names = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
    judged = min(names, key=lambda name: abs(names[name] - (0.95 if target is None else target)))
    return (judged, *(name for name in ("p95", "p99", "p50") if name != judged))
