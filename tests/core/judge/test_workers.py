"""Of several machines that send, one that is not good enough makes the repeat void, and is named; good ones change nothing."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from msgspec.structs import replace as changed

from core.facts import Fact, fact, says
from core.judge import Decision, Senders
from core.judge.validity import CLIENT
from core.records import LoadTick, WorkerInfo, WorkerTick
from core.results import RepeatResult
from core.schedule import Plan
from tests.builders import told
from tests.core.judge.judging import judge
from tests.core.judge.play import START, Play, Request, plan_of, step

NAMES = ("node-a", "node-b", "node-c")
WORKERS = tuple(WorkerInfo(name=name, python="3.11.9", version="0.1.0") for name in NAMES)
GOOD = Request()


def by_turns(*of_worker: Request, each: int = 100) -> Play:
    """So many requests for each machine, all of which do as its one here."""
    return step(*(of_worker * each), measure_s=60.0)


def judged(play: Play, workers: Sequence[WorkerInfo] = WORKERS, ticks: Sequence[LoadTick] = (), unsent: int = 0) -> RepeatResult:
    return judge(play.played(workers=workers), ticks=ticks, unsent=unsent)


def reports(*lags_s: Sequence[float]) -> list[LoadTick]:
    """Two a second, of machines with these lags."""
    return [
        LoadTick(
            order=7,
            t=START + 0.5 * i,
            in_flight=3,
            loop_lag_max_s=max(own),
            cpu_frac=0.5,
            workers=tuple(WorkerTick(in_flight=1, loop_lag_max_s=lag, cpu_frac=0.1 * (at + 1)) for at, lag in enumerate(own)),
        )
        for i, own in enumerate(zip(*lags_s, strict=True))
    ]


def test_three_good_machines_pass_and_each_has_its_figures() -> None:
    result = judged(by_turns(GOOD, replace(GOOD, late=0.002), GOOD), ticks=reports([0.001] * 20, [0.004] * 20, [0.002] * 20))
    assert result.verdict == "pass"
    assert [use.name for use in result.workers] == list(NAMES)
    assert [use.sent for use in result.workers] == [100, 100, 100]
    assert [use.lateness_p99_s for use in result.workers] == pytest.approx([0.0, 0.002, 0.0])
    assert [use.loop_lag_max_s for use in result.workers] == [0.001, 0.004, 0.002]
    assert [use.client_cpu_frac for use in result.workers] == pytest.approx([0.1, 0.2, 0.3])


def test_this_machine_alone_has_no_workers() -> None:
    result = judged(by_turns(GOOD), workers=())
    assert (result.verdict, result.workers) == ("pass", ())


def one_in(n: int, request: Request) -> Play:
    """Of three machines the second sends one request in `n` of its own like this."""
    return step(*(request if i % 3 == 1 and (i // 3) % n == 0 else GOOD for i in range(900)), measure_s=60.0)


def test_one_slow_machine_voids_the_repeat_and_is_named_though_the_p99_of_all_is_fine() -> None:
    play = one_in(50, replace(GOOD, late=0.3))  # 2 % of its own, 0.7 % of all
    alone = judged(play, workers=())
    assert (alone.verdict, alone.lateness_s.p99) == ("pass", 0.0)
    result = judged(play)
    assert result.verdict == "void"
    figures = {"worker": "node-b", "others": 0, "late_p99_s": pytest.approx(0.3), "limit_s": pytest.approx(0.16)}
    assert isinstance(result.reason, Fact)
    assert (result.reason.code, result.reason.figures) == ("worker_late", figures)
    assert [round(use.lateness_p99_s or 0.0, 6) for use in result.workers] == [0.0, 0.3, 0.0]


def test_several_slow_machines_are_counted_and_the_latest_is_named() -> None:
    result = judged(by_turns(replace(GOOD, late=0.2), replace(GOOD, late=0.3), GOOD))
    found = told(result.reason, "worker_late")
    assert (found.figures["worker"], found.figures["others"]) == ("node-b", 1)
    assert not says(result.reason, "client_late")


def test_a_single_send_later_than_the_limit_itself_is_of_its_machine() -> None:
    near = [replace(GOOD, late=0.9 if i == 4 else 0.05 if i % 3 == 1 else 0.0, first=1.0 if i == 4 else 0.1) for i in range(900)]
    found = told(judged(step(*near, measure_s=60.0)).reason, "worker_late_once")
    assert found.figures == {"worker": "node-b", "others": 0, "late_max_s": pytest.approx(0.9), "ttft_limit_s": 0.8}


def test_one_near_the_limit_is_a_word_beside_the_verdict() -> None:
    result = judged(one_in(50, replace(GOOD, late=0.1)))
    assert result.verdict == "pass"
    (found,) = (each for each in result.warnings if says(each, "sends_late"))
    assert told(found, "sends_late").figures == {"late_p99_s": pytest.approx(0.1), "worker": "node-b"}


def test_one_machine_whose_loop_stalls_again_and_again_is_named() -> None:
    ticks = reports([0.001] * 40, [0.001] * 40, [0.3, 0.001] * 20)
    result = judged(by_turns(GOOD, GOOD, GOOD), ticks=ticks)
    assert result.verdict == "void"
    figures = {"worker": "node-c", "others": 0, "limit_s": pytest.approx(0.16), "over": 20, "reports": 40, "worst_s": 0.3}
    assert isinstance(result.reason, Fact)
    assert (result.reason.code, result.reason.figures) == ("worker_stalled", figures)


def test_a_stall_of_each_machine_is_forgiven_as_that_of_one_is() -> None:
    """Together they report one every seventh time, which of one machine would be too often."""
    lags = [[0.3 if i == 7 * at else 0.001 for i in range(21)] for at in range(3)]
    result = judged(by_turns(GOOD, GOOD, GOOD), ticks=reports(*lags))
    assert result.verdict == "pass"
    assert any(says(warning, "loop_stalled") for warning in result.warnings)


def test_reports_that_do_not_tell_machines_apart_are_judged_as_one() -> None:
    ticks = [changed(tick, workers=()) for tick in reports(*[[0.3] * 20] * 3)]
    result = judged(by_turns(GOOD, GOOD, GOOD), ticks=ticks)
    assert says(result.reason, "client_stalled")
    assert [use.loop_lag_max_s for use in result.workers] == [None] * 3


def test_a_machine_that_leaves_requests_unsent_is_named() -> None:
    lost = replace(GOOD, late=None, first=None, last=None)
    drained = Decision(kind="drained", reason=fact("all_decided"))
    tally = by_turns(GOOD, GOOD, lost, each=20).played(workers=WORKERS)
    result = judge(tally, drained, unsent=20)
    assert result.verdict == "void"
    assert told(result.reason, "worker_unsent").figures == {"worker": "node-c", "requests": 20, "others": 0}


def test_requests_that_nobody_can_be_named_for_are_told_all_the_same() -> None:
    assert judged(by_turns(GOOD, GOOD, GOOD), unsent=2).reason == fact("client_unsent", requests=2)


def test_all_of_it_is_the_clients_part() -> None:
    reasons = [
        judged(by_turns(GOOD, replace(GOOD, late=0.3), GOOD)).reason,
        judged(by_turns(GOOD, GOOD, GOOD), ticks=reports([0.3] * 20, [0.0] * 20, [0.0] * 20)).reason,
    ]
    assert all(isinstance(reason, Fact) and reason.code in CLIENT for reason in reasons)


def test_turns_of_a_conversation_are_of_the_machine_of_its_first() -> None:
    offsets, after = [0.0, 0.0, 1.0, 2.0, 2.0, 2.0], np.array([-1, 0, -1, -1, 3, 4], dtype=np.int32)
    made = plan_of(offsets, [0] * 6)
    plan = Plan(made.offsets_s, made.segment, made.input_tokens, made.output_tokens, after=after, think_s=np.zeros(6))
    senders = Senders.among(WORKERS[:2], plan)
    assert senders is not None
    assert senders.of.tolist() == [0, 0, 1, 0, 0, 0]
    assert senders.part_of(2, 6).counts(np.arange(4)) == (3, 1)
