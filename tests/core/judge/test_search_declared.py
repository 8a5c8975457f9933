"""Rates that the user declares: a list, one that is held, one that is required; and the expected time in words."""

import math

import pytest

from core.config import Method, Slo
from core.facts import fact, says
from core.judge.search.actions import Hold
from core.judge.search.search import Search
from core.modes import HOLD_S
from core.results import RepeatVerdict
from core.units import long_duration
from tests.builders import told
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
    assert search.expected() == fact("until_stopped")
    assert isinstance(search.next(HOLD_S / 2), Hold)
    assert search.answer_so_far("held", "stopped").outcome == "held"


def test_a_held_rate_ends_after_a_day() -> None:
    answer = answer_of(started(config(method=Method(hold_rps=6.0))), HOLD_S)
    assert (answer.outcome, answer.message) == ("held", fact("held_a_day"))


# --- the expected time ---


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(40.0, "40 s"), (62.0, "1 min"), (151.0, "2 min 30 s"), (597.0, "10 min"), (3600.0, "1 h"), (3900.0, "1 h 5 min")],
)
def test_a_time_to_wait_for(seconds: float, text: str) -> None:
    assert long_duration(seconds) == text


def test_the_expected_time_of_a_mode_that_fits_needs_no_reason() -> None:
    search = started(config())
    figures = {"total_s": search.expected_s(), "budget_s": 180.0, "mode": "quick", "careful": False, "rates": 0}
    assert search.expected() == fact("time_expected", **figures)


def test_what_makes_it_longer_than_the_mode_is_said() -> None:
    slow = started(config(start_rps=0.02, slo=Slo(tpot_s=None, e2e_s=100.0)))
    assert told(slow.expected(), "window_for_requests").figures == {
        "requests": pytest.approx(100.0),
        "target": 0.95,
        "rate_rps": pytest.approx(0.32),
        "measure_s": pytest.approx(312.5),
        "asked_s": 40.0,
    }
    long = started(config(slo=Slo(tpot_s=None, e2e_s=100.0)), idle_s=20.0)
    assert says(long.expected(), "window_for_requests", "window_for_durations")


def test_the_expected_time_of_a_list_is_no_modes() -> None:
    two = started(config(method=Method(rates_rps=(6.0, 8.0)))).expected()
    assert (two.figures["rates"], two.figures["budget_s"], two.of) == (2, None, ())
    slow = started(config(method=Method(rates_rps=(0.2,)))).expected()
    assert (slow.figures["rates"], slow.figures["budget_s"]) == (1, None)
    assert told(slow, "window_for_requests").figures["measure_s"] == pytest.approx(500.0)


def test_a_time_too_short_for_the_requests_is_announced() -> None:
    slo = Slo(tpot_s=None, target=0.99)
    expected = started(config(slo=slo, method=Method(rates_rps=(0.5,), budget_s=300.0))).expected()
    few = told(expected, "window_too_few").figures
    assert few == {"requests": pytest.approx(145.0, abs=1.0), "needed": pytest.approx(500.0), "target": 0.99}


def test_a_long_warm_up_is_announced_with_its_reason() -> None:
    expected = started(config(method=Method(mode="standard", rates_rps=(6.0,))), idle_s=12.0).expected()
    assert told(expected, "warmup_long").figures == {"warmup_s": pytest.approx(70.0, abs=5.0)}


def test_before_the_singles_nothing_is_known() -> None:
    search = Search(config())
    assert search.expected_s() is None
    assert search.expected() == fact("time_unknown")
