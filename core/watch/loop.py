"""Reads all replicas at a steady pace, each by itself, so that one that hangs keeps no other waiting. It asks for /metrics only."""

import asyncio
import time
from collections.abc import Awaitable, Callable

import httpx

from core.access import Access
from core.server import DISCOVER_AGAIN_S, Caller, Credential, Discovery, ScrapeError, read_vitals, regularly
from core.watch.replica import Figures
from core.watch.table import Table, Watched

SCRAPE_S = 5.0
"""For one reading: a server under load answers late, for the loop of its API answers /metrics as well; one that hangs does not."""

AT_ONCE = 64
"""Readings in flight: more would come late for no reason but each other."""

Sleep = Callable[[float], Awaitable[None]]


class Watcher:
    """Feeds `watched`. `http` serves all replicas; `access` is sent to each of them, and to nobody else. `metrics_url`: of the one
    replica that has its metrics elsewhere. `clock` and `sleep` are for tests."""

    def __init__(
        self,
        watched: Watched,
        discovery: Discovery,
        http: httpx.AsyncClient,
        *,
        access: Access | None = None,
        metrics_url: str | None = None,
        every_s: float = 1.0,
        clock: Callable[[], float] = time.monotonic,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self.watched = watched
        self._discovery = discovery
        self._http = http
        self._access = access or Access()
        self._metrics_url = metrics_url
        self._every_s = every_s
        self._clock = clock
        self._sleep = sleep
        self._free = asyncio.Semaphore(AT_ONCE)
        self._following: dict[str, asyncio.Task[None]] = {}

    def table(self) -> Table:
        """Everything now."""
        return self.watched.table(self._clock())

    def points(self, url: str) -> tuple[Figures, ...]:
        """The figures of one replica over the last quarter of an hour."""
        return self.watched.points(url)

    async def look(self) -> None:
        """Ask the sources who is there."""
        self.watched.see(await self._discovery.find(), self._clock())

    async def once(self) -> Table:
        """Everything by two readings of each replica, `every_s` apart: rates are differences."""
        await self.look()
        began = self._clock()
        await self._all()
        await self._sleep(max(0.0, began + self._every_s - self._clock()))
        await self._all()
        return self.table()

    async def run(self) -> None:
        """Read for ever; ask the sources again every half minute. Ends when cancelled, with nothing in flight."""
        try:
            async for _ in regularly(self._look_on, DISCOVER_AGAIN_S, self._clock, self._sleep):
                pass
        finally:
            for task in self._following.values():
                task.cancel()
            await asyncio.gather(*self._following.values(), return_exceptions=True)

    async def _look_on(self) -> None:
        """Follow those that are there, spread over the interval, and no others."""
        await self.look()
        there = self.watched.urls
        for url in [url for url in self._following if url not in there]:
            self._following.pop(url).cancel()
        new = [url for url in there if url not in self._following]
        for at, url in enumerate(new):
            self._following[url] = asyncio.create_task(self._follow(url, self._every_s * at / len(new)))

    async def _follow(self, url: str, delay_s: float) -> None:
        await self._sleep(delay_s)
        async for _ in regularly(lambda: self._read(url), self._every_s, self._clock, self._sleep):
            pass

    async def _all(self) -> None:
        await asyncio.gather(*(self._read(url) for url in self.watched.urls))

    async def _read(self, url: str) -> None:
        """One reading, or why there was none."""
        credential, metrics = Credential(url, self._access), self._metrics_url or f"{url}/metrics"
        async with self._free:
            self.watched.ask(url, self._clock())
            try:
                vitals = await read_vitals(Caller(self._http, credential, SCRAPE_S), metrics, self._clock)
            except ScrapeError as error:
                self.watched.fail(url, self._clock(), credential.scrub(str(error)).rstrip("."))
            else:
                self.watched.take(url, vitals)
