"""Waiting for the server between repeats, in virtual time."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

import msgspec
import pytest

from core.config import Safety
from core.facts import Said, fact
from core.records import EngineSample, ServerSample
from core.run.events import Event, Note, SampleFailed, ServerSampled
from core.run.scraping import FRESH_S, GONE_AFTER, SETTLE_S, Readings
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


def engines(t: float, *rows: tuple[float | None, float | None]) -> ServerSample:
    """A reading with a row (running, waiting) for each engine; None: that row is not there."""
    shown = tuple(EngineSample(name=str(n), running=running, waiting=waiting) for n, (running, waiting) in enumerate(rows))
    running, waiting = ([value for row in rows if (value := row[n]) is not None] for n in (0, 1))
    return ServerSample(
        t=t,
        took_s=0.01,
        running=sum(running) if running else None,
        waiting=sum(waiting) if waiting else None,
        by_engine=shown if len(shown) > 1 else None,
    )


BOTH = ((0.0, 0.0), (6.0, 2.0))


@pytest.mark.parametrize(
    "partly",
    [
        ((0.0, 0.0),),
        ((0.0, 0.0), (None, 0.0)),
        ((0.0, 0.0), (0.0, None)),
        ((None, None), (None, None)),
    ],
    ids=["the busy engine", "its running ones", "its waiting ones", "all gauges"],
)
def test_a_reading_that_lacks_a_row_does_not_show_an_idle_server(partly: tuple[tuple[float | None, float | None], ...]) -> None:
    def reading(t: float) -> ServerSample:
        return engines(t, *(BOTH if t < 1002.2 else partly if t < 1006 else BOTH if t < 1008 else ((0.0, 0.0), (0.0, 0.0))))

    took, events = settle(Source(reading))
    assert 5.5 < took < 6.5
    assert notes(events) == []


def test_an_engine_that_was_taken_away_is_waited_for_no_longer() -> None:
    took, events = settle(Source(lambda t: engines(t, *(BOTH if t < 1002.2 else BOTH[:1]))))
    assert (GONE_AFTER - 1) * 0.5 <= took <= GONE_AFTER * 0.5
    assert notes(events) == []


def test_a_server_that_lacks_rows_in_turn_is_not_known_to_be_idle() -> None:
    idle = ((0.0, 0.0), (0.0, 0.0))
    took, events = settle(Source(lambda t: engines(t, *(idle if t < 1002.2 or 2 * t % 8 == 0 else idle[:1]))))
    assert took < 4.5  # the one with both rows
    took, events = settle(Source(lambda t: engines(t, *(BOTH if 2 * t % 8 == 0 else BOTH[:1]))))
    assert SETTLE_S <= took <= SETTLE_S + 0.5
    assert [event.text for event in events if isinstance(event, Note)] == [fact("rows_missing", after_s=SETTLE_S)]


def test_more_engines_than_before_are_no_missing_rows() -> None:
    took, events = settle(Source(lambda t: engines(t, *(((0.0, 0.0),) * (1 if t < 1002.2 else 3)))))
    assert 0 < took <= 0.5
    assert notes(events) == []


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


def test_the_limit_of_others_is_not_known_to_be_kept_while_a_row_is_missing() -> None:
    def reading(t: float) -> ServerSample:
        whole = ((1.0, 0.0), (4.0, 9.0 if t < 1006 else 0.0))
        return engines(t, *(whole if t < 1000.6 or t >= 1003 else whole[:1]))

    async def work() -> float:
        safety = Safety(with_others=True, max_waiting=2)
        readings = Readings(Source(reading), lambda event: None, now, lambda sample: None, safety)
        task = asyncio.create_task(readings.pump())
        await asyncio.sleep(0.6)
        began = now()
        await readings.settle()
        task.cancel()
        return now() - began

    assert 5.0 < run(work()) < 6.0
