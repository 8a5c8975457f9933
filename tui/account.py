"""What is judged now, and what it can still reach: one account for screens and printed lines. Pure functions of a view."""

from core.results import Bounds
from core.view import RunView, StepView


def account(view: RunView, step: StepView) -> Bounds | None:
    """What is judged now: the repeat, of a ramp the rate that is being sent; None before there is one."""
    if step.live is None:
        return None
    if step.phase == "ramp" and view.ramp and view.ramp[-1].rate_rps == step.rate_rps:
        return view.ramp[-1].bounds
    return step.live.bounds


def is_whole_ramp(step: StepView, bounds: Bounds) -> bool:
    """A ramp is planned far beyond the rates that it will reach: its plan is what was sent, unless its rate is known apart."""
    return step.phase == "ramp" and step.live is not None and bounds is step.live.bounds


def planned(step: StepView, bounds: Bounds) -> int:
    """The requests that this account is of."""
    return bounds.sent if is_whole_ramp(step, bounds) else bounds.planned


def reach(view: RunView, step: StepView) -> tuple[float, float] | None:
    """The share that the whole of it can still reach, as [lowest, highest]; None while nothing of it was due."""
    bounds = account(view, step)
    if bounds is None or not bounds.sent:
        return None
    return bounds.so_far if is_whole_ramp(step, bounds) else bounds.end


def is_cut_off(step: StepView, bounds: Bounds) -> bool:
    """Whether what is not decided never will be: it was cut off, and nothing is in flight."""
    return step.live is not None and step.live.in_flight == 0 and bounds.open > 0
