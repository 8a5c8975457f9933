from itertools import pairwise

import msgspec
import pytest

from core.config import Slo
from core.ddsketch import bin_of
from core.judge.tally import Tally
from core.records import GapSummary, RepeatOrder, RequestEnded
from core.results import Bounds
from tests.core.judge.play import (
    GOOD,
    HANGS,
    REFUSED,
    SLOW,
    START,
    Play,
    Request,
    aborted,
    apply,
    measured,
    plan_of,
    ramp,
    step,
    tail,
    time_of,
    warmup,
)


def test_each_request_is_unsent_then_open_then_good_or_bad() -> None:
    play = step(GOOD, SLOW, measure_s=2.0, warm_s=0.0)
    assert play.played(until=-1).bounds(START) == Bounds(planned=2, good=0, bad=0, open=0)
    assert play.played(until=0.5).bounds(START + 0.5) == Bounds(planned=2, good=0, bad=0, open=1)
    assert play.played(until=1.5).bounds(START + 1.5) == Bounds(planned=2, good=1, bad=0, open=1)
    assert play.played(until=5).bounds(START + 5) == Bounds(planned=2, good=1, bad=1, open=0)


def test_without_a_first_token_a_request_is_bad_once_it_is_older_than_the_limit() -> None:
    tally = step(HANGS, warm_s=0.0).played(until=0)
    assert tally.bounds(START + 0.8).bad == 0
    assert tally.bounds(START + 0.801).bad == 1
    assert tally.bounds(START + 0.5).bad == 0, "asking about an earlier moment gives that moment"


def test_a_late_first_token_leaves_it_bad_at_once() -> None:
    tally = step(Request(first=0.9, last=None), warm_s=0.0).played()
    assert tally.bounds(START + 0.9).bad == 1


def test_an_answer_that_decodes_too_slowly_is_bad_before_its_end() -> None:
    """0.1 s to the first of 21 tokens, so 20 * 50 ms later TPOT is over its limit, however fast the rest comes."""
    tally = step(Request(first=0.1, last=None), warm_s=0.0).played()
    assert tally.bounds(START + 1.1).bad == 0
    assert tally.bounds(START + 1.5).bad == 1


def test_a_body_that_stays_open_after_the_last_token_is_not_late() -> None:
    """All tokens in time, bodies held open for 1.9 s, nearly twice what the warm-up has shown: no miss is declared meanwhile."""
    slow_close, slower_close = (Request(first=0.1, last=1.05, closing=s) for s in (1.0, 1.9))
    play = step(slower_close, slower_close, measure_s=2.0, warm=(slow_close,), warm_s=4.0)
    events = play.events()
    tally = play.tally()
    for event, following in pairwise(events):
        apply(tally, [event])
        assert tally.bounds(time_of(following) - 0.001).bad == 0
    apply(tally, events[-1:])
    assert tally.bounds(START + 60) == Bounds(planned=2, good=2, bad=0, open=0)


def test_what_no_limit_decides_stays_open() -> None:
    ttft_only = Slo(ttft_s=0.8, tpot_s=None)
    tally = step(Request(first=0.1, last=None), warm_s=0.0).played(slo=ttft_only)
    assert tally.bounds(START + 1e6) == Bounds(planned=1, good=0, bad=0, open=1)


def test_only_measured_segments_count_unless_asked_for() -> None:
    play = Play((warmup(1.0), warmup(1.0), measured(2.0), tail(1.0)), ((SLOW, GOOD), (HANGS,), (GOOD, GOOD, SLOW), (GOOD,)))
    tally = play.played()
    now = START + 60
    assert tally.bounds(now) == Bounds(planned=3, good=2, bad=1, open=0)
    assert tally.bounds(now, 0) == Bounds(planned=2, good=1, bad=1, open=0)
    assert tally.bounds(now, 1) == Bounds(planned=1, good=0, bad=1, open=0, overdue=1)
    assert tally.bounds(now, 3) == Bounds(planned=1, good=1, bad=0, open=0)
    assert tally.layout.window == (START + 2.0, START + 4.0)
    assert len(tally.records) == 6
    assert len(tally.measured_records) == 3


def test_a_ramp_is_the_sum_of_its_segments() -> None:
    tally = ramp((GOOD, GOOD), (GOOD, SLOW), (HANGS,)).played()
    now = START + 100
    assert [tally.bounds(now, s).good for s in range(3)] == [2, 1, 0]
    assert tally.bounds(now) == Bounds(planned=5, good=3, bad=2, open=0, overdue=1)


def test_what_an_abort_cuts_off_is_neither_good_nor_bad_of_itself() -> None:
    """Cut at 2.5 s, sent at 0 and 2 s: the first surely missed by then, the second did not, the third was still to be sent."""
    play = step(HANGS, Request(first=0.1, last=5.0), GOOD, measure_s=6.0, warm_s=0.0)
    tally = aborted(play, at=2.5)
    assert tally.bounds(START + 2.5) == Bounds(planned=3, good=0, bad=1, open=1)
    assert tally.bounds(START + 1e6) == Bounds(planned=3, good=0, bad=1, open=1), "what was cut off does not age"
    assert tally.errors == {}
    assert tally.in_flight == 0
    assert tally.stopped_at == START + 2.5


