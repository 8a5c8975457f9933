"""Readings of the server, and of a GPU or host exporter, as they come in: kept for the judge, waited for between repeats."""

import asyncio
import contextlib
import math
from collections import deque
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Protocol, Self

import httpx

from core.config import Safety
from core.facts import Fact, Said, fact
from core.records import MachineSample, RequestRecord, ServerSample
from core.run.blackout import words_of
from core.run.conductor import Ask
from core.run.events import Event, MachineSampled, Note, SampleFailed, ServerSampled
from core.server import SCRAPE_INTERVAL_S, MachineScraper, ScrapeError, at_rest, others_now, pace_s
from core.slo import e2e_s

SETTLE_S = 15.0
"""So long a server may show requests without a sign that it works on them."""
SETTLE_MOST_S = 120.0
"""So long it may go on working on requests that were cut off: one that does not notice makes all their tokens. One that has other
traffic never gets idle."""
REST_S = 2.0
"""Counters that stand for so long, four readings, stand still: a step that takes a second is a long prompt's."""
IDLE_FACTOR, IDLE_SLACK_S = 2.0, 0.1
"""An answer that takes up to twice as long as on the idle server and a tenth of a second had a place at once: one that waits for a
place waits for a whole answer on average."""
FRESH_S = 3.0
"""A reading that takes longer than this is not waited for: load and verdicts do not hang on /metrics."""

SLOW_READINGS = 3

GONE_AFTER = 10
"""A row that so many readings lack is of an engine that was taken away; before that it is only not shown."""

HELD_S = 5.0
"""A place whose client is gone is held for so long, or for twice an idle answer where that is longer: gateways and engines that do
not notice at once do within seconds."""


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
        self._asked_at: float | None = None

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
        self._asked_at = None

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

    @property
    def judged(self) -> tuple[ServerSample, ...]:
        """Those that are kept, but none since `settle` sent requests of its own: they are not of the load."""
        return self.kept if self._asked_at is None else tuple(reading for reading in self._kept if reading.t <= self._asked_at)

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

    async def settle(self, ask: Ask | None = None, idle_e2e_s: float = 0.0, *, cut_off: bool = False) -> None:
        """Wait until the server has nothing running or waiting, at most SETTLE_MOST_S; a note says so when it has not settled, or
        when that is not known. A reading that lacks the row of an engine does not tell what that one has.

        Requests that it shows are waited for while they get fewer or its counters move. vLLM sets its gauges with the steps of the
        engine: those that stand while the counters do are made right by a single request (`ask`; None: nothing is asked).
        `cut_off`: requests of ours were open when the load was stopped. Where nothing shows what became of them, single requests
        are sent until one is as fast as on the idle server (`idle_e2e_s`), which had a free place.

        With others there it never gets idle; then only their own limit (`max_waiting`), if there is one, is waited for.
        """
        ask = None if self._safety.with_others else ask
        if (why := await self._unsettled(ask, idle_e2e_s, cut_off)) is not None:
            self._say(why)

    async def _unsettled(self, ask: Ask | None, idle_e2e_s: float, cut_off: bool) -> Fact | None:
        """Waits; why the server is not known to be idle, or None where it is or nobody is to know."""
        began, by_answers = self._clock(), ask if cut_off else None
        if self._source is None:
            return None if by_answers is None else await self._until_fast(by_answers, idle_e2e_s, began)
        after, rest, asked = began, _Rest(), _Asked()
        while True:
            sample = await self.fresh(after)
            spent_s = self._clock() - began
            if sample is None and by_answers is not None:
                return await self._until_fast(by_answers, idle_e2e_s, began)
            if sample is None:
                return fact("readings_stopped", within_s=FRESH_S)
            left, after = others_now(sample), sample.t
            if self._spared(sample):
                return None
            if self._lacks_rows and not left:
                if spent_s >= SETTLE_S:
                    return fact("rows_missing", after_s=SETTLE_S)
                continue
            if left == 0 or (left is None and by_answers is None):
                return None
            rest.seen(sample, left)
            unseen = left is None or (asked.times > 0 and at_rest(asked.before, sample) is True)
            if rest.long and ask is not None and unseen:
                why = await self._until_fast(ask, idle_e2e_s, began)
                await self.fresh(self._clock())
                return why
            if left and ask is not None and asked.times < _asks(sample) and (asked.times or (rest.long and rest.counted)):
                record = await self._single(ask, began)
                if record is None or record.ending != "ok":
                    return fact("not_settled", requests=left, after_s=round(self._clock() - began))
                after, rest, asked = self._clock(), _Rest(), _Asked(asked.times + 1, sample)
                continue
            if spent_s >= SETTLE_MOST_S or (rest.long and (asked.times or spent_s >= SETTLE_S)):
                if left is None:
                    return fact("work_unknown", after_s=round(spent_s))
                return fact("not_settled", requests=left, after_s=round(spent_s))

    async def _until_fast(self, ask: Ask, idle_e2e_s: float, began: float) -> Fact | None:
        """Send single requests until one is as fast as on the idle server; why that is not known, or None once it is. One
        that had to wait shows that one place is free; those that were taken just before it get time to be left as well."""
        while True:
            record = await self._single(ask, began)
            took_s = e2e_s(record) if record is not None and record.ending == "ok" else None
            if took_s is not None and took_s <= IDLE_FACTOR * idle_e2e_s + IDLE_SLACK_S:
                return None
            if took_s is None or self._clock() - began >= SETTLE_MOST_S:
                return fact("idle_unknown", e2e_s=took_s, idle_e2e_s=idle_e2e_s, **words_of(record))
            held_s = min(took_s, max(HELD_S, IDLE_FACTOR * idle_e2e_s))
            await asyncio.sleep(min(held_s, began + SETTLE_MOST_S - self._clock()))

    async def _single(self, ask: Ask, began: float) -> RequestRecord | None:
        if self._asked_at is None:
            self._asked_at = self._clock()
        return await ask(began + SETTLE_MOST_S - self._clock())

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


@dataclass(slots=True)
class _Rest:
    """How long nothing has moved in a row of readings. `counted`: the counters say so, not the gauges alone."""

    last: ServerSample | None = None
    since: float = 0.0
    fewest: float = math.inf
    counted: bool = False

    def seen(self, sample: ServerSample, left: float | None) -> None:
        """The next reading, which shows so many requests."""
        still = at_rest(self.last, sample)
        fewer = left is not None and left < self.fewest
        if self.last is None or still is False or fewer:
            self.since = sample.t
        self.last, self.counted = sample, still is True
        self.fewest = left if fewer and left is not None else self.fewest

    @property
    def long(self) -> bool:
        return self.last is not None and self.last.t - self.since >= REST_S


@dataclass(frozen=True, slots=True)
class _Asked:
    """How often the server was asked to make its gauges right, and the reading before the last time."""

    times: int = 0
    before: ServerSample | None = None


def _asks(sample: ServerSample) -> int:
    """Each engine makes its own gauges right, and which one takes a request is not ours to say."""
    return 2 * sample.engines if sample.engines > 1 else 1


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
