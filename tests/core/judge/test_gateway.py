"""What a gateway's limit holds back or turns away: misses from the schedule, apart from errors, and no lateness of the client."""

from dataclasses import replace

import msgspec
import numpy as np
import pytest

from core.config import Slo, Workload
from core.facts import Fact, fact, says
from core.judge import judge_repeat
from core.judge.diagnosis.diagnosis import diagnose
from core.judge.stopping import decide_step
from core.records import LoadDone
from core.results import Answer, Idle, JudgeRules, RepeatResult, StepResult
from core.workloads import Gateway, parse_mix
from tests.core.judge.play import GOOD, REFUSED, SERVER, SLO, START, Play, Request, record, rules, step

HELD = replace(GOOD, held=True, late=0.5, first=0.6, last=1.5)
"""It waited half a second at the gateway, and met every limit all the same."""
LATE = replace(GOOD, held=True, late=2.0, first=2.1, last=3.0)
"""It waited for two seconds, and would have been in time without."""
REJECTED = replace(GOOD, held=True, late=None, first=None, last=None, end=0.0, ending="rejected")
TIMED_OUT = replace(REJECTED, end=1.5, ending="queue_timeout")
WAITS = replace(REJECTED, end=None, ending="ok")
"""It still waits."""
CAPPED = msgspec.structs.replace(rules(), gateway=Gateway(limit=8, queue=4, timeout_s=1.5))


def result_of(play: Play, at: float = 60.0, given: JudgeRules = CAPPED, drain_s: float = 20.0) -> RepeatResult:
    tally = play.played(at)
    now = START + at
    decision = decide_step(tally, now, given, drain_s)
    assert decision is not None
    done = LoadDone(order=7, t=now, sent=tally.sent_count, unsent=0, cpu_frac=0.1, loop_lag_max_s=0.0)
    return judge_repeat(tally, decision, now, given, (), (), done, SERVER)


def test_what_waits_is_open_from_the_schedule_and_no_request_in_flight() -> None:
    tally = step(*[WAITS] * 10).played(7.0)
    assert (tally.at_gateway, tally.in_flight, tally.sent_count, tally.no_first_token) == (6, 0, 0, 0)
    bounds = tally.bounds(START + 7.0)
    assert (bounds.planned, bounds.bad, bounds.open, bounds.good) == (10, 5, 1, 0), "past the TTFT limit of 0.8 s, but for the last"


def test_the_wait_is_no_lateness_of_the_client() -> None:
    tally = step(*[LATE] * 10).played()
    assert tally.lateness_s.max is not None
    assert abs(tally.lateness_s.max) < 1e-9
    assert (tally.at_gateway, tally.in_flight) == (0, 0)


def test_rejections_are_misses_and_no_errors_and_void_nothing() -> None:
    result = result_of(step(*[GOOD] * 95, *[REJECTED] * 3, *[TIMED_OUT] * 2))
    assert (result.verdict, result.attainment) == ("pass", 0.95)
    assert (result.errors, result.error_rate, result.misses) == (0, 0.0, 5)
    assert result.endings == {"ok": 95, "rejected": 3, "queue_timeout": 2}
    use = result.gateway
    assert use is not None
    assert (use.limit, use.held, use.rejected, use.timed_out, use.never_sent) == (8, 2, 3, 2, 5)
    assert fact("gateway_turned_away", rejected=3, timed_out=2) in result.warnings
    assert not any(says(each, "errors_said") for each in result.warnings)
    assert [(bucket.n, bucket.good, bucket.errors) for bucket in result.buckets] == [(100, 95, 0)]


def test_too_many_rejections_fail_the_rate_by_its_attainment_and_not_by_errors() -> None:
    result = result_of(step(*[GOOD] * 80, *[REJECTED] * 20))
    assert (result.verdict, result.errors) == ("fail", 0)
    assert says(result.reason, "out_of_reach")
    assert result.missed is not None
    assert (result.missed.gateway, result.missed.failed, result.missed.ttft) == (20, 0, 0)


def test_errors_of_the_server_are_still_errors_beside_rejections() -> None:
    result = result_of(step(*[GOOD] * 95, *[REFUSED] * 3, *[REJECTED] * 2))
    assert (result.verdict, result.errors) == ("fail", 3)
    assert says(result.reason, "too_many_errors")


def test_the_wait_is_told_over_all_that_were_not_rejected() -> None:
    result = result_of(step(*[GOOD] * 60, *[HELD] * 38, REJECTED, TIMED_OUT))
    use = result.gateway
    assert use is not None
    assert (use.wait_s.n, use.wait_s.p50, use.wait_s.max, use.held) == (99, 0.0, 1.5, 39)
    assert use.wait_s.p95 == 0.5
    assert result.ttft_s.p95 == pytest.approx(0.6)


def test_without_a_limit_there_is_nothing_to_tell() -> None:
    result = result_of(step(*[GOOD] * 100), given=rules())
    assert (result.gateway, result.retried) == (None, 0)


