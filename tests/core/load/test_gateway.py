"""A gateway's limit: never more than N at the server, the others in order of arrival, and nothing sent after the end."""

import asyncio
import math
import time
from collections.abc import Callable, Iterator

import httpx
import pytest

from core.config import Workload
from core.load import generator
from core.load.dispatch import MOST_RETRIES, OrderRun, Retrying
from core.load.gateway import Gate
from core.load.sender import Anew, Emit, Job, Prepared
from core.records import Ending, RequestEnded, RequestFirst, RequestHeld, RequestSent
from core.schedule import draw
from core.workloads import Gateway
from tests.core.load.calling import calling
from tests.core.load.orders import hello, order
from tests.core.load.server import WAIT_S, Received
from tests.core.load.told import Told

WORKLOAD = hello().workload
LATER = 1000.0


class FakeSender:
    """Each request is open until `finish` is called; the most that were open at once are counted."""

    def __init__(self) -> None:
        self.jobs: list[Job] = []
        self.open: dict[int, asyncio.Future[Ending]] = {}
        self.most = 0

    def prepare(self, body: bytes) -> httpx.Request:
        return httpx.Request("POST", "http://replica", content=body)

    async def send(self, job: Job, request: Prepared, emit: Emit) -> None:
        self.jobs.append(job)
        future = self.open[job.index] = asyncio.get_running_loop().create_future()
        self.most = max(self.most, len(self.open))
        now = time.monotonic()
        emit(RequestSent(order=job.order, index=job.index, t_sched=job.t_sched, t_sent=now, gateway_wait_s=job.gateway_wait_s))
        ending: Ending = "aborted"
        try:
            ending = await future
        finally:
            del self.open[job.index]
            emit(_end_of(job, ending))


def _end_of(job: Job, ending: Ending) -> RequestEnded:
    return RequestEnded(
        order=job.order,
        index=job.index,
        t_sched=job.t_sched,
        t_sent=time.monotonic(),
        t_end=time.monotonic(),
        asked_input=1,
        asked_output=1,
        ending=ending,
        gateway_wait_s=job.gateway_wait_s,
    )


class Timers:
    """Timers that go off when a test says so."""

    def __init__(self) -> None:
        self.set: list[tuple[float, Callable[[], None]]] = []

    def later(self, delay_s: float, call: Callable[[], None]) -> asyncio.TimerHandle:
        self.set.append((delay_s, call))
        return asyncio.get_running_loop().call_later(LATER, lambda: None)


class Bench(Told):
    """A run with a fake sender behind a gateway."""

    def __init__(self, gateway: Gateway | None, *offsets_s: float, retrying: Retrying | None = None) -> None:
        self.order = order(offsets_s=offsets_s, start_at=time.monotonic(), number=4)
        super().__init__()
        self.sender = FakeSender()
        plan = draw(self.order, WORKLOAD)
        self.run = OrderRun(self.order, plan, lambda i: b"%d" % i, self.sender, self.tell, gateway=gateway, retrying=retrying)
        self.timers = Timers()
        if gateway is not None:
            self.run._gate = Gate(gateway, self.timers.later)

    def start(self) -> asyncio.Task[None]:
        return asyncio.create_task(self.run.run())

    def finish(self, index: int, ending: Ending = "ok") -> None:
        self.sender.open[index].set_result(ending)

    def of(self, kind: type[RequestHeld | RequestSent | RequestEnded]) -> list[int]:
        return [message.index for message in self.told if isinstance(message, kind)]


async def test_never_more_than_the_limit_are_open_and_the_others_go_in_order_of_arrival() -> None:
    bench = Bench(Gateway(limit=2), *[0.0] * 6)
    running = bench.start()
    await bench.until(lambda: len(bench.of(RequestHeld)) == 4)
    assert (bench.of(RequestSent), bench.of(RequestHeld)) == ([0, 1], [2, 3, 4, 5])
    for index in (1, 0, 2, 3, 4, 5):
        bench.finish(index)
        await bench.until(lambda index=index: index in bench.ended)  # type: ignore[misc]
        await asyncio.sleep(0)
    async with asyncio.timeout(WAIT_S):
        await running
    assert bench.of(RequestSent) == [0, 1, 2, 3, 4, 5]
    assert (bench.sender.most, bench.done.sent, bench.done.unsent) == (2, 6, 0)
    assert set(bench.ended.values()) == {"ok"}


