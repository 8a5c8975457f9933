"""What a closed loop said beside the answer: as one fact, and as data."""

from typing import Any

from core.facts import Fact, fact, says
from core.report.told import told
from core.results import Answer, ClosedRung
from core.view import RunView


def closed_fact(view: RunView, answer: Answer) -> Fact | None:
    """The rate that the usual benchmark would report, and how many times the rate that holds it is; None where no closed loop was
    asked for, or it has not come to anything yet."""
    closed = view.closed_loop
    if closed is None:
        return None
    if (best := closed.highest) is not None:
        times = None if not answer.knee.pass_rps else best.completed_rps / answer.knee.pass_rps
        to_the_end = closed.ended is not None and says(closed.ended, "closed_missed")
        return fact("closed_loop", rate_rps=best.completed_rps, in_flight=best.in_flight, times=times, to_the_end=to_the_end)
    if closed.rungs:
        first, target = closed.rungs[0], 1.0 if view.config is None else view.config.slo.target
        return fact("closed_none", in_flight=first.in_flight, attainment=first.attainment, target=target)
    return None if closed.ended is None else fact("closed_unmeasured", closed.ended)


def closed_data(view: RunView, answer: Answer) -> dict[str, Any] | None:
    """The same with every number of requests in flight; None where no closed loop was asked for."""
    closed, said = view.closed_loop, closed_fact(view, answer)
    if closed is None:
        return None
    best = closed.highest
    return {
        "rate_rps": None if best is None else best.completed_rps,
        "in_flight": None if best is None else best.in_flight,
        "times_pass": None if said is None else said.figures.get("times"),
        **told("message", said),
        **told("ended", closed.ended),
        "rungs": [_rung(rung) for rung in closed.rungs],
    }


def _rung(rung: ClosedRung) -> dict[str, Any]:
    return {
        "in_flight": rung.in_flight,
        "met": rung.met,
        "attainment": rung.attainment,
        "completed_rps": rung.completed_rps,
        "sent": rung.sent,
        "completed": rung.completed,
        "good": rung.good,
        "duration_s": rung.duration_s,
    }
