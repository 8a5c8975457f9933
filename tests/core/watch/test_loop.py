"""Reading many replicas: nothing but /metrics is asked, one that hangs delays no other, and who is there is asked again."""

import asyncio
from collections.abc import Awaitable, Callable

import httpx

from core.access import Access
from core.server import Discovery, Places
from core.watch import SCRAPE_S, Watched, Watcher, row_notes
from tests.core.server.fakes import capture, client

A, B, C = "http://a:1", "http://b:1", "http://c:1"
PAGE = capture("0.32.0-preempting")
Handler = Callable[[httpx.Request], Awaitable[httpx.Response]]


class Servers:
    """Answers /metrics with a recorded page, and keeps what was asked, by whom."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, str | None]] = []
        self.hang = asyncio.Event()
        self.hanging: set[str] = set()

    async def answer(self, request: httpx.Request) -> httpx.Response:
        self.asked.append((request.method, str(request.url), request.headers.get("authorization")))
        if request.url.host in self.hanging:
            await self.hang.wait()
        if request.url.host == "c":
            return httpx.Response(404, text="not here")
        return httpx.Response(200, text=PAGE, headers={"content-type": "text/plain; version=0.0.4"})


class Time:
    """A clock that goes on when everybody sleeps: who sleeps is woken in order of time."""

    def __init__(self) -> None:
        self.now = 0.0
        self._waiting: list[tuple[float, asyncio.Future[None]]] = []

    def clock(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((self.now + seconds, woken))
        await woken

    async def until(self, end: float) -> None:
        while True:
            for _ in range(50):
                await asyncio.sleep(0)
            self._waiting = [each for each in self._waiting if not each[1].done()]
            due = min((at for at, _ in self._waiting), default=end + 1)
            if due > end:
                self.now = end
                return
            self.now = due
            for at, woken in self._waiting:
                if at <= due and not woken.done():
                    woken.set_result(None)


def made(servers: Servers, time: Time, places: Places, metrics_url: str | None = None) -> Watcher:
    http = client(servers.answer)  # type: ignore[arg-type]  # httpx takes coroutines as well
    return Watcher(
        Watched(),
        Discovery(places, http),
        http,
        access=Access(api_key="sk-TESTSECRET"),
        clock=time.clock,
        sleep=time.sleep,
        metrics_url=metrics_url,
    )


async def test_a_watch_asks_for_metrics_and_for_nothing_else() -> None:
    servers, time = Servers(), Time()
    watcher = made(servers, time, Places((A, B, C)))
    work = asyncio.create_task(watcher.run())
    await time.until(9.9)
    work.cancel()
    await asyncio.gather(work, return_exceptions=True)
    assert {(method, url) for method, url, _ in servers.asked} == {("GET", f"{url}/metrics") for url in (A, B, C)}
    assert {key for _, _, key in servers.asked} == {"Bearer sk-TESTSECRET"}
    assert [sum(url == f"{each}/metrics" for _, url, _ in servers.asked) for each in (A, B, C)] == [10, 10, 10]
    rows = watcher.table().rows
    assert [(row.state, row.why) for row in rows] == [("ok", None), ("ok", None), ("failing", "answers 404 (not found)")]
    asked = len(servers.asked)
    await time.until(20.0)
    assert len(servers.asked) == asked  # nothing goes on


async def test_one_that_hangs_delays_no_other() -> None:
    servers, time = Servers(), Time()
    servers.hanging.add("a")
    watcher = made(servers, time, Places((A, B)))
    work = asyncio.create_task(watcher.run())
    await time.until(20.0)
    assert sum(url == f"{A}/metrics" for _, url, _ in servers.asked) == 1
    assert sum(url == f"{B}/metrics" for _, url, _ in servers.asked) >= 20
    assert [row.state for row in watcher.table().rows] == ["unread", "ok"]
    assert SCRAPE_S == 5.0  # of the wall clock, after which the reading fails
    work.cancel()
    await asyncio.gather(work, return_exceptions=True)


async def test_once_reads_twice_and_has_rates() -> None:
    servers, time = Servers(), Time()
    watcher = made(servers, time, Places((A, C)))
    work = asyncio.create_task(watcher.once())
    await time.until(2.0)
    table = await work
    assert [url for _, url, _ in servers.asked].count(f"{A}/metrics") == 2
    figures = table.rows[0].figures
    assert figures is not None
    assert (figures.over_s, figures.finished_rps) == (1.0, 0.0)
    assert table.total.read == 1


async def test_the_metrics_of_one_replica_may_be_elsewhere_and_get_no_key() -> None:
    servers, time = Servers(), Time()
    watcher = made(servers, time, Places((A,)), metrics_url="http://b:9/other")
    work = asyncio.create_task(watcher.once())
    await time.until(2.0)
    await work
    assert servers.asked == [("GET", "http://b:9/other", None)] * 2


async def test_replicas_that_come_are_read_and_those_that_go_are_not() -> None:
    servers, time = Servers(), Time()
    there = ["10.0.0.1", "10.0.0.2"]

    async def resolve(name: str, port: int) -> list[str]:
        return list(there)

    http = client(servers.answer)  # type: ignore[arg-type]
    discovery = Discovery(Places(dns=("vllm.svc", 8000)), http, resolve)
    watcher = Watcher(Watched(), discovery, http, clock=time.clock, sleep=time.sleep)
    work = asyncio.create_task(watcher.run())
    await time.until(10.0)
    assert [row.url for row in watcher.table().rows] == ["http://10.0.0.1:8000", "http://10.0.0.2:8000"]
    there[:] = ["10.0.0.2", "10.0.0.3"]
    await time.until(40.0)
    states = {row.url: row.state for row in watcher.table().rows}
    assert states == {"http://10.0.0.1:8000": "gone", "http://10.0.0.2:8000": "ok", "http://10.0.0.3:8000": "ok"}
    first = [url for _, url, _ in servers.asked].count("http://10.0.0.1:8000/metrics")
    await time.until(55.0)
    assert [url for _, url, _ in servers.asked].count("http://10.0.0.1:8000/metrics") == first
    work.cancel()
    await asyncio.gather(work, return_exceptions=True)


async def test_one_that_hangs_makes_no_other_late() -> None:
    servers, time = Servers(), Time()
    watcher = made(servers, time, Places((A, B)))
    reading = asyncio.create_task(watcher.once())
    await time.until(0.5)
    servers.hanging = {"b"}
    await time.until(1.0)  # the second reading begins, and a answers at once
    time.now = 9.0
    servers.hang.set()
    assert [row_notes(row) for row in (await reading).rows] == [(), ()]
