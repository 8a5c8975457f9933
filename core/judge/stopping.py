"""When a repeat or a ramp need not go on, and when it must go on for longer.

It need not where nothing that may still come can change what it says. A ramp must not where the server falls behind although no
limit is missed yet: limits of a minute let it double far beyond the server. A repeat whose queue is undecided goes on once for
half its window, because a longer one tells more: of 60 s windows at a simulated replica's knee 28 % were undecided, of 120 s
windows 10 %, of 300 s windows none.
"""

from itertools import accumulate, pairwise
from typing import Literal

import msgspec
import numpy as np

from core.facts import Fact, fact
from core.judge.evidence import errors_said
from core.judge.queue_trend import queue_verdict
from core.judge.tally import Tally
from core.records import NEVER_SENT, NO_ERRORS
from core.results import Bounds, JudgeRules, QueueVerdict
from core.slo import allowed_misses, e2e_s, needed_good, too_many_errors

REPORT_DELAY_S = 0.25
"""How long the report of an event may be under way. Decisions look at requests as they were this long ago, so that a first
token that came in time and is still in a pipe is not taken for a miss: an event loop that draws was late by 152 ms at p99."""

OVERLOAD_MISSES, OVERLOAD_SHARE = 20, 0.5
"""More sure misses than both of these in the second half of the warm-up end a step."""

HOPELESS_SHARE, HOPELESS_MISSES = 3, 5
"""A window that is read whole ends early with more misses than this many times those allowed, and a few: its figure would say no
more than that the rate is far too high."""

RAMP_FORGIVES = 1
"""A segment of a ramp has a dozen requests, and one slow one must not end the ramp."""


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """Why a repeat (or a ramp) need not go on. `segment` is the failing segment of a ramp. `queue_until`: the queue rule is
    heard from the start of the window to then, because the repeat was lengthened for it; None: over the window.

    fail: the target cannot be reached any more; pass: it cannot be missed any more; overload: hopeless already in the
    warm-up; complete: every measured request is decided; drained: the drain time ran out, what is open counts as missed.
    """

    kind: Literal["fail", "pass", "overload", "complete", "drained"]
    reason: Fact
    segment: int | None = None
    queue_until: float | None = None


def decide_step(tally: Tally, now: float, rules: JudgeRules, drain_s: float) -> Decision | None:
    """Whether a full step (warm-up, measured, tail) is decided at `now`; None while it is not.

    `now` is the time of the event applied last, on the clock of the events: no earlier one may be outstanding for longer
    than REPORT_DELAY_S. A fail is final, whatever comes later. A pass is final for the attainment, and waits for the end
    of the window (the queue rule needs all of it) and while the errors among what has ended are above their limit. One whose
    queue is undecided by then waits once more, for half a window of the tail's arrivals (at most `drain_s`).
    """
    settled = now - REPORT_DELAY_S
    bounds = tally.bounds(settled)
    if bounds.planned == 0:
        return Decision(kind="complete", reason=fact("nothing_to_judge"))
    decision = _failed(tally, bounds, rules) or (None if rules.reads_whole else _overloaded(tally, settled))
    if decision is not None:
        return decision
    over = _over(tally, bounds, now, rules, drain_s)
    return over and _lengthened(over, tally, bounds, settled, rules, drain_s)


def _failed(tally: Tally, bounds: Bounds, rules: JudgeRules) -> Decision | None:
    slo = rules.slo
    allowed = allowed_misses(bounds.planned, slo.target)
    if bounds.bad > (HOPELESS_SHARE * allowed + HOPELESS_MISSES if rules.reads_whole else allowed):
        return Decision(kind="fail", reason=out_of_reach(bounds, slo.target))
    if too_many_errors(tally.measured_errors, bounds.planned, slo.max_error_rate):
        return Decision(kind="fail", reason=errors(tally, bounds.planned, slo.max_error_rate))
    return None


def _overloaded(tally: Tally, settled: float) -> Decision | None:
    """Whether the second half of the warm-up, which has the rate itself, is hopeless. The first half is sent half as fast again,
    and what misses there says nothing of the rate: counted in, it made a sixth of the false fails just below the knee."""
    warming = tally.layout.of_role("warmup")
    if not warming or settled >= tally.layout.window[1]:
        return None
    half = tally.bounds(settled, warming[-1])
    if half.bad <= max(OVERLOAD_MISSES, OVERLOAD_SHARE * half.planned):
        return None
    return Decision(kind="overload", reason=fact("overloaded_in_warmup", misses=half.bad, planned=half.planned))


