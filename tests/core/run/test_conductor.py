"""One order from start to end: what a child that does not obey, or a server that does not answer, leads to."""

import asyncio
import math
from collections.abc import Awaitable, Callable
from typing import TypeVar

import msgspec
import pytest

from core.config import Lengths, Target, Workload
from core.facts import fact
from core.judge.verdict import Decision
from core.records import Hello, PromptAlphabet, RepeatOrder, RequestFirst, RequestSent, Segment
from core.run.conductor import END_S, Conductor
from core.run.ends import ClientSilent
from core.run.events import Event, LoadStateChanged, Note, RepeatStarted
from tests.core.run.fakes import FakeGenerator, FakeServer
from tests.core.run.virtual import VirtualLoop, now, run

T = TypeVar("T")

HELLO = Hello(
    target=Target(url="http://127.0.0.1:8000"),
    model="fake",
    workload=Workload(input_tokens=Lengths(median=32), output_tokens=Lengths(median=17)),
    alphabet=PromptAlphabet(token_ids=(1,)),
    nonce="00",
)


class Room:
    """A conductor on a fake child, with what it said."""

    def __init__(self) -> None:
        self.server = FakeServer()
        self.generator = FakeGenerator(self.server)
        self.events: list[Event] = []
        self.asked: list[float] = []
        self.conductor = Conductor(self.generator, self.events.append, now, self._healthy)

    async def _healthy(self) -> bool:
        self.asked.append(now())
        return self.server.healthy

    def states(self) -> list[str]:
        return [event.state for event in self.events if isinstance(event, LoadStateChanged)]

    def notes(self) -> list[Note]:
        return [event for event in self.events if isinstance(event, Note)]

    def order(self, rate_rps: float = 4.0) -> RepeatOrder:
        segments = (
            Segment(rate_rps=rate_rps, duration_s=10.0, role="measured"),
            Segment(rate_rps=rate_rps, duration_s=60.0, role="tail"),
        )
        number = self.conductor.next_order()
        return RepeatOrder(order=number, phase="search", step=1, repeat=0, seed=1, segments=segments, start_at=now() + 0.25)


def in_room(work: Callable[[Room], Awaitable[T]]) -> T:
    async def whole() -> T:
        room = Room()
        pump = asyncio.create_task(room.conductor.pump())
        await room.generator.hello(HELLO)
        try:
            return await work(room)
        finally:
            pump.cancel()
            await room.generator.close()
            await asyncio.gather(pump, return_exceptions=True)

    return run(whole())


def after(t_s: float, decision: Decision) -> Callable[[float], Decision | None]:
    return lambda now_: decision if now_ >= 1000 + t_s else None


COMPLETE = Decision(kind="complete", reason=fact("all_decided"))
FAIL = Decision(kind="fail", reason=fact("out_of_reach", at_most_frac=0.5, target=0.95))


def test_a_decided_order_is_cut_off_and_waited_for() -> None:
    async def work(room: Room) -> None:
        ended = await room.conductor.run(room.order(), after(12, COMPLETE), 0.8)

        assert ended.decision == COMPLETE
        assert ended.done is not None
        assert ended.ticks
        assert ended.lost is None
        assert now() < 1012.5
        assert not room.generator.loading
        assert room.states() == ["loading", "idle"], "the tail behind the window is load"
        assert next(type(event) for event in room.events if isinstance(event, (RepeatStarted, RequestSent))) is RepeatStarted

    in_room(work)


def test_a_fail_of_a_working_server_is_acted_on_at_once() -> None:
    async def work(room: Room) -> None:
        await room.conductor.run(room.order(rate_rps=20), after(5, FAIL), 0.8)

        assert now() < 1006
        assert not any(command.startswith("stop_arrivals") for command in room.generator.commands)

    in_room(work)


def test_a_fail_of_a_silent_server_is_held_until_it_is_called_frozen() -> None:
    async def work(room: Room) -> None:
        room.server.frozen_at = 1003.0
        ended = await room.conductor.run(room.order(), after(5, FAIL), 0.8)

        assert ended.lost == fact("server_frozen", silent_s=10.0)
        assert room.generator.commands.count("stop_arrivals 1") == 1
        assert room.states() == ["loading", "draining", "idle"]
        assert 1012 < now() < 1014.5

    in_room(work)


def test_a_fail_that_no_sign_of_life_can_confirm_or_deny_stands_in_the_end() -> None:
    """No metrics, and every open answer has begun: an answer that is long in coming and a frozen server look the same."""

    async def work(room: Room) -> None:
        room.server.frozen_at = now() + 2.7
        segments = (Segment(rate_rps=4.0, duration_s=2.0, role="measured"), Segment(rate_rps=0.0, duration_s=60.0, role="tail"))
        ended = await room.conductor.run(msgspec.structs.replace(room.order(), segments=segments), after(5, FAIL), 0.8)

        assert ended.lost is None
        assert 1035 < now() < 1040
        assert ended.decision is not None
        assert ended.decision.kind == "fail"

    in_room(work)


