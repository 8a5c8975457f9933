"""Each transition of the quick search, with results fed by hand."""

import math
from typing import Literal

import msgspec
import pytest

from core import prose
from core.config import Method, Safety, Slo
from core.facts import fact
from core.judge.search.actions import Hold, Step
from core.judge.search.search import Search
from core.results import FailCount, StepResult, StepVerdict
from core.units import rate_text
from tests.core.judge.feed import answer_of, config, ramp_of, run, single, started, step_of, step_result


def fed(search: Search, *results: tuple[float, StepVerdict], e2e_s: float = 2.0) -> Search:
    for rate_rps, verdict in results:
        search.observe_step(step_result(rate_rps, verdict), e2e_s)
    return search


def after_ramp(
    passed_rps: float | None, failed_rps: float | None, *, max_rps: float | None = None, budget_s: float | None = None
) -> Search:
    search = started(config(max_rps=max_rps, method=Method(budget_s=budget_s)))
    ramp_of(search)
    search.observe_ramp(passed_rps, failed_rps)
    return search


# --- singles ---


def test_nothing_is_known_before_the_singles() -> None:
    search = Search(config())
    assert search.left_s(0.0) is None
    with pytest.raises(RuntimeError, match="observe_singles"):
        search.next(0.0)


def test_three_misses_are_infeasible_and_say_which_limit() -> None:
    search = Search(config())
    search.observe_singles([single(2.0, ttft_s=0.91), single(2.0, ttft_s=0.95), single(21.0)])
    answer = answer_of(search)
    assert answer.outcome == "infeasible"
    message = prose.text(answer.message)
    assert "any rate" in message
    assert "3 of 3" in message
    assert "TTFT 910 ms, limit 800 ms" in message
    assert answer.alone is not None
    assert message == f"infeasible at any rate: {prose.text(answer.alone)}"
    assert answer.knee.pass_rps is None
    assert answer.knee.first_fail_rps is None
    assert search.left_s(0.0) == 0.0
    assert answer_of(search, 99.0) == answer


def test_one_good_single_of_three_is_enough() -> None:
    search = Search(config())
    search.observe_singles([single(ending="http", error="503 busy"), single(2.0, ttft_s=0.91), single(4.0)])
    assert ramp_of(search)[0].rate_rps == pytest.approx(2 / 3.0), "s0 is the mean E2E of those that succeeded"


def test_no_success_is_infeasible_with_the_reason() -> None:
    search = Search(config())
    search.observe_singles([single(ending="http", error="400 no such model"), single(ending="timeout"), single(ending="empty")])
    answer = answer_of(search)
    assert answer.outcome == "infeasible"
    assert "400 no such model" in prose.text(answer.message)


def test_errors_beside_misses_are_infeasible_too() -> None:
    search = Search(config())
    search.observe_singles([single(ending="connection"), single(21.0), single(22.0)])
    assert answer_of(search).outcome == "infeasible"


def test_a_tpot_that_does_not_exist_is_not_a_miss() -> None:
    slo = Slo(ttft_s=0.8, tpot_s=0.001)
    search = Search(config(slo=slo))
    search.observe_singles([single(0.1, output_tokens=1)] * 3)
    ramp_of(search)
    strict = Search(config(slo=slo))
    strict.observe_singles([single(1.1, output_tokens=11)] * 3)
    assert "TPOT 100 ms, limit 1 ms" in prose.text(answer_of(strict).message)


def test_a_single_without_duration_still_gives_a_rate() -> None:
    assert ramp_of(started(idle_s=0.0))[0].rate_rps == pytest.approx(2000.0)


# --- ramp to first step ---


def test_the_ramp_is_asked_for_until_it_was_seen() -> None:
    search = started()
    assert search.next(0.0) == search.next(1.0)


def test_full_steps_start_between_the_ramps_last_pass_and_its_fail() -> None:
    step = step_of(after_ramp(8.0, 16.0))
    assert step.rate_rps == pytest.approx(math.sqrt(8.0 * 16.0))
    assert (step.phase, step.repeats, step.curtail_pass) == ("search", 1, True)


