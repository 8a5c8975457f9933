"""Reads /metrics of every replica behind a gateway, all at the same time, and makes one sample of the fleet of it."""

import asyncio
import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import httpx

from core.access import Access
from core.facts import Fact
from core.records import EngineSample, ServerSample
from core.server.discovery import AGAIN_S, Discovery, Found
from core.server.exposition import ScrapeError
from core.server.http import DEADLINE_S, Caller, Credential, HttpError
from core.server.metrics import LARGE, SCRAPE_INTERVAL_S, Exposition, read_exposition, regularly
from core.units import count

LATE_S = 1.0
"""A replica that takes longer is not waited for: its reading counts with those of the moment in which it comes."""

SLOW_FACTOR = 2.0
"""Where all of them take long, one that takes this many times longer than the others is late."""

PAGE_S = 0.001
"""Of this process for one page (50 replicas: 44 ms of CPU, 200: 179 ms, with the 52 KB of an idle vLLM 0.32): a large fleet is read
less often, for the screen is drawn by the same process."""

_GAUGES = (
    "running",
    "waiting",
    "waiting_deferred",
    "waiting_capacity",
)
_COUNTED = (
    "preemptions_total",
    "prompt_tokens_total",
    "generation_tokens_total",
    "requests_success_total",
    "prefix_queries_total",
    "prefix_hits_total",
)
_HISTOGRAMS = ("ttft_s", "queue_time_s", "prefill_time_s", "decode_time_s")
_OF_A_ROW = (
    *("running", "waiting", "kv_usage_frac", "requests_success_total", "prompt_tokens_total", "generation_tokens_total"),
    *("preemptions_total", "prefix_queries_total", "prefix_hits_total"),
)


@dataclass(frozen=True, slots=True)
class ReplicaRead:
    """What one replica showed; `began` is when it was asked. `sample` is of the models that count."""

    name: str
    began: float
    exposition: Exposition
    sample: ServerSample


@dataclass(frozen=True, slots=True)
class ReplicaUnread:
    """A replica that showed nothing, and why. `there`: it is known to be up, but did not answer in time."""

    name: str
    why: str
    there: bool


