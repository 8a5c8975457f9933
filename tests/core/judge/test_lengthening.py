"""A queue that is undecided over the window is listened to once more, for half a window; nothing else is."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.config import Slo
from core.facts import fact, says
from core.judge.stopping import REPORT_DELAY_S, Decision, decide_step, drain_left_s, extension_s, window_queue
from core.judge.verdict import judge_repeat
from core.results import RepeatResult
from core.slo import needed_good
from tests.core.judge.play import HANGS, REFUSED, SERVER, START, Play, Request, measured, rules, tail, warmup

LIMITS = Slo(ttft_s=0.8, tpot_s=None)
DRAIN_S = 120.0
PER_S, WINDOW_S = 100, 10.0
WINDOW_END, LONGER_END = 2.0 + WINDOW_S, 2.0 + 1.5 * WINDOW_S


def waiting(first_s: float) -> Request:
    return Request(first=first_s, last=first_s + 0.05)


def waits(start_s: float, end_s: float, seconds: float = WINDOW_S) -> tuple[Request, ...]:
    """100 requests/s whose waiting goes from one time to the other: so many times 100 stand in the queue."""
    n = int(PER_S * seconds)
    return tuple(waiting(start_s + (end_s - start_s) * i / n) for i in range(n))


CREEPING = waits(0.1, 0.25)
"""The queue grows from 10 to 25 while 1,000 requests arrive, by 1.5 %: too much to be flat, too little to be rising."""
SETTLES, CREEPS_ON, RUNS_AWAY = waits(0.1, 0.1), waits(0.25, 0.4), waits(0.25, 6.0)


def played(after: tuple[Request, ...], window: tuple[Request, ...] = CREEPING, tail_s: float = WINDOW_S) -> Play:
    return Play((warmup(2.0), measured(WINDOW_S), tail(tail_s)), ((), window, after))


def decide(play: Play, at: float, drain_s: float = DRAIN_S) -> Decision | None:
    return decide_step(play.played(at, LIMITS), START + at, rules(LIMITS), drain_s)


def judged(play: Play, at: float) -> RepeatResult:
    """The verdict on what was decided `at` seconds after the start."""
    decision = decide(play, at)
    assert decision is not None
    return judge_repeat(play.played(at, LIMITS), decision, START + at, rules(LIMITS), (), (), None, SERVER)


def test_the_example_is_what_it_says() -> None:
    tally = played(SETTLES).played(slo=LIMITS)
    assert window_queue(tally) == "undecided"
    assert window_queue(tally, START + LONGER_END) == "flat"
    assert window_queue(played(CREEPS_ON).played(slo=LIMITS), START + LONGER_END) == "undecided"
    assert window_queue(played(RUNS_AWAY).played(slo=LIMITS), START + LONGER_END) == "rising"


def test_an_undecided_queue_is_waited_for_once() -> None:
    for after in (SETTLES, CREEPS_ON, RUNS_AWAY):
        play = played(after)
        assert decide(play, WINDOW_END + REPORT_DELAY_S + 1.0) is None
        assert decide(play, LONGER_END + REPORT_DELAY_S - 0.01) is None
        decision = decide(play, LONGER_END + REPORT_DELAY_S + 0.01)
        assert decision is not None
        assert decision.kind == "complete"
        assert decision.queue_until == START + LONGER_END


def test_a_queue_that_is_flat_over_the_longer_time_passes_and_the_lengthening_is_said() -> None:
    result = judged(played(SETTLES), LONGER_END + 0.3)
    assert (result.verdict, result.queue) == ("pass", "flat")
    assert fact("lengthened", by_s=5.0) in result.warnings
    assert fact("queue_undecided") not in result.warnings


def test_a_queue_still_undecided_passes_and_says_so() -> None:
    result = judged(played(CREEPS_ON), LONGER_END + 0.3)
    assert (result.verdict, result.queue) == ("pass", "undecided")
    assert fact("lengthened", by_s=5.0) in result.warnings
    assert fact("queue_undecided") in result.warnings


def test_a_queue_that_rises_over_the_longer_time_fails() -> None:
    result = judged(played(RUNS_AWAY), LONGER_END + 0.3)
    assert (result.verdict, result.queue) == ("fail", "rising")
    assert says(result.reason, "queue_rising")


@pytest.mark.parametrize("window", [SETTLES, waits(0.1, 0.79)])
def test_a_queue_that_is_flat_or_rising_is_not_waited_for(window: tuple[Request, ...]) -> None:
    decision = decide(played(SETTLES, window), WINDOW_END + 0.9)
    assert decision is not None
    assert decision.queue_until is None


def test_a_fail_is_not_delayed() -> None:
    """One in ten hangs, and after the last of them no queue matters any more."""
    window = tuple(HANGS if i % 10 == 9 else request for i, request in enumerate(CREEPING))
    play = played(SETTLES, window)
    decision = decide(play, WINDOW_END + 0.8 + REPORT_DELAY_S)
    assert decision is not None
    assert decision.kind == "fail"
    refused = decide(played(SETTLES, (*CREEPING[:-25], *[REFUSED] * 25)), WINDOW_END + REPORT_DELAY_S + 0.1)
    assert refused is not None
    assert refused.kind == "fail"


def test_a_drained_repeat_that_misses_its_target_is_not_delayed() -> None:
    stuck = tuple(Request(first=r.first, last=None) if i % 10 == 9 else r for i, r in enumerate(CREEPING))
    play = played(SETTLES, stuck)
    assert decide(play, WINDOW_END + 0.9, drain_s=1.0) is None
    decision = decide(play, WINDOW_END + 1.0, drain_s=1.0)
    assert decision is not None
    assert (decision.kind, decision.queue_until) == ("drained", None)


@pytest.mark.parametrize(("tail_s", "drain_s", "by_s"), [(100.0, 120.0, 5.0), (3.0, 120.0, 3.0), (100.0, 2.0, 2.0)])
def test_it_is_lengthened_by_no_more_than_tail_and_drain_reach(tail_s: float, drain_s: float, by_s: float) -> None:
    play = played(SETTLES[: int(PER_S * min(tail_s, WINDOW_S))], tail_s=tail_s)
    assert extension_s(play.tally(LIMITS), drain_s) == by_s


def test_without_a_tail_nothing_is_lengthened() -> None:
    play = Play((warmup(2.0), measured(WINDOW_S)), ((), CREEPING))
    result = judged(play, WINDOW_END + 0.9)
    assert (result.verdict, result.queue) == ("pass", "undecided")
    assert not any(says(warning, "lengthened") for warning in result.warnings)


def test_a_ramp_and_an_empty_window_have_no_queue_verdict() -> None:
    ramp = Play((measured(10.0), measured(10.0, 2.0)), (CREEPING, CREEPING), phase="ramp")
    assert window_queue(ramp.played()) is None
    assert window_queue(played(()).played(), START + 2.0) is None


@settings(max_examples=25, deadline=None)
@given(st.floats(0.05, 0.3), st.floats(0.0, 0.3), st.floats(0.05, 0.79), st.integers(0, 15))
def test_lengthening_moves_the_queue_alone(start_s: float, growth_s: float, after_s: float, slow: int) -> None:
    """With a tail that may be lengthened into and without one: same account, same rates, same percentiles, at most M/2 later."""
    window = (*waits(start_s, start_s + growth_s)[slow:], *[waiting(0.85)] * slow)
    longer, plain = played(waits(after_s, after_s), window), Play((warmup(2.0), measured(WINDOW_S)), ((), window))
    moments = [WINDOW_END + 0.5 * i for i in range(12)]
    at, plain_at = (next(t for t in moments if decide(play, t)) for play in (longer, plain))
    assert plain_at <= at <= max(plain_at, LONGER_END + REPORT_DELAY_S + 0.5)
    result, other = judged(longer, at), judged(plain, plain_at)
    decision = decide(longer, at)
    assert decision is not None
    if other.good < needed_good(other.planned, LIMITS.target) or other.queue != "undecided":
        assert (at, decision.queue_until) == (plain_at, None)
        assert result.verdict == other.verdict
    else:
        assert decision.queue_until == START + LONGER_END
    assert result.planned == other.planned
    if not (result.curtailed or other.curtailed):
        parts = ("good", "misses", "attainment", "offered_rps", "served_rps", "goodput_rps", "output_tps", "total_tps")
        for part in (*parts, "ttft_s", "tpot_s", "e2e_s", "worst_block", "buckets"):
            assert getattr(result, part) == getattr(other, part), part
    msgspec.json.encode(result)


def test_the_drain_is_counted_down_while_something_is_waited_for() -> None:
    play = played(SETTLES, (*CREEPING[:-1], Request(first=0.1, last=None)))
    tally = play.played(slo=LIMITS)
    assert drain_left_s(play.played(5.0, LIMITS), START + 5.0, DRAIN_S) is None, "the window is not over"
    assert drain_left_s(tally, START + WINDOW_END + 20.0, DRAIN_S) == pytest.approx(100.0)
    assert drain_left_s(tally, START + WINDOW_END + 500.0, DRAIN_S) == 0.0
    assert drain_left_s(played(SETTLES).played(slo=LIMITS), START + WINDOW_END + 20.0, DRAIN_S) is None
