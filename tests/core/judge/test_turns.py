"""Turns of conversations: due when the answer before them has come, misses where one before them failed, never unsent."""

from collections.abc import Sequence
from dataclasses import replace

import msgspec
import numpy as np
import pytest

from core.config import Workload
from core.facts import fact, says
from core.judge import judge_repeat
from core.judge.stopping import decide_step
from core.judge.tally import Tally
from core.prefixes import planned_hit_frac
from core.records import LoadDone, RequestEnded
from core.results import Bounds, JudgeRules, Missed, RepeatResult
from core.schedule import Plan
from core.workloads import MixPart, Prefix, Source
from tests.core.judge.play import GOOD, REFUSED, SERVER, SLO, START, Request, apply, measured, order, rules, tail, time_of

PREVIOUS_FAILED = Request(late=None, first=None, last=None, end=0.0, ending="previous_failed")
WINDOW_S, PER_TALK = 10.0, 3


def plan(talks: int, think_s: float = 0.0) -> Plan:
    """Conversations of three turns at even distances over the window; a turn repeats what was said before it."""
    n = talks * PER_TALK
    turn = np.arange(n) % PER_TALK
    return Plan(
        offsets_s=np.repeat(np.arange(talks) * WINDOW_S / talks, PER_TALK),
        segment=np.zeros(n, dtype=np.int32),
        input_tokens=512 + 100 * turn,
        output_tokens=np.full(n, 21),
        after=np.where(turn > 0, np.arange(n) - 1, -1).astype(np.int32),
        think_s=np.where(turn > 0, think_s, 0.0),
    )


def played(talks: Sequence[Sequence[Request]], until: float = 1e9, think_s: float = 0.0) -> Tally:
    """Each conversation as it went: every turn is due at the end of the one before it plus the think time."""
    made = plan(len(talks), think_s)
    events = []
    for talk, requests in enumerate(talks):
        due = START + talk * WINDOW_S / len(talks)
        for turn, request in enumerate(requests):
            index = talk * PER_TALK + turn
            own = request.events(index, due)
            events += own
            ended = own[-1]
            if isinstance(ended, RequestEnded):
                due = ended.t_end + (think_s if ended.ending == "ok" else 0.0)
    tally = Tally(order(measured(WINDOW_S, len(talks) * PER_TALK / WINDOW_S), tail()), made, SLO)
    apply(tally, (event for event in sorted(events, key=time_of) if time_of(event) <= START + until))
    return tally


def judged(tally: Tally, at: float, given: JudgeRules | None = None, drain_s: float = 20.0) -> RepeatResult:
    given, now = given or rules(), START + at
    decision = decide_step(tally, now, given, drain_s)
    assert decision is not None
    done = LoadDone(order=7, t=now, sent=tally.sent_count, unsent=0, cpu_frac=0.1, loop_lag_max_s=0.0)
    return judge_repeat(tally, decision, now, given, (), (), done, SERVER)


def test_all_turns_of_the_conversations_that_begin_in_the_window_are_its_requests() -> None:
    tally = played([[GOOD] * 3] * 20)
    assert tally.bounds(START + 60) == Bounds(planned=60, good=60, bad=0, open=0)
    result = judged(tally, 60)
    assert (result.verdict, result.planned, result.attainment) == ("pass", 60, 1.0)
    assert result.queue != "rising"


def test_a_later_turn_is_judged_from_when_it_was_due() -> None:
    """The third is due seconds after its conversation began, and its limits run from then on."""
    tally = played([[GOOD, GOOD, replace(GOOD, first=0.7)]], think_s=5.0)
    assert tally.bounds(START + 60).good == 3
    assert tally.lateness_s.max == pytest.approx(0.0)
    late = played([[GOOD, GOOD, replace(GOOD, first=0.9, last=None)]], think_s=5.0)
    assert late.bounds(START + 13).bad == 1


def test_what_is_not_due_yet_is_no_miss_however_long_it_takes() -> None:
    tally = played([[GOOD]], until=1.0)
    assert tally.bounds(START + 500) == Bounds(planned=3, good=1, bad=0, open=0)
    assert tally.not_due() == 2


