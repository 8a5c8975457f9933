"""An order is sent on schedule, each request by itself, and its end is told whole."""

import asyncio
import time
from collections.abc import Callable

import httpx
import pytest

from core.load import dispatch
from core.load.dispatch import BODIES_AHEAD, OrderRun
from core.load.sender import Emit, Job, Prepared
from core.records import Ending, LoadDone, LoadTick, RequestEnded, RequestSent
from core.schedule import draw
from tests.core.load.orders import hello, order
from tests.core.load.server import WAIT_S
from tests.core.load.told import Told

WORKLOAD = hello().workload
LATER = 1000.0


class FakeSender:
    """Takes requests without a network: each is open until `release`, and its begin is noted with the time."""

    def __init__(self) -> None:
        self.began: list[tuple[Job, float]] = []
        self.bodies: list[bytes] = []
        self.prepared: list[bytes] = []
        self.release = asyncio.Event()
        self.on_prepare: Callable[[int], None] = lambda _: None
        self.on_send: Callable[[int], None] = lambda _: None

    def prepare(self, body: bytes) -> httpx.Request:
        self.on_prepare(len(self.prepared))
        self.prepared.append(body)
        return httpx.Request("POST", "http://replica", content=body)

    async def send(self, job: Job, request: Prepared, emit: Emit) -> None:
        assert isinstance(request, httpx.Request)
        now = time.monotonic()
        self.began.append((job, now))
        self.bodies.append(request.content)
        emit(RequestSent(order=job.order, index=job.index, t_sched=job.t_sched, t_sent=now))
        self.on_send(job.index)
        try:
            await self.release.wait()
        except asyncio.CancelledError:
            emit(end_of(job, "aborted"))
            raise
        emit(end_of(job, "ok"))


def end_of(job: Job, ending: Ending) -> RequestEnded:
    return RequestEnded(
        order=job.order, index=job.index, t_sched=job.t_sched, t_end=time.monotonic(), asked_input=1, asked_output=1, ending=ending
    )


class Bench(Told):
    """A run with a fake sender and everything that was told."""

    def __init__(self, *offsets_s: float, start_at: float | None = None) -> None:
        super().__init__()
        start = time.monotonic() if start_at is None else start_at
        self.order = order(offsets_s=offsets_s, start_at=start, number=4)
        self.sender = FakeSender()
        self.run = OrderRun(self.order, draw(self.order, WORKLOAD), lambda i: b"body %d" % i, self.sender, self.tell)

    async def finish(self) -> LoadDone:
        async with asyncio.timeout(WAIT_S):
            await self.run.run()
        return self.done

    @property
    def endings(self) -> list[tuple[int, str]]:
        return sorted((m.index, m.ending) for m in self.told if isinstance(m, RequestEnded))


async def test_nothing_is_sent_before_it_is_due_and_nothing_is_left_out() -> None:
    bench = Bench(*(i * 0.0007 for i in range(60)))
    bench.sender.release.set()
    done = await bench.finish()
    assert [job.index for job, _ in bench.sender.began] == list(range(60))
    assert bench.sender.bodies == [b"body %d" % index for index in range(60)]
    for job, began in bench.sender.began:
        assert job.t_sched == bench.order.start_at + job.index * 0.0007
        assert began >= job.t_sched
        assert (job.asked_input, job.asked_output) == (32, 2)
    assert (done.order, done.sent, done.unsent) == (4, 60, 0)
    assert bench.endings == [(i, "ok") for i in range(60)]


async def test_what_is_overdue_goes_out_with_its_own_due_time() -> None:
    """A sender that was held up moves no arrival, drops none, and hides no lateness."""
    start = time.monotonic() - 100
    bench = Bench(0.0, 1.0, 2.0, start_at=start)
    bench.sender.release.set()
    done = await bench.finish()
    assert [job.t_sched for job, _ in bench.sender.began] == [start, start + 1, start + 2]
    assert (done.sent, done.unsent) == (3, 0)


async def test_no_request_waits_for_another() -> None:
    bench = Bench(*[0.0] * 500)
    running = asyncio.create_task(bench.finish())
    await bench.until(lambda: len(bench.sender.began) == 500)
    assert bench.endings == []
    bench.sender.release.set()
    assert (await running).sent == 500


