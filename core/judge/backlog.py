"""When a ramp must not go on although no limit is missed yet: limits of a minute let it double far beyond the server."""

from itertools import accumulate, pairwise

import numpy as np

from core.facts import fact
from core.judge.stopping import Decision
from core.judge.tally import Tally

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
    """Ends a ramp at `now` when most of what was sent lately waits for its first token; None while the server keeps up.

    The failing segment is the lowest one beyond what the server began in any segment, at most the one that is being sent.
    """
    waiting = tally.no_first_token
    if waiting <= BACKLOG_FROM:
        return None
    lately = np.count_nonzero(tally.traffic.sent_at > now - max(BACKLOG_S, BACKLOG_E2E * idle_e2e_s))
    if waiting <= BACKLOG_SHARE * lately:
        return None
    newest, begun_rps = segment_at(tally, now), _begun_rps(tally, now)
    segments = tally.layout.segments
    failed = next((k for k in range(newest) if segments[k].rate_rps > BEYOND * begun_rps), newest)
    why = fact("not_keeping_up", begun_rps=begun_rps, waiting=int(waiting))
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
