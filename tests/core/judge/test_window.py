"""A window in figures: the margin at its target, what is known of it when it was cut, and how much work it brought."""

import math

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from core.config import Lengths, Slo, Workload
from core.judge.tally import CLOSING_S, Tally
from core.judge.window import slo_margin, token_costs, work
from core.results import Idle, SloMargin
from core.slo import needed_good
from tests.core.judge.play import START, Play, Request, aborted, measured, tail, warmup
from tests.core.judge.test_tally_property import LIMITS, plays

SLO = Slo(ttft_s=1.0, tpot_s=None, target=0.9)
COSTS = token_costs(Workload(input_tokens=Lengths(median=100), output_tokens=Lengths(median=10)), Idle())


def figure(known: SloMargin | None) -> float:
    assert known is not None
    return math.inf if known.unbounded else known.at_target or 0.0


def whole(play: Play, slo: Slo) -> SloMargin | None:
    tally = aborted(play, 1e5, slo)
    return slo_margin(tally, tally.bounds(START + 1e5).planned, drained=True)


def of(*firsts_s: float | None, at: float = 1e5) -> Tally:
    requests = tuple(Request(first=first, last=None if first is None else first + 0.1) for first in firsts_s)
    return aborted(Play((warmup(1.0), measured(10.0), tail(5.0)), ((), requests, ())), at, SLO)


def test_it_is_the_margin_at_the_target_by_nearest_rank() -> None:
    known = slo_margin(of(*(at / 10 for at in range(1, 11))), 10, drained=True)
    assert known is not None
    assert known.at_target == pytest.approx(0.9)
    assert known.p50 == pytest.approx(0.5)
    assert (known.unbounded, known.at_least) == (False, False)


def test_requests_that_never_ended_are_beyond_every_limit() -> None:
    known = slo_margin(of(*[0.1] * 8, None, None), 10, drained=True)
    assert known is not None
    assert (known.at_target, known.unbounded) == (None, True)
    assert known.p50 == pytest.approx(0.1)


def test_a_window_without_requests_has_no_margin() -> None:
    assert slo_margin(of(0.1), 0, drained=True) is None


SLOWLY_CLOSED = Request(first=0.399, last=0.399 + 0.0499 * 20, closing=0.99 * CLOSING_S)
ENDS_BEHIND_THE_CUT = Play((warmup(1.0), measured(4.0), tail(2.0)), ((), (*[Request()] * 3, SLOWLY_CLOSED), ()))


@settings(deadline=None)
@given(play=plays(), slo=LIMITS, at=st.floats(0, 40))
@example(play=ENDS_BEHIND_THE_CUT, slo=Slo(ttft_s=0.8, tpot_s=0.05), at=5.5)  # due at 4, at its TPOT limit at 5.399
def test_of_a_window_that_was_cut_the_least_is_told_that_it_can_have_come_to(play: Play, slo: Slo, at: float) -> None:
    cut = aborted(play, at, slo)
    planned = cut.bounds(START + at).planned
    known, truth = slo_margin(cut, planned, drained=False), whole(play, slo)
    if known is None:
        assert planned == 0
        return
    assert figure(known) <= figure(truth) * (1 + 1e-9)
    assert known.at_least or figure(known) == pytest.approx(figure(truth))


@settings(deadline=None)
@given(play=plays(), slo=LIMITS)
def test_it_is_a_pass_by_the_requests_where_it_is_at_most_one(play: Play, slo: Slo) -> None:
    tally = aborted(play, 1e5, slo)
    bounds = tally.bounds(START + 1e5)
    if bounds.planned:
        assert (figure(whole(play, slo)) <= 1.0) is (bounds.good >= needed_good(bounds.planned, slo.target))


def test_work_is_what_was_planned_against_what_the_rate_lets_expect() -> None:
    tally = of(*[0.1] * 10)
    brought = work(tally, COSTS, (None, None, None))
    assert brought is not None
    assert brought.more_frac is not None
    tokens = brought.input_tokens + brought.output_tokens
    rate_rps = tally.layout.segments[1].rate_rps
    assert brought.more_frac == pytest.approx(tokens / (rate_rps * brought.seconds * 110) - 1)
    unknown = work(tally, None, (None, None, None))
    assert unknown is not None
    assert unknown.more_frac is None
