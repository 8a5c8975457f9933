"""Waiting for the server between repeats, in virtual time."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

import msgspec

from core.config import Safety
from core.facts import Said, fact
from core.records import ServerSample
from core.run.events import Event, Note, SampleFailed, ServerSampled
from core.run.scraping import FRESH_S, SETTLE_S, Readings
from core.server.metrics import ScrapeError
from tests.core.run.events import sample
from tests.core.run.virtual import now, run

Reading = ServerSample | ScrapeError


class Source:
    """A reading every half second, as `make` gives it."""

    def __init__(self, make: Callable[[float], Reading]) -> None:
        self._make = make

    async def readings(self) -> AsyncIterator[Reading]:
        while True:
            yield self._make(now())
            await asyncio.sleep(0.5)


def settle(source: Source | None) -> tuple[float, list[Event]]:
    """How long settling took, and the events meanwhile."""

    async def work() -> tuple[float, list[Event]]:
        events: list[Event] = []
        readings = Readings(source, events.append, now, lambda sample: None)
        task = asyncio.create_task(readings.pump())
        await asyncio.sleep(2.1)
        began = now()
        await readings.settle()
        took = now() - began
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        return took, events

    return run(work())


def notes(events: list[Event]) -> list[Said]:
    return [event.text for event in events if isinstance(event, Note)]


def test_an_idle_server_needs_one_fresh_reading() -> None:
    took, events = settle(Source(lambda t: sample(t, running=0.0, waiting=0.0)))

    assert 0 < took <= 0.5
    assert notes(events) == []


def test_a_reading_begun_before_does_not_count() -> None:
    def slow(t: float) -> ServerSample:
        return ServerSample(t=t, took_s=1.2, running=0.0, waiting=0.0)

    took, _ = settle(Source(slow))

    assert took > 1.2


def test_a_busy_server_is_waited_for() -> None:
    took, events = settle(Source(lambda t: sample(t, running=0.0, waiting=5.0 if t < 1008 else 0.0)))

    assert 5.5 < took < 6.5
    assert notes(events) == []


def test_a_server_that_never_gets_idle_is_told_of() -> None:
    took, events = settle(Source(lambda t: sample(t, running=2.0, waiting=1.0)))

    assert SETTLE_S <= took <= SETTLE_S + 0.5
    assert notes(events) == [fact("not_settled", requests=3.0, after_s=SETTLE_S)]


def test_failed_readings_end_the_wait() -> None:
    took, events = settle(Source(lambda t: ScrapeError("Metrics answer 404.")))

    assert took == FRESH_S
    assert next(event.reason for event in events if isinstance(event, SampleFailed)) == "Metrics answer 404."
    assert notes(events) == [fact("readings_stopped", within_s=FRESH_S)]


def test_without_metrics_there_is_nothing_to_wait_for() -> None:
    assert settle(None) == (0.0, [])


def test_what_is_kept_begins_just_before_the_repeat() -> None:
    async def work() -> None:
        events: list[Event] = []
        readings = Readings(Source(lambda t: sample(t, running=0.0)), events.append, now, lambda sample: None)
        task = asyncio.create_task(readings.pump())
        await asyncio.sleep(2.1)
        readings.keep_from_now(1001.9)
        await asyncio.sleep(1.0)
        task.cancel()
        assert [round(reading.t - 1000.0, 1) for reading in readings.kept] == [2.0, 2.5, 3.0]
        assert sum(isinstance(event, ServerSampled) for event in events) == 7

    run(work())


def test_a_reading_begun_before_the_end_of_what_came_before_is_not_kept() -> None:
    async def work() -> None:
        def slow(t: float) -> ServerSample:
            return msgspec.structs.replace(sample(t), took_s=0.2)

        readings = Readings(Source(slow), lambda event: None, now, lambda sample: None)
        task = asyncio.create_task(readings.pump())
        await asyncio.sleep(2.1)
        readings.keep_from_now(1001.7)
        assert [reading.t for reading in readings.kept] == [1002.0]
        readings.keep_from_now(1001.9)
        assert readings.kept == ()
        task.cancel()

    run(work())


def test_a_slow_reading_is_said_once_and_waited_for_longer() -> None:
    class Slow:
        async def readings(self) -> AsyncIterator[Reading]:
            while True:
                await asyncio.sleep(1.0)
                yield ServerSample(t=now(), took_s=1.0, running=0.0, waiting=0.0)
                await asyncio.sleep(4.0)

    async def work() -> tuple[ServerSample | None, float, list[Event]]:
        events: list[Event] = []
        readings = Readings(Slow(), events.append, now, lambda sample: None)
        task = asyncio.create_task(readings.pump())
        await asyncio.sleep(1.1)
        began = now()
        sample = await readings.fresh(began)
        took_s = now() - began
        assert notes(events) == []
        await asyncio.sleep(30.0)
        task.cancel()
        return sample, took_s, events

    sample, took_s, events = run(work())
    assert sample is not None
    assert took_s > FRESH_S
    assert notes(events) == [fact("readings_slow", took_s=1.0, every_s=5.0)]


def test_with_others_only_their_own_limit_is_waited_for() -> None:
    async def work(safety: Safety) -> float:
        source = Source(lambda t: sample(t, running=9.0, waiting=max(0.0, 1006.0 - t)))
        readings = Readings(source, lambda event: None, now, lambda sample: None, safety)
        task = asyncio.create_task(readings.pump())
        await asyncio.sleep(0.6)
        began = now()
        await readings.settle()
        task.cancel()
        return now() - began

    assert run(work(Safety(with_others=True))) <= 0.5
    assert 3.0 < run(work(Safety(with_others=True, max_waiting=2))) < 4.5
