"""The ends of a bracket: measured rates with that verdict, which the windows together may disqualify and never make."""

import pytest
from msgspec.structs import replace

from core.config import Method
from core.facts import Fact, fact
from core.judge.search.bracket import Bracket
from core.results import FailCount, Knee, RepeatVerdict, SloMargin, StepResult
from tests.core.judge.feed import step_result

P: RepeatVerdict = "pass"
F: RepeatVerdict = "fail"

STANDARD = Method(mode="standard")
RAMP = step_result(16.0, "fail", phase="ramp")
FOUND = [RAMP, step_result(8.0, "pass", P, phase="search")]


def knee_of(*steps: StepResult, method: Method = STANDARD) -> Knee:
    return Bracket.of(method, [*FOUND, *steps]).knee()


def confirmed(rate_rps: float) -> StepResult:
    return step_result(rate_rps, "pass", P, P, phase="confirm")


def test_one_failing_repeat_just_above_a_rate_that_held_is_no_upper_end() -> None:
    knee = knee_of(confirmed(8.0), step_result(8.9, "mixed", P, F, phase="confirm"))
    assert (knee.pass_rps, knee.first_fail_rps, knee.clear_fail_rps) == (8.0, 8.9, None)
    assert knee.upper_rps != 8.9


def test_a_clear_fail_far_above_is_one() -> None:
    knee = knee_of(confirmed(8.0), step_result(14.0, "fail", F, F, phase="tighten"))
    assert (knee.first_fail_rps, knee.clear_fail_rps, knee.upper_rps) == (14.0, 14.0, 14.0)
    assert knee.upper == FailCount(failed=2, run=2)
    assert knee.clearly_fails
    assert not knee.open_above


def test_a_doubtful_fail_gives_way_to_the_next_measured_one() -> None:
    knee = knee_of(
        confirmed(8.0), step_result(8.9, "mixed", P, F, phase="confirm"), step_result(12.0, "fail", F, F, phase="tighten")
    )
    assert (knee.first_fail_rps, knee.upper_rps, knee.open_above) == (8.9, 12.0, False)


def test_without_a_sure_one_the_bracket_is_open_above() -> None:
    few = [step_result(14.0, "pass", P, phase="search"), step_result(15.0, "fail", F, phase="search")]
    knee = Bracket.of(STANDARD, few).knee()
    assert (knee.first_fail_rps, knee.upper_rps, knee.upper, knee.open_above) == (15.0, None, None, True)
    assert knee.fail_rps is None
    assert fact("open_above") in knee.notes


def test_the_only_rate_that_held_stands_with_a_word_where_the_windows_together_speak_against_it() -> None:
    against = [step_result(rate_rps, "fail", F, F, phase="tighten") for rate_rps in (10.0, 10.5)]
    knee = knee_of(confirmed(11.5), *against)
    assert knee.pass_rps == 11.5
    assert fact("thin_margin", pass_rps=11.5) in knee.notes
    knee = knee_of(confirmed(11.5), *against, confirmed(6.0))
    assert knee.pass_rps == 6.0
    assert not [note for note in knee.notes if isinstance(note, Fact) and note.code == "thin_margin"]


@pytest.mark.parametrize("method", [Method(), Method(careful=True)])
def test_quick_ends_at_its_first_fail(method: Method) -> None:
    knee = knee_of(step_result(8.9, "fail", F, phase="search"), method=method)
    assert (knee.first_fail_rps, knee.upper_rps, knee.open_above) == (8.9, 8.9, False)


def test_a_list_ends_at_the_rate_that_it_was_asked_for() -> None:
    listed = [step_result(4.0, "pass", P, P, P, phase="list"), step_result(4.2, "fail", F, phase="list")]
    knee = Bracket.of(Method(mode="standard", rates_rps=(4.0, 4.2)), listed).knee()
    assert (knee.pass_rps, knee.upper_rps, knee.open_above) == (4.0, 4.2, False)


def test_nothing_failed_and_nothing_is_open() -> None:
    knee = Bracket.of(STANDARD, [confirmed(8.0)]).knee()
    assert (knee.upper_rps, knee.open_above, knee.fail_rps) == (None, False, None)


def test_an_older_record_keeps_the_ends_that_it_had() -> None:
    older = Knee(pass_rps=8.0, first_fail_rps=9.0, first_fail=FailCount(failed=1, run=3))
    assert (older.fail_rps, older.fails) == (9.0, FailCount(failed=1, run=3))
    older = Knee(pass_rps=8.0, first_fail_rps=9.0, clear_fail_rps=11.0, clear_fail=FailCount(failed=2, run=3))
    assert (older.fail_rps, older.fails, older.clearly_fails) == (11.0, FailCount(failed=2, run=3), True)


def with_margin(step: StepResult, at_target: float) -> StepResult:
    """The step as one that knows how far its windows were from the limits."""
    margin = SloMargin(at_target=at_target, p50=at_target / 2)
    return replace(step, repeats=tuple(replace(repeat, slo_margin=margin) for repeat in step.repeats))


def test_quick_takes_no_end_that_a_few_windows_put_in_doubt_where_another_is_there() -> None:
    method, far = Method(), with_margin(step_result(5.0, "pass", P), 0.5)
    near = [with_margin(step_result(8.0, "pass", P), 0.99), with_margin(step_result(8.3, "fail", F), 1.01)]
    knee = Bracket.of(method, [RAMP, far, *near]).knee()
    assert (knee.pass_rps, knee.first_fail_rps) == (5.0, 8.3)
    assert knee.upper_rps != 8.3
    without = Bracket.of(
        method, [RAMP, step_result(5.0, "pass", P), step_result(8.0, "pass", P), step_result(8.3, "fail", F)]
    ).knee()
    assert (without.pass_rps, without.upper_rps) == (8.0, 8.3), "verdicts alone say too little to disqualify anything"
