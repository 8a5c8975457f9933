"""Rates that the user declares: a list, one that is held, one that is required; and the expected time in words."""

import math

import pytest

from core.config import Method, Slo
from core.facts import fact
from core.judge.search.actions import Hold
from core.judge.search.search import Search
from core.modes import HOLD_S
from core.results import RepeatVerdict
from core.units import long_duration
from tests.core.judge.feed import answer_of, config, judged, ramp_of, single, started, step_of

P: RepeatVerdict = "pass"
F: RepeatVerdict = "fail"


def listed(*rates_rps: float, **method: object) -> Search:
    return started(config(method=Method(rates_rps=rates_rps, **method)))  # type: ignore[arg-type]


def fed(search: Search, *verdicts: RepeatVerdict, e2e_s: float = 2.0) -> float:
    step = step_of(search)
    search.observe_step(judged(step, *verdicts), e2e_s)
    return step.rate_rps


# --- a list ---


def test_a_list_is_judged_in_its_order_without_a_ramp() -> None:
    search = listed(4.0, 8.0, 6.0, repeats=3)
    step = step_of(search)
    assert (step.phase, step.repeats, step.stop, step.curtail_pass) == ("list", 3, "first_fail", False)
    assert [fed(search, P, P, P), fed(search, P, F), fed(search, P, P, P)] == [4.0, 8.0, 6.0]
    answer = answer_of(search)
    assert (answer.outcome, answer.knee.pass_rps, answer.knee.first_fail_rps) == ("bracket", 6.0, 8.0)
    assert answer.knee.pass_repeats == 3


@pytest.mark.parametrize(("verdict", "outcome"), [(P, "at_least"), (F, "below")])
def test_a_list_that_all_passes_or_all_fails(verdict: RepeatVerdict, outcome: str) -> None:
    search = listed(4.0, 6.0)
    fed(search, verdict)
    fed(search, verdict)
    assert answer_of(search).outcome == outcome


def test_a_list_is_judged_by_the_repeats_of_its_mode() -> None:
    step = step_of(listed(4.0, mode="acceptance"))
    assert (step.repeats, step.segments[2].duration_s) == (10, 60.0)


def test_one_rate_over_a_long_window() -> None:
    search = listed(11.3, measure_s=1800.0)
    assert step_of(search).segments[2].duration_s == 1800.0
    # W 6 + M 1800 + 2.2 * 1.5
    assert search.expected_s() == pytest.approx(1809.3)
    assert search.left_s(300.0) == pytest.approx(1509.3)


def test_a_pass_above_a_fail_is_said_and_does_not_count() -> None:
    search = listed(4.0, 6.0, 8.0, mode="standard")
    fed(search, P, P, P)
    fed(search, F)
    fed(search, P, P, P)
    answer = answer_of(search)
    assert (answer.outcome, answer.knee.pass_rps, answer.knee.first_fail_rps) == ("bracket", 4.0, 6.0)
    assert fact("not_monotone", pass_rps=8.0) in answer.knee.notes


def test_a_void_rate_of_a_list_is_asked_for_again() -> None:
    search = listed(4.0, 6.0)
    search.observe_step(judged(step_of(search), "void"), None)
    assert step_of(search).rate_rps == 4.0


def test_the_time_left_of_a_list_is_its_rates() -> None:
    search = listed(8.0, 16.0, repeats=2)
    one_s = 6 + 40 + 2.2 * 1.5
    assert search.expected_s() == pytest.approx(4 * one_s)
    step_of(search, 0.0)
    assert search.left_s(10.0) == pytest.approx(4 * one_s - 10)
    fed(search, P, P, e2e_s=1.5)
    assert search.left_s(2 * one_s) == pytest.approx(2 * one_s), "twice the rate may need twice the warm-up"


# --- a required rate ---


def test_a_required_rate_is_judged_right_after_the_ramp() -> None:
    search = started(config(method=Method(mode="standard", require_rps=9.0)))
    ramp_of(search)
    search.observe_ramp(8.0, 16.0)
    step = step_of(search)
    assert (step.phase, step.rate_rps, step.repeats, step.segments[2].duration_s) == ("list", 9.0, 3, 90.0)
    assert search.answer_so_far("interrupted", "").knee.notes == (fact("from_ramp"),), "not judged yet"
    fed(search, P, P, P)
    assert search.require_met is True
    assert step_of(search).rate_rps == pytest.approx(math.sqrt(9.0 * 16.0)), "its pass is a lower end of the search"
    knee = search.answer_so_far("interrupted", "").knee
    assert (knee.pass_rps, knee.pass_repeats) == (9.0, 3)


