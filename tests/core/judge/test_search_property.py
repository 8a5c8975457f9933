"""Whatever the server: the search ends, never goes over its limits, and claims nothing that it did not run."""

from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st

from core.judge.modes import MODES
from core.judge.search import OVERTIME
from tests.core.judge.feed import Course, config, run, started

GRID = MODES["quick"].grid
knees = st.floats(0.05, 2000.0)
idles = st.floats(0.05, 10.0)
shares = st.floats(0.05, 1.0)
limits = st.none() | st.floats(0.02, 3000.0)


def searched(
    holds: Callable[[float], bool], idle_s: float, share: float, max_rps: float | None, start_rps: float | None = None
) -> Course:
    course = run(started(config(max_rps=max_rps, start_rps=start_rps), idle_s), holds, 1.5 * idle_s, share)
    knee, tried = course.answer.knee, {step.rate_rps for step in course.steps}
    if knee.pass_rps is not None:
        assert knee.pass_rps in tried, "only a full step may set the rate that holds"
        assert holds(knee.pass_rps)
    if knee.first_fail_rps is not None:
        assert knee.first_fail_rps in tried | {segment.rate_rps for segment in course.ramp}
        assert not holds(knee.first_fail_rps)
    if knee.pass_rps is not None and knee.first_fail_rps is not None:
        assert knee.pass_rps < knee.first_fail_rps
    segments = [*course.ramp, *(segment for step in course.steps for segment in step.segments)]
    if max_rps is not None:
        assert max(segment.rate_rps for segment in segments) <= max_rps
    assert all(left >= 0 for left in course.left_s)
    assert course.left_s[-1] == 0.0
    return course


@settings(deadline=None)
@given(knee=knees, idle_s=idles, share=shares, max_rps=limits, start_rps=st.none() | st.floats(0.02, 500.0))
def test_a_monotone_server_is_bracketed(
    knee: float, idle_s: float, share: float, max_rps: float | None, start_rps: float | None
) -> None:
    course = searched(lambda rate_rps: rate_rps <= knee, idle_s, share, max_rps, start_rps)
    found = course.answer.knee
    match course.answer.outcome:
        case "bracket":
            assert found.pass_rps is not None
            assert found.first_fail_rps is not None
            assert found.pass_rps <= knee < found.first_fail_rps
            used_up = any(note.startswith("the time was used up") for note in found.notes)
            assert used_up or found.first_fail_rps / found.pass_rps <= GRID * (1 + 1e-6)
        case "at_least":
            assert found.pass_rps == course.ramp[-1].rate_rps
            assert found.first_fail_rps is None
        case "below":
            assert found.pass_rps is None
            assert found.first_fail_rps is not None
            assert knee < found.first_fail_rps
            used_up = any(note.startswith("the time was used up") for note in found.notes)
            assert used_up or found.first_fail_rps < course.ramp[0].rate_rps / 8 * (1 + 1e-6)
        case other:
            raise AssertionError(other)


@settings(deadline=None)
@given(idle_s=idles, share=shares, max_rps=limits)
def test_a_server_that_always_holds_is_answered_with_the_highest_rate(idle_s: float, share: float, max_rps: float | None) -> None:
    course = searched(lambda rate_rps: True, idle_s, share, max_rps)
    assert course.answer.outcome == "at_least"
    assert course.answer.knee.pass_rps == course.ramp[-1].rate_rps
    assert len(course.steps) == 1


@settings(deadline=None)
@given(idle_s=idles, share=shares, max_rps=limits)
def test_a_server_that_never_holds_is_answered_with_the_lowest_rate(idle_s: float, share: float, max_rps: float | None) -> None:
    course = searched(lambda rate_rps: False, idle_s, share, max_rps)
    assert course.answer.outcome == "below"
    assert course.answer.knee.first_fail_rps == min(step.rate_rps for step in course.steps)


@settings(deadline=None)
@given(idle_s=idles, share=shares, max_rps=limits, data=st.data())
def test_a_server_that_answers_at_random_ends_too(idle_s: float, share: float, max_rps: float | None, data: st.DataObject) -> None:
    probe = started(config(max_rps=max_rps), idle_s)
    course = run(probe, lambda rate_rps: data.draw(st.booleans()), 1.5 * idle_s, share)
    knee = course.answer.knee
    assert course.answer.outcome in ("bracket", "at_least", "below")
    assert knee.pass_rps is None or knee.first_fail_rps is None or knee.pass_rps < knee.first_fail_rps


@settings(deadline=None)
@given(knee=st.floats(2.0, 200.0), idle_s=st.floats(0.5, 4.0))
def test_a_fast_server_is_answered_within_the_budget_and_its_overtime(knee: float, idle_s: float) -> None:
    course = searched(lambda rate_rps: rate_rps <= max(knee, 4 / idle_s), idle_s, 0.5, None)
    assert course.elapsed_s < OVERTIME * MODES["quick"].budget_s + 120