async def test_after_stop_open_requests_run_to_their_end_and_cut_arrivals_are_not_unsent() -> None:
    bench = Bench(0.0, 0.0, LATER, LATER)
    running = asyncio.create_task(bench.finish())
    await bench.until(lambda: len(bench.sender.began) == 2)
    bench.run.stop()
    bench.run.stop()
    bench.sender.release.set()
    done = await running
    assert (done.sent, done.unsent) == (2, 0)
    assert bench.endings == [(0, "ok"), (1, "ok")]


async def test_what_was_due_before_the_stop_and_had_no_turn_is_unsent() -> None:
    bench = Bench(*[0.0] * 10, LATER, start_at=time.monotonic() - 10)
    bench.sender.on_send = lambda _: bench.run.stop()
    bench.sender.release.set()
    done = await bench.finish()
    assert 1 <= done.sent < 10
    assert done.unsent == 10 - done.sent


async def test_what_falls_due_in_the_moment_of_the_stop_is_not_unsent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else every fifth repeat at 100 requests/s would be void for nothing."""
    monkeypatch.setattr(dispatch, "_TURN_S", 60.0)
    bench = Bench(*[0.0] * 10, LATER)
    bench.sender.on_send = lambda _: bench.run.stop()
    bench.sender.release.set()
    done = await bench.finish()
    assert (done.sent < 10, done.unsent) == (True, 0)


async def test_abort_ends_what_is_open() -> None:
    bench = Bench(0.0, 0.0, 0.0, LATER)
    running = asyncio.create_task(bench.finish())
    await bench.until(lambda: len(bench.sender.began) == 3)
    bench.run.abort()
    done = await running
    assert bench.endings == [(0, "aborted"), (1, "aborted"), (2, "aborted")]
    assert (done.sent, done.unsent) == (3, 0)


async def test_abort_after_stop() -> None:
    bench = Bench(0.0, LATER)
    running = asyncio.create_task(bench.finish())
    await bench.until(lambda: len(bench.sender.began) == 1)
    bench.run.stop()
    bench.run.abort()
    await running
    assert bench.endings == [(0, "aborted")]


async def test_a_request_aborted_before_it_began_is_told_too() -> None:
    bench = Bench(*[0.0] * (BODIES_AHEAD + 2))

    def abort_when_a_task_waits_to_begin(built: int) -> None:
        if built == BODIES_AHEAD:
            bench.run.abort()

    bench.sender.on_prepare = abort_when_a_task_waits_to_begin
    done = await bench.finish()
    assert bench.endings == [(i, "aborted") for i in range(done.sent)]
    assert done.sent > len(bench.sender.began), "the test needs a task that never began"


@pytest.mark.parametrize("how", ["stop", "abort"])
async def test_an_order_stopped_before_it_started_sends_nothing(how: str) -> None:
    bench = Bench(LATER)
    getattr(bench.run, how)()
    done = await bench.finish()
    assert (done.sent, done.unsent, bench.sender.began) == (0, 0, [])


async def test_an_empty_plan_is_done_at_once() -> None:
    assert (await Bench().finish()).sent == 0


async def test_bodies_are_built_before_they_are_due() -> None:
    bench = Bench(0.0, *[LATER] * 50)
    bench.sender.release.set()
    running = asyncio.create_task(bench.finish())
    await bench.until(lambda: bench.endings == [(0, "ok")])
    await asyncio.sleep(0)
    assert len(bench.sender.prepared) == 1 + BODIES_AHEAD, "the next ones wait built, and no more than those"
    bench.run.stop()
    await running


async def test_it_reports_on_itself_while_it_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatch, "TICK_S", 0.001)
    bench = Bench(0.0, 0.0)
    running = asyncio.create_task(bench.finish())

    def ticks() -> list[LoadTick]:
        return [m for m in bench.told if isinstance(m, LoadTick)]

    await bench.until(lambda: any(t.in_flight == 2 for t in ticks()))
    time.sleep(0.05)  # noqa: ASYNC251 (the lag that is to be seen)
    await bench.until(lambda: any(t.loop_lag_max_s >= 0.03 for t in ticks()))
    bench.sender.release.set()
    done = await running
    assert done.loop_lag_max_s >= 0.03
    assert done.cpu_frac > 0
    assert all(t.cpu_frac >= 0 and t.order == 4 for t in ticks())


async def test_a_fault_of_our_own_is_not_swallowed() -> None:
    bench = Bench(0.0, LATER)

    def broken(_: int) -> None:
        raise ZeroDivisionError

    bench.sender.on_send = broken
    with pytest.raises(ExceptionGroup):
        await bench.finish()
    assert not any(isinstance(m, LoadDone) for m in bench.told)
