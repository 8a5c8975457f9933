"""What standard and acceptance do after the search: fail clearly, confirm, narrow, and which evidence each end then has."""

import math
from collections.abc import Callable
from itertools import pairwise

import pytest

from core.config import Method, Mode
from core.facts import fact, says
from core.judge.search import candidates
from core.judge.search.actions import Step
from core.judge.search.bracket import Bracket
from core.judge.search.search import Search
from core.results import FailCount, RepeatVerdict
from tests.builders import told
from tests.core.judge.feed import answer_of, config, judged, ramp_of, repeats_of, started, step_of, step_result
from tests.core.judge.judging import TIME_UP

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


def until(search: Search, phase: str, holds: Callable[[float], bool] = lambda rate_rps: rate_rps <= 12.5) -> list[Step]:
    """Drive on until a step of that phase is asked for; the steps before it."""
    before: list[Step] = []
    while (step := step_of(search)).phase != phase:
        before.append(step)
        search.observe_step(judged(step, *repeats_of(step, holds)), 2.0)
    return before


# --- which step comes next ---


@pytest.mark.parametrize(("mode", "repeats", "measure_s"), [("standard", 3, 90.0), ("acceptance", 10, 60.0)])
def test_the_clear_fail_comes_first_and_then_all_repeats_of_the_mode(mode: Mode, repeats: int, measure_s: float) -> None:
    search = found(mode)
    first = until(search, "confirm")
    assert first
    assert {(step.phase, step.repeats, step.stop, step.curtail_pass) for step in first} == {("tighten", 3, "majority", False)}
    assert all(step.rate_rps > MIDDLE for step in first)
    step = step_of(search)
    assert (step.repeats, step.segments[2].duration_s) == (repeats, measure_s)
    assert (step.stop, step.curtail_pass) == ("first_fail", False)


def test_a_far_clear_fail_is_brought_down_until_it_is_near_the_candidate() -> None:
    search = found()
    first = until(search, "confirm")
    rates_rps = [step.rate_rps for step in first]
    assert rates_rps == sorted(rates_rps, reverse=True)
    assert rates_rps[-1] <= candidates.NEAR * step_of(search).rate_rps
    assert rates_rps[0] > candidates.NEAR * MIDDLE


def test_a_pass_of_the_search_is_no_answer() -> None:
    knee = found().answer_so_far("interrupted", "stopped by q").knee
    assert (knee.pass_rps, knee.first_fail_rps, knee.clear_fail_rps, knee.clear_fail) == (None, 16.0, None, None)


def test_it_goes_down_by_the_grid_at_least_while_a_repeat_fails() -> None:
    search = found()
    until(search, "confirm")
    rates_rps: list[float] = []
    while len(rates_rps) < 3:
        step = step_of(search)
        if step.phase == "confirm":
            rates_rps.append(step.rate_rps)
        search.observe_step(judged(step, F, F) if step.phase == "tighten" else judged(step, P, F), 2.0)
    assert all(low <= high / 1.1 * (1 + 1e-9) for high, low in pairwise(rates_rps))
    knee = search.answer_so_far("interrupted", "").knee
    assert (knee.pass_rps, knee.first_fail_rps, knee.first_fail) == (None, rates_rps[-1], FailCount(failed=1, run=2))


def test_all_repeats_of_a_confirmed_rate_stand_behind_it() -> None:
    search = found()
    until(search, "confirm")
    rate_rps = fed(search, P, P, P)
    knee = search.answer_so_far("interrupted", "").knee
    assert (knee.pass_rps, knee.pass_repeats) == (rate_rps, 3)


def test_repeats_and_measure_are_those_of_the_confirmation() -> None:
    search = started(config(method=Method(mode="standard", repeats=5, measure_s=20.0)))
    ramp_of(search)
    search.observe_ramp(8.0, 16.0)
    step = step_of(search)
    assert (step.repeats, step.segments[2].duration_s) == (1, 20.0)
    fed(search, P)
    until(search, "confirm")
    step = step_of(search)
    assert (step.repeats, step.segments[2].duration_s) == (5, 20.0)


