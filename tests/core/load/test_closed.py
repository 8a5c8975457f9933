"""A closed loop keeps its number of requests in flight, sends the next when one ends, and stops when its time is over."""

import asyncio
import time

import httpx
import msgspec
import pytest

from core.config import Lengths, Workload
from core.load import closed
from core.load.closed import ClosedRun
from core.load.generator import Generator
from core.load.protocol import Share
from core.load.sender import Emit, Job, Prepared
from core.records import ChildMessage, ClosedOrder, Ending, LoadDone, RequestEnded, RequestSent
from core.schedule import draw_closed
from tests.core.load.orders import hello
from tests.core.load.server import WAIT_S
from tests.core.replica.serving import FAST, serving

WORKLOAD = Workload(input_tokens=Lengths(median=40, sigma=0.5, maximum=120), output_tokens=Lengths(median=2))
FOREVER_S = 60.0
ENOUGH = 12
"""After so many requests a loop shows what it does."""


def closed_order(in_flight: int, duration_s: float = FOREVER_S, number: int = 4, start_at: float | None = None) -> ClosedOrder:
    start = time.monotonic() if start_at is None else start_at
    return ClosedOrder(order=number, in_flight=in_flight, duration_s=duration_s, seed=11, start_at=start)


class FakeSender:
    """Each request is open until `finish` is called with its place in the order of sends."""

    def __init__(self) -> None:
        self.jobs: list[Job] = []
        self.open: dict[int, asyncio.Future[Ending]] = {}
        self.most = 0
        self.changed = asyncio.Event()

    def prepare(self, body: bytes) -> httpx.Request:
        return httpx.Request("POST", "http://replica", content=body)

    async def send(self, job: Job, request: Prepared, emit: Emit) -> None:
        self.jobs.append(job)
        future = self.open[job.index] = asyncio.get_running_loop().create_future()
        self.most = max(self.most, len(self.open))
        emit(RequestSent(order=job.order, index=job.index, t_sched=job.t_sched, t_sent=time.monotonic()))
        self.changed.set()
        try:
            ending = await future
        except asyncio.CancelledError:
            ending = "aborted"
        del self.open[job.index]
        emit(
            RequestEnded(
                order=job.order,
                index=job.index,
                t_sched=job.t_sched,
                t_end=time.monotonic(),
                asked_input=job.asked_input,
                asked_output=job.asked_output,
                ending=ending,
            )
        )

    def finish(self, index: int, ending: Ending = "ok") -> None:
        self.open[index].set_result(ending)

    async def until_sent(self, count: int) -> None:
        async with asyncio.timeout(WAIT_S):
            while len(self.jobs) < count:
                self.changed.clear()
                await self.changed.wait()


class Bench:
    def __init__(self, asked: ClosedOrder, share: Share | None = None) -> None:
        self.sender, self.told = FakeSender(), list[ChildMessage]()
        plan = draw_closed(asked, WORKLOAD)
        self.run = ClosedRun(asked, plan, lambda i: b"%d" % i, self.sender, self.told.append, share or Share(index=0, of=1))
        self.plan, self.task = plan, asyncio.create_task(self.run.run())

    async def done(self) -> LoadDone:
        async with asyncio.timeout(WAIT_S):
            await self.task
        last = self.told[-1]
        assert isinstance(last, LoadDone)
        return last


async def test_the_next_is_sent_when_one_ends_and_never_before() -> None:
    bench = Bench(closed_order(2))
    await bench.sender.until_sent(2)
    bench.sender.finish(1)
    await bench.sender.until_sent(3)
    bench.sender.finish(0)
    await bench.sender.until_sent(4)
    bench.run.abort()
    assert (await bench.done()).sent == 4
    assert bench.sender.most == 2
    assert [job.index for job in bench.sender.jobs] == [0, 1, 2, 3]
    assert [job.asked_input for job in bench.sender.jobs] == bench.plan.input_tokens[:4].tolist()
    dues = [job.t_sched for job in bench.sender.jobs]
    assert dues == sorted(dues), "each is due when its place gets free"


async def test_after_its_time_nothing_is_sent_and_what_is_open_ends_by_itself() -> None:
    bench = Bench(closed_order(1, duration_s=1e-6))
    done = await bench.done()
    assert (done.sent, done.unsent) == (0, 0)

    bench = Bench(closed_order(1, duration_s=0.05))
    await bench.sender.until_sent(1)
    await asyncio.sleep(bench.run._end - time.monotonic() + 0.01)
    bench.sender.finish(0)
    assert (await bench.done()).sent == 1
    assert [m.ending for m in bench.told if isinstance(m, RequestEnded)] == ["ok"]


async def test_a_stop_lets_what_is_open_end() -> None:
    bench = Bench(closed_order(2))
    await bench.sender.until_sent(2)
    bench.run.stop()
    bench.sender.finish(0)
    bench.sender.finish(1)
    assert (await bench.done()).sent == 2


async def test_the_place_of_a_failed_request_stays_empty_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that refuses at once is not asked thousands of times a second."""
    monkeypatch.setattr(closed, "FAILED_PAUSE_S", FOREVER_S)
    bench = Bench(closed_order(2))
    await bench.sender.until_sent(2)
    bench.sender.finish(0, "connection")
    bench.sender.finish(1)
    await bench.sender.until_sent(3)
    bench.sender.finish(2)
    await bench.sender.until_sent(4)
    assert bench.sender.most == 2
    assert len(bench.sender.open) == 1
    bench.run.abort()
    await bench.done()


async def test_children_share_the_places_and_no_index_twice() -> None:
    shares = [Bench(closed_order(3), Share(index=index, of=2)) for index in (0, 1)]
    for bench, places in zip(shares, (2, 1), strict=True):
        await bench.sender.until_sent(places)
        bench.run.abort()
        await bench.done()
        assert len(bench.sender.jobs) == places
    assert sorted(job.index for bench in shares for job in bench.sender.jobs) == [0, 1, 2]
    alone = Bench(closed_order(1), Share(index=1, of=2))
    alone.run.stop()
    assert (await alone.done()).sent == 0


def test_lengths_are_the_same_at_every_number_in_flight() -> None:
    one, many = (draw_closed(closed_order(n, 1.0, start_at=0.0), WORKLOAD) for n in (1, 64))
    assert one.input_tokens[:1000].tolist() == many.input_tokens[:1000].tolist()


async def test_a_real_replica_never_has_more_than_that_and_every_prompt_is_cold() -> None:
    async with serving(FAST) as client:
        generator = await Generator.start()
        try:
            said = msgspec.structs.replace(hello(str(client.base_url).rstrip("/"), workload=WORKLOAD), model=FAST.model_name)
            await generator.hello(said)
            await generator.order(order := closed_order(4))
            told: list[ChildMessage] = []
            async with asyncio.timeout(WAIT_S):
                async for message in generator.messages():
                    told.append(message)
                    if isinstance(message, RequestEnded) and message.index == ENOUGH:
                        await generator.stop_arrivals(order.order)
                    if isinstance(message, LoadDone):
                        break
        finally:
            await generator.close()
    ends = [m for m in told if isinstance(m, RequestEnded)]
    assert {m.ending for m in ends} == {"ok"}
    assert len(ends) > ENOUGH
    assert {m.cached_tokens or 0 for m in ends} == {0}
    spans = [(m.t_sent, m.t_end) for m in ends if m.t_sent is not None]
    assert max(sum(a <= sent < b for a, b in spans) for sent, _ in spans) == 4
    assert all(m.t_sent is not None and m.t_sent >= m.t_sched for m in ends)
