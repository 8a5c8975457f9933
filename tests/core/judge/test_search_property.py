"""Whatever the server: the search ends, never goes over its limits, and claims nothing that it did not run."""

import math
import random
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.config import Method
from core.facts import fact, says
from core.judge.search.search import OVERTIME
from core.modes import MODES, rules_of
from tests.core.judge.feed import Course, config, run, started
from tests.core.judge.judging import TIME_UP

METHODS = {
    "quick": Method(),
    "careful": Method(careful=True),
    "standard": Method(mode="standard"),
    "acceptance": Method(mode="acceptance"),
}
methods = st.sampled_from(list(METHODS.values()))
knees = st.floats(0.05, 2000.0)
idles = st.floats(0.05, 10.0)
shares = st.floats(0.05, 1.0)
limits = st.none() | st.floats(0.02, 3000.0)

Holds = Callable[[float], bool]


def searched(
    method: Method, holds: Holds, idle_s: float, share: float, max_rps: float | None, start_rps: float | None = None
) -> Course:
    """A search to its end, with what is true of each."""
    probe = config(max_rps=max_rps, method=with_start(method, start_rps))
    course = run(started(probe, idle_s), holds, 1.5 * idle_s, share)
    knee, ramp = course.answer.knee, {segment.rate_rps for segment in course.ramp}
    final = {step.rate_rps for step in course.steps if step.phase in setting(method)}
    assert course.answer.outcome in ("bracket", "at_least", "below")
    assert knee.pass_rps is None or knee.pass_rps in final, "only a full step may set the rate that holds"
    for end_rps in (knee.first_fail_rps, knee.clear_fail_rps):
        assert end_rps is None or end_rps in ramp | {step.rate_rps for step in course.steps}
    ends = [end for end in (knee.pass_rps, knee.first_fail_rps) if end is not None]
    assert ends == sorted(set(ends)) or any(says(note, "not_monotone_pass") for note in knee.notes)
    upper_rps = knee.upper_rps
    assert upper_rps is None or upper_rps in ramp | {step.rate_rps for step in course.steps}
    assert upper_rps is None or knee.pass_rps is None or knee.pass_rps < upper_rps
    if knee.clear_fail_rps is not None:
        assert knee.first_fail_rps is not None
        assert knee.first_fail_rps <= knee.clear_fail_rps
    segments = [*course.ramp, *(segment for step in course.steps for segment in step.segments)]
    assert max_rps is None or max(segment.rate_rps for segment in segments) <= max_rps
    assert all(left >= 0 and math.isfinite(left) for left in course.left_s)
    assert course.left_s[-1] == 0.0
    return course


def with_start(method: Method, start_rps: float | None) -> Method:
    return Method(mode=method.mode, careful=method.careful, start_rps=start_rps)


def setting(method: Method) -> tuple[str, ...]:
    return ("search", "list") if method.mode == "quick" else ("confirm", "tighten", "list")


def used_up(course: Course) -> bool:
    return any(says(note, *TIME_UP) for note in course.answer.knee.notes)


@settings(deadline=None)
@given(method=methods, knee=knees, idle_s=idles, share=shares, max_rps=limits, start_rps=st.none() | st.floats(0.02, 500.0))
def test_a_monotone_server_is_bracketed(
    method: Method, knee: float, idle_s: float, share: float, max_rps: float | None, start_rps: float | None
) -> None:
    course = searched(method, lambda rate_rps: rate_rps <= knee, idle_s, share, max_rps, start_rps)
    found, grid = course.answer.knee, rules_of(method).final.grid
    assert found.pass_rps is None or found.pass_rps <= knee
    assert found.first_fail_rps is None or knee < found.first_fail_rps
    match course.answer.outcome:
        case "bracket":
            assert found.pass_rps is not None
            assert found.first_fail_rps is not None
            upper_rps = found.first_fail_rps if rules_of(method).confirm is None else found.upper_rps
            width = grid if rules_of(method).confirm is None else rules_of(method).clear_width
            told = used_up(course) or fact("nothing_between") in course.answer.knee.notes
            assert told or (upper_rps is not None and upper_rps / found.pass_rps <= width * (1 + 1e-6))
        case "at_least":
            assert found.pass_rps == course.ramp[-1].rate_rps
            assert found.first_fail_rps is None
        case _:
            assert found.pass_rps is None
            assert found.first_fail_rps is not None
            assert used_up(course) or found.first_fail_rps < course.ramp[0].rate_rps / 8 * (1 + 1e-6)


