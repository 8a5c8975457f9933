"""What standard and acceptance do after the search: confirm, tighten, and which evidence each end then has."""

import math

import pytest

from core.config import Method, Mode, Slo
from core.judge import tighten
from core.judge.bracket import FROM_RAMP, ONE_FAILING_STEP, Bracket
from core.judge.confirm import next_rate
from core.judge.search import Search
from core.results import FailCount, RepeatVerdict
from tests.core.judge.feed import answer_of, config, judged, ramp_of, started, step_of, step_result

P: RepeatVerdict = "pass"
F: RepeatVerdict = "fail"
MIDDLE = math.sqrt(8.0 * 16.0)


def found(mode: Mode = "standard", *, budget_s: float | None = None, repeats: int | None = None) -> Search:
    """A search whose ramp held 8 and failed 16, and whose one full step passed between them."""
    search = started(config(method=Method(mode=mode, budget_s=budget_s, repeats=repeats)))
    ramp_of(search)
    search.observe_ramp(8.0, 16.0)
    step = step_of(search)
    assert (step.phase, step.repeats, step.segments[2].duration_s, step.curtail_pass) == ("search", 1, 30.0, True)
    search.observe_step(judged(step, P), 2.0)
    return search


def fed(search: Search, *verdicts: RepeatVerdict, elapsed_s: float = 0.0) -> float:
    """Judge what is asked for; the rate it was."""
    step = step_of(search, elapsed_s)
    search.observe_step(judged(step, *verdicts), 2.0)
    return step.rate_rps


# --- the grid, by itself ---


@pytest.mark.parametrize(
    ("passed_rps", "failed_rps", "ceiling_rps", "expected_rps"),
    [
        (None, None, 14.0, 10.0),  # first the rate that was found
        (10.0, None, 14.0, 11.0),  # up while it passes
        (12.1, None, 13.3, None),  # the neighbour above has failed before
        (12.1, 13.31, 14.0, None),  # the neighbour above has failed now
        (None, 10.0, 14.0, 10 / 1.1),  # down while it fails
        (10 / 1.1, 10.0, 14.0, None),
        (8.0, None, 14.0, 10.0),  # a required rate that passed far below ends nothing
        (9.5, 10.0, 14.0, None),  # but nothing under it is judged
        (10.0, None, None, None),  # nothing above was tried
    ],
)
def test_candidates(
    passed_rps: float | None, failed_rps: float | None, ceiling_rps: float | None, expected_rps: float | None
) -> None:
    assert next_rate(10.0, 1.1, passed_rps, failed_rps, ceiling_rps) == pytest.approx(expected_rps)


@pytest.mark.parametrize(
    ("floor_rps", "clear_rps", "expected_rps"),
    [
        (11.0, 16.0, math.sqrt(176.0)),
        (11.0, 12.4, None),  # within 1.25 of the passing rate
        (13.0, 13.5, None),  # closer than repeats can tell
    ],
)
def test_rates_of_the_tightening(floor_rps: float, clear_rps: float, expected_rps: float | None) -> None:
    assert tighten.next_rate(10.0, floor_rps, clear_rps, 1.25) == pytest.approx(expected_rps)


# --- confirm ---


@pytest.mark.parametrize(("mode", "repeats", "measure_s"), [("standard", 3, 90.0), ("acceptance", 10, 60.0)])
def test_what_the_search_found_is_judged_by_all_repeats(mode: Mode, repeats: int, measure_s: float) -> None:
    step = step_of(found(mode))
    assert (step.phase, step.rate_rps, step.repeats) == ("confirm", MIDDLE, repeats)
    assert step.segments[2].duration_s == measure_s
    assert (step.stop, step.curtail_pass) == ("first_fail", False)


def test_a_pass_of_the_search_is_no_answer() -> None:
    knee = found().answer_so_far("interrupted", "stopped by q").knee
    assert (knee.pass_rps, knee.first_fail_rps) == (None, 16.0)


def test_it_goes_up_while_all_repeats_pass() -> None:
    search = found()
    rates_rps = [fed(search, P, P, P), fed(search, P, P, P), fed(search, P, P, F)]
    assert rates_rps == pytest.approx([MIDDLE, 1.1 * MIDDLE, 1.21 * MIDDLE])
    assert step_of(search).phase == "tighten"