def test_a_child_that_stands_still_is_not_a_frozen_server() -> None:
    async def work(room: Room) -> None:
        room.generator.mute = (1005.0, 1018.0)
        ended = await room.conductor.run(room.order(), after(30, COMPLETE), 0.8)

        assert ended.lost is None
        assert ended.decision == COMPLETE

    in_room(work)


def test_a_child_that_says_nothing_any_more_is_an_error() -> None:
    async def work(room: Room) -> None:
        room.generator.mute = (1005.0, math.inf)
        with pytest.raises(ClientSilent) as caught:
            await room.conductor.run(room.order(), after(60, COMPLETE), 0.8)

        assert caught.value.fact == fact("client_mute", silent_s=20.0)
        assert 1024 < now() < 1026

    in_room(work)


def test_a_child_that_does_not_stop_is_an_error() -> None:
    async def work(room: Room) -> None:
        async def deaf(order: int) -> None:
            del order

        room.generator.abort = deaf  # type: ignore[method-assign]
        with pytest.raises(ClientSilent) as caught:
            await room.conductor.run(room.order(), after(12, COMPLETE), 0.8)
        assert caught.value.fact == fact("client_stuck", within_s=END_S)
        assert now() == pytest.approx(1012 + END_S, abs=0.5)

    in_room(work)


def test_connections_that_fail_are_asked_about_now_and_then() -> None:
    async def work(room: Room) -> None:
        room.server.refuses_from = 1002.0
        ended = await room.conductor.run(room.order(rate_rps=20), after(9, COMPLETE), 0.8)

        assert ended.lost is None
        assert 2 <= len(room.asked) <= 4
        assert min(b - a for a, b in zip(room.asked, room.asked[1:], strict=False)) >= 2.0

    in_room(work)


def test_a_lost_server_ends_the_order() -> None:
    async def work(room: Room) -> None:
        room.server.refuses_from, room.server.healthy = 1002.0, False
        ended = await room.conductor.run(room.order(rate_rps=20), after(9, COMPLETE), 0.8)

        assert ended.lost == fact("server_lost")
        assert now() < 1004

    in_room(work)


def test_single_requests_go_one_after_another_with_repeats_that_rise() -> None:
    async def work(room: Room) -> None:
        first = await room.conductor.singles(HELLO, 1, "preflight", 11, 120.0)
        later = await room.conductor.singles(HELLO, 2, "single", 11, 120.0)
        more = await room.conductor.singles(HELLO, 1, "single", 11, 120.0)

        assert [record.ending for record in (*first, *later, *more)] == ["ok"] * 4
        assert [(order.phase, order.repeat) for order in room.generator.orders] == [
            ("preflight", 0),
            ("single", 0),
            ("single", 1),
            ("single", 2),
        ]
        assert room.states() == []

    in_room(work)


def test_a_single_request_without_an_end_is_given_up() -> None:
    async def work(room: Room) -> None:
        room.server.frozen_at = 1000.0
        records = await room.conductor.singles(HELLO, 2, "single", 11, 30.0)

        assert [record.ending for record in records] == ["aborted"]  # a silent server is not waited for again
        assert 1030 < now() < 1031
        assert [note.text for note in room.notes()] == [fact("first_token_awaited", within_s=30.0)]

    in_room(work)


def test_an_order_that_ends_by_itself_is_decided_by_what_is_known() -> None:
    async def work(room: Room) -> None:
        single = RepeatOrder(order=1, phase="search", step=1, repeat=0, seed=1, offsets_s=(0.0,), start_at=now() + 0.25)
        ended = await room.conductor.run(single, lambda _: None, 0.8)

        assert ended.decision is not None
        assert ended.decision.kind == "drained"
        assert math.isfinite(ended.decided_at or math.nan)

    in_room(work)


def test_answers_that_end_before_the_window_does_leave_the_decision_to_its_end() -> None:
    async def work(room: Room) -> None:
        ramp = (Segment(rate_rps=0.5, duration_s=10.0, role="measured"),)
        order = RepeatOrder(order=1, phase="ramp", step=1, repeat=0, seed=5, segments=ramp, start_at=now() + 0.25)
        ended = await room.conductor.run(order, after(10.5, COMPLETE), 0.8)

        assert ended.done is not None
        assert ended.done.t < 1010
        assert ended.decision == COMPLETE

    in_room(work)


def test_after_a_stall_of_our_own_loop_the_child_is_heard_before_it_is_judged() -> None:
    async def work(room: Room) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        word = RequestFirst(order=1, index=0, t_first=1005.1, first_tokens=1)

        def stall() -> None:
            loop.stand_still(1.0)
            room.generator.say(word, turns=5)

        heard: list[bool] = []

        def decide(now_: float) -> Decision | None:
            if now_ > 1005.9:
                heard.append(word in room.events)
            return COMPLETE if heard else None

        loop.call_at(1005.0, stall)
        await room.conductor.run(room.order(), decide, 0.8)
        assert heard == [True]

    in_room(work)