def test_an_aborted_request_that_never_left_is_not_sent() -> None:
    never_left = Request(late=None, first=None, last=None, end=0.2, ending="aborted")
    assert step(never_left, warm_s=0.0).played().bounds(START + 9) == Bounds(planned=1, good=0, bad=0, open=0)


def test_a_request_that_failed_before_it_left_is_a_miss() -> None:
    no_connection = Request(late=None, first=None, last=None, end=0.2, ending="connection")
    tally = step(no_connection, warm_s=0.0).played()
    assert tally.bounds(START + 9) == Bounds(planned=1, good=0, bad=1, open=0)
    assert (tally.sent_count, tally.in_flight, tally.no_first_token) == (0, 0, 0)
    assert tally.errors == {"connection": 1}


def test_counts_follow_all_requests() -> None:
    play = step(GOOD, HANGS, REFUSED, measure_s=0.6, warm=(GOOD, REFUSED), warm_s=0.4)
    tally = play.played(until=0.9)
    assert tally.sent_count == 5
    assert tally.in_flight == 3
    assert tally.no_first_token == 1
    assert tally.errors == {"http": 2}
    assert (tally.measured_sent, tally.measured_errors) == (3, 1)


def test_the_queue_series_hold_every_request_that_left() -> None:
    tally = step(GOOD, REFUSED, HANGS, measure_s=3.0, warm_s=0.0).played()
    traffic = tally.traffic
    assert traffic.sent_at.tolist() == pytest.approx([START, START + 1, START + 2])
    assert traffic.first_at.tolist() == pytest.approx([START + 0.1, START + 1.01]), "an error leaves the queue at its end"
    assert traffic.ended_at.tolist() == pytest.approx([START + 1.0, START + 1.01])


def test_lateness_is_over_all_sends() -> None:
    late = Request(late=0.3, first=0.4, last=1.0)
    tally = step(GOOD, GOOD, warm=(late,)).played()
    assert tally.lateness_s.max == pytest.approx(0.3)
    assert tally.lateness_s.n == 3


def test_given_offsets_are_one_measured_stretch() -> None:
    order = RepeatOrder(order=7, phase="list", step=1, repeat=0, seed=1, offsets_s=(0.0, 1.5, 4.0), start_at=START)
    tally = Tally(order, plan_of([0.0, 1.5, 4.0], [0, 0, 0]), Slo())
    assert tally.bounds(START).planned == 3
    assert tally.layout.window == (START, START + 4.0)


def test_an_empty_plan_counts_nothing() -> None:
    tally = step().played()
    assert tally.bounds(START + 60) == Bounds(planned=0, good=0, bad=0, open=0)


@pytest.mark.parametrize(
    ("offsets", "segments"), [([0.0, 1.0], [0, 0, 0]), ([1.0, 0.0], [0, 0]), ([0.0, 1.0], [1, 0]), ([0.0, 1.0], [0, 3])]
)
def test_a_plan_that_does_not_fit_is_refused(offsets: list[float], segments: list[int]) -> None:
    order = step(GOOD).tally().order
    with pytest.raises(ValueError, match="a plan"):
        Tally(order, plan_of(offsets, segments), Slo())


def test_an_end_reported_twice_is_refused() -> None:
    play = step(GOOD)
    tally = play.played()
    again = next(e for e in play.events() if isinstance(e, RequestEnded))
    with pytest.raises(ValueError, match="ended twice"):
        tally.ended(again)


def gapped(event: RequestEnded) -> RequestEnded:
    """With the gaps of its answer, of which half were 10 ms and half 20 ms."""
    bins = ((bin_of(0.01), 10), (bin_of(0.02), 10))
    return msgspec.structs.replace(event, fingerprint="f" * 40, gaps=GapSummary(n=20, sum_s=0.3, max_s=0.02, bins=bins))


def test_the_histograms_of_answers_are_summed_up_and_not_kept() -> None:
    play = step(GOOD, GOOD, measure_s=2.0)
    tally = play.tally()
    apply(tally, [gapped(event) if isinstance(event, RequestEnded) else event for event in play.events()])
    assert [(record.gaps.n, record.gaps.max_s, record.gaps.bins) for record in tally.measured_records] == [(20, 0.02, ())] * 2
    assert (tally.itl_s.n, tally.itl_s.max) == (40, 0.02)
    assert tally.itl_s.p50 == pytest.approx(0.01, rel=0.011)
    assert tally.itl_s.mean == pytest.approx(0.015)
    assert tally.records[0].fingerprint is tally.records[1].fingerprint


def test_the_margins_of_the_window_are_kept_of_what_ended_ok() -> None:
    tally = step(GOOD, SLOW, REFUSED, HANGS, warm=(Request(first=0.6),)).played()
    assert tally.margin.n == 2
    assert tally.margin.max == pytest.approx(0.9 / 0.8)
    assert tally.margin.p50 == pytest.approx(0.045 / 0.05)


def test_an_order_without_end_keeps_counts_and_no_records() -> None:
    play = step(GOOD, SLOW, measure_s=2.0, warm_s=0.0)
    full = play.tally()
    lean = Tally(full.order, full.plan, full.slo, keeps_records=False)
    apply(lean, play.events())
    assert lean.bounds(START + 9) == play.played(until=9).bounds(START + 9)
    assert dict(lean.measured_endings) == {"ok": 2}
    assert (lean.records, lean.measured_records, lean.margin.n) == ([], [], 0)
