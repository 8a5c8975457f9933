"""Reads a server's /metrics at a steady pace, on a connection of its own."""

import asyncio
import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from dataclasses import dataclass
from typing import TypeVar

import httpx

from core.records import ServerSample
from core.server.exposition import Page, ScrapeError, cache_config, page, parse
from core.server.http import DEADLINE_S, Caller, Credential, HttpError, public

__all__ = ["SCRAPE_INTERVAL_S", "Exposition", "ScrapeError", "Scraper", "parse", "read_exposition", "regularly"]

Sample = TypeVar("Sample")

SCRAPE_INTERVAL_S = 0.5
"""Twice a second: /metrics is served by the event loop that serves the API, so more would be load of its own."""

READING_SHARE = 0.2
"""A reading that takes long (hundreds of series, a busy API process) is paid for by the event loop that serves the API, so
readings take no more than this share of the time."""
SLOWEST_INTERVAL_S = 15.0

LARGE = 256 * 1024
"""Characters of an exposition that takes longer to read (20 ms) than the screen, the judge and a stop may be kept waiting."""

_ACCEPT = "text/plain;version=0.0.4,*/*;q=0.1"


@dataclass(frozen=True, slots=True)
class Exposition:
    """One answer of /metrics as it came; `t` is when it had arrived, on the monotonic clock."""

    text: str
    content_type: str
    t: float
    took_s: float

    def sample(self, models: Collection[str] = ()) -> ServerSample:
        """The values of the engines that serve one of `models` (empty: any). Raises ScrapeError when there are none in it."""
        return parse(self.text, self.content_type, self.t, self.took_s, models)

    def page(self) -> Page:
        """Whose values it has. Raises ScrapeError when it cannot be read."""
        return page(self.text, self.content_type)

    def cache_config(self, models: Collection[str] = ()) -> dict[str, str]:
        """What the engines of `models` say of their KV cache."""
        return cache_config(self.text, self.content_type, models)


async def read_exposition(caller: Caller, url: str, clock: Callable[[], float] = time.monotonic) -> Exposition:
    """One reading. Raises HttpError when there is no answer or its status is not 200."""
    began = clock()
    reply = await caller.get(url, accept=_ACCEPT)
    arrived = clock()
    if reply.status != 200:
        raise HttpError(reply.refusal(), reply.refused)
    return Exposition(text=reply.text, content_type=reply.content_type, t=arrived, took_s=arrived - began)


def pace_s(took_s: float, interval_s: float = SCRAPE_INTERVAL_S) -> float:
    """From one reading to the next, when the last one took so long."""
    return max(interval_s, min(took_s / READING_SHARE, SLOWEST_INTERVAL_S))


async def regularly(
    read: Callable[[], Awaitable[Sample]],
    interval_s: float,
    clock: Callable[[], float],
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    cost_s: Callable[[float], float] = lambda spent_s: spent_s,
) -> AsyncIterator[Sample | ScrapeError]:
    """Readings for ever, due at whole intervals from the first; those that a slow one overran are left out, and more of them where
    one takes long (`pace_s`). `cost_s`: how long it took the server, of the time that was spent on a reading.

    A failed one is yielded as its ScrapeError, unless the one before failed with the same words.
    """
    due, said = clock(), ""
    while True:
        began = clock()
        try:
            sample = await read()
        except ScrapeError as error:
            if str(error) != said:
                said = str(error)
                yield error
        else:
            said = ""
            yield sample
        if (slower_s := pace_s(cost_s(clock() - began), interval_s)) > interval_s:
            due = max(due, began + slower_s - interval_s)
        due += interval_s * max(1, math.ceil((clock() - due) / interval_s))
        await sleep(max(0.0, due - clock()))


class Scraper:
    """Reads one metrics URL; at most one reading in flight, whatever the server does.

    `client` should serve nothing else, so that a slow reading holds back no request. `credential` is sent only if the
    URL lies in its origin. `models`: names of ours among those that the page shows; empty: all count. `clock` and `sleep` are for
    tests.
    """

    def __init__(
        self,
        url: str,
        client: httpx.AsyncClient,
        *,
        credential: Credential | None = None,
        models: Collection[str] = (),
        deadline_s: float = DEADLINE_S,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.url = url
        self._credential = credential or Credential(url)
        self._caller = Caller(client, self._credential, deadline_s)
        self._models = frozenset(models)
        self._clock = clock
        self._sleep = sleep
        self._one = asyncio.Lock()

    async def once(self) -> ServerSample:
        """One reading now, after the one in flight. Raises ScrapeError."""
        async with self._one:
            try:
                exposition = await read_exposition(self._caller, self.url, self._clock)
                large = len(exposition.text) > LARGE
                return await asyncio.to_thread(exposition.sample, self._models) if large else exposition.sample(self._models)
            except HttpError as error:
                raise ScrapeError(self._sentence(f" {error}.")) from error
            except ScrapeError as error:
                raise ScrapeError(self._sentence(f": {error}")) from error

    async def readings(self, interval_s: float = SCRAPE_INTERVAL_S) -> AsyncIterator[ServerSample | ScrapeError]:
        """Readings for ever, as `regularly` takes them."""
        async for reading in regularly(self.once, interval_s, self._clock, self._sleep):
            yield reading

    def _sentence(self, end: str) -> str:
        return self._credential.scrub(f"Metrics at {public(self.url)}{end}")
