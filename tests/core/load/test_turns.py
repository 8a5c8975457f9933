"""Conversations: a later turn is sent after the answer before it, with what was answered, and never after one that failed."""

import asyncio
import json
import time
from collections.abc import Sequence
from pathlib import Path

import httpx
import msgspec
import numpy as np
import pytest

from core.config import Workload
from core.load.completion import AnswerReader
from core.load.dispatch import OrderRun
from core.load.prompts import Bodies
from core.load.protocol import Share
from core.load.rows import Rows
from core.load.sender import Emit, Job, Prepared
from core.load.sse import SseEvent
from core.records import Ending, RepeatOrder, RequestEnded, RequestSent, Role, Segment
from core.schedule import Plan, draw
from core.workloads import MixPart, Prefix, Source
from tests.core.load.orders import CHAT, hello
from tests.core.load.server import WAIT_S
from tests.core.load.test_rows import reference
from tests.core.load.told import Told
from tests.core.traffic.files import written

TURNS = (3, 1, 2)
"""Of the conversations of a dataset."""


def workload(think_s: float = 0.0, prefix: Prefix = Prefix()) -> Workload:  # noqa: B008 (frozen)
    parts = [
        MixPart(input_tokens=10 + turn, output_tokens=5 + row, row=row, turn=turn, think_s=think_s if turn else 0.0)
        for row, turns in enumerate(TURNS)
        for turn in range(turns)
    ]
    return Workload(mix=tuple(parts), source=Source(kind="dataset", file="talks.json"), prefix=prefix)


def order(*segments: tuple[float, float, Role], start_at: float = 0.0) -> RepeatOrder:
    made = tuple(Segment(rate_rps=rate_rps, duration_s=duration_s, role=role) for rate_rps, duration_s, role in segments)
    return RepeatOrder(order=4, phase="list", step=1, repeat=0, seed=11, segments=made, start_at=start_at)


# --- the plan -----------------------------------------------------------------------------------------------------


def test_turns_stand_behind_their_first_one_in_its_segment_and_the_rate_counts_them() -> None:
    plan = draw(order((20.0, 200.0, "warmup"), (10.0, 200.0, "measured")), workload(think_s=1.5))
    assert plan.after is not None
    assert plan.part is not None
    assert plan.think_s is not None
    first = plan.after < 0
    later = (~first).nonzero()[0]
    assert (plan.after[later] == later - 1).all()
    assert (plan.part[later] == plan.part[later - 1] + 1).all()
    assert (plan.offsets_s[later] == plan.offsets_s[later - 1]).all()
    assert (plan.segment[later] == plan.segment[later - 1]).all()
    assert set(plan.part[first].tolist()) == {0, 3, 4}, "each conversation begins at its beginning"
    assert (plan.think_s[later] == 1.5).all()
    assert not plan.think_s[first].any()
    per_s = [(plan.segment == at).sum() / 200 for at in (0, 1)]
    assert per_s == pytest.approx([20, 10], rel=0.1)
    assert first.mean() == pytest.approx(3 / sum(TURNS), rel=0.05)


def test_single_requests_are_turns_that_follow_nothing() -> None:
    single = msgspec.structs.replace(order(), offsets_s=(0.0, 0.0, 0.0))
    plan = draw(single, workload())
    assert len(plan) == 3
    assert plan.after is None


def test_a_part_of_a_plan_knows_of_no_turn_outside_of_it() -> None:
    plan = draw(order((10.0, 20.0, "measured")), workload())
    assert plan.after is not None
    low = int((plan.after >= 0).nonzero()[0][0])
    part = plan.part_of(low, low + 10)
    assert part.after is not None
    assert part.after[0] == -1
    assert all(before in (-1, at - 1) for at, before in enumerate(part.after))


# --- what is sent -------------------------------------------------------------------------------------------------


class FakeSender:
    """Each request is open until `finish` is called, which also says what was answered."""

    def __init__(self) -> None:
        self.jobs: dict[int, Job] = {}
        self.bodies: dict[int, bytes] = {}
        self.open: dict[int, asyncio.Future[Ending]] = {}

    def prepare(self, body: bytes) -> httpx.Request:
        return httpx.Request("POST", "http://replica", content=body)

    async def send(self, job: Job, request: Prepared, emit: Emit) -> None:
        assert isinstance(request, httpx.Request)
        self.jobs[job.index], self.bodies[job.index] = job, request.content
        future = self.open[job.index] = asyncio.get_running_loop().create_future()
        emit(RequestSent(order=job.order, index=job.index, t_sched=job.t_sched, t_sent=time.monotonic()))
        ending: Ending = "aborted"
        try:
            ending = await future
        finally:
            del self.open[job.index]
            if ending == "ok" and job.hear is not None:
                job.hear(f"answer {job.index}")
            emit(_end_of(job, ending))


