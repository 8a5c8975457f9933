"""What the repeats of a step amount to, and when there are enough of them."""

from typing import Literal, get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core import prose
from core.facts import fact, several
from core.judge.rate_verdicts import (
    failed_segment,
    floor_of,
    held,
    held_rates,
    held_verdict,
    ramp_reason,
    step_over,
    step_verdict,
)
from core.judge.verdict import Decision
from core.records import Segment
from core.results import RepeatResult, RepeatVerdict
from tests.core.judge import play
from tests.core.run.events import order
from tests.core.run.test_state import repeat_result


def results(*verdicts: str) -> list[RepeatResult]:
    return [repeat_result((0.5, 0.6) if verdict == "fail" else (0.97, 0.97), verdict) for verdict in verdicts]


@pytest.mark.parametrize(
    ("verdicts", "step"),
    [
        (["pass"], "pass"),
        (["pass", "pass", "pass"], "pass"),
        (["void", "pass"], "pass"),
        (["fail"], "fail"),
        (["fail", "pass", "pass", "pass"], "fail"),
        (["void", "fail"], "fail"),
        (["pass", "fail"], "mixed"),
        (["pass", "fail", "pass"], "mixed"),
        (["pass", "fail", "fail"], "fail"),
        (["pass", "pass", "fail", "fail"], "fail"),
        (["pass", "pass", "pass", "fail", "fail"], "mixed"),
        (["unjudged"], "unjudged"),
        (["void"], "unjudged"),
        ([], "unjudged"),
    ],
)
def test_the_verdict_of_a_step(verdicts: list[str], step: str) -> None:
    assert step_verdict(results(*verdicts))[0] == step


@pytest.mark.parametrize(
    ("verdicts", "stop", "over"),
    [
        ([], "first_fail", False),
        (["pass", "pass"], "first_fail", False),
        (["pass", "fail"], "first_fail", True),
        (["void"], "first_fail", False),
        (["fail"], "majority", False),
        (["fail", "pass"], "majority", False),
        (["fail", "void", "fail"], "majority", True),
        (["pass", "unjudged", "pass"], "majority", True),
        (["pass", "pass", "unjudged"], "first_fail", False),
        (["pass", "void", "pass", "pass"], "first_fail", True),
        (["fail", "pass", "fail"], "majority", True),
    ],
)
def test_when_a_step_of_three_repeats_is_over(verdicts: list[str], stop: Literal["first_fail", "majority"], over: bool) -> None:
    assert step_over(results(*verdicts), stop, 3) is over


def test_what_became_of_held_rates() -> None:
    text = prose.text(held([(4.0, results("pass", "fail", "void")), (5.0, results("void"))]))

    assert text == (
        "held 4.00 requests/s (1 of 2 segments passed, the lowest attainment at most 60.0 %), "
        "then 5.00 requests/s (no segment was judged)"
    )


def cut(sent: int) -> RepeatResult:
    undecided = repeat_result((0.5, 1.0), "unjudged")
    return msgspec.structs.replace(undecided, reason=fact("undecided"), sent=sent, good=sent - 3, misses=1)


def test_a_segment_that_was_cut_off_is_told_with_what_came_of_it() -> None:
    assert prose.text(held([(4.0, [*results("pass"), cut(20)])])) == (
        "held 4.00 requests/s (1 of 1 segment passed, the lowest attainment 97.0 %; "
        "the next was cut off: 20 sent, 17 good, 1 missed, 2 open)"
    )
    assert prose.text(held([(4.0, [cut(20)])])) == (
        "held 4.00 requests/s (no segment was judged, one was cut off: 20 sent, 17 good, 1 missed, 2 open)"
    )
    verdict, reason = held_verdict([*results("pass", "pass"), cut(20)])
    cut_off = fact("segment_cut_off", fact("cut_off", sent=20, good=17, misses=1, open=2))
    assert (verdict, reason) == ("pass", several(fact("all_passed", repeats=2), cut_off))
    assert held_verdict([cut(20)])[1] == several(fact("no_segment_judged"), cut_off)
    assert held_verdict([])[1] == fact("no_segment_judged")


def test_rates_that_were_changed_again_in_their_warm_up_are_not_told() -> None:
    assert prose.text(held([(4.0, []), (4.4, results("pass")), (4.8, []), (5.3, [])])) == (
        "held 4.40 requests/s (1 of 1 segment passed, the lowest attainment 97.0 %), then 5.30 requests/s (no segment was judged)"
    )


def test_the_reason_is_that_of_the_first_failing_repeat() -> None:
    assert step_verdict(results("pass"))[1] == "because"
    assert step_verdict(results("pass", "pass"))[1] == fact("all_passed", repeats=2)
    assert step_verdict(results("pass", "fail"))[1] == fact("some_failed", "because", failed=1, repeats=2)


@given(st.lists(st.sampled_from(get_args(RepeatVerdict)), max_size=8))
def test_a_step_passes_only_if_every_valid_repeat_did(verdicts: list[str]) -> None:
    verdict, reason = step_verdict(results(*verdicts))

    valid = [each for each in verdicts if each in ("pass", "fail")]
    assert (verdict == "pass") == (bool(valid) and set(valid) == {"pass"})
    assert reason


def test_the_floor_is_the_minimum_of_the_valid_repeats_at_both_ends() -> None:
    floor = floor_of(
        [
            repeat_result((0.96, 1.0), "pass"),
            repeat_result((0.2, 0.7), "fail"),
            repeat_result((0.0, 0.1), "void"),
            repeat_result((0.0, 0.2), "unjudged"),
        ]
    )

    assert floor == (0.2, 0.7)
    assert floor_of([]) is None


RAMP = order(phase="ramp", segments=tuple(Segment(rate_rps=r, duration_s=6.0, role="measured") for r in (1.0, 2.0, 4.0)))


def test_a_ramp_says_which_rates_it_was_seen_to_hold() -> None:
    good, one_slow, slow, open_ = [play.GOOD] * 10, [*[play.GOOD] * 9, play.SLOW], [play.SLOW] * 10, [play.HANGS] * 10
    tally = play.ramp(good, one_slow, slow, open_, good).played()
    now = play.START + 100.0

    assert held_rates(tally, 0.95, now, 2) == [1.0, 2.0], "a segment may miss one request"
    assert held_rates(tally, 0.95, now, None) == [1.0, 2.0, 16.0], "what was open when it ended has not been seen to hold"
    assert held_rates(tally, 0.95, now, 0) == []
    alone = play.ramp(good, [play.HANGS]).played()
    assert held_rates(alone, 0.95, now, None) == [1.0], "the one request that it may miss is all that it has"
    fails = fact("ramp_failed", fact("out_of_reach", at_most_frac=0.0, target=0.95), rate_rps=4.0)
    assert ramp_reason([1.0, 2.0], fails) == several(fact("ramp_held", rates_rps=[1.0, 2.0]), fails)
    assert ramp_reason([], "because") == "because"


def test_the_segment_of_a_ramp_that_failed() -> None:
    assert failed_segment(Decision(kind="fail", reason=fact("undecided"), segment=1)) == 1
    assert failed_segment(Decision(kind="drained", reason=fact("load_ended_early"))) is None, (
        "nothing says which rate failed, if any"
    )
    assert failed_segment(Decision(kind="complete", reason=fact("no_rate_failed"))) is None
    assert failed_segment(None) is None
