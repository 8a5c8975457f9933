"""The server's readings as they come in: kept for the judge, waited for between repeats.

The readings of a GPU or host exporter beside the run: kept for the judge, and missed by nobody when they fail.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import Protocol, Self

import httpx

from core.config import Safety
from core.facts import Said, fact
from core.records import MachineSample, ServerSample
from core.run.events import Event, MachineSampled, Note, SampleFailed, ServerSampled
from core.server import SCRAPE_INTERVAL_S, MachineScraper, ScrapeError, pace_s

SETTLE_S = 15.0
"""So long a server may go on working on requests that were cut off; one that has other traffic never gets idle."""
FRESH_S = 3.0
"""A reading that takes longer than this is not waited for: load and verdicts do not hang on /metrics."""

SLOW_READINGS = 3

GONE_AFTER = 10
"""A row that so many readings lack is of an engine that was taken away; before that it is only not shown."""


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
        safety: Safety = Safety(),  # noqa: B008 (frozen)
    ) -> None:
        self._safety = safety
        self._source = source
        self._emit = emit
        self._clock = clock
        self._listener = listener
        self._kept: list[ServerSample] = []
        self._shown: deque[tuple[int, int]] = deque(maxlen=GONE_AFTER)
        self._news = asyncio.Event()
        self._slow, self._said_slow = 0, False
        self._failed_at: float | None = None

    async def pump(self) -> None:
        """Turn readings into events until cancelled."""
        if self._source is None:
            return
        async for reading in self._source.readings():
            if isinstance(reading, ScrapeError):
                self._failed_at = self._clock()
                self._emit(SampleFailed(t=self._clock(), reason=str(reading)))
                continue
            self._note_pace(reading)
            self._kept.append(reading)
            self._shown.append(_rows(reading))
            self._listener(reading)
            self._emit(ServerSampled(t=reading.t, sample=reading))
            self._news.set()

    def _note_pace(self, reading: ServerSample) -> None:
        """Say once that readings are slow, and so fewer; one or two that are may be the machine's doing."""
        every_s = pace_s(reading.took_s)
        self._slow = self._slow + 1 if every_s > SCRAPE_INTERVAL_S else 0
        if self._slow >= SLOW_READINGS and not self._said_slow:
            self._said_slow = True
            self._say(fact("readings_slow", took_s=reading.took_s, every_s=every_s))

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

    def end_before(self, t: float) -> bool:
        """Whether the server has metrics, and none of those that are kept was begun after `t`."""
        return self._source is not None and not any(reading.t - reading.took_s > t for reading in self._kept)

    def failed_since(self, t: float) -> bool:
        """Whether a reading failed after `t`, and none was begun and came between then and that."""
        failed_at = self._failed_at
        if failed_at is None or failed_at <= t:
            return False
        return not any(t < reading.t - reading.took_s and reading.t < failed_at for reading in self._kept)

    async def fresh(self, after: float, timeout_s: float = FRESH_S) -> ServerSample | None:
        """The first reading begun after `after`; None when none comes in time, which is longer where they are read less often."""
        if self._source is None:
            return None
        if self._kept:
            took_s = self._kept[-1].took_s
            timeout_s = max(timeout_s, min(pace_s(took_s) + 2 * took_s, SETTLE_S))
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
        """Wait until the server has nothing running or waiting, at most SETTLE_S; a note says so when it has not settled. A reading
        that lacks the row of an engine does not tell what that one has.

        With others there it never gets idle; then only their own limit (`max_waiting`), if there is one, is waited for.
        """
        if self._source is None:
            return
        began = after = self._clock()
        while True:
            sample = await self.fresh(after)
            if sample is None:
                self._say(fact("readings_stopped", within_s=FRESH_S))
                return
            busy = (sample.running or 0.0) + (sample.waiting or 0.0)
            if (busy == 0 and not self._lacks_rows) or self._spared(sample):
                return
            if self._clock() - began >= SETTLE_S and busy == 0:
                self._say(fact("rows_missing", after_s=SETTLE_S))
                return
            if self._clock() - began >= SETTLE_S:
                self._say(fact("not_settled", requests=busy, after_s=SETTLE_S))
                return
            after = sample.t

    @property
    def _lacks_rows(self) -> bool:
        """Whether the newest reading shows the running or the waiting requests of fewer engines than one shortly before."""
        return any(now < max(lately) for now, lately in zip(self._shown[-1], zip(*self._shown, strict=True), strict=True))

    def _spared(self, sample: ServerSample) -> bool:
        """Whether others are there and are served as they were promised."""
        limit = self._safety.max_waiting
        return self._safety.with_others and (limit is None or ((sample.waiting or 0.0) <= limit and not self._lacks_rows))

    def _say(self, text: Said) -> None:
        self._emit(Note(t=self._clock(), level="warn", text=text))


def _rows(sample: ServerSample) -> tuple[int, int]:
    """How many engines a reading shows running requests of, and of how many waiting ones."""
    rows = sample.by_engine or (sample,)
    return sum(row.running is not None for row in rows), sum(row.waiting is not None for row in rows)


KEPT = 4096
"""At one a second more than an hour, the longest that one repeat may take."""


class MachineSource(Protocol):
    """What `core.server.host_metrics.MachineScraper` is to this module."""

    def readings(self) -> AsyncIterator[MachineSample | ScrapeError]: ...


class MachineReadings:
    """Takes readings in a task of its own (`pump`). A failing exporter is said and fails nothing."""

    def __init__(self, source: MachineSource | None, emit: Callable[[Event], None], clock: Callable[[], float]) -> None:
        self._source = source
        self._emit = emit
        self._clock = clock
        self._kept: list[MachineSample] = []

    @classmethod
    def of(
        cls, url: str | None, client: Callable[[], httpx.AsyncClient], emit: Callable[[Event], None], clock: Callable[[], float]
    ) -> Self:
        """The readings of an exporter, on a client of its own; None url: there are none."""
        return cls(None if url is None else MachineScraper(url, client(), clock=clock), emit, clock)

    async def pump(self) -> None:
        """Turn readings into events until cancelled."""
        if self._source is None:
            return
        async for reading in self._source.readings():
            if isinstance(reading, ScrapeError):
                self._emit(Note(t=self._clock(), level="warn", text=str(reading)))
                continue
            self._kept.append(reading)
            del self._kept[:-KEPT]
            self._emit(MachineSampled(t=reading.t, sample=reading))

    def kept(self) -> tuple[MachineSample, ...]:
        """Those of the last hour."""
        return tuple(self._kept)