def test_requests_that_still_wait_when_the_drain_is_over_are_misses_and_not_unsent() -> None:
    slo = Slo(tpot_s=0.05, ttft_s=None)  # nothing decides them before the drain ends
    play = step(*[GOOD] * 96, *[WAITS] * 4)
    tally = play.played(60.0, slo)
    given = msgspec.structs.replace(CAPPED, slo=slo, curtail_pass=False)
    decision = decide_step(tally, START + 60.0, given, 20.0)
    assert decision is not None
    assert decision.kind == "drained"
    result = judge_repeat(tally, decision, START + 60.0, given, (), (), None, SERVER)
    assert (result.verdict, result.attainment) == ("pass", 0.96)


def test_retries_are_counted() -> None:
    again = replace(GOOD, retries=2)
    result = result_of(step(*[GOOD] * 97, *[again] * 3))
    assert result.retried == 3
    assert fact("retried", requests=3, answered=3) in result.warnings


def test_what_waits_at_the_gateway_is_in_the_queue_that_is_judged() -> None:
    """Each waits longer than the one before, and the server itself has no queue."""
    waits = [replace(GOOD, held=True, late=0.02 * i, first=0.02 * i + 0.05, last=0.02 * i + 0.9) for i in range(200)]
    play = step(*waits, measure_s=20.0)
    came, begun, ended = play.played().traffic.queue_series
    assert np.allclose(np.sort(came)[:3], START + 2.0 + np.array([0.0, 0.1, 0.2]))
    assert came.size == begun.size == ended.size == 200
    slo = Slo(ttft_s=10.0, tpot_s=None)
    given = msgspec.structs.replace(CAPPED, slo=slo)
    tally = play.played(60.0, slo)
    decision = decide_step(tally, START + 60.0, given, 20.0)
    assert decision is not None
    result = judge_repeat(tally, decision, START + 60.0, given, (), (), None, SERVER)
    assert (result.verdict, result.queue) == ("fail", "rising")
    assert says(result.reason, "gateway_queue_rising")


def diagnosed(*requests: Request) -> tuple[str, str, list[str]]:
    """The cause, the finding about the queue, and the codes of what was seen there."""
    result = result_of(step(*requests))
    failing = StepResult(step=1, rate_rps=4.0, phase="search", verdict="fail", reason="", floor=None, repeats=(result,))
    found = diagnose(SLO, Answer(outcome="below", message=""), [failing], SERVER, Idle())
    assert found is not None
    queue = next(each for each in found.steps if each.place == "queue")
    assert not isinstance(queue.text, str)
    client = next(each for each in found.steps if each.place == "client")
    assert not says(client.text, "not_sent")
    return found.cause, queue.verdict, [each.code for each in queue.text.of if not isinstance(each, str)]


def test_the_diagnosis_names_the_gateway_where_its_limit_made_the_misses() -> None:
    assert diagnosed(*[GOOD] * 80, *[LATE] * 20) == ("gateway", "bound", ["gateway_waits_seen", "queue_not_shown"])
    assert diagnosed(*[GOOD] * 80, *[REJECTED] * 20)[0] == "gateway"


def test_a_server_that_is_slow_by_itself_is_not_the_gateways_fault() -> None:
    slow = replace(HELD, first=2.0, last=3.0)  # half a second at the gateway, and a second and a half at the server
    cause, queue, _ = diagnosed(*[GOOD] * 80, *[slow] * 20)
    assert (cause, queue) == ("unknown", "unknown")


def test_one_that_is_cut_off_while_it_waits_is_a_miss_only_past_its_limits() -> None:
    tally = step(*[WAITS] * 10).played(7.0)
    for index in range(6):
        waits = replace(WAITS, end=5.0 - index, ending="aborted")
        tally.ended(record(waits, START + 2.0 + index, index))
    bounds = tally.bounds(START + 60.0)
    assert (tally.at_gateway, bounds.bad, bounds.open, bounds.sent) == (0, 5, 1, 6)
    assert tally.errors == {}


def test_the_room_below_the_limit_on_tpot_is_told_with_the_limit_that_it_is_below() -> None:
    """That of the strictest kind of request, where the run itself has none."""
    kinds = Workload(mix=parse_mix("512:21@tpot=100ms,100:9")).limits(Slo(ttft_s=0.8, tpot_s=None))
    result = result_of(step(*[GOOD] * 80, *[LATE] * 20))
    failing = StepResult(step=1, rate_rps=4.0, phase="search", verdict="fail", reason="", floor=None, repeats=(result,))
    found = diagnose(kinds, Answer(outcome="below", message=""), [failing], SERVER, Idle())
    assert found is not None
    assert isinstance(found.advice, Fact)
    assert found.advice.code == "gateway_higher"
    assert (found.advice.figures["tpot_limit_s"], found.advice.figures["room"]) == (0.1, True)