def _over(tally: Tally, bounds: Bounds, now: float, rules: JudgeRules, drain_s: float) -> Decision | None:
    end = tally.layout.window[1]
    if now - REPORT_DELAY_S < end:
        return None
    slo = rules.slo
    if bounds.good + bounds.bad == bounds.planned:
        return Decision(kind="complete", reason=fact("all_decided"))
    ended = sum(tally.measured_endings.values())
    enough = bounds.good >= needed_good(bounds.planned, slo.target)
    if rules.curtail_pass and enough and not too_many_errors(tally.measured_errors, ended, slo.max_error_rate):
        return Decision(kind="pass", reason=within_reach(bounds, slo.target))
    if now >= tally.drains_from(end) + drain_s:
        left = bounds.planned - bounds.good - bounds.bad
        return Decision(kind="drained", reason=still_open(left, drain_s, "window"))
    return None


def _lengthened(over: Decision, tally: Tally, bounds: Bounds, settled: float, rules: JudgeRules, drain_s: float) -> Decision | None:
    """The decision, unless only an undecided queue stands behind its pass and half a window more has not yet passed."""
    if bounds.good < needed_good(bounds.planned, rules.slo.target) or window_queue(tally) != "undecided":
        return over
    until = tally.layout.window[1] + extension_s(tally, drain_s)
    if settled < until:
        return None
    return msgspec.structs.replace(over, queue_until=until) if until > tally.layout.window[1] else over


def lengthened_until(tally: Tally, now: float, rules: JudgeRules, drain_s: float) -> float | None:
    """When a repeat is decided at the latest that goes on only because its queue is undecided; None where it does not."""
    bounds = tally.bounds(now - REPORT_DELAY_S)
    over = _over(tally, bounds, now, rules, drain_s)
    if over is None or bounds.good < needed_good(bounds.planned, rules.slo.target) or window_queue(tally) != "undecided":
        return None
    return tally.layout.window[1] + extension_s(tally, drain_s) + REPORT_DELAY_S


def drain_left_s(tally: Tally, now: float, drain_s: float) -> float | None:
    """Seconds until the requests that are still undecided after the window count as missed; None while none are waited for."""
    end = tally.layout.window[1]
    bounds = tally.bounds(now - REPORT_DELAY_S)
    if now < end or bounds.good + bounds.bad == bounds.planned:
        return None
    return max(0.0, tally.drains_from(end) + drain_s - now)


def ramp_may_miss(planned: int, target: float) -> int:
    """How many of its requests a segment of a ramp may miss."""
    return max(RAMP_FORGIVES, allowed_misses(planned, target))


def ramp_holds(bounds: Bounds, target: float) -> bool:
    """Whether a segment of a ramp was seen to hold. One without a good request was not, however few it may miss: it may not even
    have been sent."""
    return bounds.good > 0 and bounds.planned - bounds.good <= ramp_may_miss(bounds.planned, target)


def decide_ramp(tally: Tally, now: float, rules: JudgeRules, drain_s: float = 120.0) -> Decision | None:
    """Whether any segment of a ramp can no longer reach the target at `now`, or all were sent and decided.

    Each segment may miss at least one request. Of several that fail at once the lowest counts. `drain_s` after the ramp
    what is still open counts as missed.
    """
    settled, end, target = now - REPORT_DELAY_S, tally.layout.window[1], rules.slo.target
    drained, waiting = now >= tally.drains_from(end) + drain_s, False
    for segment in tally.measured:
        bounds = tally.bounds(settled, segment)
        may_miss = ramp_may_miss(bounds.planned, target)
        not_good = bounds.planned - bounds.good
        if bounds.bad > may_miss or (drained and not_good > may_miss):
            open_ = still_open(not_good - bounds.bad, drain_s, "ramp")
            why = out_of_reach(bounds, target) if bounds.bad > may_miss else open_
            rate_rps = tally.layout.segments[segment].rate_rps
            return Decision(kind="fail", reason=fact("rate_fails", why, rate_rps=rate_rps), segment=segment)
        waiting |= not_good > max(may_miss, bounds.bad)
    if waiting or settled < end:
        return None
    return Decision(kind="complete", reason=fact("no_rate_failed"))


def out_of_reach(bounds: Bounds, target: float) -> Fact:
    """Why the target cannot be reached any more."""
    return fact("out_of_reach", at_most_frac=bounds.end[1], target=target)


def within_reach(bounds: Bounds, target: float) -> Fact:
    """Why the target cannot be missed any more."""
    return fact("within_reach", at_least_frac=bounds.good / bounds.planned, planned=bounds.planned, target=target)


def still_open(requests: int, drain_s: float, after: Literal["window", "ramp", "segment"]) -> Fact:
    """Requests that had not ended when the drain time was over."""
    return fact("still_open", open=requests, drain_s=drain_s, after=after)


def errors(tally: Tally, planned: int, max_error_rate: float) -> Fact:
    """How many of the planned requests ended in errors, and in which, against the share that may; where nothing else came, warm-up
    included, that. With the server's words."""
    endings: dict[str, int] = {name: n for name, n in tally.measured_endings.items() if name not in NO_ERRORS}
    ended = [r.ending for r in tally.records if r.ending not in ("aborted", *NEVER_SENT)]
    code: Literal["every_request_failed", "too_many_errors"] = (
        "every_request_failed" if len(ended) > 1 and "ok" not in ended else "too_many_errors"
    )
    return fact(
        code,
        errors=sum(endings.values()),
        planned=planned,
        ended=len(ended),
        max_error_frac=max_error_rate,
        endings=endings,
        said=errors_said(tally.measured_records),
    )


