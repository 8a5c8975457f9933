"""Waiting for the server between repeats, in virtual time."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

import msgspec
import pytest

from core.config import Safety
from core.facts import Said, fact
from core.records import EngineSample, RequestRecord, ServerSample
from core.run.events import Event, Note, SampleFailed, ServerSampled
from core.run.scraping import FRESH_S, GONE_AFTER, REST_S, SETTLE_MOST_S, SETTLE_S, Readings
from core.server.metrics import ScrapeError
from tests.builders import told
from tests.core.run.events import ended, sample
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


def settle(source: Source | None, safety: Safety = Safety(), after_s: float = 2.1) -> tuple[float, list[Event]]:  # noqa: B008 (frozen)
    """How long settling took when it began so long after the readings, and the events meanwhile."""

    async def work() -> tuple[float, list[Event]]:
        events: list[Event] = []
        readings = Readings(source, events.append, now, lambda sample: None, safety)
        task = asyncio.create_task(readings.pump())
        await asyncio.sleep(after_s)
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
    def took_s(safety: Safety) -> float:
        source = Source(lambda t: sample(t, running=9.0, waiting=max(0.0, 1006.0 - t)))
        return settle(source, safety, after_s=0.6)[0]

    assert took_s(Safety(with_others=True)) <= 0.5
    assert 3.0 < took_s(Safety(with_others=True, max_waiting=2)) < 4.5


def test_the_limit_of_others_is_not_known_to_be_kept_while_a_row_is_missing() -> None:
    def reading(t: float) -> ServerSample:
        whole = ((1.0, 0.0), (4.0, 9.0 if t < 1006 else 0.0))
        return engines(t, *(whole if t < 1000.6 or t >= 1003 else whole[:1]))

    took_s, _ = settle(Source(reading), Safety(with_others=True, max_waiting=2), after_s=0.6)
    assert 5.0 < took_s < 6.0


IDLE_S = 0.6


class Server:
    """Shows what `shows` makes of the time and of how many single requests it has answered; each takes as long as `takes` says,
    None for one that is refused. Its readings fail while `away`."""

    def __init__(
        self,
        shows: Callable[[float, int], ServerSample],
        takes: Callable[[float], float | None] = lambda t: IDLE_S,
        away: Callable[[float], bool] = lambda t: False,
        safety: Safety = Safety(),  # noqa: B008 (frozen)
    ) -> None:
        self._shows, self._takes, self._away, self._safety = shows, takes, away, safety
        self.asked: list[float] = []
        self.answered = 0
        self.judged: tuple[ServerSample, ...] = ()

    async def ask(self, within_s: float) -> RequestRecord:
        t, took_s = now(), self._takes(now())
        self.asked.append(t)
        await asyncio.sleep(min(within_s, IDLE_S if took_s is None else took_s))
        if took_s is None:
            return ended(0, t, now(), ending="http")
        self.answered += 1
        return ended(0, t, now(), ending="ok" if took_s <= within_s else "aborted")

    async def readings(self) -> AsyncIterator[Reading]:
        while True:
            yield ScrapeError("HTTP 503") if self._away(now()) else self._shows(now(), self.answered)
            await asyncio.sleep(0.5)

    def settled(self, *, cut_off: bool = True, metrics: bool = True) -> tuple[float, list[Said]]:
        """How long settling took from 1002.1 on, and what was said."""

        async def work() -> tuple[float, list[Said]]:
            events: list[Event] = []
            readings = Readings(self if metrics else None, events.append, now, lambda sample: None, self._safety)
            task = asyncio.create_task(readings.pump())
            await asyncio.sleep(2.1)
            began = now()
            await readings.settle(self.ask, IDLE_S, cut_off=cut_off)
            took, self.judged = now() - began, readings.judged
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
            return took, notes(events)

        return run(work())


def shown(t: float, left: float | None, tokens: float | None = 500.0) -> ServerSample:
    waiting = None if left is None else 0.0
    return ServerSample(t=t, took_s=0.01, running=left, waiting=waiting, generation_tokens_total=tokens)


# --- gauges that nobody refreshes -------------------------------------------------------------------------------------


def test_gauges_that_stand_while_the_counters_do_are_made_right_by_one_request() -> None:
    server = Server(lambda t, answered: shown(t, 0 if answered else 16, 500.0 + 64 * answered))
    took, said = server.settled()
    assert REST_S < took < 5
    assert (len(server.asked), said) == (1, [])


def test_each_engine_makes_its_own_gauges_right() -> None:
    def two(t: float, answered: int) -> ServerSample:
        stale = engines(t, *((0.0 if answered > n else 4.0, 0.0) for n in range(2)))
        return msgspec.structs.replace(stale, engines=2, generation_tokens_total=64.0 * answered)

    server = Server(two)
    took, said = server.settled()
    assert took < 7
    assert (len(server.asked), said) == (2, [])


def test_gauges_are_waited_for_as_long_as_the_server_works() -> None:
    server = Server(lambda t, answered: shown(t, 8 if t < 1042 else 0, 20 * t if t < 1042 else 0.0))
    took, said = server.settled()
    assert 39.5 < took < 41
    assert (server.asked, said) == ([], [])


def test_requests_that_get_fewer_are_waited_for_without_counters_too() -> None:
    server = Server(lambda t, answered: shown(t, max(0, 1042 - t) // 2, None))
    took, said = server.settled()
    assert 38 < took < 41
    assert (server.asked, said) == ([], [])


def test_a_page_that_shows_an_earlier_moment_is_no_reading_of_now() -> None:
    """What was made for our own request is not counted in it: an answer as fast as on the idle server tells."""
    server = Server(lambda t, answered: shown(t, 16), lambda t: 3.0 if t < 1012 else IDLE_S)
    took, said = server.settled()
    assert took < 15.5
    assert (len(server.asked), said) == (3, [])


def test_a_request_that_changes_nothing_is_not_sent_again_and_again() -> None:
    server = Server(lambda t, answered: shown(t, 16, 500.0 + 64 * answered))
    took, said = server.settled()
    assert took < 7
    assert (len(server.asked), [told(each, "not_settled").figures["requests"] for each in said]) == (1, [16.0])


def test_a_request_that_is_refused_shows_nothing() -> None:
    server = Server(lambda t, answered: shown(t, 16), lambda t: None)
    took, said = server.settled()
    assert took < 5
    assert (len(server.asked), [told(each, "not_settled").figures["requests"] for each in said]) == (1, [16.0])


# --- gauges that are not there ----------------------------------------------------------------------------------------


def held_until(t: float) -> Callable[[float], float]:
    """A single request waits for a place until then; the next one, which comes when as much time has passed again, does not."""
    return lambda now: max(0.0, t - now) + IDLE_S


def test_places_that_no_gauge_shows_are_free_when_an_answer_is_as_fast_as_on_the_idle_server() -> None:
    server = Server(lambda t, answered: shown(t, None), held_until(1009))
    took, said = server.settled()
    assert 10 < took < 14
    assert (len(server.asked), said) == (2, [])


def test_without_metrics_answers_alone_show_that_the_server_is_idle() -> None:
    server = Server(lambda t, answered: shown(t, 0), held_until(1009))
    took, said = server.settled(metrics=False)
    assert 12.5 < took < 14
    assert (len(server.asked), said) == (2, [])


def test_so_they_do_when_its_readings_have_stopped() -> None:
    server = Server(lambda t, answered: shown(t, 4), held_until(1009), away=lambda t: t > 1002)
    took, said = server.settled()
    assert 10 < took < 14
    assert (len(server.asked), said) == (2, [])


def test_nothing_is_asked_while_its_counters_move() -> None:
    server = Server(lambda t, answered: shown(t, None, min(t, 1012.0)))
    took, said = server.settled()
    assert 10 + REST_S < took < 15
    assert (len(server.asked), said) == (1, [])


def test_without_counters_there_is_nothing_to_wait_for_but_an_answer() -> None:
    server = Server(lambda t, answered: shown(t, None, None), held_until(1009))
    took, said = server.settled()
    assert 10 < took < 14
    assert said == []


def test_what_never_gets_fast_is_not_known_to_be_idle() -> None:
    server = Server(lambda t, answered: shown(t, None), lambda t: 3.2)
    took, said = server.settled()
    assert SETTLE_MOST_S <= took < SETTLE_MOST_S + 4
    (unknown,) = said
    figures = told(unknown, "idle_unknown").figures
    assert (figures["e2e_s"], figures["idle_e2e_s"]) in ((pytest.approx(3.2), IDLE_S), (None, IDLE_S))


def test_counters_that_never_stand_still_are_not_waited_for_for_ever() -> None:
    server = Server(lambda t, answered: shown(t, None, t))
    took, said = server.settled()
    assert SETTLE_MOST_S <= took < SETTLE_MOST_S + 1
    assert (server.asked, said) == ([], [fact("work_unknown", after_s=120)])


def test_an_answer_that_fails_ends_the_wait_with_a_word() -> None:
    server = Server(lambda t, answered: shown(t, None), lambda t: None)
    took, said = server.settled()
    assert took < 5
    assert [told(each, "idle_unknown").figures["said"] for each in said] == ["http"]


@pytest.mark.parametrize("metrics", [True, False])
def test_where_nothing_was_cut_off_nothing_is_left(metrics: bool) -> None:
    server = Server(lambda t, answered: shown(t, None))
    took, said = server.settled(cut_off=False, metrics=metrics)
    assert took <= 0.5
    assert (server.asked, said) == ([], [])


@pytest.mark.parametrize("left", [16.0, None])
def test_with_others_nothing_is_asked(left: float | None) -> None:
    for metrics in (True, False):
        server = Server(lambda t, answered: shown(t, left), safety=Safety(with_others=True, max_waiting=2))
        assert server.settled(metrics=metrics)[0] <= 0.5
        assert server.asked == []


# --- what the judge sees of it ----------------------------------------------------------------------------------------


def test_what_settling_asked_for_is_in_no_reading_that_is_judged() -> None:
    server = Server(lambda t, answered: shown(t, 0 if answered else 16, 500.0 + 64 * answered))
    server.settled()
    assert len(server.judged) > 5
    assert {reading.generation_tokens_total for reading in server.judged} == {500.0}


def test_the_next_repeat_begins_with_a_reading_of_its_own() -> None:
    async def work() -> None:
        server = Server(lambda t, answered: shown(t, 0 if answered else 16, 500.0 + 64 * answered))
        readings = Readings(server, lambda event: None, now, lambda sample: None)
        task = asyncio.create_task(readings.pump())
        await asyncio.sleep(2.1)
        await readings.settle(server.ask, IDLE_S, cut_off=True)
        readings.keep_from_now(server.asked[-1] + IDLE_S)
        assert [reading.generation_tokens_total for reading in readings.judged] == [564.0]
        await asyncio.sleep(1.0)
        assert len(readings.judged) > 1
        task.cancel()

    run(work())