def test_a_ramp_whose_ends_are_near_is_confirmed_at_its_pass() -> None:
    assert step_of(after_ramp(8.0, 10.0)).rate_rps == 8.0


def test_a_ramp_that_failed_at_once_goes_down_by_half() -> None:
    assert step_of(after_ramp(None, 2.0)).rate_rps == 1.0


def test_a_ramp_that_never_failed_is_judged_at_its_highest_rate() -> None:
    search = after_ramp(40.0, None, max_rps=40.0)
    assert step_of(search).rate_rps == 40.0
    answer = answer_of(fed(search, (40.0, "pass")))
    assert answer.outcome == "at_least"
    assert answer.message == fact("at_least", pass_rps=40.0, all_tried=True)
    assert (answer.knee.pass_rps, answer.knee.first_fail_rps, answer.knee.first_fail) == (40.0, None, None)


def test_a_highest_rate_that_fails_a_full_step_becomes_the_upper_end() -> None:
    search = fed(after_ramp(40.0, None, max_rps=40.0), (40.0, "fail"))
    assert step_of(search).rate_rps == 20.0
    answer = answer_of(fed(search, (20.0, "pass"), (math.sqrt(800.0), "pass")))
    assert (answer.outcome, answer.knee.first_fail_rps) == ("bracket", 40.0)


# --- bisection ---


def test_one_pass_in_the_middle_ends_the_search() -> None:
    middle = math.sqrt(128.0)
    answer = answer_of(fed(after_ramp(8.0, 16.0), (middle, "pass")))
    assert answer.outcome == "bracket"
    assert answer.message == fact("bracket", pass_rps=middle, first_fail_rps=16.0, fail_rps=16.0, clearly=False)
    assert (answer.knee.pass_rps, answer.knee.pass_repeats) == (middle, 1)
    assert (answer.knee.first_fail_rps, answer.knee.first_fail) == (16.0, None), "it failed in the ramp, which is no repeat"
    assert (answer.knee.clear_fail_rps, answer.knee.clear_fail) == (None, None)
    assert answer.knee.notes == (fact("from_ramp"), fact("one_repeat"))


def test_after_a_fail_in_the_middle_the_ramps_pass_itself_is_judged() -> None:
    middle = math.sqrt(128.0)
    search = fed(after_ramp(8.0, 16.0), (middle, "fail"))
    assert step_of(search).rate_rps == 8.0, "a segment that passed is no evidence: the full step has to pass"
    answer = answer_of(fed(search, (8.0, "pass")))
    assert (answer.knee.pass_rps, answer.knee.first_fail_rps) == (8.0, middle)
    assert answer.knee.notes == (fact("one_failing_step"), fact("one_repeat"))


def test_a_refuted_ramp_goes_down_by_half_and_bisects_back_up() -> None:
    search = fed(after_ramp(8.0, 16.0), (math.sqrt(128.0), "fail"), (8.0, "fail"))
    assert step_of(search).rate_rps == 4.0
    fed(search, (4.0, "pass"))
    assert step_of(search).rate_rps == pytest.approx(math.sqrt(32.0))
    answer = answer_of(fed(search, (math.sqrt(32.0), "fail")))
    assert (answer.knee.pass_rps, answer.knee.first_fail_rps) == (4.0, math.sqrt(32.0))


def test_a_mixed_step_counts_as_failing_with_its_repeats() -> None:
    search = after_ramp(8.0, 16.0)
    search.observe_step(step_result(11.0, "mixed", "pass", "fail", "pass"), None)
    search.observe_step(step_result(8.0, "pass", "pass", "void", "pass"), 2.0)
    knee = answer_of(search).knee
    assert (knee.first_fail_rps, knee.first_fail) == (11.0, FailCount(failed=1, run=3))
    assert (knee.pass_rps, knee.pass_repeats) == (8.0, 2)
    assert knee.notes == (fact("two_repeats"),)


