"""What stands beside a verdict: stalls of the client, small samples, worst blocks, lengths."""

from dataclasses import replace

import pytest

from core.facts import fact, says
from core.judge.verdict import Decision, decide_step, judge_repeat
from core.results import WorstBlock
from tests.core.judge.judging import COMPLETE, OVER, judge, lagging
from tests.core.judge.play import GOOD, SERVER, SLOW, START, Play, Request, aborted, ramp, rules, step


def test_a_single_stall_of_the_client_is_a_warning() -> None:
    result = judge(step(*[GOOD] * 100).played(), ticks=lagging(0.3, *[0.001] * 30))
    assert (result.verdict, result.loop_lag_max_s) == ("pass", 0.3)
    assert fact("loop_stalled", lag_max_s=0.3) in result.warnings


def test_a_client_that_is_blocked_every_second_is_void_and_told_once() -> None:
    result = judge(step(*[GOOD] * 100).played(), ticks=lagging(*[0.001, 0.31] * 15))
    assert (result.verdict, result.loop_lag_max_s) == ("void", 0.31)
    assert says(result.reason, "client_stalled")
    assert not any(says(warning, "loop_stalled", "client_stalled") for warning in result.warnings)
    silent = judge_repeat(step(*[GOOD] * 100).played(), COMPLETE, OVER, rules(), [], [], None, SERVER)
    assert silent.loop_lag_max_s is None


def test_a_window_that_allows_no_miss_warns_and_is_void_only_where_rules_are_strict() -> None:
    tally = step(*[GOOD] * 19).played()
    lax, strict = judge(tally), judge(tally, strict=True)
    assert (lax.verdict, strict.verdict) == ("pass", "void")
    assert fact("no_miss_allowed", planned=19) in lax.warnings
    assert strict.reason == fact("too_few_requests", planned=19, target=0.95)
    assert judge(step(*[GOOD] * 20).played(), strict=True).verdict == "pass"
    ramped = judge(ramp([GOOD] * 4, [GOOD] * 4).played(), strict=True)
    assert ramped.verdict == "unjudged", "segments of a ramp are short, and judge nothing"


def test_worst_block_of_a_whole_repeat_alone() -> None:
    """Ten blocks of 4 s for requests of 1 s; those due in [16, 20) miss."""
    play = step(*[GOOD] * 40, *[SLOW] * 10, *[GOOD] * 50, measure_s=40.0)
    result = judge(play.played())
    assert result.worst_block == WorstBlock(from_s=16.0, to_s=20.0, attainment=0.0)
    assert judge(aborted(play, at=30.0), Decision(kind="fail", reason=fact("undecided")), done_at=30.0).worst_block is None
    assert judge(step(*[GOOD] * 20, measure_s=7.9).played()).worst_block is None


def test_classes_of_length_stand_beside_the_whole() -> None:
    long = replace(GOOD, asked_input=4000, prompt=4000, first=0.9)
    result = judge(step(*[GOOD] * 75, *[long] * 25).played())
    assert [(b.input, b.n, b.attainment) for b in result.buckets] == [((512, 512), 75, 1.0), ((4000, 4000), 25, 0.0)]
    assert result.attainment == 0.75


def test_tpot_of_few_answers_is_marked_apart() -> None:
    one_token = Request(first=0.3, last=0.3, output=1, asked=1)
    result = judge(step(*[one_token] * 95, *[GOOD] * 5).played())
    assert (result.e2e_s.n, result.tpot_s.n) == (100, 5)
    assert fact("few_values", answers=5, latency="TPOT") in result.warnings


def test_token_and_request_rate_that_part_are_told() -> None:
    """A backlog of long answers from the warm-up finishes in a window that sends short ones."""
    long = Request(first=0.5, last=6.0, output=500, asked=500)
    result = judge(step(*[GOOD] * 100, measure_s=10.0, warm=[long] * 40, warm_s=2.0).played())
    assert any(says(warning, "token_rate_off") for warning in result.warnings)
    even = judge(step(*[GOOD] * 100, measure_s=10.0, warm=[GOOD] * 20, warm_s=2.0).played())
    assert not any(says(warning, "token_rate_off") for warning in even.warnings)


def test_one_request_of_one_token_gives_numbers_and_words() -> None:
    result = judge(step(Request(first=0.3, last=0.3, output=1, asked=1)).played())
    assert (result.verdict, result.ttft_s.n, result.tpot_s.p50) == ("pass", 1, None)
    for told in (
        fact("no_miss_allowed", planned=1),
        fact("no_tpot", without=1, answers=1),
        fact("few_values", answers=1, latency=None),
    ):
        assert told in result.warnings


LONGER = Request(first=0.1, last=10.0, output=300, asked=21, ending="aborted")
"""33 ms a token, with a limit of 50: late for 21 tokens, in time for as many as there are."""


@pytest.mark.parametrize(
    ("play", "kind"),
    [(step(*[LONGER] * 30), "fail"), (step(GOOD, warm=[LONGER] * 30), "overload")],
    ids=["in the window", "in the warm-up"],
)
def test_a_fail_by_a_length_that_the_server_does_not_keep_is_void(play: Play, kind: str) -> None:
    """Nothing has ended when it is decided, so that only what was cut off tells."""
    decision = decide_step(play.played(until=6.0), START + 6.0, rules(), 120.0)
    assert decision is not None
    assert decision.kind == kind
    result = judge(play.played(), decision)
    assert result.verdict == "void"
    assert result.reason == fact("answer_outran", tokens=300, asked=21)


def test_answers_that_were_all_longer_than_asked_are_void() -> None:
    result = judge(step(*[replace(GOOD, output=23)] * 100).played())
    assert result.verdict == "void"
    assert result.reason == fact("long_answers", tokens_mean=23.0, asked_mean=21.0)
    assert judge(step(*[replace(GOOD, output=22)] * 100).played()).verdict == "pass"


# --- answers that may stop by themselves ------------------------------------------------------------------------------


def test_answers_that_stopped_early_void_only_what_asked_for_their_length() -> None:
    short = Request(first=0.1, last=0.3, output=8, asked=21, finish="stop")
    play = step(*[short] * 60, *[GOOD] * 40).played()
    assert says(judge(play).reason, "short_answers")
    natural = judge(play, stop="natural")
    assert natural.verdict == "pass"
    assert natural.output_tokens is not None
    assert (natural.output_tokens.mean, natural.output_tokens.n) == (0.6 * 8 + 0.4 * 21, 100)
    assert (natural.output_tokens.p50, natural.output_tokens.p90, natural.stopped_frac) == (8.0, 21.0, 0.6)
    assert natural.lengths is not None
    assert natural.lengths.stop == "natural"


def test_answers_longer_than_the_most_void_with_natural_stopping_too() -> None:
    long = Request(output=30, asked=21)
    assert says(judge(step(*[long] * 100).played(), stop="natural").reason, "long_answers")


def test_a_window_that_was_cut_short_tells_of_long_answers_as_of_short_ones() -> None:
    """Every other answer takes 6 s more. At the cut half of what was sent in the last seconds is open, and none of it long."""
    long = Request(first=0.1, last=6.1, output=201, asked=400, finish="stop")
    short = Request(first=0.1, last=0.2, output=11, asked=400, finish="stop")
    result = judge(aborted(step(*[long, short] * 50, measure_s=10.0, warm_s=2.0), at=11.0), None, done_at=11.0, stop="natural")
    assert result.output_tokens is not None
    assert result.output_tokens.mean == pytest.approx(106.0, abs=6.0)
    assert result.lengths is not None
    assert result.lengths.output < 80
