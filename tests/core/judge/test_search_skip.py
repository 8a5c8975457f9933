"""Steps that the user ends before they are judged: where the search goes on, and that nothing is claimed of their rates."""

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.config import Method, Mode
from core.facts import fact, says, several
from core.judge.search.actions import Done, Ramp, Step
from core.judge.search.search import Search
from tests.builders import told
from tests.core.judge.feed import answer_of, config, judged, ramp_of, repeats_of, started, step_of
from tests.core.judge.judging import TIME_UP


def after_ramp(passed_rps: float | None, failed_rps: float | None, method: Method | None = None) -> Search:
    search = started(config(max_rps=None if failed_rps else passed_rps, method=method))
    ramp_of(search)
    search.observe_ramp(passed_rps, failed_rps)
    return search


def skipped(search: Search, elapsed_s: float = 0.0) -> float:
    """Skip what is asked for; its rate."""
    step = step_of(search, elapsed_s)
    search.skip(step.rate_rps, step.phase)
    return step.rate_rps


def passed(search: Search, verdict: bool = True) -> float:
    """Let what is asked for pass (or fail) by all its repeats; its rate."""
    step = step_of(search)
    search.observe_step(judged(step, *repeats_of(step, lambda _: verdict)), 2.0)
    return step.rate_rps


# --- the search ---


def test_without_a_pass_the_search_goes_on_below() -> None:
    search = after_ramp(8.0, 16.0)

    assert skipped(search) == pytest.approx(11.31, abs=0.01)
    assert skipped(search) == 8.0
    assert skipped(search) == 4.0
    assert passed(search) == 2.0
    assert passed(search) == pytest.approx(2.83, abs=0.01)
    answer = answer_of(search)
    assert (answer.outcome, answer.knee.first_fail_rps) == ("bracket", 16.0)
    assert answer.knee.pass_rps == pytest.approx(2.83, abs=0.01)
    ended = fact("steps_ended", rates_rps=[math.sqrt(128.0), 8.0, 4.0])
    assert answer.told == (answer.knee.notes[-1],) == (told(answer.message, "steps_ended"),) == (ended,)
    assert told(answer.message, "bracket").figures["first_fail_rps"] == 16.0
    assert not any(says(note, *TIME_UP) for note in answer.knee.notes)


def test_with_a_pass_in_hand_the_search_is_over() -> None:
    search = after_ramp(8.0, 32.0)
    first = passed(search)
    assert skipped(search) > first

    answer = answer_of(search)

    assert (answer.outcome, answer.knee.pass_rps, answer.knee.first_fail_rps) == ("bracket", first, 32.0)
    assert fact("one_repeat") in answer.knee.notes


def test_nothing_is_below_when_the_lower_rates_were_not_judged() -> None:
    search = after_ramp(None, 2.0)
    rates = []
    while not isinstance(search.next(0.0), Done):
        rates.append(skipped(search))

    answer = answer_of(search)

    assert len(rates) > 3
    assert (answer.outcome, answer.knee.pass_rps, answer.knee.first_fail_rps) == ("interrupted", None, 2.0)
    assert answer.message == several(fact("not_known_below", fail_rps=2.0, short_rps=None), fact("steps_ended", rates_rps=rates))


def test_a_fail_below_what_was_ended_is_below() -> None:
    search = after_ramp(8.0, 16.0)
    skipped(search)
    while not isinstance(search.next(0.0), Done):
        passed(search, False)

    answer = answer_of(search)

    assert answer.outcome == "below"
    assert told(answer.message, "below").figures["all_tried"] is False
    assert told(answer.message, "steps_ended").figures == {"rates_rps": [math.sqrt(128.0)]}
    assert fact("one_failing_step") in answer.knee.notes


def test_the_highest_rate_that_was_not_judged_is_no_highest_rate_tried() -> None:
    search = after_ramp(100.0, None)
    assert skipped(search) == 100.0
    while not isinstance(search.next(0.0), Done):
        passed(search)

    answer = answer_of(search)

    assert answer.outcome == "at_least"
    assert told(answer.message, "at_least").figures["all_tried"] is False
    assert told(answer.message, "steps_ended").figures == {"rates_rps": [100.0]}


# --- lists and required rates ---


def test_a_listed_rate_is_done_with() -> None:
    search = started(config(method=Method(rates_rps=(2.0, 4.0, 8.0))))

    assert passed(search) == 2.0
    assert skipped(search) == 4.0
    assert passed(search, False) == 8.0
    answer = answer_of(search)
    assert (answer.outcome, answer.knee.pass_rps, answer.knee.first_fail_rps) == ("bracket", 2.0, 8.0)
    assert told(answer.message, "steps_ended").figures == {"rates_rps": [4.0]}


