"""What ends a run otherwise than by its search, the answer that it then has, and what every answer gets at the end."""

import asyncio
from collections.abc import Callable, Sequence

import msgspec

from core import prose
from core.config import ProbeConfig
from core.errors import UserError
from core.facts import Said
from core.judge.diagnosis import explained
from core.judge.search import Search
from core.results import Answer, Idle, Outcome
from core.run.conductor import ClientSilent
from core.run.guard import SafetyStop, on_top
from core.run.steps import NoAnswer, Steps
from core.run.view import RunView

STOPPED = "Stopped before the answer; what was finished is kept."


class Stopped(Exception):
    """Somebody asked for the end of the run."""


def close_open(error: BaseException, search: Search, steps: Steps) -> None:
    """Close the step that ran when `error` ended the run. A verdict that it had by then counts like any other.

    The figures of a repeat that was cut off are kept, but not of one that an error of our own, or our load generator's silence,
    may have spoilt.
    """
    stopped = isinstance(error, (Stopped, asyncio.CancelledError))
    ours = isinstance(error, ClientSilent) or not (stopped or isinstance(error, (SafetyStop, NoAnswer, UserError)))
    closed, held_rps = steps.break_off("stopped" if stopped else "broken_off", count_repeat=not ours) or (None, None)
    if closed is None or closed.verdict not in ("pass", "fail", "mixed"):
        return
    if closed.phase == "ramp":
        search.observe_ramp(held_rps, closed.rate_rps if closed.verdict == "fail" else None)
    elif closed.phase != "hold":
        search.observe_step(closed, None)


def answer_after(error: BaseException, search: Search, steps: Steps | None) -> Answer:
    """The answer of a run that `error` ended, once its last step is closed; `steps` None: before any load.

    A held rate that was stopped or has reached a limit of the run has done what it was to do. Of a search that was stopped only
    what was finished is known; anything else that ends one leaves no valid answer.
    """
    held = steps.held() if steps is not None else None
    match error:
        case Stopped() | asyncio.CancelledError():
            return so_far(search, "interrupted", STOPPED) if held is None else so_far(search, "held", held)
        case SafetyStop():
            if held is not None:
                return so_far(search, "held", f"{held}; {error}")
            return so_far(search, "void", f"No answer, {error}; finished steps are kept.")
        case NoAnswer() | UserError():
            return so_far(search, "refused" if steps is None else "void", str(error))
        case _:
            what = f"{type(error).__name__}: {error}"
            return so_far(search, "void", f"The run broke off through an error of kneescope itself: {what}")


def so_far(search: Search, outcome: Outcome, message: str) -> Answer:
    """The answer from what the search has seen by now."""
    return msgspec.structs.replace(search.answer_so_far(outcome, message), required_met=search.require_met)


def complete(
    answer: Answer,
    config: ProbeConfig,
    view: RunView,
    idle: Idle | None,
    remarks: Sequence[Said],
    say: Callable[[str], None],
) -> Answer:
    """The answer with what became of the server during the run (`remarks`), what others had of it, and its diagnosis; one that
    cannot be made is told to `say`."""
    knee = msgspec.structs.replace(answer.knee, notes=(*answer.knee.notes, *remarks))
    answer = msgspec.structs.replace(answer, knee=knee)
    if config.safety.with_others:
        answer = on_top(answer, view.steps)
    try:
        return explained(answer, config.slo, view.steps, view.server, idle, prose.text)
    except Exception as error:  # a fault of ours, after the work is done
        say(f"There is no diagnosis, through an error of kneescope itself ({type(error).__name__}: {error}); the answer stands.")
        return answer