def test_the_highest_rate_is_confirmed_too() -> None:
    search = started(config(method=Method(mode="standard"), max_rps=40.0))
    ramp_of(search)
    search.observe_ramp(40.0, None)
    assert [fed(search, P), fed(search, P, P, P)] == [40.0, 40.0]
    answer = answer_of(search)
    assert (answer.outcome, answer.knee.pass_rps, answer.knee.clear_fail_rps) == ("at_least", 40.0, None)
    assert answer.knee.estimate is None


# --- the clear fail ---


def test_one_failing_repeat_is_no_clear_fail() -> None:
    search = found()
    step = step_of(search)
    assert step.phase == "tighten"
    search.observe_step(judged(step, F), 2.0)
    assert search.answer_so_far("interrupted", "").knee.clear_fail_rps is None


@pytest.mark.parametrize("verdicts", [(F, F), (F, P, F), (P, F, F)])
def test_two_of_three_repeats_are(verdicts: tuple[RepeatVerdict, ...]) -> None:
    search = found()
    rate_rps = fed(search, *verdicts)
    knee = search.answer_so_far("interrupted", "").knee
    assert (knee.clear_fail_rps, knee.clear_fail) == (rate_rps, FailCount(failed=2, run=len(verdicts)))


def test_where_most_pass_the_clear_fail_is_looked_for_above() -> None:
    search = found()
    rate_rps = fed(search, P, F, P)
    knee = search.answer_so_far("interrupted", "").knee
    assert (knee.pass_rps, knee.clear_fail_rps) == (None, None), "two of three are neither a pass nor a clear fail"
    above = [step.rate_rps for step in until(search, "confirm", lambda rate: rate <= rate_rps) if step.phase == "tighten"]
    assert all(rate > rate_rps for rate in above)


def test_no_rate_above_the_highest_of_the_ramp_is_tried() -> None:
    search = started(config(method=Method(mode="standard"), max_rps=16.0))
    ramp_of(search)
    search.observe_ramp(8.0, 16.0)
    fed(search, P)
    assert all(step.rate_rps <= 16.0 for step in until(search, "confirm", lambda rate: rate < 15))


# --- the answer ---


@pytest.mark.parametrize("mode", ["standard", "acceptance"])
@pytest.mark.parametrize("knee_rps", [9.0, 11.0, 13.0])
def test_the_bracket_is_as_narrow_as_the_mode_or_says_why_not(mode: Mode, knee_rps: float) -> None:
    search = found(mode)
    course = [0.0]
    while True:
        action = search.next(course[0])
        if not isinstance(action, Step):
            break
        verdicts = repeats_of(action, lambda rate_rps: rate_rps <= knee_rps)
        course[0] += sum(80.0 if verdict == P else 40.0 for verdict in verdicts)
        search.observe_step(judged(action, *verdicts), 2.0)
    knee = answer_of(search, course[0]).knee
    assert knee.pass_rps is not None
    assert knee.upper_rps is not None
    assert knee.pass_rps <= knee_rps < knee.upper_rps
    width = {"standard": 1.25, "acceptance": 1.15}[mode]
    narrow = knee.upper_rps <= width * knee.pass_rps * (1 + 1e-9)
    said = [note for note in knee.notes if says(note, "nothing_between", *TIME_UP)]
    assert narrow != bool(said)
    assert knee.estimate is not None
    assert knee.estimate.low_rps <= knee_rps <= knee.estimate.high_rps


