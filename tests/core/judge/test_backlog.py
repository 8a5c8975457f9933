"""A ramp that the server does not keep up with, while its limits are too long to tell."""

import numpy as np
import pytest

from core.config import Slo
from core.facts import says
from core.judge.stopping import BACKLOG_FROM, runaway, segment_at
from core.judge.tally import Tally
from core.records import RepeatOrder, RequestFirst, RequestSent, Segment
from tests.core.judge.play import plan_of

RATES = (10.0, 20.0, 40.0, 80.0, 160.0)
SEGMENT_S = 6.0
START = 1000.0


def played(until_s: float, capacity_rps: float, ttft_s: float = 0.1) -> Tally:
    """Even arrivals, first come first served, `capacity_rps` first tokens a second."""
    segments = tuple(Segment(rate_rps=rate, duration_s=SEGMENT_S, role="measured") for rate in RATES)
    counts = [round(rate * SEGMENT_S) for rate in RATES]
    offsets = np.concatenate([k * SEGMENT_S + np.arange(n) * SEGMENT_S / n for k, n in enumerate(counts)])
    where = np.repeat(np.arange(len(RATES), dtype=np.int32), counts)
    order = RepeatOrder(order=1, phase="ramp", step=1, repeat=0, seed=1, segments=segments, start_at=START)
    tally = Tally(order, plan_of(offsets.tolist(), where.tolist(), 8), Slo(ttft_s=60.0))
    free = 0.0
    for i, due in enumerate(offsets.tolist()):
        if due >= until_s:
            break
        tally.sent(RequestSent(order=1, index=i, t_sched=START + due, t_sent=START + due))
        free = max(free, due) + 1 / capacity_rps
        if free + ttft_s < until_s:
            tally.first(RequestFirst(order=1, index=i, t_first=START + free + ttft_s, first_tokens=1))
    return tally


def ends_at(capacity_rps: float) -> tuple[float, Tally]:
    """When the ramp was first ended, in seconds after its start; infinity if never."""
    for k in range(1, int(len(RATES) * SEGMENT_S * 10)):
        tally = played(k / 10, capacity_rps)
        if runaway(tally, START + k / 10, 0.5) is not None:
            return k / 10, tally
    return float("inf"), played(len(RATES) * SEGMENT_S, capacity_rps)


@pytest.mark.parametrize("capacity_rps", [10.0, 25.0, 40.0])
def test_a_ramp_ends_soon_beyond_the_server_and_names_the_first_rate_that_it_cannot_take(capacity_rps: float) -> None:
    t, tally = ends_at(capacity_rps)
    decision = runaway(tally, START + t, 0.5)
    assert decision is not None
    assert (decision.kind, tally.in_flight < 4 * BACKLOG_FROM) == ("fail", True)
    assert decision.segment is not None
    failed_rps = RATES[decision.segment]
    assert capacity_rps < failed_rps <= 2 * 1.5 * capacity_rps
    assert (decision.reason.code, decision.reason.figures) == ("rate_fails", {"rate_rps": failed_rps})
    assert says(decision.reason, "not_keeping_up")


def test_a_server_that_keeps_up_is_left_alone() -> None:
    assert ends_at(1000.0)[0] == float("inf")


def test_a_long_queue_that_is_served_is_no_runaway() -> None:
    """300 wait because a first token takes 2 s, not because too few are begun."""
    tally = played(30.0, 1000.0, ttft_s=2.0)
    assert tally.no_first_token > BACKLOG_FROM
    assert runaway(tally, START + 30.0, 0.5) is None


def test_the_segment_of_a_moment() -> None:
    tally = played(1.0, 10.0)
    assert [segment_at(tally, START + t) for t in (-1.0, 0.0, 5.9, 6.0, 29.9, 99.0)] == [0, 0, 0, 1, 4, 4]