def test_a_list_of_which_nothing_was_judged_has_no_answer() -> None:
    search = started(config(method=Method(rates_rps=(2.0,))))
    skipped(search)

    answer = answer_of(search)

    assert answer.outcome == "interrupted"
    assert answer.message == several(fact("no_rate_judged", short_rps=None), fact("steps_ended", rates_rps=[2.0]))


def test_a_required_rate_that_was_ended_is_not_judged_and_a_search_step_at_it_leaves_it_to_be() -> None:
    search = after_ramp(8.0, 11.0, Method(require_rps=8.0))
    assert step_of(search).phase == "list"
    search.skip(8.0, "search")
    assert (step_of(search).phase, step_of(search).rate_rps) == ("list", 8.0)

    skipped(search)

    assert search.require_met is None
    assert step_of(search).phase == "search"


# --- confirmation ---


def found(mode: Mode = "standard") -> Search:
    """The ramp held 8 and failed 16, and the one step between them passed."""
    search = after_ramp(8.0, 16.0, Method(mode=mode))
    passed(search)
    return search


def to(search: Search, phase: str) -> Step:
    """Drive on, rates up to 12.5 holding, until a step of that phase is asked for."""
    while (step := step_of(search)).phase != phase:
        search.observe_step(judged(step, *repeats_of(step, lambda rate_rps: rate_rps <= 12.5)), 2.0)
    return step


def test_a_confirmation_that_was_ended_finishes_with_what_is_there() -> None:
    search = found()
    to(search, "confirm")
    skipped(search)

    answer = answer_of(search)

    assert (answer.outcome, answer.knee.pass_rps) == ("interrupted", None)
    assert told(answer.message, "not_known_below").figures["short_rps"] == pytest.approx(math.sqrt(128.0))
    assert says(answer.message, "steps_ended")


def test_a_second_candidate_that_was_ended_leaves_the_first() -> None:
    search = found()
    to(search, "confirm")
    first = passed(search)
    while (step := step_of(search)).phase != "confirm":
        search.observe_step(judged(step, *repeats_of(step, lambda rate_rps: rate_rps <= 12.5)), 2.0)
    skipped(search)

    answer = answer_of(search)

    assert (answer.outcome, answer.knee.pass_rps, answer.knee.pass_repeats) == ("bracket", first, 2)


def test_without_the_clear_fail_that_was_ended_a_rate_is_confirmed_all_the_same() -> None:
    search = found()
    to(search, "tighten")
    skipped(search)

    assert step_of(search).phase == "confirm"
    rate_rps = passed(search)
    answer = answer_of(search)
    assert (answer.outcome, answer.knee.pass_rps, answer.knee.clear_fail_rps) == ("bracket", rate_rps, None)


@settings(deadline=None)
@given(
    mode=st.sampled_from(["quick", "standard", "acceptance"]),
    knee=st.floats(0.1, 500.0),
    chance=st.floats(0.05, 1.0),
    seed=st.integers(0, 10_000),
    max_rps=st.none() | st.floats(0.5, 500.0),
)
def test_a_search_whose_steps_are_ended_at_random_ends_and_claims_only_what_was_judged(
    mode: Mode, knee: float, chance: float, seed: int, max_rps: float | None
) -> None:
    noise, search, left = random.Random(seed), started(config(max_rps=max_rps, method=Method(mode=mode))), set[float]()
    failed, elapsed_s = set[float](), 0.0
    for _ in range(200):
        action = search.next(elapsed_s)
        assert (search.left_s(elapsed_s) or 0.0) >= 0
        if isinstance(action, Done):
            break
        elapsed_s += 30.0
        if isinstance(action, Ramp):
            rates = [segment.rate_rps for segment in action.segments]
            above = [rate for rate in rates if rate > knee]
            search.observe_ramp(max((rate for rate in rates if rate <= knee), default=None), min(above, default=None))
            failed |= {min(above)} if above else set()
        elif isinstance(action, Step) and noise.random() < chance:
            left.add(action.rate_rps)
            search.skip(action.rate_rps, action.phase)
        elif isinstance(action, Step):
            failed |= {action.rate_rps} if action.rate_rps > knee else set()
            search.observe_step(judged(action, *repeats_of(action, lambda rate_rps: rate_rps <= knee)), 2.0)
    answer = answer_of(search, elapsed_s)
    assert answer.knee.first_fail_rps in (None, *failed)
    if left:
        assert says(answer.message, "steps_ended")
    if answer.outcome == "below":
        assert min(failed) <= min(left, default=min(failed)), "a lower rate was never judged"