def test_without_a_clear_fail_the_answer_says_so() -> None:
    search = found(budget_s=310.0)
    fed(search, P, P, P)
    answer = answer_of(search, 300.0)
    assert (answer.knee.first_fail_rps, answer.knee.clear_fail_rps, answer.knee.clear_fail) == (16.0, None, None)
    assert answer.knee.notes[-1] == fact("time_up_no_clear_fail")
    assert (answer.knee.upper_rps, answer.knee.open_above) == (None, True), "one short segment of the ramp is too little"
    assert told(answer.message, "bracket").figures["fail_rps"] is None


# --- time ---


def test_the_clear_fail_is_looked_for_only_if_the_confirmation_fits_too() -> None:
    search = found()
    # W 4 to 5 + M 90 + 2.2 * 2 = 99.2 s; two of them, and 1.5 times three for the confirmation: 645 s
    assert step_of(search, 250.0).phase == "tighten"
    assert step_of(search, 265.0).phase == "confirm"


def test_the_first_candidate_is_judged_whatever_the_time() -> None:
    assert step_of(found(), 5000.0).phase == "confirm"


def test_no_rate_confirmed_in_time_is_no_passing_rate() -> None:
    search = found()
    step = step_of(search, 900.0)
    assert step.phase == "confirm"
    search.observe_step(judged(step, F), 2.0)
    assert step_of(search, 1015.0).phase == "confirm", "1.3 times the budget, less half of what a candidate takes"
    answer = answer_of(search, 1030.0)
    assert (answer.outcome, answer.knee.pass_rps) == ("below", None)
    short_rps = pytest.approx(math.sqrt(128.0))
    assert told(answer.message, "below").figures == {"fail_rps": step.rate_rps, "short_rps": short_rps, "all_tried": True}
    assert answer.knee.notes[-1] == fact("time_up_not_confirmed", repeats=3)


def test_long_warm_ups_and_windows_extend_the_time_of_a_mode_as_far_as_it_was_announced() -> None:
    def after(budget_s: float | None) -> Search:
        search = started(config(method=Method(mode="standard", budget_s=budget_s)), idle_s=12.0)  # E 18 s: W 72 s, M 90 s
        ramp_of(search)
        search.observe_ramp(8.0, 16.0)
        for verdicts in ((P,), (P, P, P)):
            search.observe_step(judged(step_of(search), *verdicts), 20.0)
        return search

    assert step_of(after(None), 1000.0).phase in ("confirm", "tighten")
    assert answer_of(after(900.0), 1000.0).outcome == "bracket"


def test_the_time_left_shrinks_and_stays_within_the_budget() -> None:
    search = found()
    step_of(search, 60.0)
    before = search.left_s(60.0)
    assert before is not None
    assert search.left_s(100.0) == pytest.approx(before - 40.0)
    until(search, "confirm")
    step_of(search, 500.0)
    left_s = search.left_s(500.0)
    assert left_s is not None
    assert 3 * 90 < left_s <= 400.0 + 3 * 98.4


# --- the sentences ---


def test_acceptance_says_where_its_rule_flips() -> None:
    search = found("acceptance")
    until(search, "confirm")
    fed(search, *[P] * 10)
    notes = search.answer_so_far("interrupted", "").knee.notes
    assert fact("flips_early", repeats=10) in notes
    search = found()
    until(search, "confirm")
    fed(search, P, P, P)
    assert not any(says(note, "flips_early") for note in search.answer_so_far("interrupted", "").knee.notes)


def test_a_bracket_is_rebuilt_from_the_steps_of_a_run() -> None:
    method = Method(mode="standard", require_rps=8.0)
    steps = [
        step_result(16.0, "fail", phase="ramp"),
        step_result(8.0, "pass", P, P, P, phase="list"),
        step_result(11.0, "pass", P, phase="search"),
        step_result(11.0, "void", "void", phase="confirm"),
    ]
    knee = Bracket.of(method, steps).knee()
    assert (knee.pass_rps, knee.pass_repeats, knee.first_fail_rps, knee.clear_fail_rps) == (8.0, 3, 16.0, None)
    assert Bracket.of(Method(), steps).knee().pass_rps == 11.0
