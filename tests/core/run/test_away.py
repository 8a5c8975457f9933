"""Is the server away? Asked with single requests, and waited for, in virtual time."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field

import msgspec
import pytest

from core.facts import Fact, Said, fact, says
from core.records import Ending, RequestRecord, ServerSample
from core.run.away import ASK_EVERY_S, ASKS, AWAY_S, SAY_EVERY_S, Absence, ServerAway
from core.run.blackout import Unserved, Words
from core.run.events import Event, Note
from core.run.scraping import Readings
from core.server.metrics import ScrapeError
from tests.builders import told
from tests.core.run.events import ended, sample
from tests.core.run.virtual import now, run

GONE: Words = {"said": "HTTP 503", "endings": {"http": 9}}


@dataclass
class Server:
    """Answers single requests as `ending` says at the time of each, in half a second; its metrics as `reading` says."""

    ending: Callable[[float], Ending]
    reading: Callable[[float], ServerSample | ScrapeError] = lambda t: sample(t)
    status: int | None = None
    error: str | None = None
    asked: list[float] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)

    async def ask(self, within_s: float) -> RequestRecord:
        t = now()
        self.asked.append(t)
        await asyncio.sleep(min(within_s, 0.5))
        record = ended(0, t, now(), ending=self.ending(t))
        return record if record.ending == "ok" else msgspec.structs.replace(record, status=self.status, error=self.error)

    async def readings(self) -> AsyncIterator[ServerSample | ScrapeError]:
        while True:
            yield self.reading(now())
            await asyncio.sleep(0.5)

    @property
    def said(self) -> list[Said]:
        return [event.text for event in self.events if isinstance(event, Note)]


def last(*, dark: bool, since: float = 1010.0) -> Unserved:
    return Unserved(since=since, words=GONE, dark=dark)


def found(server: Server, dark: bool, after_s: float = 20.0) -> ServerAway | None:
    """What is found out `after_s` seconds after the first reading."""

    async def work() -> ServerAway | None:
        readings = Readings(server, server.events.append, now, lambda sample: None)
        pump = asyncio.create_task(readings.pump())
        await asyncio.sleep(after_s)
        try:
            return await Absence(server.ask, readings, server.events.append, now).found(4.0, last(dark=dark))
        finally:
            pump.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await pump

    return run(work())


def waited(server: Server, away: ServerAway) -> tuple[Fact | None, float]:
    async def work() -> tuple[Fact | None, float]:
        readings = Readings(None, server.events.append, now, lambda sample: None)
        absence = Absence(server.ask, readings, server.events.append, now, "tiny")
        began = now()
        return await absence.over(away), now() - began

    return run(work())


@pytest.mark.parametrize("dark", [False, True])
def test_a_server_that_answers_without_load_was_overloaded(dark: bool) -> None:
    server = Server(lambda t: "ok")

    assert found(server, dark) is None
    assert len(server.asked) == 1
    assert server.said == []


def test_one_that_fails_a_single_request_after_a_long_row_of_errors_is_away() -> None:
    server = Server(lambda t: "connection")
    away = found(server, dark=True)

    assert away is not None
    assert (away.seen, away.back, len(server.asked)) == ("asked", False, 1)


@pytest.mark.parametrize(("ending", "status"), [("http", 401), ("http", 429), ("client", None)])
def test_a_single_request_that_somebody_refuses_or_that_failed_here_is_no_absence(ending: Ending, status: int | None) -> None:
    assert found(Server(lambda t: ending, status=status), dark=True) is None


def test_a_request_that_could_not_be_sent_any_more_is_no_error_of_our_own() -> None:
    async def unsent(within_s: float) -> None:
        await asyncio.sleep(within_s)

    async def work() -> tuple[ServerAway | None, Fact | None]:
        absence = Absence(unsent, Readings(None, print, now, lambda sample: None), lambda event: None, now)
        away = ServerAway(4.0, 1010.0, GONE, "asked")
        return await absence.found(4.0, last(dark=True)), await absence.over(away)

    assert run(work()) == (None, fact("away_for_good", rate_rps=4.0, within_s=AWAY_S, **GONE))


def test_a_few_errors_are_asked_about_several_times() -> None:
    server = Server(lambda t: "http")
    away = found(server, dark=False)

    assert away is not None
    assert (away.seen, len(server.asked)) == ("asked", ASKS)
    assert server.asked[1] - server.asked[0] == pytest.approx(ASK_EVERY_S + 0.5)
    assert server.said == [fact("asked_again", said="http", endings={"http": 1})]

    begun = [0]

    def third(t: float) -> Ending:
        begun[0] += 1
        return "ok" if begun[0] == 3 else "http"

    assert found(Server(third), dark=False) is None, "it fails some requests, and serves others"


def test_a_restart_meanwhile_is_an_absence_though_it_answers_again() -> None:
    away = found(Server(lambda t: "ok", lambda t: sample(t, epoch=1.0 if t < 1015 else 2.0)), dark=False)

    assert away is not None
    assert (away.seen, away.back) == ("restarted", True)
    turns = Server(lambda t: "ok", lambda t: sample(t, epoch=1.0 + int(2 * t) % 2))
    assert found(turns, dark=False) is None, "several processes in turn"


@pytest.mark.parametrize(
    ("from_s", "until_s", "dark", "away"),
    [(1011, 1016, True, True), (1011, 1016, False, False), (1005, 1009, True, False), (1014, 1016, True, False)],
    ids=["together", "a few errors", "before", "with a reading between"],
)
def test_metrics_that_failed_as_long_as_nothing_was_served(from_s: float, until_s: float, dark: bool, away: bool) -> None:
    def reading(t: float) -> ServerSample | ScrapeError:
        return ScrapeError("answers 503") if from_s <= t < until_s or (away and 1010 < t < from_s) else sample(t)

    seen = found(Server(lambda t: "ok", reading), dark)
    assert (seen is not None and seen.seen == "unread") == away


def test_the_wait_ends_when_a_request_is_answered() -> None:
    server = Server(lambda t: "ok" if t >= 1040 else "http")
    back, took_s = waited(server, ServerAway(4.0, 990.0, GONE, "asked"))

    assert back is None
    assert 40 <= took_s <= 43.5
    assert server.said[0] == fact("away_awaited", **GONE, within_s=AWAY_S)
    still = [said for said in server.said if says(said, "still_away")]
    assert server.said[1:-1] == still
    assert len(still) == int(40 / (SAY_EVERY_S + ASK_EVERY_S + 0.5))
    assert told(still[0], "still_away").figures["said"] == "http"
    assert told(server.said[-1], "back_after").figures == {"away_s": pytest.approx(took_s + 10.0)}


def test_the_wait_has_its_limit_whatever_a_request_takes() -> None:
    server = Server(lambda t: "aborted")
    back, took_s = waited(server, ServerAway(4.0, 990.0, GONE, "asked"))

    assert back == fact("away_for_good", rate_rps=4.0, within_s=AWAY_S, **GONE)
    still = [said for said in server.said if says(said, "still_away")]
    assert all(told(said, "still_away").figures["said"] is None for said in still), "it said nothing"
    assert took_s == pytest.approx(AWAY_S, abs=0.1)


def test_who_is_back_is_not_waited_for() -> None:
    server = Server(lambda t: "http")

    assert waited(server, ServerAway(4.0, 990.0, GONE, "restarted")) == (None, 0.0)
    assert server.asked == []
    assert server.said == [fact("back_already", **GONE, seen="restarted")]


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (404, "HTTP 404 Not Found: The model `tiny` does not exist."),
        (400, "HTTP 400 Bad Request: Invalid model name passed in model=tiny."),
        (404, "HTTP 404: model 'tiny' not found, try pulling it first"),
    ],
)
def test_a_server_that_comes_back_with_another_model_is_not_waited_for_any_longer(status: int, error: str) -> None:
    server = Server(lambda t: "connection" if t < 1010 else "http", status=status, error=error)
    why, took_s = waited(server, ServerAway(4.0, 990.0, GONE, "asked"))

    assert why == fact("back_without_model", rate_rps=4.0, model="tiny", said=error.rstrip("."), endings={"http": 1})
    assert took_s < 15


@pytest.mark.parametrize(
    ("status", "error"), [(503, "HTTP 503: no backend for tiny"), (404, "HTTP 404: no route"), (401, "HTTP 401: tiny is not yours")]
)
def test_a_refusal_that_says_nothing_of_the_model_is_waited_out(status: int, error: str) -> None:
    server = Server(lambda t: "ok" if t >= 1040 else "http", status=status, error=error)
    assert waited(server, ServerAway(4.0, 990.0, GONE, "asked"))[0] is None