def _end_of(job: Job, ending: Ending) -> RequestEnded:
    now = time.monotonic()
    return RequestEnded(
        order=job.order, index=job.index, t_sched=job.t_sched, t_end=now, asked_input=1, asked_output=1, ending=ending
    )


def talks_of(n: int, turns: int, think_s: float) -> Plan:
    """One conversation in each of `n` segments of a second."""
    at = [(talk, turn) for talk in range(n) for turn in range(turns)]
    return Plan(
        offsets_s=np.array([float(talk) for talk, _ in at]),
        segment=np.array([talk for talk, _ in at], dtype=np.int32),
        input_tokens=np.full(len(at), 7),
        output_tokens=np.full(len(at), 3),
        after=np.array([talk * turns + turn - 1 if turn else -1 for talk, turn in at], dtype=np.int32),
        think_s=np.array([think_s if turn else 0.0 for _, turn in at]),
    )


class Bench(Told):
    """A run of conversations with a fake sender, all of them due at once."""

    def __init__(self, *roles: Role, think_s: float = 0.0, share: Share | None = None, turns: int = 3) -> None:
        n = len(roles) or 1
        self.order = order(*((1.0, 1.0, role) for role in roles or ("measured",)), start_at=time.monotonic() - n)
        self.plan = talks_of(n, turns, think_s)
        super().__init__()
        self.sender = FakeSender()
        self.run = OrderRun(
            self.order,
            self.plan,
            lambda i: b"first %d" % i,
            self.sender,
            self.tell,
            share or Share(index=0, of=1),
            continued=self._continued,
        )

    def _continued(self, index: int, answers: Sequence[str]) -> bytes:
        return f"{index} after {', '.join(answers)}".encode()

    async def finish(self, index: int, ending: Ending = "ok") -> RequestEnded:
        await self.until(lambda: index in self.sender.open)
        self.sender.open[index].set_result(ending)
        await self.until(lambda: index in self.ended)
        return next(each for each in self.told if isinstance(each, RequestEnded) and each.index == index)


async def test_a_turn_is_due_at_the_end_of_the_answer_before_it_and_has_all_answers() -> None:
    bench = Bench()
    running = asyncio.create_task(bench.run.run())
    for index in range(3):
        ended = await bench.finish(index)
        if index < 2:
            await bench.until(lambda index=index: index + 1 in bench.sender.jobs)  # type: ignore[misc]
            assert bench.sender.jobs[index + 1].t_sched == ended.t_end
    async with asyncio.timeout(WAIT_S):
        await running
    assert bench.sender.bodies == {0: b"first 0", 1: b"1 after answer 0", 2: b"2 after answer 0, answer 1"}
    assert (bench.done.sent, bench.done.unsent) == (3, 0)
    assert bench.sender.jobs[2].hear is None, "nothing follows it, so that its text is not kept"


@pytest.mark.parametrize("ending", ["ok", "http", "aborted"])
async def test_what_was_answered_is_forgotten_when_its_conversation_is_over(ending: Ending) -> None:
    """A rate that is held for hours has a million answers."""
    bench = Bench(turns=2)
    running = asyncio.create_task(bench.run.run())
    await bench.finish(0)
    await bench.finish(1, ending)
    async with asyncio.timeout(WAIT_S):
        await running
    assert bench.run._answers == {}


async def test_the_think_time_is_waited_for_and_no_lateness() -> None:
    bench = Bench(think_s=0.05)
    running = asyncio.create_task(bench.run.run())
    ended = await bench.finish(0)
    await bench.until(lambda: 1 in bench.sender.jobs)
    assert bench.sender.jobs[1].t_sched == ended.t_end + 0.05
    bench.run.abort()
    async with asyncio.timeout(WAIT_S):
        await running


@pytest.mark.parametrize("ending", ["http", "rejected", "truncated"])
async def test_turns_after_one_that_failed_are_told_as_such_and_never_sent(ending: Ending) -> None:
    bench = Bench()
    running = asyncio.create_task(bench.run.run())
    ended = await bench.finish(0, ending)
    async with asyncio.timeout(WAIT_S):
        await running
    assert bench.ended == {0: ending, 1: "previous_failed", 2: "previous_failed"}
    assert [each.t_sched for each in bench.told if isinstance(each, RequestEnded)] == pytest.approx(
        [bench.order.start_at, ended.t_end, ended.t_end]
    )
    assert (bench.done.sent, bench.done.unsent) == (1, 0)