@pytest.mark.parametrize("verdict", ["void", "unjudged"])
def test_a_step_without_a_verdict_changes_nothing(verdict: StepVerdict) -> None:
    search = after_ramp(8.0, 16.0)
    before = step_of(search)
    search.observe_step(step_result(before.rate_rps, verdict), 9.0)
    assert step_of(search) == before
    assert search.answer_so_far("void", "the client was late").knee.pass_rps is None


def test_a_pass_above_a_failing_rate_is_said_and_the_lower_one_counts() -> None:
    search = fed(after_ramp(8.0, 16.0), (11.0, "pass"), (8.0, "fail"), (6.0, "pass"))
    answer = answer_of(search)
    assert (answer.knee.pass_rps, answer.knee.first_fail_rps) == (6.0, 8.0)
    assert fact("not_monotone", pass_rps=11.0) in answer.knee.notes


# --- the ends of patience ---


def test_the_search_stops_at_a_64th_of_the_first_rate() -> None:
    search = after_ramp(None, 2.0, budget_s=100_000.0)
    rates_rps = []
    while isinstance(action := search.next(0.0), Step):
        rates_rps.append(action.rate_rps)
        fed(search, (action.rate_rps, "fail"))
    assert rates_rps == [1.0, 0.5, 0.25, 0.125, 0.0625, 0.03125]
    answer = answer_of(search)
    assert answer.outcome == "below"
    assert answer.message == fact("below", fail_rps=0.03125, short_rps=None, all_tried=True)
    assert (answer.knee.pass_rps, answer.knee.first_fail_rps) == (None, 0.03125)


def ended(rate_rps: float, **endings: int) -> StepResult:
    failed = step_result(rate_rps, "fail")
    return msgspec.structs.replace(failed, repeats=(msgspec.structs.replace(failed.repeats[0], endings=endings),))


@pytest.mark.parametrize(
    ("endings", "outcome"),
    [
        ({"truncated": 30, "http": 2, "ok": 20, "aborted": 9}, "void"),
        ({"truncated": 20, "ok": 20}, "below"),
        ({"http": 1}, "void"),
        ({"http": 12, "ok": 4, "previous_failed": 60}, "void"),
        ({"aborted": 5}, "below"),
        ({}, "below"),
    ],
)
def test_a_server_whose_requests_mostly_break_has_shown_no_capacity(endings: dict[str, int], outcome: str) -> None:
    search = after_ramp(None, 2.0, budget_s=100_000.0)
    while isinstance(action := search.next(0.0), Step):
        search.observe_step(ended(action.rate_rps, **endings), None)
    answer = answer_of(search)
    assert answer.outcome == outcome
    if endings.get("truncated") == 30:
        errors = fact("ended_in_errors", errors=32, ended=52, said=None, endings={"truncated": 30, "http": 2})
        assert answer.message == fact("nothing_served", errors, rate_rps=0.03125)


def test_no_step_is_begun_that_does_not_fit_the_budget_once_something_passed() -> None:
    search = fed(after_ramp(8.0, 16.0), (math.sqrt(128.0), "fail"), (8.0, "fail"), (4.0, "pass"), e2e_s=5.0)
    # W 10 + M 40 + E 5 = 55 s; 60 % of it is 33 s, the budget 180 s
    assert step_of(search, 146.9).rate_rps == pytest.approx(math.sqrt(32.0))
    answer = answer_of(search, 147.1)
    assert (answer.outcome, answer.knee.pass_rps, answer.knee.first_fail_rps) == ("bracket", 4.0, 8.0)
    assert answer.knee.notes[-1] == fact("time_up_ends_apart", factor=2.0, wanted_factor=1.42)