def test_a_required_rate_that_fails_is_an_upper_end() -> None:
    search = started(config(method=Method(require_rps=9.0)))
    ramp_of(search)
    search.observe_ramp(8.0, 16.0)
    fed(search, F)
    assert search.require_met is False
    assert step_of(search).rate_rps == 8.0
    fed(search, P)
    answer = answer_of(search)
    assert (answer.knee.pass_rps, answer.knee.first_fail_rps) == (8.0, 9.0)


def test_a_required_rate_joins_a_list() -> None:
    search = listed(4.0, 6.0, require_rps=5.0)
    assert [fed(search, P), fed(search, P), fed(search, P)] == [4.0, 6.0, 5.0]
    assert search.require_met is True
    again = listed(4.0, 6.0, require_rps=6.0)
    assert [fed(again, P), fed(again, F)] == [4.0, 6.0]
    assert again.require_met is False
    answer_of(again)


def test_without_a_required_rate_nothing_is_met_or_missed() -> None:
    assert started().require_met is None


def test_a_server_that_misses_alone_meets_no_rate() -> None:
    search = Search(config(method=Method(require_rps=1.0)))
    search.observe_singles([single(30.0)] * 3)
    assert search.require_met is False


# --- a held rate ---


def test_a_held_rate_is_kept_until_it_is_stopped() -> None:
    search = started(config(method=Method(hold_rps=6.0)))
    action = search.next(0.0)
    assert isinstance(action, Hold)
    assert action.segments[1:3] == (action.segments[1], action.segments[2])
    assert {(s.rate_rps, s.duration_s) for s in action.segments[2:]} == {(6.0, 40.0)}
    assert search.left_s(100.0) is None
    assert search.expected_s() is None
    assert search.expected_text() == "Expected time: until it is stopped."
    assert isinstance(search.next(HOLD_S / 2), Hold)
    assert search.answer_so_far("held", "stopped").outcome == "held"


def test_a_held_rate_ends_after_a_day() -> None:
    assert answer_of(started(config(method=Method(hold_rps=6.0))), HOLD_S).outcome == "held"


# --- the expected time ---


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(40.0, "40 s"), (62.0, "1 min"), (151.0, "2 min 30 s"), (597.0, "10 min"), (3600.0, "1 h"), (3900.0, "1 h 5 min")],
)
def test_a_time_to_wait_for(seconds: float, text: str) -> None:
    assert long_duration(seconds) == text


def test_the_expected_time_of_a_mode_that_fits_is_one_sentence() -> None:
    assert started(config()).expected_text() == "Expected time: about 2 min 20 s in quick mode."


def test_what_makes_it_longer_than_the_mode_is_said() -> None:
    slow = started(config(start_rps=0.02, slo=Slo(tpot_s=None, e2e_s=100.0)))
    assert slow.expected_text().endswith(
        "That is longer than the 3 min set for it: each repeat measures 5 min 10 s instead of 40 s, "
        "because 100 requests are needed at a target of 95 %, at 0.32 a second."
    )
    long = started(config(slo=Slo(tpot_s=None, e2e_s=100.0)), idle_s=20.0)
    assert "100 requests are needed" in long.expected_text() or "five mean request durations of 20 s" in long.expected_text()


def test_the_expected_time_of_a_list_is_no_modes() -> None:
    assert (
        started(config(method=Method(rates_rps=(6.0, 8.0)))).expected_text()
        == "Expected time: about 1 min 40 s for a list of rates."
    )
    slow = started(config(method=Method(rates_rps=(0.2,)))).expected_text()
    assert slow.startswith(
        "Expected time: about 8 min 30 s for one rate. Each repeat measures 8 min 20 s instead of 40 s, because 100"
    )
    assert "set for it" not in slow


def test_a_time_too_short_for_the_requests_is_announced() -> None:
    slo = Slo(tpot_s=None, target=0.99)
    text = started(config(slo=slo, method=Method(rates_rps=(0.5,), budget_s=300.0))).expected_text()
    assert "the time that was set holds about 145 requests a repeat, where a target of 99 % asks for 500" in text.lower()


def test_a_long_warm_up_is_announced_with_its_reason() -> None:
    text = started(config(method=Method(mode="standard", rates_rps=(6.0,))), idle_s=12.0).expected_text()
    assert "each repeat warms up for 1 min 10 s, because a server with long answers takes that long to settle" in text.lower()


def test_before_the_singles_nothing_is_known() -> None:
    search = Search(config())
    assert search.expected_s() is None
    assert search.expected_text() == "Expected time: not known."
