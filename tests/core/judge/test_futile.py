"""Misses that do not fall with the rate."""

import msgspec
import pytest

from core import prose
from core.config import Method, Slo
from core.facts import Fact
from core.judge.search.actions import Done
from core.judge.search.futile import futile
from core.results import Answer, Percentiles, StepResult
from tests.core.judge.feed import after_fails, answer_of, config, ramp_of, started, step_of, step_result


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


def with_few_requests(step_s: float) -> Answer:
    """A standard search for 99 % at rates whose windows allow less than one miss; all its steps fail, and each takes so long."""
    search = started(config(slo=Slo(ttft_s=5.0, tpot_s=None, target=0.99), method=Method(mode="standard")), idle_s=4.0)
    ramp_of(search)
    search.observe_ramp(None, 1.0)
    for steps in range(4):
        if isinstance(search.next(steps * step_s), Done):
            return answer_of(search, steps * step_s)
        search.observe_step(step_result(step_of(search, steps * step_s).rate_rps, "fail"), None)
    return search.answer_so_far("interrupted", "still going down")


def test_rates_of_few_requests_are_judged_while_the_time_lasts() -> None:
    assert with_few_requests(30.0).outcome == "interrupted"
    slow = with_few_requests(330.0)
    assert slow.outcome == "below"
    assert "time_up_too_few" in [note.code for note in slow.knee.notes if isinstance(note, Fact)]
