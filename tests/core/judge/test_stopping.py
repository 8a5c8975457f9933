"""When a step or a ramp stops."""

from dataclasses import replace

import pytest

from core.config import Slo
from core.facts import fact
from core.judge.stopping import REPORT_DELAY_S, Decision, decide_ramp, decide_step, still_open
from core.judge.tally import Tally
from tests.core.judge.play import GOOD, HANGS, REFUSED, SLOW, START, Play, Request, apply, measured, ramp, rules, step, tail, warmup

DRAIN_S = 120.0
TTFT_ONLY = Slo(ttft_s=0.8, tpot_s=None)
STUCK = Request(first=0.1, last=None)
QUICK = Request(first=0.01, last=0.02)


def decide(play: Play, at: float, slo: Slo = TTFT_ONLY, *, curtail_pass: bool = True) -> Decision | None:
    """What is decided `at` seconds after the start, with all events up to then."""
    return decide_step(play.played(at, slo), START + at, rules(slo, curtail_pass=curtail_pass), DRAIN_S)


def first_decision(play: Play, slo: Slo = TTFT_ONLY, *, every: float = 0.05, curtail_pass: bool = True) -> tuple[float, Decision]:
    """The first moment, on a grid, at which the step is decided."""
    at = 0.0
    while at < 300:
        decision = decide(play, at, slo, curtail_pass=curtail_pass)
        if decision:
            return at, decision
        at += every
    raise AssertionError("never decided")


def test_fails_as_soon_as_the_target_is_out_of_reach() -> None:
    """20 requests at 95 %: one may hang. The second that does is a sure miss 0.8 s after it was due."""
    play = step(*[GOOD] * 4, HANGS, *[GOOD] * 4, HANGS, *[GOOD] * 10, measure_s=20.0, warm_s=2.0)
    at, decision = first_decision(play)
    assert decision == Decision(kind="fail", reason=fact("out_of_reach", at_most_frac=0.9, target=0.95))
    assert at == pytest.approx(2.0 + 9.0 + 0.8 + REPORT_DELAY_S, abs=0.051)


def test_as_many_misses_as_are_allowed_do_not_fail() -> None:
    play = step(*[GOOD] * 4, HANGS, *[GOOD] * 15, measure_s=20.0)
    _, decision = first_decision(play)
    assert decision.kind in ("pass", "complete")


def test_errors_fail_even_when_enough_requests_are_good() -> None:
    play = step(*[GOOD] * 97, *[REFUSED] * 2, GOOD, measure_s=20.0)
    _, decision = first_decision(play)
    assert (decision.kind, decision.reason.code) == ("fail", "too_many_errors")
    figures = {"errors": 2, "planned": 100, "max_error_frac": 0.01, "endings": {"http": 2}, "said": None}
    assert figures.items() <= decision.reason.figures.items()
    one_error = step(*[GOOD] * 97, REFUSED, *[GOOD] * 2, measure_s=20.0)
    assert first_decision(one_error)[1].kind != "fail"


def test_passes_not_before_the_end_of_the_window() -> None:
    play = step(STUCK, *[QUICK] * 99, measure_s=10.0, warm_s=2.0)
    at, decision = first_decision(play)
    assert decision == Decision(kind="pass", reason=fact("within_reach", at_least_frac=0.99, planned=100, target=0.95))
    assert at == pytest.approx(12.0 + REPORT_DELAY_S, abs=0.051)


def test_a_pass_is_cut_short_only_where_that_is_asked_for() -> None:
    play = step(*[GOOD] * 99, STUCK, measure_s=10.0, warm_s=2.0)
    at, decision = first_decision(play, every=0.5, curtail_pass=False)
    assert decision == Decision(kind="drained", reason=still_open(1, 120.0, "window"))
    assert at == pytest.approx(12.0 + DRAIN_S, abs=0.5)


def test_a_pass_waits_while_too_many_of_what_ended_are_errors() -> None:
    """95 of 100 good, one error among 96 ended: over 1 %, so what is still open may matter."""
    play = step(*[GOOD] * 95, REFUSED, *[STUCK] * 4, measure_s=10.0)
    assert decide(play, 60.0) is None
    assert decide(play, 12.0 + DRAIN_S) == Decision(kind="drained", reason=still_open(4, 120.0, "window"))


def test_complete_once_every_request_is_decided_and_the_window_is_over() -> None:
    play = step(*[GOOD] * 20, measure_s=10.0, warm_s=2.0)
    at, decision = first_decision(play, curtail_pass=False)
    assert decision.kind == "complete"
    assert at == pytest.approx(2.0 + 9.5 + 1.0, abs=0.051)
    early = Play((warmup(2.0), measured(10.0), tail()), ((), (GOOD,), ()))
    assert first_decision(early, curtail_pass=False)[0] == pytest.approx(12.0 + REPORT_DELAY_S, abs=0.051)


def test_open_requests_that_surely_miss_are_not_waited_for() -> None:
    """One gets headers and silence, another drips a token every 10 s: both are decided by the limits."""
    drips = Request(first=0.1, last=1e4, output=21)
    slo = Slo(ttft_s=0.8, tpot_s=0.05, target=0.5)
    at, decision = first_decision(step(*[GOOD] * 8, HANGS, drips, measure_s=10.0, warm_s=2.0), slo, curtail_pass=False)
    assert decision.kind == "complete"
    assert at == pytest.approx(2.0 + 9.0 + 0.1 + 20 * 0.05 + 0.25 + REPORT_DELAY_S, abs=0.101)