def test_it_goes_down_while_a_repeat_fails() -> None:
    search = found()
    rates_rps = [fed(search, P, F), fed(search, F), fed(search, P, P, P)]
    assert rates_rps == pytest.approx([MIDDLE, MIDDLE / 1.1, MIDDLE / 1.21])
    knee = search.answer_so_far("interrupted", "").knee
    assert (knee.pass_rps, knee.pass_repeats) == (rates_rps[2], 3)
    assert (knee.first_fail_rps, knee.first_fail) == (rates_rps[1], FailCount(failed=1, run=1))


def test_the_repeats_of_the_search_are_none_of_the_confirmation() -> None:
    search = found()
    fed(search, P, P, P)
    knee = search.answer_so_far("interrupted", "").knee
    assert (knee.pass_rps, knee.pass_repeats) == (MIDDLE, 3)


def test_repeats_and_measure_are_those_of_the_confirmation() -> None:
    search = started(config(method=Method(mode="standard", repeats=5, measure_s=20.0)))
    ramp_of(search)
    search.observe_ramp(8.0, 16.0)
    step = step_of(search)
    assert (step.repeats, step.segments[2].duration_s) == (1, 20.0)
    fed(search, P)
    step = step_of(search)
    assert (step.repeats, step.segments[2].duration_s) == (5, 20.0)


def test_the_highest_rate_is_confirmed_too() -> None:
    search = started(config(method=Method(mode="standard"), max_rps=40.0))
    ramp_of(search)
    search.observe_ramp(40.0, None)
    assert [fed(search, P), fed(search, P, P, P)] == [40.0, 40.0]
    answer = answer_of(search)
    assert (answer.outcome, answer.knee.pass_rps, answer.knee.clear_fail_rps) == ("at_least", 40.0, None)


# --- tighten ---


def tightened(*verdicts: tuple[RepeatVerdict, ...]) -> tuple[Search, list[float]]:
    """The confirmation passed MIDDLE and failed 1.1 times that; 16 failed in the ramp."""
    search = found()
    fed(search, P, P, P)
    fed(search, F)
    return search, [fed(search, *each) for each in verdicts]


def test_most_of_three_repeats_decide_where_it_clearly_fails() -> None:
    search, _ = tightened()
    step = step_of(search)
    assert (step.phase, step.repeats) == ("tighten", 3)
    assert step.rate_rps == pytest.approx(math.sqrt(1.1 * MIDDLE * 16))
    assert (step.stop, step.curtail_pass) == ("majority", False)
    search, rates_rps = tightened((F, P, F))
    answer = answer_of(search)
    assert answer.outcome == "bracket"
    assert (answer.knee.pass_rps, answer.knee.first_fail_rps) == pytest.approx((MIDDLE, 1.1 * MIDDLE))
    assert (answer.knee.clear_fail_rps, answer.knee.clear_fail) == (rates_rps[0], FailCount(failed=2, run=3))
    assert answer.message == "holds at 11.3 requests/s, mixed from 12.4, clearly fails at 14.1 requests/s"
    assert answer.knee.notes == ()


def test_where_most_pass_the_clear_fail_is_looked_for_above() -> None:
    search, rates_rps = tightened((P, P), (F, F))
    assert rates_rps[1] == pytest.approx(math.sqrt(rates_rps[0] * 16))
    knee = answer_of(search, 890.0).knee
    assert knee.clear_fail_rps == rates_rps[1]
    assert (knee.pass_rps, knee.first_fail_rps) == pytest.approx((MIDDLE, 1.1 * MIDDLE)), "two of three are no pass"
    assert not any("not monotone" in note for note in knee.notes)


def test_without_time_the_upper_end_is_what_the_search_left() -> None:
    search, _ = tightened()
    answer = answer_of(search, 890.0)
    assert (answer.knee.clear_fail_rps, answer.knee.clear_fail) == (16.0, FailCount(failed=1, run=1))
    assert FROM_RAMP in answer.knee.notes
    assert answer.knee.notes[-1] == "the time was used up: the ends are a factor 1.41 apart, not 1.25"
    assert answer.message == "holds at 11.3 requests/s, mixed from 12.4, fails at 16.0 requests/s"


