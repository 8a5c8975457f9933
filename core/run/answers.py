"""The answer of a run: of one that was ended before its search had one, and what every answer gets at the end."""

import asyncio
from collections.abc import Callable, Sequence

import msgspec

from core.config import ProbeConfig
from core.errors import UserError
from core.facts import Fact, Said, fact, several
from core.fleet_check import checked, not_tried, said
from core.judge import Search, buckets_that_fail, explained
from core.results import Answer, Idle, Outcome
from core.run.ends import ClientSilent, NoAnswer, SafetyStop, Stopped
from core.run.limits import on_top
from core.run.steps import Steps
from core.view import RunView


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

    A held rate that was stopped or has reached a limit of the run has done what it was to do, unless nothing of it counts. Of a
    search that was stopped only what was finished is known; anything else that ends one leaves no valid answer.
    """
    held = steps.held() if steps is not None else None
    match error:
        case Stopped() | asyncio.CancelledError():
            return so_far(search, "interrupted", fact("stopped_before_answer")) if held is None else _held(search, *held)
        case SafetyStop(fact=limit):
            return so_far(search, "void", fact("limit_reached", limit)) if held is None else _held(search, *held, limit)
        case NoAnswer(fact=why):
            return so_far(search, "refused" if steps is None else "void", why)
        case UserError():
            return so_far(search, "refused" if steps is None else "void", str(error))
        case _:
            return so_far(search, "void", fact("own_error", what=f"{type(error).__name__}: {error}"))


def _held(search: Search, outcome: Outcome, found: Fact, *limit: Fact) -> Answer:
    """The answer of a held rate that was stopped, by a limit of the run where there is one."""
    said = several(found, *limit)
    return so_far(search, outcome, said if outcome == "held" else fact("held_in_vain", said))


def so_far(search: Search, outcome: Outcome, message: Said) -> Answer:
    """The answer from what the search has seen by now."""
    return msgspec.structs.replace(search.answer_so_far(outcome, message), required_met=search.require_met)


def _scales(answer: Answer, config: ProbeConfig) -> tuple[Fact, ...]:
    """How many times the recording the ends of the bracket are, where requests came as recorded."""
    knee, trace = answer.knee, config.workload.trace
    rates_rps = [rate for rate in dict.fromkeys((knee.pass_rps, knee.fail_rps)) if rate is not None]
    return (fact("trace_scales", rates_rps=rates_rps, mean_rps=trace.mean_rps),) if trace is not None and rates_rps else ()


def _untried(config: ProbeConfig) -> tuple[Fact, ...]:
    found = not_tried(config)
    return () if found is None else (found,)


def _of_fleet(answer: Answer, config: ProbeConfig, view: RunView) -> Answer:
    """The answer of a check of a fleet: what it holds of what its replicas could."""
    plan = config.method.fleet
    if plan is None or answer.outcome not in ("bracket", "at_least", "below"):
        return answer
    told = said(checked(plan, answer, view.steps))
    return msgspec.structs.replace(answer, message=several(told, *answer.told))


def complete(
    answer: Answer,
    config: ProbeConfig,
    view: RunView,
    idle: Idle | None,
    remarks: Sequence[Said],
    say: Callable[[Said], None],
) -> Answer:
    """The answer with what became of the server during the run (`remarks`), the lengths that fail where the whole passes, what
    others had of it, and its diagnosis; one that cannot be made is told to `say`."""
    scales, by_length = _scales(answer, config), buckets_that_fail(answer.knee, view.steps, config.slo.target)
    knee = msgspec.structs.replace(answer.knee, notes=(*scales, *answer.knee.notes, *_untried(config), *remarks, *by_length))
    answer = _of_fleet(msgspec.structs.replace(answer, knee=knee), config, view)
    if config.safety.with_others:
        answer = on_top(answer, view.steps)
    try:
        return explained(answer, config.limits, view.steps, view.server, idle)
    except Exception as error:  # a fault of ours, after the work is done
        say(fact("no_diagnosis", what=f"{type(error).__name__}: {error}"))
        return answer
