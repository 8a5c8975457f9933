"""The judged windows of a run as the posterior takes them: their figure X, and the work that they happened to bring. Pure."""

import math
from collections import Counter
from collections.abc import Iterable

from core.judge.search.posterior import Window
from core.records import Phase
from core.results import RepeatResult, StepResult

_LEAST_MARGIN, _MOST_MARGIN = 1e-3, 30.0
_JUDGED: frozenset[Phase] = frozenset({"search", "confirm", "tighten", "list"})


def windows_of(steps: Iterable[StepResult], target: float) -> list[Window]:
    """One for each repeat of a full step that counts. Rates of a list share a draw for each repeat: together they count as one."""
    judged = [
        (step, repeat) for step in steps if step.phase in _JUDGED for repeat in step.repeats if repeat.verdict in ("pass", "fail")
    ]
    draws = Counter((step.phase, repeat.index) for step, repeat in judged)
    return [
        _window(step, repeat, target, 1 / draws["list", repeat.index] if step.phase == "list" else 1.0) for step, repeat in judged
    ]


def figure(repeat: RepeatResult) -> tuple[float | None, float]:
    """X of a judged repeat, ln of its margin at the target, and the least that X can have been where there is none."""
    passed, known = repeat.verdict == "pass", repeat.slo_margin
    if known is None or known.at_target is None:
        return None, math.log(_MOST_MARGIN) if known is not None and known.unbounded and not passed else 0.0
    x = math.log(min(max(known.at_target, _LEAST_MARGIN), _MOST_MARGIN))
    if known.at_least:
        return None, 0.0 if passed else x
    # a queue that rises, or too many errors, fail a window whose latencies are still within the limits
    return x if passed else max(x, 0.0), 0.0


def _window(step: StepResult, repeat: RepeatResult, target: float, weight: float) -> Window:
    x, least = figure(repeat)
    return Window(
        rate_rps=step.rate_rps,
        passed=repeat.verdict == "pass",
        allowed=repeat.planned * (1 - target),
        x=x,
        least=least,
        z=load_z(repeat),
        weight=weight,
        step=step.step,
        repeat=repeat.index,
    )


def load_z(repeat: RepeatResult) -> float:
    """ln of the work that a window brought over what its rate lets expect; 0 where it is not known."""
    return 0.0 if repeat.work is None or repeat.work.more_frac is None else math.log1p(max(repeat.work.more_frac, -0.9))