@dataclass(frozen=True, slots=True)
class ReplicasRead:
    """All replicas that are known, at one moment, in the order of their sources; `problems` are those of the sources."""

    read: tuple[ReplicaRead, ...]
    unread: tuple[ReplicaUnread, ...]
    problems: tuple[Fact, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Of those that were read and of those that were not."""
        return (*(each.name for each in self.read), *(each.name for each in self.unread))


class ReplicaScraper:
    """Reads all replicas that `discovery` tells of, each with one reading in flight at most, so that one that hangs keeps no other
    waiting.

    `http` serves all of them and nobody else; `access` is sent to each replica, and is not the gateway's unless it was given for
    both. `say` hears of sources that tell of nothing. `clock` and `sleep` are for tests. `models`: names of ours among those that
    the pages show; empty: all count.
    """

    def __init__(
        self,
        discovery: Discovery,
        http: httpx.AsyncClient,
        *,
        access: Access | None = None,
        say: Callable[[Fact], None] = lambda problem: None,
        deadline_s: float = DEADLINE_S,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.models: frozenset[str] = frozenset()
        self._discovery = discovery
        self._http = http
        self._access = access or Access()
        self._say = say
        self._deadline_s = deadline_s
        self._clock = clock
        self._sleep = sleep
        self._one = asyncio.Lock()
        self._found: Found | None = None
        self._looked_at = -math.inf
        self._looking: asyncio.Task[Found] | None = None
        self._asked: dict[str, asyncio.Task[ReplicaRead | ReplicaUnread]] = {}
        self._late: set[str] = set()
        self._failed: dict[str, ReplicaUnread] = {}
        self._slowest_s = 0.0
        self._sums = _Sums()

    async def look(self) -> ReplicasRead:
        """Everything now, page by page."""
        async with self._one:
            return await self._look()

    async def there(self) -> frozenset[str]:
        """The names of those that are up now."""
        seen = await self.look()
        return frozenset((*(each.name for each in seen.read), *(each.name for each in seen.unread if each.there)))

    async def once(self) -> ServerSample:
        """One sample of the fleet. Raises ScrapeError where no replica can be read."""
        async with self._one:
            return self.sample_of(await self._look())

    def sample_of(self, seen: ReplicasRead) -> ServerSample:
        """The sample that these, just seen, make. Raises ScrapeError where none of them was read."""
        if not seen.read:
            raise ScrapeError(_none_read(seen))
        return self._sums.sample(seen, self._clock())

    async def readings(self, interval_s: float = SCRAPE_INTERVAL_S) -> AsyncIterator[ServerSample | ScrapeError]:
        """Samples for ever, as `core.server.metrics.regularly` takes them; how often, say the slowest that is in time and how many
        there are."""

        def cost_s(spent_s: float) -> float:
            return max(self._slowest_s, PAGE_S * len(self._found.urls if self._found else ()))

        async for reading in regularly(self.once, interval_s, self._clock, self._sleep, cost_s):
            yield reading

    async def close(self) -> None:
        """End what is in flight."""
        tasks: list[asyncio.Task[Found] | asyncio.Task[ReplicaRead | ReplicaUnread]] = [*self._asked.values()]
        tasks += [self._looking] if self._looking is not None else []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._asked.clear()

    async def _look(self) -> ReplicasRead:
        now = self._clock()
        found = await self._known(now)
        for url in [url for url in self._asked if url not in found.urls]:
            self._asked.pop(url).cancel()
            self._late.discard(url)
            self._failed.pop(url, None)
        self._drop_old(now - LATE_S)
        for url in found.urls:
            if url not in self._asked:
                self._asked[url] = asyncio.create_task(self._read(url))
        await self._wait()
        came = {url: self._take_in(url) for url, task in list(self._asked.items()) if task.done()}
        self._note_slowest(came.values())
        ordered = [came[url] if url in came else self._still_asked(url) for url in found.urls]
        read = tuple(each for each in ordered if isinstance(each, ReplicaRead))
        return ReplicasRead(read, tuple(each for each in ordered if isinstance(each, ReplicaUnread)), found.problems)

    def _still_asked(self, url: str) -> ReplicaUnread:
        """Of a replica that has not answered yet: what it was the last time, for a machine that is gone takes seconds to say so."""
        return self._failed.get(url) or ReplicaUnread(_name(url), "does not answer in time", there=True)

    async def _known(self, now: float) -> Found:
        """Which replicas there are. The sources are asked in the background, but for the first time."""
        if self._looking is not None and self._looking.done():
            self._take(self._looking.result())
            self._looking = None
        if self._found is None:
            self._looked_at = now
            self._take(await self._discovery.find())
        elif self._looking is None and now - self._looked_at >= AGAIN_S:
            self._looked_at = now
            self._looking = asyncio.create_task(self._discovery.find())
        assert self._found is not None
        return self._found

    def _take(self, found: Found) -> None:
        """A source that goes on telling nothing is said once."""
        said = () if self._found is None else self._found.problems
        for problem in found.problems:
            if problem not in said:
                self._say(problem)
        self._found = found

    async def _wait(self) -> None:
        """Until all that are in time have come; where all are late, until the first of them has."""
        timely = [task for url, task in self._asked.items() if url not in self._late]
        done, _ = await asyncio.wait(timely, timeout=self._patience_s) if timely else (set(), set())
        self._late |= {url for url, task in self._asked.items() if not task.done()}
        if not done and self._asked:
            await asyncio.wait(self._asked.values(), return_when=asyncio.FIRST_COMPLETED)

    def _drop_old(self, before: float) -> None:
        """Forget readings of late replicas that came long before they could count."""
        for url, task in list(self._asked.items()):
            if task.done() and isinstance(each := task.result(), ReplicaRead) and each.exposition.t < before:
                self._take_in(url)

    def _take_in(self, url: str) -> ReplicaRead | ReplicaUnread:
        """What has come of a replica; it is asked anew the next time."""
        each = self._asked.pop(url).result()
        if isinstance(each, ReplicaRead) and each.exposition.took_s <= self._patience_s:
            self._late.discard(url)
        if isinstance(each, ReplicaUnread):
            self._failed[url] = each
        else:
            self._failed.pop(url, None)
        return each

    @property
    def _patience_s(self) -> float:
        return max(LATE_S, SLOW_FACTOR * self._slowest_s)

    def _note_slowest(self, came: Iterable[ReplicaRead | ReplicaUnread]) -> None:
        took_s = [each.exposition.took_s for each in came if isinstance(each, ReplicaRead)]
        timely = [each for each in took_s if each <= self._patience_s]
        self._slowest_s = max(timely or took_s, default=self._slowest_s)

    async def _read(self, url: str) -> ReplicaRead | ReplicaUnread:
        name, credential, began = _name(url), Credential(url, self._access), self._clock()
        try:
            caller = Caller(self._http, credential, self._deadline_s)
            exposition = await read_exposition(caller, f"{url}/metrics", self._clock)
            large = len(exposition.text) > LARGE
            sample = await asyncio.to_thread(exposition.sample, self.models) if large else exposition.sample(self.models)
        except HttpError as error:
            return ReplicaUnread(name, credential.scrub(str(error)), there=_up(error))
        except ScrapeError as error:
            return ReplicaUnread(name, credential.scrub(f"cannot be read: {error}").rstrip("."), there=False)
        return ReplicaRead(name, began, exposition, sample)


class _Sums:
    """Makes one sample of all replicas, and knows what those that are missing from it had counted: a counter of the fleet never
    falls because a replica was not read. It begins anew where one restarts, or one that was not there comes; then the epoch moves.
    """

    def __init__(self) -> None:
        self._last: dict[str, ServerSample] = {}
        self._epoch: float | None = None

    def sample(self, seen: ReplicasRead, now: float) -> ServerSample:
        """`seen` has at least one that was read."""
        began_anew = bool(self._last) and any(self._is_new(each) for each in seen.read)
        self._last.update({each.name: each.sample for each in seen.read})
        starts = [each.epoch for each in self._last.values() if each.epoch is not None]
        if starts and (began_anew or self._epoch is None):
            self._epoch = max([*starts, math.nextafter(self._epoch or 0.0, math.inf)])
        samples = [each.sample for each in seen.read]
        counted = list(self._last.values())
        usage = [(each.kv_usage_frac, each.engines) for each in samples if each.kv_usage_frac is not None]
        fullest = [value for each in samples if (value := _fullest(each)) is not None]
        return ServerSample(
            t=now,
            took_s=max(0.0, now - min(each.began for each in seen.read)),
            engines=sum(each.engines for each in samples),
            kv_usage_frac=sum(frac * n for frac, n in usage) / sum(n for _, n in usage) if usage else None,
            kv_usage_max_frac=max(fullest, default=None),
            epoch=self._epoch,
            by_engine=tuple(_row(each) for each in seen.read),
            by_replica=True,
            unread=tuple(each.name for each in seen.unread if each.there),
            **_summed(samples, _GAUGES, _sum),
            **_summed(counted, _COUNTED, _sum),
            **_summed(counted, _HISTOGRAMS, _pairs),
        )

    def _is_new(self, each: ReplicaRead) -> bool:
        """Whether it is not the process of its last reading."""
        before, now = self._last.get(each.name), each.sample
        if before is None or before.epoch != now.epoch:
            return True
        both = [(getattr(before, name), getattr(now, name)) for name in _COUNTED]
        return any(was is not None and is_ is not None and is_ < was for was, is_ in both)


def _row(each: ReplicaRead) -> EngineSample:
    fields = {name: getattr(each.sample, name) for name in _OF_A_ROW}
    return EngineSample(name=each.name, started=each.sample.epoch, **fields)


def _fullest(sample: ServerSample) -> float | None:
    return sample.kv_usage_frac if sample.kv_usage_max_frac is None else sample.kv_usage_max_frac


def _summed(samples: Sequence[ServerSample], names: Sequence[str], add: Callable[[Iterable[Any]], Any]) -> dict[str, Any]:
    return {name: add(getattr(each, name) for each in samples) for name in names}


def _sum(values: Iterable[float | None]) -> float | None:
    """None where one does not tell: a part of it would look like the whole."""
    known = list(values)
    told = [value for value in known if value is not None]
    return sum(told) if told and len(told) == len(known) else None


def _pairs(values: Iterable[tuple[float, float] | None]) -> tuple[float, float] | None:
    known = list(values)
    told = [value for value in known if value is not None]
    return (sum(each[0] for each in told), sum(each[1] for each in told)) if told and len(told) == len(known) else None


def _up(error: HttpError) -> bool:
    """Whether somebody took the connection and only is slow: a process that is gone refuses it, one whose machine is gone takes
    none."""
    return error.found.figures.get("why") == "timeout" and not isinstance(error.__cause__, httpx.ConnectTimeout)


def _name(url: str) -> str:
    """Host and port of a replica, with the path where it has one."""
    parts = urlsplit(url)
    return f"{parts.netloc}{parts.path}"


def _none_read(seen: ReplicasRead) -> str:
    if not seen.unread:
        return "No replica is known: the sources that were named tell of none."
    first, more = seen.unread[0], len(seen.unread) - 1
    others = f", and {count(more, 'other')} cannot be read either" if more else ""
    return f"Metrics of no replica can be read: {first.name} {first.why}{others}."


def one_twice(read: Sequence[ReplicaRead]) -> tuple[str, str] | None:
    """Two names of one replica: their process and each of their counters began at the same moment, and they have counted the same.
    None where there are none, and where nothing was counted yet."""
    seen: dict[Hashable, str] = {}
    for each in read:
        sample = each.sample
        counted = (sample.requests_success_total, sample.prompt_tokens_total, sample.generation_tokens_total)
        if sample.epoch is None or not any(counted):
            continue
        began = frozenset(line for line in each.exposition.text.splitlines() if "_created" in line and not line.startswith("#"))
        if (first := seen.setdefault((sample.epoch, counted, began), each.name)) != each.name:
            return first, each.name
    return None


def models_shown(read: Sequence[ReplicaRead]) -> tuple[str, ...]:
    """The models that the pages name, each once. Raises ScrapeError for a page that cannot be read."""
    return tuple(dict.fromkeys(model for each in read for model in each.exposition.page().models))


def cache_configs(read: Collection[ReplicaRead], models: Collection[str]) -> tuple[dict[str, str], ...]:
    """What each replica says of its KV cache."""
    return tuple(each.exposition.cache_config(models) for each in read)