LENGTHEN_SHARE = 0.5


def extension_s(tally: Tally, drain_s: float) -> float:
    """By how much this repeat may go on for the queue's sake: half its window, as far as its tail and `drain_s` reach."""
    layout = tally.layout
    return min(LENGTHEN_SHARE * layout.length_s("measured"), layout.length_s("tail"), drain_s)


def window_queue(tally: Tally, until: float | None = None) -> QueueVerdict | None:
    """The queue over the window, or from its start to `until`; None for a ramp, whose rate changes, and for an empty window.

    Everything that happened before that end must have been applied.
    """
    start, end = tally.layout.window
    end = end if until is None else until
    if len(tally.measured) != 1 or end <= start:
        return None
    ok = [r for r in tally.measured_records if r.ending == "ok"]
    lasted_s = [v for r in ok if (v := e2e_s(r)) is not None]
    answers_s = np.array([r.t_last - r.t_first for r in ok if r.t_last is not None and r.t_first is not None])
    mean_e2e_s = float(np.mean(lasted_s)) if lasted_s else None
    rate_rps = tally.layout.segments[tally.measured[0]].rate_rps
    if tally.order.offsets_s is not None:  # a recording brings more or less than its mean rate
        rate_rps = max(int(np.diff(np.searchsorted(tally.layout.due, [start, end]))[0]), 1) / (end - start)
    series = tally.traffic.queue_series
    if tally.plan.after is not None:  # later turns come when the answers before them have
        rate_rps = max(int(np.count_nonzero((series[0] >= start) & (series[0] < end))), 1) / (end - start)
    return queue_verdict(*series, start, end, mean_e2e_s, answers_s, rate_rps)


BACKLOG_FROM = 256
"""As many requests as vLLM runs at once by default; fewer that wait say little."""
BACKLOG_SHARE = 0.5
"""Most of what was sent lately waits. By the time that a limit of a minute tells, a ramp that doubles every ten seconds would be
64 times higher (341 requests/s with 3,456 in flight were seen on a server that takes 10)."""
BACKLOG_S, BACKLOG_E2E = 6.0, 4.0
"""Lately: in the shortest segment of a ramp, or so many idle latencies, within which a server that keeps up begins a request."""
BEYOND = 1.5
"""A rate above this many times what the server ever began in a second makes the queue grow for as long as it lasts."""
_SEEN_S = 3.0


def runaway(tally: Tally, now: float, idle_e2e_s: float) -> Decision | None:
    """Ends a ramp at `now` when most of what came lately waits for its first token; None while the server keeps up. What waits for
    a gateway's limit waits for the server, too.

    The failing segment is the lowest one beyond what the server began in any segment, at most the one that is being sent.
    """
    waiting = tally.no_first_token + tally.at_gateway
    if waiting <= BACKLOG_FROM:
        return None
    came_at, _, _ = tally.traffic.queue_series
    lately = np.count_nonzero(came_at > now - max(BACKLOG_S, BACKLOG_E2E * idle_e2e_s))
    if waiting <= BACKLOG_SHARE * lately:
        return None
    newest, begun_rps = segment_at(tally, now), _begun_rps(tally, now)
    segments = tally.layout.segments
    failed = next((k for k in range(newest) if segments[k].rate_rps > BEYOND * begun_rps), newest)
    at_gateway = 2 * tally.at_gateway > waiting
    why = fact("gateway_not_keeping_up" if at_gateway else "not_keeping_up", begun_rps=begun_rps, waiting=int(waiting))
    return Decision(kind="fail", reason=fact("rate_fails", why, rate_rps=segments[failed].rate_rps), segment=failed)


def segment_at(tally: Tally, now: float) -> int:
    """The segment that is being sent at `now`; the last one when all are sent."""
    ends = list(accumulate(segment.duration_s for segment in tally.layout.segments))
    return next((k for k, end in enumerate(ends) if now - tally.order.start_at < end), len(ends) - 1)


def _begun_rps(tally: Tally, now: float) -> float:
    """The highest rate of first tokens over any segment that was sent for long enough to say."""
    begun = tally.traffic.first_at - tally.order.start_at
    edges = [0.0, *accumulate(segment.duration_s for segment in tally.layout.segments)]
    spans = [(low, min(high, now - tally.order.start_at)) for low, high in pairwise(edges)]
    rates = [np.count_nonzero((begun >= low) & (begun < high)) / (high - low) for low, high in spans if high - low >= _SEEN_S]
    return float(max(rates, default=0.0))
