"""What standard and acceptance do after the search: read whole windows, confirm, narrow, and which evidence each end has."""

import math
from collections.abc import Callable

import pytest

from core.config import Method, Mode
from core.facts import fact, says
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


def confirmed(search: Search, e2e_s: float = 2.0) -> float:
    """Let a candidate pass; the rate it was."""
    step = step_of(search)
    assert step.phase == "confirm"
    search.observe_step(judged(step, *[P] * step.repeats), e2e_s)
    return step.rate_rps


def until(search: Search, phase: str, holds: Callable[[float], bool] = lambda rate_rps: rate_rps <= 12.5) -> list[Step]:
    """Drive on until a step of that phase is asked for; the steps before it."""
    before: list[Step] = []
    while (step := step_of(search)).phase != phase:
        before.append(step)
        search.observe_step(judged(step, *repeats_of(step, holds)), 2.0)
    return before


# --- which step comes next ---


@pytest.mark.parametrize(("mode", "repeats", "measure_s"), [("standard", 2, 60.0), ("acceptance", 10, 60.0)])
def test_one_whole_window_tells_where_to_judge_by_all_repeats_of_the_mode(mode: Mode, repeats: int, measure_s: float) -> None:
    search = found(mode)
    (first,) = until(search, "confirm")
    assert (first.phase, first.repeats, first.reads_whole, first.curtail_pass) == ("tighten", 1, True, False)
    assert 8.0 < first.rate_rps < 16.0
    step = step_of(search)
    assert step.repeats in (repeats, repeats - 1), "the first window counts where the rest is run at its rate"
    assert step.segments[2].duration_s == measure_s
    assert (step.stop, step.reads_whole, step.curtail_pass) == ("first_fail", True, False)


def test_windows_at_one_rate_count_together_whatever_they_were_run_for() -> None:
    steps = [
        step_result(16.0, "fail", phase="ramp"),
        step_result(11.0, "pass", P, phase="search"),
        step_result(10.0, "pass", P, phase="tighten"),
        step_result(10.0, "pass", P, phase="confirm"),
        step_result(14.0, "fail", F, phase="tighten"),
        step_result(14.0, "fail", F, phase="tighten"),
    ]
    knee = Bracket.of(Method(mode="standard"), steps).knee()
    assert (knee.pass_rps, knee.pass_repeats) == (10.0, 2)
    assert (knee.clear_fail_rps, knee.clear_fail) == (14.0, FailCount(failed=2, run=2))


def test_a_pass_of_the_search_is_no_answer() -> None:
    knee = found().answer_so_far("interrupted", "stopped by q").knee
    assert (knee.pass_rps, knee.first_fail_rps, knee.clear_fail_rps, knee.clear_fail) == (None, 16.0, None, None)


def test_it_goes_down_while_a_repeat_fails_and_a_rate_with_a_failing_window_is_no_pass() -> None:
    search = found()
    rates_rps: list[float] = []
    while len(rates_rps) < 3:
        step = step_of(search)
        if step.phase == "confirm":
            rates_rps.append(step.rate_rps)
        search.observe_step(judged(step, *[F] if step.phase == "tighten" else [P, F][-step.repeats :]), 2.0)
    assert rates_rps == sorted(rates_rps, reverse=True)
    knee = search.answer_so_far("interrupted", "").knee
    assert (knee.pass_rps, knee.first_fail_rps) == (None, rates_rps[-1])


def test_all_repeats_of_a_confirmed_rate_stand_behind_it() -> None:
    search = found()
    until(search, "confirm")
    rate_rps = confirmed(search)
    knee = search.answer_so_far("interrupted", "").knee
    assert (knee.pass_rps, knee.pass_repeats) == (rate_rps, 2)


def test_repeats_and_measure_are_those_of_the_confirmation() -> None:
    search = started(config(method=Method(mode="standard", repeats=5, measure_s=20.0)))
    ramp_of(search)
    search.observe_ramp(8.0, 16.0)
    step = step_of(search)
    assert (step.repeats, step.segments[2].duration_s) == (1, 20.0)
    fed(search, P)
    until(search, "confirm")
    step = step_of(search)
    assert step.repeats in (4, 5)
    assert step.segments[2].duration_s == 20.0