def test_one_failing_step_of_the_search_is_said_to_be_the_upper_end() -> None:
    search = started(config(method=Method(mode="standard")))
    ramp_of(search)
    search.observe_ramp(8.0, 16.0)
    middle_rps = fed(search, F)
    assert fed(search, P) == 8.0
    fed(search, P, P, P)
    fed(search, F)
    answer = answer_of(search, 890.0)
    assert (answer.knee.clear_fail_rps, answer.knee.clear_fail) == (middle_rps, FailCount(failed=1, run=1))
    assert ONE_FAILING_STEP in answer.knee.notes


# --- time ---


def test_a_candidate_is_begun_only_if_all_its_repeats_fit() -> None:
    search = found()
    fed(search, P, P, P)
    # W 4 + M 90 + 2.2 * 2 = 98.4 s, three times: 295.2 s
    assert step_of(search, 604.0).phase == "confirm"
    answer = answer_of(search, 606.0)
    assert answer.outcome == "bracket"
    assert "the time was used up before 12.4 requests/s was judged" in answer.knee.notes


def test_the_first_candidate_is_judged_whatever_the_time() -> None:
    assert step_of(found(), 5000.0).phase == "confirm"


def test_no_rate_confirmed_in_time_is_no_passing_rate() -> None:
    search = found()
    fed(search, F)
    assert step_of(search, 1022.0).phase == "confirm", "1.3 times the budget, less half of what a candidate takes"
    answer = answer_of(search, 1023.0)
    assert (answer.outcome, answer.knee.pass_rps) == ("below", None)
    assert answer.message == (
        "fails at 11.3 requests/s, the lowest rate judged by all repeats; 11.3 requests/s passed one short step, no more"
    )
    assert answer.knee.notes[-1] == "the time was used up before a rate passed all 3 repeats"


def test_a_budget_that_was_set_is_not_extended() -> None:
    strict = Slo(tpot_s=None, target=0.99)  # 500 requests: 44 s at 11.3/s

    def after(method: Method) -> Search:
        search = started(config(method=method, slo=strict))
        ramp_of(search)
        search.observe_ramp(1.0, 2.0)
        fed(search, F)
        fed(search, P)
        fed(search, P, P, P)
        return search

    assert step_of(after(Method(mode="standard")), 1500.0).phase == "confirm"
    assert answer_of(after(Method(mode="standard", budget_s=900.0)), 1500.0).outcome == "bracket"


def test_the_time_left_holds_the_confirmation_and_stays_within_the_budget() -> None:
    search = found()
    step_of(search, 60.0)
    confirm_s = 3 * 98.4
    assert search.left_s(60.0) == pytest.approx(2 * confirm_s)
    assert search.left_s(160.0) == pytest.approx(2 * confirm_s - 100)
    search.observe_step(judged(step_of(search, 60.0), P, P, P), 2.0)
    search.observe_step(step_result(1.1 * MIDDLE, "fail", phase="confirm"), None)
    left_s = search.left_s(800.0)
    assert left_s is not None
    assert left_s <= 2.5 * 98.4


# --- the sentences ---


def test_acceptance_says_where_its_rule_flips() -> None:
    search = found("acceptance")
    fed(search, *[P] * 10)
    notes = search.answer_so_far("interrupted", "").knee.notes
    assert any("min over 10 repeats flips 4 to 11 % below the long-run knee" in note for note in notes)
    assert not any("flips" in note for note in tightened((F, F))[0].answer_so_far("interrupted", "").knee.notes)


def test_a_bracket_is_rebuilt_from_the_steps_of_a_run() -> None:
    method = Method(mode="standard", require_rps=8.0)
    steps = [
        step_result(16.0, "fail", phase="ramp"),
        step_result(8.0, "pass", P, P, P, phase="list"),
        step_result(11.0, "pass", P, phase="search"),
        step_result(11.0, "void", "void", phase="confirm"),
    ]
    knee = Bracket.of(method, steps).knee()
    assert (knee.pass_rps, knee.pass_repeats, knee.first_fail_rps, knee.clear_fail_rps) == (8.0, 3, 16.0, 16.0)
    assert "required 8.00 requests/s: met" in knee.notes
    assert Bracket.of(Method(), steps).knee().pass_rps == 11.0
