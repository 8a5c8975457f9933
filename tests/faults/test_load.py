"""The load against servers and a client that are slow: nothing waits in secret, and what is late is seen to be."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable

import httpx
import numpy as np
import pytest

from core.access import Access
from core.config import Lengths, Target, Workload
from core.judge.validity import late
from core.load.dispatch import OrderRun
from core.load.prompts import Bodies
from core.load.sender import LoadClient
from core.load.transport.direct import DirectTransport
from core.load.transport.pool import SPARE_CONNECTIONS
from core.percentiles import percentiles
from core.records import ChildMessage, Hello, LoadDone, LoadTick, RepeatOrder, RequestEnded, RequestSent
from core.schedule import draw
from core.slo import e2e_s
from tests.core.load.orders import hello, order
from tests.core.load.server import serving
from tests.faults.answers import Answer, tokens
from tests.faults.clock import pass_time, virtually
from tests.faults.server import FaultServer

SMALL = Workload(input_tokens=Lengths(median=32), output_tokens=Lengths(median=4))


class Sent:
    """What one order told, by kind."""

    def __init__(self, told: list[ChildMessage], order: RepeatOrder) -> None:
        self.order = order
        self.sends = [message for message in told if isinstance(message, RequestSent)]
        self.ends = [message for message in told if isinstance(message, RequestEnded)]
        self.ticks = [message for message in told if isinstance(message, LoadTick)]
        self.done = next(message for message in told if isinstance(message, LoadDone))

    @property
    def lateness_s(self) -> list[float]:
        return [message.t_sent - message.t_sched for message in self.sends]


def load(
    order: RepeatOrder,
    faults: Callable[[], FaultServer] | None = None,
    transport: Callable[[], httpx.AsyncBaseTransport] = lambda: DirectTransport(spare=SPARE_CONNECTIONS),
    beside: Callable[[], asyncio.Future[None] | asyncio.Task[None]] | None = None,
    bodies: Callable[[Bodies, int], bytes] = Bodies.build,
) -> Sent:
    """Send one order in virtual time; without a server `transport` answers itself."""

    async def work() -> Sent:
        if faults is None:
            return await _send(hello("http://replica", workload=SMALL), order, transport(), beside, bodies)
        async with serving(faults()) as server:
            return await _send(hello(server.url, workload=SMALL), order, transport(), beside, bodies)

    return virtually(work)


async def _send(
    given: Hello,
    order: RepeatOrder,
    transport: httpx.AsyncBaseTransport,
    beside: Callable[[], asyncio.Future[None] | asyncio.Task[None]] | None,
    bodies: Callable[[Bodies, int], bytes],
) -> Sent:
    plan, told = draw(order, given.workload), list[ChildMessage]()
    made = Bodies(given, order, plan)
    client = LoadClient(Target(url=given.target.url), Access(), transport)
    other = beside() if beside is not None else None
    await OrderRun(order, plan, lambda index: bodies(made, index), client, told.append).run()
    if other is not None:
        other.cancel()
    await client.aclose()
    return Sent(told, order)


def evenly(rate_rps: float, n: int) -> RepeatOrder:
    return order(offsets_s=tuple(i / rate_rps for i in range(n)), start_at=1001.0)


def test_sends_follow_absolute_times_and_never_drift() -> None:
    """200 requests/s, some five hundred of them: the last is as punctual as the first."""
    sent = load(order((200.0, 2.5), start_at=1001.0), lambda: FaultServer(slots=2000, prefill_s=0.0, decode_s=0.0))
    plan = draw(sent.order, SMALL)
    assert sent.done.sent == len(sent.sends) == plan.offsets_s.size > 400
    assert max(sent.lateness_s) < 0.002
    assert [message.t_sched for message in sent.sends] == pytest.approx((1001.0 + plan.offsets_s).tolist())


class OneSlot(httpx.AsyncBaseTransport):
    """A client's own queue: one request at a time, half a second each."""

    def __init__(self) -> None:
        self._slot = asyncio.Semaphore(1)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        async with self._slot:
            request.extensions["on_sent"](time.monotonic())
            await asyncio.sleep(0.5)

        async def body() -> AsyncIterator[bytes]:
            for _, data in tokens(4):
                yield data

        return httpx.Response(200, content=body())


def test_waiting_inside_the_client_is_in_every_latency_and_voids_the_repeat() -> None:
    sent = load(evenly(10.0, 8), transport=OneSlot)
    latencies = [e2e_s(record) or 0.0 for record in sent.ends]
    assert np.mean(latencies) == pytest.approx(1.9, abs=0.01)
    assert max(sent.lateness_s) == pytest.approx(7 * 0.4, abs=0.01)
    assert late(percentiles(sent.lateness_s), ttft_limit_s=0.8) is not None


def test_a_loop_that_is_blocked_is_seen_as_lateness_and_lag() -> None:
    """300 ms of every second the client's loop stands still; the server is as quick as ever."""

    async def block() -> None:
        while True:
            await asyncio.sleep(1.0)
            pass_time(0.3)

    sent = load(evenly(20.0, 100), lambda: FaultServer(slots=200), beside=lambda: asyncio.create_task(block()))
    assert max(sent.lateness_s) == pytest.approx(0.3, abs=0.05)
    assert sent.done.loop_lag_max_s == pytest.approx(0.3, abs=0.05)
    assert late(percentiles(sent.lateness_s), ttft_limit_s=0.8) is not None


def test_many_slow_streams_of_small_chunks_make_no_send_late() -> None:
    stream = Answer(pieces=tokens(20, first_s=0.1, gap_s=0.1))
    sent = load(evenly(60.0, 100), lambda: FaultServer(stream))
    assert {record.ending for record in sent.ends} == {"ok"}
    assert max(sent.lateness_s) < 0.002
    assert max(tick.in_flight for tick in sent.ticks) >= 90


def test_a_slow_making_of_prompts_is_done_before_they_are_due() -> None:
    """Each prompt takes 30 ms, a request comes every 100 ms: all are ready in time, the first as well."""

    def slow(bodies: Bodies, index: int) -> bytes:
        pass_time(0.03)
        return bodies.build(index)

    sent = load(evenly(10.0, 60), lambda: FaultServer(slots=100), bodies=slow)
    assert max(sent.lateness_s) < 0.05
    assert sent.lateness_s[0] < 0.05
    gaps = np.diff([message.t_sent for message in sent.sends])
    assert gaps.min() > 0.05, "nothing is caught up in a burst"


def test_nothing_is_held_back_however_many_are_open() -> None:
    """Three hundred streams at once: the server sees all of them before one ends."""
    most = [0]

    def make() -> FaultServer:
        server = FaultServer(slots=1000, prefill_s=5.0, decode_s=1.0)
        server.fault = lambda server, request: most.append(server.running + server.waiting)
        return server

    sent = load(order(offsets_s=(0.0,) * 300, start_at=1001.0), make)
    assert {record.ending for record in sent.ends} == {"ok"}
    assert max(most) >= 299