def test_the_highest_rate_is_confirmed_too() -> None:
    search = started(config(method=Method(mode="standard"), max_rps=40.0))
    ramp_of(search)
    search.observe_ramp(40.0, None)
    assert [fed(search, P), fed(search, P, P)] == [40.0, 40.0]
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
    width = {"standard": 1.14, "acceptance": 1.15}[mode]
    narrow = knee.upper_rps <= width * knee.pass_rps * (1 + 1e-9)
    said = [note for note in knee.notes if says(note, "nothing_between", *TIME_UP)]
    assert narrow != bool(said)
    assert knee.estimate is not None
    assert knee.estimate.low_rps <= knee_rps <= knee.estimate.high_rps


def test_without_an_upper_end_the_answer_says_so() -> None:
    search = found(budget_s=310.0)
    until(search, "confirm")
    confirmed(search)
    answer = answer_of(search, 300.0)
    assert (answer.knee.first_fail_rps, answer.knee.clear_fail_rps, answer.knee.clear_fail) == (16.0, None, None)
    assert answer.knee.notes[-1] == fact("time_up_no_clear_fail")
    assert (answer.knee.upper_rps, answer.knee.open_above) == (None, True), "one short segment of the ramp is too little"
    assert told(answer.message, "bracket").figures["fail_rps"] is None


# --- time ---


def test_a_window_is_begun_only_if_it_is_likely_to_fit() -> None:
    search = found()
    until(search, "confirm")
    confirmed(search)
    assert isinstance(search.next(600.0), Step)  # W 6 + M 60 + 2.2 E: 70 s, of which some is spared
    assert answer_of(search, 700.0).knee.pass_rps is not None


def test_the_first_window_is_read_whatever_the_time() -> None:
    assert step_of(found(), 5000.0).reads_whole


def test_no_rate_confirmed_in_time_is_no_passing_rate() -> None:
    search = found()
    step = step_of(search, 800.0)
    search.observe_step(judged(step, F), 2.0)
    assert step_of(search, 800.0).phase == "confirm", "1.3 times the budget"
    answer = answer_of(search, 936.0)
    assert (answer.outcome, answer.knee.pass_rps) == ("below", None)
    short_rps = pytest.approx(math.sqrt(128.0))
    assert told(answer.message, "below").figures == {"fail_rps": step.rate_rps, "short_rps": short_rps, "all_tried": True}
    assert answer.knee.notes[-1] == fact("time_up_not_confirmed", repeats=2)


def test_long_warm_ups_and_windows_extend_the_time_of_a_mode_as_far_as_it_was_announced() -> None:
    def after(budget_s: float | None) -> Search:
        search = started(config(method=Method(mode="standard", budget_s=budget_s)), idle_s=12.0)  # E 18 s: W 72 s, M 90 s
        ramp_of(search)
        search.observe_ramp(8.0, 16.0)
        search.observe_step(judged(step_of(search), P), 20.0)
        until(search, "confirm")
        confirmed(search, 20.0)
        return search

    assert step_of(after(None), 800.0).reads_whole
    assert answer_of(after(800.0), 800.0).outcome == "bracket"


def test_the_time_left_shrinks_and_is_what_such_a_search_spends_of_its_budget() -> None:
    search = found()
    step_of(search, 60.0)
    before = search.left_s(60.0)
    assert before is not None
    assert before == pytest.approx(0.95 * 720.0 - 60.0)
    assert search.left_s(100.0) == pytest.approx(before - 40.0)
    until(search, "confirm")
    confirmed(search)
    step_of(search, 500.0)
    left_s = search.left_s(500.0)
    assert left_s is not None
    assert 60.0 < left_s <= 0.95 * 720.0 - 500.0 + 1e-9


# --- the sentences ---


def test_acceptance_says_where_its_rule_flips() -> None:
    search = found("acceptance")
    until(search, "confirm")
    confirmed(search)
    notes = search.answer_so_far("interrupted", "").knee.notes
    assert fact("flips_early", repeats=10) in notes
    search = found()
    until(search, "confirm")
    confirmed(search)
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