def test_without_a_pass_the_search_goes_on_into_overtime() -> None:
    search = fed(after_ramp(8.0, 16.0), (math.sqrt(128.0), "fail"), (8.0, "fail"))
    assert step_of(search, 235.0).rate_rps == 4.0, "only three failing steps end it"
    fed(search, (4.0, "fail"))
    assert step_of(search, 233.0).rate_rps == 2.0
    answer = answer_of(search, 235.0)
    assert (answer.outcome, answer.message) == ("below", fact("below", fail_rps=4.0, short_rps=None, all_tried=True))
    assert fact("time_up_no_pass") in answer.knee.notes


def test_a_slow_ramp_does_not_take_the_steps_their_time() -> None:
    search = fed(after_ramp(8.0, 16.0), (math.sqrt(128.0), "fail"))
    assert step_of(search, 1000.0).rate_rps == 8.0


def strict(passed_rps: float, failed_rps: float, **limits: float) -> Search:
    """A target of 99 % asks for 500 requests in each window."""
    probe = config(slo=Slo(tpot_s=None, target=0.99), method=Method(budget_s=limits.get("budget_s")))
    search = started(msgspec.structs.replace(probe, safety=Safety(max_duration_s=limits.get("max_duration_s"))))
    ramp_of(search)
    search.observe_ramp(passed_rps, failed_rps)
    return search


def window_s(search: Search) -> float:
    return step_of(search, 60.0).segments[2].duration_s


def test_a_window_holds_the_requests_that_the_target_asks_for() -> None:
    assert window_s(strict(8.0, 16.0)) == pytest.approx(500 / math.sqrt(128.0))


def test_the_time_that_was_announced_wins_over_the_number_of_requests() -> None:
    search = strict(1.0, 2.0)  # 354 s for 500 requests; what was announced, by the usual course of a ramp, is 180 s
    assert window_s(search) == pytest.approx(1.3 * 180 / 2.5), "an equal share of it and its overtime for each step expected"


@pytest.mark.parametrize(
    ("limits", "expected_s"),
    [
        ({"budget_s": 2500.0}, 500 / math.sqrt(2.0)),
        ({"budget_s": 500.0}, (500 - 30 - 2.5 * 6.2) / 2.5),  # less a ramp of 30 s, and W 4 s and 2.2 E of each step
        ({"max_duration_s": 250.0}, (247 - 30 - 2.5 * 6.2) / 2.5),
        ({"budget_s": 500.0, "max_duration_s": 250.0}, (247 - 30 - 2.5 * 6.2) / 2.5),
        ({"budget_s": 50.0}, 40.0),  # never shorter than the mode's own
    ],
)
def test_a_time_limit_of_the_users_wins_over_the_number_of_requests(limits: dict[str, float], expected_s: float) -> None:
    assert window_s(strict(1.0, 2.0, **limits)) == pytest.approx(expected_s)


def test_acceptance_keeps_the_requests_without_which_nothing_counts_there() -> None:
    search = started(config(slo=Slo(tpot_s=None, target=0.99), method=Method(mode="acceptance")))
    ramp_of(search)
    search.observe_ramp(0.5, 1.0)
    rate_rps = step_of(search).rate_rps
    assert window_s(search) * rate_rps == pytest.approx(300), "half the rate still has 150, of which one may miss"


def test_a_list_with_a_time_limit_shares_it_among_its_repeats() -> None:
    slo = Slo(tpot_s=None, target=0.99)
    timed = started(config(slo=slo, method=Method(mode="standard", rates_rps=(0.5, 1.0), budget_s=1200.0)))
    assert window_s(timed) == pytest.approx(200 - 6 - 3.3), "of six repeats, W 6 s and 2.2 E each"
    assert window_s(started(config(slo=slo, method=Method(rates_rps=(0.5,))))) == pytest.approx(1000.0), "none was set"


def timed(max_duration_s: float, method: Method | None = None, spent_s: float = 0.0) -> Search:
    search = Search(msgspec.structs.replace(config(method=method), safety=Safety(max_duration_s=max_duration_s)))
    search.observe_singles([single(1.0, ttft_s=0.1)] * 3, spent_s)
    return search