def test_a_request_that_never_left_is_waited_for_until_the_drain_ends() -> None:
    play = step(*[GOOD] * 3, Request(late=None, first=None, last=None), measure_s=4.0, warm_s=0.0)
    slo = Slo(ttft_s=0.8, target=0.9)
    assert decide(play, 60.0, slo) is None
    assert decide(play, 4.0 + DRAIN_S, slo) == Decision(kind="drained", reason=still_open(1, 120.0, "window"))


def test_a_hopeless_warm_up_ends_the_step() -> None:
    play = step(GOOD, measure_s=40.0, warm=[HANGS] * 25 + [GOOD] * 17, warm_s=4.2)
    at, decision = first_decision(play)
    assert decision == Decision(kind="overload", reason=fact("overloaded_in_warmup", misses=22, planned=42))
    assert at == pytest.approx(2.1 + 0.8 + REPORT_DELAY_S, abs=0.051)


@pytest.mark.parametrize(("boosted", "plain", "kind"), [(60, 9, "complete"), (60, 20, "complete"), (0, 21, "overload")])
def test_only_the_half_of_a_warm_up_that_has_the_rate_itself_can_be_hopeless(boosted: int, plain: int, kind: str) -> None:
    play = Play((warmup(1.0, 1.5), warmup(1.0), measured(40.0), tail()), ((HANGS,) * boosted, (HANGS,) * plain, (GOOD,) * 20, ()))
    assert first_decision(play)[1].kind == kind


@pytest.mark.parametrize(("hanging", "fine"), [(20, 0), (20, 21), (25, 25)])
def test_up_to_twenty_or_half_of_the_warm_up_may_miss(hanging: int, fine: int) -> None:
    play = step(*[GOOD] * 20, measure_s=20.0, warm=[HANGS] * hanging + [GOOD] * fine, warm_s=4.0)
    assert first_decision(play)[1].kind == "complete"


def test_a_warm_up_that_fails_after_the_window_ends_nothing() -> None:
    """By then the window itself tells more."""
    slo = Slo(ttft_s=5.0, tpot_s=None)
    play = step(*[QUICK] * 19, STUCK, measure_s=2.0, warm=[HANGS] * 40, warm_s=1.0)
    assert decide(play, 8.0, slo, curtail_pass=False) is None


def test_an_empty_window_is_decided_at_once() -> None:
    assert decide(step(), 0.0) == Decision(kind="complete", reason=fact("nothing_to_judge"))


def ramp_decision(play: Play, at: float, slo: Slo = TTFT_ONLY) -> Decision | None:
    return decide_ramp(play.played(at, slo), START + at, rules(slo))


def test_a_ramp_fails_with_the_segment_that_cannot_reach_the_target() -> None:
    play = ramp([GOOD] * 12, [GOOD] * 12, [GOOD] * 6 + [HANGS] * 6, [HANGS] * 12, duration_s=6.0)
    assert ramp_decision(play, 16.5) is None
    why = fact("out_of_reach", at_most_frac=10 / 12, target=0.95)
    assert ramp_decision(play, 16.6) == Decision(kind="fail", reason=fact("rate_fails", why, rate_rps=4.0), segment=2)


def test_a_ramp_forgives_one_miss_in_each_segment() -> None:
    play = ramp([GOOD] * 11 + [HANGS], [SLOW] + [GOOD] * 11, duration_s=6.0)
    assert ramp_decision(play, 11.9) is None
    assert ramp_decision(play, 12.0 + 1.0) == Decision(kind="complete", reason=fact("no_rate_failed"))


def test_the_lowest_segment_that_failed_counts() -> None:
    slow_to_tell = replace(HANGS, late=0.0)
    play = ramp([slow_to_tell] * 12, [REFUSED] * 12, duration_s=1.0)
    decision = ramp_decision(play, 5.0)
    assert decision is not None
    assert decision.segment == 0


def test_a_segment_without_requests_fails_nothing() -> None:
    play = ramp([GOOD] * 12, [], [GOOD] * 12, duration_s=6.0)
    decision = ramp_decision(play, 30.0)
    assert decision is not None
    assert decision.kind == "complete"


def test_streams_that_hang_do_not_hold_a_ramp_for_ever() -> None:
    one_each = ramp([GOOD] * 11 + [STUCK], [GOOD] * 11 + [STUCK], duration_s=6.0)
    assert ramp_decision(one_each, 14.0) == Decision(kind="complete", reason=fact("no_rate_failed"))
    three = ramp([GOOD] * 12, [GOOD] * 9 + [STUCK] * 3, duration_s=6.0)
    assert ramp_decision(three, 60.0) is None
    why = still_open(3, 120.0, "ramp")
    assert ramp_decision(three, 12.0 + DRAIN_S) == Decision(kind="fail", reason=fact("rate_fails", why, rate_rps=2.0), segment=1)


def test_a_first_token_still_in_the_pipe_is_not_a_miss() -> None:
    """It came 0.79 s after it was due and is reported 0.2 s later, when the request would look over age."""
    play = step(Request(first=0.79, last=1.0), measure_s=1.0, warm_s=0.0)
    tally: Tally = play.tally(TTFT_ONLY)
    sent, *rest = play.events()
    apply(tally, [sent])
    assert decide_step(tally, START + 0.99, rules(TTFT_ONLY), DRAIN_S) is None
    apply(tally, rest)
    decision = decide_step(tally, START + 2.0, rules(TTFT_ONLY), DRAIN_S)
    assert decision is not None
    assert decision.kind == "complete"