async def test_after_a_stop_conversations_of_the_tail_alone_end() -> None:
    bench = Bench("warmup", "measured", "tail", turns=2)
    running = asyncio.create_task(bench.run.run())
    await bench.until(lambda: set(bench.sender.open) == {0, 2, 4})
    bench.run.stop()
    for index in (0, 2, 4, 1, 3):
        await bench.finish(index)
    async with asyncio.timeout(WAIT_S):
        await running
    assert bench.ended == dict.fromkeys((0, 2, 4, 1, 3), "ok")


async def test_a_stop_ends_a_pause_in_the_tail_and_an_abort_every_one() -> None:
    bench = Bench("measured", "tail", think_s=1000.0, turns=2)
    running = asyncio.create_task(bench.run.run())
    await bench.finish(0)
    await bench.finish(2)
    assert set(bench.run._thinking) == {1, 3}
    bench.run.stop()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert set(bench.run._thinking) == {1}
    bench.run.abort()
    async with asyncio.timeout(WAIT_S):
        await running
    assert bench.ended == {0: "ok", 2: "ok"}, "what was not due yet is not told of"
    assert bench.done.unsent == 0


async def test_nothing_follows_what_an_abort_cuts_off() -> None:
    bench = Bench()
    running = asyncio.create_task(bench.run.run())
    await bench.until(lambda: 0 in bench.sender.open)
    bench.run.abort()
    async with asyncio.timeout(WAIT_S):
        await running
    assert bench.ended == {0: "aborted"}


async def test_a_share_has_whole_conversations() -> None:
    for index, firsts in ((0, {0, 4}), (1, {2})):
        bench = Bench("warmup", "measured", "measured", turns=2, share=Share(index=index, of=2))
        running = asyncio.create_task(bench.run.run())
        for first in sorted(firsts):
            await bench.finish(first)
            await bench.finish(first + 1)
        async with asyncio.timeout(WAIT_S):
            await running
        assert set(bench.ended) == {each + turn for each in firsts for turn in (0, 1)}


# --- their bodies -------------------------------------------------------------------------------------------------


def _bodies(tmp_path: Path, prefix: Prefix) -> tuple[Bodies, Plan]:
    talks = [
        {"conversations": [{"from": who, "value": f"{who} {row}.{n}"} for n in range(turns) for who in ("human", "gpt")]}
        for row, turns in enumerate(TURNS)
    ]
    rows = reference(written(tmp_path, json.dumps(talks), "talks.json"))
    per_turn = [row for row, turns in enumerate(TURNS) for _ in range(turns)]
    rows = msgspec.structs.replace(
        rows,
        begins=tuple(rows.begins[row] for row in per_turn),
        sizes=tuple(rows.sizes[row] for row in per_turn),
        checksums=tuple(rows.checksums[row] for row in per_turn),
    )
    said, asked = hello(api="chat", workload=workload(prefix=prefix), shape=CHAT), order((5.0, 5.0, "measured"))
    plan = draw(asked, said.workload)
    return Bodies(said, asked, plan, Rows(rows, "chat")), plan


@pytest.mark.parametrize(("kind", "salts"), [("cold", 3), ("turns", 1)])
def test_a_turn_has_the_answers_that_came_and_the_salt_of_its_conversation_or_its_own(
    tmp_path: Path, kind: str, salts: int
) -> None:
    bodies, plan = _bodies(tmp_path, Prefix(kind="turns") if kind == "turns" else Prefix())
    assert plan.part is not None
    first = int((plan.part == 0).nonzero()[0][0])
    made = [json.loads(bodies.build(first + turn, [f"came {n}" for n in range(turn)])) for turn in range(3)]
    assert [message["content"] for message in made[2]["messages"]] == ["human 0.0", "came 0", "human 0.1", "came 1", "human 0.2"]
    assert [message["role"] for message in made[2]["messages"]] == ["user", "assistant"] * 2 + ["user"]
    assert len({body["cache_salt"] for body in made}) == salts
    other = int((plan.part == 3).nonzero()[0][0])
    assert json.loads(bodies.build(other))["cache_salt"] not in {body["cache_salt"] for body in made}


def test_the_text_of_an_answer_is_kept_only_where_a_turn_follows() -> None:
    deltas = [{"role": "assistant", "content": ""}, {"content": "Be"}, {"reasoning_content": "hm"}, {"content": "cause."}]
    events = [SseEvent(json.dumps({"choices": [{"delta": delta}]}).encode()) for delta in deltas]
    for keeps, text in ((True, "Because."), (False, "")):
        reader = AnswerReader(4, keeps_text=keeps)
        for event in events:
            reader.feed([event], 1.0)
        assert reader.text == text