def test_with_a_rate_that_held_no_step_is_begun_that_the_end_of_the_run_would_cut_off() -> None:
    search = timed(150.0)
    ramp_of(search)
    search.observe_ramp(8.0, 16.0)
    fed(search, (math.sqrt(128.0), "fail"), (8.0, "fail"), (4.0, "pass"))
    assert step_of(search, 90.0).rate_rps == pytest.approx(math.sqrt(32.0)), "W 8 + M 40 + E 2 end before 147 s"
    answer = answer_of(search, 110.0)
    assert (answer.outcome, answer.knee.pass_rps, answer.knee.first_fail_rps) == ("bracket", 4.0, 8.0)
    assert fact("time_up_limit") in answer.knee.notes


def test_what_is_over_of_a_run_is_not_there_for_its_search() -> None:
    search = timed(210.0, spent_s=60.0)
    ramp_of(search)
    search.observe_ramp(8.0, 16.0)
    fed(search, (math.sqrt(128.0), "fail"), (8.0, "fail"), (4.0, "pass"))
    assert fact("time_up_limit") in answer_of(search, 110.0).knee.notes


@pytest.mark.parametrize("verdicts", [(), ("fail",), ("fail", "fail")])
def test_without_one_the_end_of_the_run_decides(verdicts: tuple[StepVerdict, ...]) -> None:
    """A search that gave up would say that even the lowest rate fails, which nobody has seen."""
    search = timed(60.0)
    ramp_of(search)
    search.observe_ramp(8.0, 16.0)
    for verdict in verdicts:
        fed(search, (step_of(search, 40.0).rate_rps, verdict))
    assert step_of(search, 50.0).phase == "search"


def test_a_list_goes_on_to_its_end_or_that_of_the_run() -> None:
    search = timed(60.0, Method(rates_rps=(2.0, 4.0)))
    search.observe_step(step_result(2.0, "pass", phase="list"), 1.0)
    assert step_of(search, 50.0).rate_rps == 4.0


def test_a_held_rate_with_an_end_has_segments_that_fit_into_it() -> None:
    action = timed(600.0, Method(hold_rps=0.5)).next(0.0)
    assert isinstance(action, Hold)
    measured_s = [s.duration_s for s in action.segments if s.role == "measured"]
    assert measured_s[0] == pytest.approx((597 - 3 * (6 + 3.3)) / 3), "200 s would be needed for 100 requests"


def test_a_run_that_turns_out_far_longer_than_announced_says_so() -> None:
    slow = started(config(slo=Slo(tpot_s=None, target=0.99), method=Method(mode="acceptance")))
    ramp_of(slow)
    announced_s = slow.expected_s()
    slow.observe_ramp(0.5, 1.0)
    longer_s = slow.longer_s(60.0)
    assert announced_s is not None
    assert longer_s is not None
    assert longer_s > 1.3 * announced_s
    usual = after_ramp(8.0, 16.0)
    assert usual.longer_s(60.0) is None


def test_no_rate_is_judged_by_a_handful_of_requests() -> None:
    search = after_ramp(None, 0.5)  # the windows have at most 94 s
    assert step_of(search).rate_rps == 0.25, "23 requests, of which one may miss"
    fed(search, (0.25, "fail"))
    answer = answer_of(search)
    assert (answer.outcome, answer.knee.first_fail_rps) == ("below", 0.25)
    assert fact("time_up_too_few") in answer.knee.notes


# --- E, and the time left ---


def warmup_s(search: Search) -> float:
    """W of the next step: 2E, for an E that is at most twice what was seen below its rate."""
    return sum(segment.duration_s for segment in step_of(search).segments if segment.role == "warmup")


