"""The load of a fleet: planned first, then all that its replicas could hold, then down from what fails, by measured rates alone."""

from itertools import pairwise

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.config import FleetPlan, Method
from core.facts import says
from core.judge.search.actions import Step
from core.judge.search.fleet_load import CLOSE, LEAST_FRAC, expected_rps, next_rps
from core.judge.search.search import Search
from core.results import RepeatVerdict, StepVerdict
from tests.core.judge.feed import answer_of, config, judged, repeats_of, run, started, step_of, step_result

PLAN = FleetPlan(replicas=8, one_rps=11.25, load_at_peak=0.7)


def method(plan: FleetPlan = PLAN, budget_s: float | None = None) -> Method:
    return Method(rates_rps=tuple(dict.fromkeys((plan.planned_rps, plan.full_rps))), fleet=plan, budget_s=budget_s)


def search(budget_s: float | None = None) -> Search:
    return started(config(method=method(budget_s=budget_s)))


def rates(knee_rps: float) -> tuple[list[float], Search]:
    looking = search()
    course = run(looking, lambda rate_rps: rate_rps <= knee_rps, 1.0)
    return [step.rate_rps for step in course.steps], looking


def test_a_fleet_that_holds_all_is_judged_at_two_rates() -> None:
    judged_rps, looking = rates(100.0)
    assert judged_rps == [pytest.approx(63.0), 90.0]
    answer = answer_of(looking)
    assert (answer.outcome, answer.knee.pass_rps, answer.knee.fail_rps) == ("at_least", 90.0, None)


def test_what_is_between_the_planned_load_and_all_is_halved_until_the_ends_are_close() -> None:
    judged_rps, looking = rates(83.0)
    assert judged_rps == pytest.approx([63.0, 90.0, 76.5, 83.25])
    answer = answer_of(looking)
    assert (answer.outcome, answer.knee.pass_rps, answer.knee.first_fail_rps) == ("bracket", 76.5, 83.25)


def test_where_the_planned_load_fails_more_is_not_sent() -> None:
    judged_rps, looking = rates(40.0)
    assert judged_rps == pytest.approx([63.0, 31.5, 47.25, 39.375, 43.3125])
    assert answer_of(looking).knee.pass_rps == pytest.approx(39.375)


def test_a_fleet_that_holds_nothing_is_given_up() -> None:
    judged_rps, looking = rates(0.0)
    assert min(judged_rps) >= LEAST_FRAC * PLAN.planned_rps
    answer = answer_of(looking)
    assert (answer.outcome, answer.knee.pass_rps, answer.knee.first_fail_rps) == ("below", None, min(judged_rps))


def test_where_all_is_planned_with_there_is_one_rate() -> None:
    whole = FleetPlan(replicas=1, one_rps=4.0, load_at_peak=1.0)
    looking = started(config(method=method(whole)))
    assert step_of(looking).rate_rps == 4.0
    looking.observe_step(step_result(4.0, "pass", phase="list"), 1.0)
    assert answer_of(looking).outcome == "at_least"


@given(knee_rps=st.floats(0.5, 120.0), share=st.floats(0.05, 1.0), replicas=st.integers(1, 64))
def test_every_rate_of_the_answer_was_judged(knee_rps: float, share: float, replicas: int) -> None:
    plan = FleetPlan(replicas=replicas, one_rps=2.0, load_at_peak=share)
    looking = started(config(method=method(plan)))
    steps: dict[float, bool] = {}
    while isinstance(action := looking.next(0.0), Step):
        assert action.rate_rps not in steps
        assert action.phase == "list"
        steps[action.rate_rps] = action.rate_rps <= knee_rps
        looking.observe_step(judged(action, *repeats_of(action, lambda rate_rps: steps[rate_rps])), None)
        assert len(steps) < 12
    knee = answer_of(looking).knee
    assert next(iter(steps)) == plan.planned_rps
    assert knee.pass_rps == max((rate for rate, held in steps.items() if held), default=None)
    assert knee.first_fail_rps == min((rate for rate, held in steps.items() if not held), default=None)
    if knee.pass_rps is not None and knee.first_fail_rps is not None:
        assert knee.first_fail_rps <= CLOSE * knee.pass_rps * (1 + 1e-6)