def test_turns_after_one_that_failed_are_misses_at_once_and_no_errors() -> None:
    tally = played([*[[GOOD] * 3] * 39, [GOOD, REFUSED, PREVIOUS_FAILED]])
    assert tally.bounds(START + 60) == Bounds(planned=120, good=118, bad=2, open=0)
    result = judged(tally, 60, msgspec.structs.replace(rules(), curtail_pass=False))
    assert (result.verdict, result.errors, result.error_rate, result.misses) == ("pass", 1, 1 / 120, 2)
    assert result.missed == Missed(failed=1, previous=1)
    assert result.endings == {"ok": 118, "http": 1, "previous_failed": 1}
    assert (tally.sent_count, tally.never_sent) == (119, 1)


def test_errors_at_the_beginning_of_conversations_are_named_as_the_reason() -> None:
    result = judged(played([[REFUSED, PREVIOUS_FAILED, PREVIOUS_FAILED]] * 20), 60)
    assert result.verdict == "fail"
    assert says(result.reason, "ended_in_errors", "every_request_failed", "too_many_errors")
    assert result.errors == 20


def test_the_drain_time_begins_when_the_last_turn_could_be_due_and_what_was_not_due_then_voids_nothing() -> None:
    """An answer that never comes keeps the turn after it from being due: that is a miss, and the client left nothing out."""
    hangs = replace(GOOD, first=0.1, last=None)
    tally = played([*[[GOOD] * 3] * 19, [GOOD, hangs]], think_s=4.0)
    last_due = START + 9.5 + 1.0 + 4.0
    given = msgspec.structs.replace(rules(), curtail_pass=False)
    assert tally.drains_from(START + WINDOW_S) > last_due
    assert decide_step(tally, START + WINDOW_S + 20.5, given, 20.0) is None
    result = judged(tally, 60, given)
    assert (result.verdict, result.misses) == ("pass", 2)


def test_turns_that_were_not_due_when_the_drain_time_was_over_are_counted_apart() -> None:
    hangs = replace(GOOD, first=0.1, last=None)
    tally = played([*[[GOOD] * 3] * 19, [hangs]])
    result = judged(tally, 60, msgspec.structs.replace(rules(), curtail_pass=False))
    assert (result.planned, result.sent, result.not_due, result.misses) == (60, 58, 2, 3)


def test_the_length_rule_is_for_prompts_that_were_known_beforehand() -> None:
    """Later turns hold what was answered, which may be of another length."""
    talk = [replace(GOOD, prompt=512), replace(GOOD, prompt=900, asked_input=612), replace(GOOD, prompt=1400, asked_input=712)]
    assert judged(played([talk] * 20), 60).verdict == "pass"
    off = [replace(GOOD, prompt=900), *talk[1:]]
    assert says(judged(played([off] * 20), 60).reason, "prompt_length_off")


def _turn(turn: int, cached: int | None = None) -> Request:
    length = 512 + 100 * turn
    return replace(GOOD, asked_input=length, prompt=length, cached=cached)


def test_hits_of_turns_are_told_beside_the_plan_and_off_by_more_than_five_points_they_are_a_note() -> None:
    planned = (528 + 624) / 1836  # whole blocks of 16 tokens of 533 and 633, which the turns before and their answers have
    given = msgspec.structs.replace(rules(prefix=Prefix(kind="turns")), block_tokens=16)
    as_planned = judged(played([[_turn(0, 0), _turn(1, 528), _turn(2, 624)]] * 20), 60, given)
    assert (as_planned.verdict, [each for each in as_planned.warnings if says(each, "turns_hits_off")]) == ("pass", [])
    assert as_planned.planned_hit_frac == planned
    evicted = judged(played([[_turn(0, 0), _turn(1, 0), _turn(2, 0)]] * 20), 60, given)
    (note,) = [each for each in evicted.warnings if says(each, "turns_hits_off")]
    assert evicted.verdict == "pass"
    assert note == fact("turns_hits_off", hit_frac=0.0, planned_frac=planned, counted=False)


def test_the_plan_of_a_workload_is_that_of_its_conversations() -> None:
    mix = tuple(MixPart(input_tokens=512 + 100 * turn, output_tokens=21, row=0, turn=turn) for turn in range(3))
    workload = Workload(mix=mix, source=Source(kind="dataset", file="talks.json"), prefix=Prefix(kind="turns"))
    assert planned_hit_frac(workload, SERVER) == (528 + 624) / 1836
    assert planned_hit_frac(msgspec.structs.replace(workload, mix=()), SERVER) is None