@settings(deadline=None)
@given(method=methods, idle_s=idles, share=shares, max_rps=limits)
def test_a_server_that_always_holds_is_answered_with_the_highest_rate(
    method: Method, idle_s: float, share: float, max_rps: float | None
) -> None:
    course = searched(method, lambda rate_rps: True, idle_s, share, max_rps)
    assert course.answer.outcome == "at_least"
    assert course.answer.knee.pass_rps == course.ramp[-1].rate_rps
    assert {step.rate_rps for step in course.steps} == {course.ramp[-1].rate_rps}


@settings(deadline=None)
@given(method=methods, idle_s=idles, share=shares, max_rps=limits)
def test_a_server_that_never_holds_is_answered_with_the_lowest_rate(
    method: Method, idle_s: float, share: float, max_rps: float | None
) -> None:
    course = searched(method, lambda rate_rps: False, idle_s, share, max_rps)
    assert course.answer.outcome == "below"
    assert course.answer.knee.first_fail_rps == min(step.rate_rps for step in course.steps)


@settings(deadline=None)
@given(method=methods, knee=knees, idle_s=idles, share=shares, max_rps=limits, seed=st.integers(0, 10_000))
def test_a_server_that_scatters_around_its_knee_is_answered(
    method: Method, knee: float, idle_s: float, share: float, max_rps: float | None, seed: int
) -> None:
    """A repeat passes with a probability that falls from one to zero between 0.7 and 1.4 times the knee."""
    noise = random.Random(seed)
    searched(method, lambda rate_rps: rate_rps * noise.uniform(0.7, 1.4) <= knee, idle_s, share, max_rps)


@settings(deadline=None)
@given(method=methods, idle_s=idles, share=shares, max_rps=limits, seed=st.integers(0, 10_000), chance=st.floats(0.1, 0.95))
def test_a_server_that_answers_at_random_ends_too(
    method: Method, idle_s: float, share: float, max_rps: float | None, seed: int, chance: float
) -> None:
    noise = random.Random(seed)
    searched(method, lambda rate_rps: noise.random() < chance, idle_s, share, max_rps)


@settings(deadline=None)
@given(method=methods, knee=st.floats(2.0, 200.0), idle_s=st.floats(0.5, 4.0))
def test_a_fast_server_is_answered_within_the_budget_and_its_overtime(method: Method, knee: float, idle_s: float) -> None:
    course = searched(method, lambda rate_rps: rate_rps <= max(knee, 4 / idle_s), idle_s, 0.5, None)
    last_repeats_s = 120 if method.mode == "quick" else 400
    assert course.elapsed_s < OVERTIME * MODES[method.mode].budget_s + last_repeats_s


@pytest.mark.parametrize("rates_rps", [(2.0, 4.0, 6.0), (6.0, 4.0, 2.0), (4.0,)])
@settings(deadline=None)
@given(knee=knees, idle_s=idles, method=methods)
def test_a_list_is_judged_at_its_rates_and_no_others(
    rates_rps: tuple[float, ...], knee: float, idle_s: float, method: Method
) -> None:
    probe = config(method=Method(mode=method.mode, careful=method.careful, rates_rps=rates_rps))
    course = run(started(probe, idle_s), lambda rate_rps: rate_rps <= knee, 1.5 * idle_s)
    assert tuple(step.rate_rps for step in course.steps) == rates_rps
    assert {step.phase for step in course.steps} == {"list"}
    assert course.ramp == ()
    found = course.answer.knee
    assert found.pass_rps == max((rate for rate in rates_rps if rate <= knee), default=None)
    assert found.first_fail_rps == min((rate for rate in rates_rps if rate > knee), default=None)
    assert found.clear_fail_rps is None
    passed, failed = found.pass_rps is not None, found.first_fail_rps is not None
    assert course.answer.outcome == ("bracket" if passed and failed else "at_least" if passed else "below")


@settings(deadline=None)
@given(method=methods, required=st.floats(0.1, 50.0), knee=st.floats(0.1, 50.0), idle_s=st.floats(0.2, 4.0))
def test_a_required_rate_is_judged_once_as_a_full_step(method: Method, required: float, knee: float, idle_s: float) -> None:
    probe = config(method=Method(mode=method.mode, careful=method.careful, require_rps=required))
    search = started(probe, idle_s)
    course = run(search, lambda rate_rps: rate_rps <= knee, 1.5 * idle_s)
    listed = [step for step in course.steps if step.phase == "list"]
    assert [(step.rate_rps, step.repeats) for step in listed] == [(required, rules_of(method).listed.repeats)]
    assert listed[0] is course.steps[0]
    assert search.require_met is (required <= knee)
    found = course.answer.knee
    assert found.pass_rps is None or found.pass_rps <= knee
    assert found.first_fail_rps is None or found.first_fail_rps > knee
    if required <= knee:
        assert found.pass_rps is not None
        assert found.pass_rps >= required or (found.first_fail_rps or 0.0) < 2 * required, "so near the knee it may be disqualified"