def test_a_time_that_was_set_ends_it_once_the_planned_load_is_judged() -> None:
    looking = search(budget_s=60.0)
    first = step_of(looking)
    looking.observe_step(step_result(first.rate_rps, "pass", phase="list"), 1.0)
    answer = answer_of(looking, 59.0)
    assert answer.knee.pass_rps == first.rate_rps
    assert any(says(note, "time_up_fleet") for note in answer.knee.notes)


def test_a_step_that_the_user_ends_is_the_last() -> None:
    looking = search()
    looking.skip(step_of(looking).rate_rps, "list")
    assert answer_of(looking).outcome == "interrupted"


def test_a_step_with_fewer_replicas_is_no_part_of_the_bracket() -> None:
    looking = search()
    for rate_rps in (PLAN.planned_rps, PLAN.full_rps):
        looking.observe_step(step_result(rate_rps, "pass", phase="list"), 1.0)
    again = looking.again(PLAN.planned_rps)
    assert (again.phase, again.repeats) == ("lost", step_of(search()).repeats)
    looking.observe_step(step_result(again.rate_rps, "fail", phase="lost"), None)
    assert answer_of(looking).outcome == "at_least"
    assert looking.passed(PLAN.planned_rps)


def test_the_time_that_is_left_counts_the_halvings_to_come() -> None:
    rates_rps = method().rates_rps
    assert expected_rps(rates_rps, None, None, 63.0) == [90.0]
    assert expected_rps(rates_rps, 63.0, 90.0, 76.5) == [83.25]
    assert expected_rps(rates_rps, 63.0, None, 90.0) == []
    looking = search()
    step = step_of(looking)
    left_s = looking.left_s(0.0)
    looking.observe_step(step_result(step.rate_rps, "pass", phase="list"), 1.0)
    step_of(looking)
    assert left_s is not None
    assert (looking.left_s(0.0) or 0.0) < left_s


@given(st.lists(st.floats(0.1, 100.0), min_size=1, max_size=2, unique=True), st.integers(0, 30))
def test_the_way_down_comes_to_an_end(rates_rps: list[float], holds: int) -> None:
    passed_rps, failed_rps, seen = None, None, []
    while (rate_rps := next_rps(sorted(rates_rps), passed_rps, failed_rps)) is not None:
        seen.append(rate_rps)
        if rate_rps <= holds:
            passed_rps = max(passed_rps or 0.0, rate_rps)
        else:
            failed_rps = min(failed_rps or rate_rps, rate_rps)
        assert len(seen) < 20
    assert all(one != other for one, other in pairwise(seen))


@given(st.data(), st.floats(0.05, 1.0), st.integers(1, 64))
def test_whatever_is_judged_the_answer_rests_on_it_and_comes(data: st.DataObject, share: float, replicas: int) -> None:
    """A fleet that scatters, by no knee at all: repeats that disagree fail a rate, and no rate is asked for twice."""
    plan = FleetPlan(replicas=replicas, one_rps=2.0, load_at_peak=share)
    looking = started(config(method=msgspec.structs.replace(method(plan), mode="standard")))
    steps: dict[float, StepVerdict] = {}
    while isinstance(action := looking.next(0.0), Step):
        assert action.rate_rps not in steps
        assert action.rate_rps <= plan.full_rps * (1 + 1e-9)
        verdicts: list[RepeatVerdict] = data.draw(
            st.lists(st.sampled_from(("pass", "fail")), min_size=action.repeats, max_size=action.repeats)
        )
        result = judged(action, *verdicts)
        steps[action.rate_rps] = result.verdict
        looking.observe_step(result, None)
        assert len(steps) < 20
    knee = answer_of(looking).knee
    assert knee.pass_rps is None or steps[knee.pass_rps] == "pass"
    assert knee.first_fail_rps is None or steps[knee.first_fail_rps] in ("fail", "mixed")
    if knee.pass_rps is not None and knee.first_fail_rps is not None:
        assert knee.pass_rps < knee.first_fail_rps