def test_the_warm_up_follows_what_was_learned_of_the_mean_duration() -> None:
    search = after_ramp(8.0, 16.0)
    assert warmup_s(search) == 6.0, "half more than idle once the ramp passed something, doubled for the rate"
    fed(search, (11.3, "fail"), e2e_s=9.0)
    assert warmup_s(search) == 6.0, "a failing step tells nothing of E"
    fed(search, (4.0, "pass"), e2e_s=3.0)
    assert warmup_s(search) == 12.0
    fed(search, (4.5, "pass"), e2e_s=0.2)
    assert warmup_s(search) == 4.0, "never below the idle latency"
    search.observe_step(step_result(4.6, "pass"), None)
    assert warmup_s(search) == 4.0
    assert warmup_s(after_ramp(None, 2.0)) == 4.0


def test_left_counts_down_while_a_step_runs_and_never_below_zero() -> None:
    search = after_ramp(8.0, 16.0)
    before = search.left_s(20.0)
    step_of(search, 20.0)
    # W 6 + M 40 + E 1.5, twice: the middle, which may pass, and then the ramp's pass, which may be cut short; and one more, mostly
    assert search.left_s(20.0) == before == pytest.approx(47.5 + 1.8 * 0.7 * 47.5)
    assert search.left_s(50.0) == pytest.approx(17.5 + 1.8 * 0.7 * 47.5)
    assert search.left_s(500.0) == search.later_s(500.0) == pytest.approx(1.8 * 0.7 * 47.5)
    fed(search, (math.sqrt(128.0), "fail"))
    assert search.left_s(60.0) == pytest.approx(47.5 + 0.8 * 0.7 * 47.5)
    fed(search, (8.0, "pass"))
    assert search.left_s(60.0) == 0.0
    answer_of(search, 60.0)
    assert search.left_s(60.0) == 0.0


def test_left_before_the_ramp_is_five_segments_and_the_steps_that_follow() -> None:
    search = started()
    ramp = ramp_of(search)
    # at 32/s M is 40 s; E is 1 s as yet, W is planned for twice that: 45 s a step that passes
    assert search.left_s(0.0) == pytest.approx(sum(s.duration_s for s in ramp[:5]) + 3.3 * 0.7 * 45)
    assert search.left_s(10.0) == pytest.approx(sum(s.duration_s for s in ramp[:5]) - 10 + 3.3 * 0.7 * 45)


# --- what is known in the middle ---


def test_an_interrupted_search_tells_what_it_knows() -> None:
    search = started()
    assert search.answer_so_far("interrupted", "stopped by q").knee.first_fail_rps is None
    search.observe_ramp(8.0, 16.0)
    answer = search.answer_so_far("interrupted", "stopped by q")
    assert (answer.outcome, answer.message) == ("interrupted", "stopped by q")
    assert (answer.knee.pass_rps, answer.knee.first_fail_rps, answer.knee.notes) == (None, 16.0, (fact("from_ramp"),))


@pytest.mark.parametrize(
    ("rate_rps", "text"),
    [
        (16.0, "16.0"),
        (11.3137, "11.3"),
        (0.0125, "0.0125"),
        (9.996, "10.0"),
        (99.96, "100"),
        (1234.0, "1,234"),
        (2.0, "2.00"),
        (0.0, "0"),
    ],
)
def test_rates_have_three_significant_digits(rate_rps: float, text: str) -> None:
    assert rate_text(rate_rps) == f"{text} requests/s"


def test_a_typical_course_takes_the_time_of_quick_mode() -> None:
    course = run(started(idle_s=2.1), lambda rate_rps: rate_rps <= 13.1, e2e_s=4.0)
    assert course.answer.knee.pass_rps == pytest.approx(10.8, rel=0.01)
    assert course.elapsed_s < 180


@pytest.mark.parametrize(("mode", "width"), [("quick", 1.42), ("standard", 1.14), ("acceptance", 1.15)])
def test_the_width_that_is_wanted_is_that_of_the_mode(mode: Literal["quick", "standard", "acceptance"], width: float) -> None:
    """Quick mode brings no end closer once two neighbours of its grid differ."""
    assert Search(config(method=Method(mode=mode))).wanted_width == width