async def test_the_wait_is_told_apart_and_is_no_lateness() -> None:
    bench = Bench(Gateway(limit=1), 0.0, 0.0)
    running = bench.start()
    await bench.until(lambda: bench.of(RequestHeld) == [1])
    bench.finish(0)
    await bench.until(lambda: len(bench.of(RequestSent)) == 2)
    bench.finish(1)
    await running
    first, second = (message for message in bench.told if isinstance(message, RequestSent))
    held = next(message for message in bench.told if isinstance(message, RequestHeld))
    ended = bench.told[-2]
    assert isinstance(ended, RequestEnded)
    assert (first.gateway_wait_s, held.t_sched) == (0.0, bench.order.start_at)
    assert 0 < second.gateway_wait_s <= second.t_sent - held.t
    assert ended.gateway_wait_s == second.gateway_wait_s


async def test_who_finds_the_queue_full_is_rejected_and_never_sent() -> None:
    bench = Bench(Gateway(limit=1, queue=2), *[0.0] * 5)
    running = bench.start()
    await bench.until(lambda: len(bench.ended) == 2)
    assert bench.ended == {3: "rejected", 4: "rejected"}
    for index in range(3):
        await bench.until(lambda index=index: index in bench.of(RequestSent))  # type: ignore[misc]
        bench.finish(index)
    await running
    assert bench.of(RequestSent) == [0, 1, 2]
    assert (bench.done.sent, bench.done.unsent) == (3, 0)


async def test_who_waits_for_too_long_is_turned_away_and_the_next_one_moves_up() -> None:
    bench = Bench(Gateway(limit=1, timeout_s=5.0), *[0.0] * 3)
    running = bench.start()
    await bench.until(lambda: bench.of(RequestHeld) == [1, 2])
    assert [delay_s for delay_s, _ in bench.timers.set] == [5.0, 5.0]
    bench.timers.set[0][1]()
    await bench.until(lambda: bool(bench.ended))
    assert bench.ended == {1: "queue_timeout"}
    bench.finish(0)
    await bench.until(lambda: 2 in bench.of(RequestSent))
    bench.timers.set[1][1]()  # its turn has come before
    bench.finish(2)
    await running
    assert bench.ended == {0: "ok", 1: "queue_timeout", 2: "ok"}
    timed_out = next(message for message in bench.told if isinstance(message, RequestEnded) and message.index == 1)
    assert (timed_out.t_sent, timed_out.gateway_wait_s > 0) == (None, True)


@pytest.mark.parametrize("how", ["stop", "abort"])
async def test_what_waits_ends_with_the_load_and_is_never_sent(how: str) -> None:
    bench = Bench(Gateway(limit=1), 0.0, 0.0, 0.0, LATER)
    running = bench.start()
    await bench.until(lambda: len(bench.of(RequestHeld)) == 2)
    getattr(bench.run, how)()
    if how == "stop":
        await bench.until(lambda: len(bench.ended) == 2)
        bench.finish(0)
    await running
    assert bench.ended == {0: "ok" if how == "stop" else "aborted", 1: "aborted", 2: "aborted"}
    assert (bench.of(RequestSent), bench.done.sent, bench.done.unsent) == ([0], 1, 0)


async def test_a_place_that_gets_free_in_the_moment_of_the_stop_is_nobodys() -> None:
    bench = Bench(Gateway(limit=1), 0.0, 0.0)
    running = bench.start()
    await bench.until(lambda: bench.of(RequestHeld) == [1])
    bench.run.stop()
    bench.finish(0)
    await running
    assert (bench.of(RequestSent), bench.ended) == ([0], {0: "ok", 1: "aborted"})


async def test_open_requests_are_those_at_the_server() -> None:
    bench = Bench(Gateway(limit=1), 0.0, 0.0, 0.0)
    running = bench.start()
    await bench.until(lambda: len(bench.of(RequestHeld)) == 2)
    assert len(bench.run._open) - len(bench.run._waiting) == 1
    bench.run.abort()
    await running


def test_a_limit_over_all_requests_is_kept_by_one_process() -> None:
    capped = Workload(gateway=Gateway(limit=8))
    assert generator.children_for(100_000.0, capped) == 1


# --- a 429 that says when to ask again -------------------------------------------------------------------------------


def _busy(retry_after: str | None) -> bytes:
    line = "" if retry_after is None else f"Retry-After: {retry_after}\r\n"
    return f"HTTP/1.1 429 Busy\r\n{line}Content-Length: 0\r\n\r\n".encode()


async def _call(answers: Iterator[bytes], *turns: Anew | None, asks: bool = True) -> tuple[list[object], list[tuple[int, float]]]:
    """What is told of one request whose answers these are, and what it asked before each time that it was sent again."""
    asked: list[tuple[int, float]] = []
    given = iter(turns)

    async def again(retries: int, after_s: float) -> Anew | None:
        asked.append((retries, after_s))
        return next(given)

    async def answer(request: Received) -> bool:
        await request.write(next(answers))
        return False

    async with calling(answer) as (caller, _), asyncio.timeout(WAIT_S):
        job = Job(order=3, index=0, t_sched=0.5, asked_input=8, asked_output=2, again=again if asks else None)
        await caller.client.send(job, caller.client.prepare(b"{}"), caller.tell)
    return [*caller.told], asked


