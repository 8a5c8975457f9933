"""Misses that do not fall with the rate."""

import msgspec
import pytest

from core import prose
from core.judge.search.futile import futile
from core.results import Percentiles, StepResult
from tests.core.judge.feed import after_fails, step_result


def failing(rate_rps: float, good: int, misses: int, e2e_p50_s: float | None = 2.2) -> StepResult:
    step = step_result(rate_rps, "fail")
    repeat = msgspec.structs.replace(step.repeats[0], good=good, misses=misses, e2e_s=Percentiles(p50=e2e_p50_s))
    return msgspec.structs.replace(step, repeats=(repeat,))


def test_a_lower_rate_that_misses_as_much_tells_that_the_load_is_not_why() -> None:
    found = futile([failing(8.0, 90, 10), failing(4.0, 92, 8)], 2.0)
    assert found == (4.0, 0.08, 8.0, 0.1)


@pytest.mark.parametrize(
    ("high", "low"),
    [
        (failing(8.0, 80, 20), failing(4.0, 90, 10)),  # fell by half
        (failing(6.0, 90, 10), failing(4.0, 90, 10)),  # too near each other
        (failing(8.0, 90, 10), failing(4.0, 92, 8, e2e_p50_s=3.1)),  # the lower rate, too, makes requests wait
        (failing(8.0, 90, 10), failing(4.0, 92, 8, e2e_p50_s=None)),
        (failing(8.0, 0, 0), failing(4.0, 92, 8)),  # overloaded before any of its requests was decided
        (failing(8.0, 17, 2), failing(4.0, 92, 8)),  # 19 of them were, or
        (failing(8.0, 92, 8), failing(4.0, 17, 2)),
        (failing(8.0, 90, 10, e2e_p50_s=2.5), failing(4.0, 92, 8)),  # twice the rate makes requests slower
    ],
)
def test_else_going_down_may_help(high: StepResult, low: StepResult) -> None:
    assert futile([high, low], 2.0) is None


def test_one_failing_rate_tells_nothing() -> None:
    assert futile([], 2.0) is None
    assert futile([failing(8.0, 90, 10), step_result(4.0, "pass")], 2.0) is None


def test_a_search_stops_going_down_and_says_why() -> None:
    answer, rates_rps = after_fails(lambda rate_rps: failing(rate_rps, 93, 7, e2e_p50_s=1.1))
    assert rates_rps == [4.0, 2.0], "the ramp held nothing and failed at 8"
    assert (answer.outcome, answer.knee.first_fail_rps) == ("below", 2.0)
    assert any("7.0 % at 4.00 requests/s, 7.0 % at 2.00 requests/s" in prose.text(note) for note in answer.knee.notes)


def test_a_search_whose_misses_fall_goes_on() -> None:
    _, rates_rps = after_fails(lambda rate_rps: failing(rate_rps, 100 - round(20 * rate_rps), round(20 * rate_rps), e2e_p50_s=1.1))
    assert rates_rps[:3] == [4.0, 2.0, 1.0]
