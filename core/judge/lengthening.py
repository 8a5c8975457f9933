"""The queue rule on a repeat's own window, and how long a repeat goes on when that leaves the queue undecided.

A longer window tells more: of 60 s windows at a simulated replica's knee 28 % were undecided, of 120 s windows 10 %, of
300 s windows none. So before "undecided" is said, the load goes on once for half the window.
"""

import numpy as np

from core.judge.slo import e2e_s
from core.judge.stability import queue_verdict
from core.judge.tally import Tally
from core.results import QueueVerdict

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
    lasted_s = [v for r in tally.measured_records if r.ending == "ok" and (v := e2e_s(r)) is not None]
    traffic = tally.traffic
    mean_e2e_s = float(np.mean(lasted_s)) if lasted_s else None
    return queue_verdict(traffic.sent_at, traffic.first_at, traffic.ended_at, start, end, mean_e2e_s)