OK = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
    b'data: {"choices":[{"index":0,"text":"a","finish_reason":"length"}],"usage":{"prompt_tokens":8,"completion_tokens":2}}\n\n'
    b"data: [DONE]\n\n"
)


def _last(told: list[object]) -> RequestEnded:
    assert isinstance(told[-1], RequestEnded)
    return told[-1]


async def test_a_request_that_was_asked_to_wait_is_sent_again_and_told_once() -> None:
    answers = iter(
        [_busy("2"), _busy("0"), OK.replace(b"Connection: close", b"Content-Length: %d" % (len(OK) - OK.index(b"data")))]
    )
    told, asked = await _call(answers, Anew(), Anew(gateway_wait_s=0.25))
    assert asked == [(0, 2.0), (1, 0.0)]
    assert [type(message) for message in told] == [RequestSent, RequestFirst, RequestEnded]
    last = _last(told)
    assert (last.ending, last.retries, last.gateway_wait_s, last.resent, last.status) == ("ok", 2, 0.25, False, 200)


@pytest.mark.parametrize(
    ("answer", "asked"), [(_busy(None), []), (_busy("soon"), []), (_busy("Mon, 01 Jan 2001 00:00:00 GMT"), [(0, 0.0)])]
)
async def test_only_a_time_in_seconds_or_a_date_is_waited_for(answer: bytes, asked: list[tuple[int, float]]) -> None:
    told, seen = await _call(iter([answer]), None)
    assert seen == asked
    assert (_last(told).ending, _last(told).status, _last(told).retries) == ("http", 429, 0)


@pytest.mark.parametrize(
    "said",
    [
        *("-1", "1e9", "1.5", "nan", "1, 2", ""),
        "Wed, 21 Oct 99999999999999999999 07:28:00 GMT",
        "Wed, 21 Oct 2015 99999999999999999999:28:00 GMT",
        "21 Oct :: 07:28:00 +99999999999999 -1 ,",
    ],
)
async def test_what_is_no_time_to_wait_ends_the_request_and_not_the_load(said: str) -> None:
    told, seen = await _call(iter([_busy(said)]), None)
    assert (seen, _last(told).ending, _last(told).status) == ([], "http", 429)


async def test_a_wait_that_no_timer_holds_is_not_begun() -> None:
    _, asked = await _call(iter([_busy("9" * 400)]), None)
    assert asked == [(0, math.inf)]
    bench = Bench(None, 0.0, retrying=Retrying())
    running = bench.start()
    await bench.until(lambda: bench.of(RequestSent) == [0])
    assert await _again(bench, 0, math.inf) is None
    assert await _again(bench, 0, 1e9) is None
    bench.finish(0)
    await running


async def test_without_the_option_a_429_is_an_error() -> None:
    told, asked = await _call(iter([_busy("0")]), asks=False)
    assert (asked, _last(told).ending, _last(told).error) == ([], "http", "HTTP 429 Busy")


async def test_one_that_comes_again_and_finds_the_gateway_full_is_rejected_there() -> None:
    told, _ = await _call(iter([_busy("0")]), Anew(refused="rejected"))
    assert (_last(told).ending, _last(told).error, _last(told).retries) == ("rejected", None, 0)


async def _again(bench: Bench, retries: int, after_s: float = 0.0) -> Anew | None:
    again = bench.sender.jobs[0].again
    assert again is not None
    return await again(retries, after_s)


async def test_nothing_is_sent_again_too_often_or_when_it_surely_misses() -> None:
    bench = Bench(None, 0.0, retrying=Retrying(first_within_s=10.0))
    running = bench.start()
    await bench.until(lambda: bench.of(RequestSent) == [0])
    assert await _again(bench, 0) == Anew()
    assert await _again(bench, MOST_RETRIES - 1) == Anew()
    assert await _again(bench, MOST_RETRIES) is None
    assert await _again(bench, 0, 10.5) is None
    bench.run.stop()
    assert await _again(bench, 0) is None
    bench.finish(0)
    await running


async def test_the_place_of_one_that_waits_to_be_sent_again_is_anothers() -> None:
    bench = Bench(Gateway(limit=1), 0.0, 0.0, retrying=Retrying())
    running = bench.start()
    await bench.until(lambda: bench.of(RequestHeld) == [1])
    again = asyncio.create_task(_again(bench, 0))
    await bench.until(lambda: 1 in bench.of(RequestSent))
    assert not again.done()
    bench.finish(1)
    anew = await again
    assert anew is not None
    assert (anew.refused, anew.gateway_wait_s > 0) == (None, True)
    bench.finish(0)
    await running
    assert bench.ended == {0: "ok", 1: "ok"}
