"""A search beside another setting of the server ends once its upper end is no higher than what that one holds."""

import pytest

from core.config import Method
from core.facts import fact
from core.judge.search.search import Search
from tests.core.judge.feed import answer_of, config, ramp_of, started, step_of, step_result


def after_ramp(beat_rps: float, passed_rps: float | None = 2.0, failed_rps: float | None = 4.0) -> Search:
    search = started(config(method=Method()))
    search.beat(beat_rps)
    ramp_of(search)
    search.observe_ramp(passed_rps, failed_rps)
    return search


@pytest.mark.parametrize("beat_rps", [5.0, "the same"])
def test_a_failing_step_at_what_the_best_holds_ends_it(beat_rps: float | str) -> None:
    rate_rps = step_of(after_ramp(100.0)).rate_rps
    best_rps = rate_rps if isinstance(beat_rps, str) else beat_rps
    search = after_ramp(best_rps)
    search.observe_step(step_result(step_of(search).rate_rps, "fail"), None)
    answer = answer_of(search)
    assert (answer.outcome, answer.knee.first_fail_rps) == ("below", rate_rps)
    assert fact("beaten", fail_rps=rate_rps, best_rps=best_rps) in answer.knee.notes


def test_a_failing_step_above_it_does_not() -> None:
    search = after_ramp(1.0)
    rate_rps = step_of(search).rate_rps
    assert rate_rps > 1.0
    search.observe_step(step_result(rate_rps, "fail"), None)
    assert step_of(search).rate_rps < rate_rps


def test_the_ramp_alone_does_not_and_the_step_after_it_is_judged() -> None:
    search = after_ramp(100.0)
    assert 2.0 < step_of(search).rate_rps < 4.0


def test_with_a_rate_that_holds_the_answer_is_a_bracket_and_says_why_it_is_wide() -> None:
    search = after_ramp(100.0, passed_rps=1.0, failed_rps=8.0)
    search.observe_step(step_result(step_of(search).rate_rps, "pass"), 1.0)
    answer = answer_of(search)
    assert (answer.outcome, answer.knee.fail_rps) == ("bracket", 8.0)
    assert fact("beaten", fail_rps=8.0, best_rps=100.0) in answer.knee.notes
