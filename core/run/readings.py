"""The server's readings as they come in: kept for the judge, waited for between repeats."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Protocol

from core.records import ServerSample
from core.run.events import Event, Note, SampleFailed, ServerSampled
from core.server.metrics import ScrapeError

SETTLE_S = 15.0
"""So long a server may go on working on requests that were cut off; one that has other traffic never gets idle."""
FRESH_S = 3.0
"""A reading that takes longer than this is not waited for: load and verdicts do not hang on /metrics."""


class Source(Protocol):
    """What `core.server.metrics.Scraper` is to this module."""

    def readings(self) -> AsyncIterator[ServerSample | ScrapeError]: ...


class Readings:
    """Takes readings in a task of its own (`pump`). Without a source every question is answered at once."""

    def __init__(
        self,
        source: Source | None,
        emit: Callable[[Event], None],
        clock: Callable[[], float],
        listener: Callable[[ServerSample], None],
    ) -> None:
        self._source = source
        self._emit = emit
        self._clock = clock
        self._listener = listener
        self._kept: list[ServerSample] = []
        self._news = asyncio.Event()

    async def pump(self) -> None:
        """Turn readings into events until cancelled."""
        if self._source is None:
            return
        async for reading in self._source.readings():
            if isinstance(reading, ScrapeError):
                self._emit(SampleFailed(t=self._clock(), reason=str(reading)))
                continue
            self._kept.append(reading)
            self._listener(reading)
            self._emit(ServerSampled(t=reading.t, sample=reading))
            self._news.set()

    def keep_from_now(self, since: float) -> None:
        """Forget all readings but the newest, the one just before what comes; and that one too if it was begun before
        `since`, the end of what came before: what happened until then would count as part of what comes."""
        stale = bool(self._kept) and self._kept[-1].t - self._kept[-1].took_s < since
        del self._kept[: len(self._kept) if stale else -1]

    def since(self, t: float) -> tuple[ServerSample, ...]:
        """The readings from the newest one at or before `t` on; older ones are forgotten."""
        older = sum(reading.t <= t for reading in self._kept)
        del self._kept[: max(older - 1, 0)]
        return self.kept

    @property
    def available(self) -> bool:
        """Whether the server has metrics to read."""
        return self._source is not None

    @property
    def kept(self) -> tuple[ServerSample, ...]:
        return tuple(self._kept)

    async def fresh(self, after: float, timeout_s: float = FRESH_S) -> ServerSample | None:
        """The first reading begun after `after`; None when none comes in time."""
        if self._source is None:
            return None
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while True:
                    newest = self._kept[-1] if self._kept else None
                    if newest is not None and newest.t - newest.took_s > after:
                        return newest
                    self._news.clear()
                    await self._news.wait()
        return None

    async def settle(self) -> None:
        """Wait until the server has nothing running or waiting, at most SETTLE_S; a note says so when it has not settled."""
        if self._source is None:
            return
        began = after = self._clock()
        while True:
            sample = await self.fresh(after)
            if sample is None:
                self._say(
                    f"The server's metrics gave no new reading within {FRESH_S:g} s, so whether it is idle again is not known."
                )
                return
            busy = (sample.running or 0.0) + (sample.waiting or 0.0)
            if busy == 0:
                return
            if self._clock() - began >= SETTLE_S:
                self._say(
                    f"The server still has {busy:g} requests {SETTLE_S:g} s after ours ended: the next repeat starts on that."
                )
                return
            after = sample.t

    def _say(self, text: str) -> None:
        self._emit(Note(t=self._clock(), level="warn", text=text))
