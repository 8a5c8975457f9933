"""A server that is away is not slow: whether it is, asked with single requests when the load is off, and the wait for it."""

import asyncio
from collections.abc import Callable
from typing import Literal

from core.facts import Fact, Said, fact
from core.judge import Readings as Read
from core.records import RequestRecord
from core.run.blackout import Unserved, Words, of_nobody, words_of
from core.run.conductor import Ask
from core.run.events import Event, Note
from core.run.scraping import Readings

AWAY_S = 300.0
"""A pod that is started again loads its weights and compiles for one to three minutes. One that takes longer than this is more
likely not to come back by itself, and a run that nobody looks at must end."""
ASK_EVERY_S = 2.0
SAY_EVERY_S = 15.0
ASKS = 4
"""A few errors at the end of an order may be one bad moment: so many single requests, `ASK_EVERY_S` apart, must fail after them. A
server that fails one request in ten, which no rate passes, does that once in ten thousand times."""
METRICS_S = 15.0
"""A server answers before all of it is up; its metrics are waited for so long, and are no reason not to go on."""

Seen = Literal["asked", "restarted", "unread", "lost"]


class ServerAway(Exception):
    """The server was not there to be judged, at this rate. `words`: its words, or how requests ended, as figures of a fact; `seen`:
    what shows that; `since`: when it was last seen to work; `alike`: what the errors had in common. `fact` is the reason why what
    ran then does not count."""

    def __init__(self, rate_rps: float, since: float, words: Words, seen: Seen, alike: Fact | None = None) -> None:
        super().__init__(seen)
        self.fact = fact("server_away", *(() if alike is None else (alike,)), **words, seen=seen)
        self.rate_rps, self.since, self.words, self.seen = rate_rps, since, words, seen

    @property
    def back(self) -> bool:
        """Whether it was found to answer again."""
        return self.seen in ("restarted", "unread")

    @property
    def again(self) -> Fact:
        """The answer of a run that ends because this was the second time."""
        return fact("away_again", rate_rps=self.rate_rps, **self.words)

    @property
    def for_good(self) -> Fact:
        """The answer of a run that has waited in vain."""
        return fact("away_for_good", rate_rps=self.rate_rps, within_s=AWAY_S, **self.words)

    def without_model(self, model: str, record: RequestRecord) -> Fact:
        """The answer of a run whose model is not served any more, in the words of who refused a request for it."""
        return fact("back_without_model", rate_rps=self.rate_rps, model=model, **words_of(record))

    def was(self, now: float, *, held: bool = False) -> Fact:
        """What is to be known beside the answer of a search that was started anew at `now`, or of a rate that is held on."""
        return fact("was_away_held" if held else "was_away", away_s=now - self.since, **self.words)


class Absence:
    """Finds out whether the server is away, and waits for it. `ask` sends a single request while no load runs."""

    def __init__(
        self, ask: Ask, readings: Readings, emit: Callable[[Event], None], clock: Callable[[], float], model: str | None = None
    ) -> None:
        """`model`: what the single requests ask for."""
        self._ask = ask
        self._model = model
        self._readings = readings
        self._emit = emit
        self._clock = clock

    async def found(self, rate_rps: float, last: Unserved) -> ServerAway | None:
        """Whether an order that failed and ended in such errors met a server that was away; None where load made it fail.

        A server that answers at once when it is asked may have been away all the same: if it restarted, or if its metrics failed
        as long as nothing was served.
        """
        if (failed := await self._fails(1 if last.dark else ASKS)) is not None:
            return ServerAway(rate_rps, last.since, words_of(failed), "asked", last.alike)
        await self._readings.fresh(self._clock())
        kept = self._readings.kept
        if Read(kept).breaks == 1 and not any(reading.by_replica for reading in kept):  # one of several is not the server
            return ServerAway(rate_rps, last.since, last.words, "restarted", last.alike)
        if last.dark and self._readings.failed_since(last.since):
            return ServerAway(rate_rps, last.since, last.words, "unread", last.alike)
        return None

    async def _fails(self, times: int) -> RequestRecord | None:
        """The last of so many single requests that all failed; None as soon as one did not, or somebody who is there refused it."""
        record = None
        for asked in range(times):
            if asked == 1 and record is not None:
                self._say("info", fact("asked_again", **words_of(record)))
            if asked:
                await asyncio.sleep(ASK_EVERY_S)
            record = await self._ask(AWAY_S)
            if record is None or not of_nobody(record):
                return None
        return record

    async def over(self, away: ServerAway) -> Fact | None:
        """Wait until the server answers a single request, at most AWAY_S; says so at the beginning and again. None once it does,
        else the answer of the run: it stays away, or what came back does not serve the model."""
        began = said_at = self._clock()
        if away.back:
            self._say("warn", fact("back_already", **away.words, seen=away.seen))
            return None
        self._say("warn", fact("away_awaited", **away.words, within_s=AWAY_S))
        while (left_s := began + AWAY_S - self._clock()) > 0:
            record = await self._ask(left_s)
            if record is not None and record.ending == "ok":
                await self._readings.fresh(self._clock(), METRICS_S)
                self._say("info", fact("back_after", away_s=self._clock() - away.since))
                return None
            if record is not None and self._model is not None and _knows_not(record, self._model):
                return away.without_model(self._model, record)
            left_s = max(0.0, began + AWAY_S - self._clock())
            if self._clock() - said_at >= SAY_EVERY_S:
                said_at = self._clock()
                self._say("info", fact("still_away", **words_of(record), left_s=left_s))
            await asyncio.sleep(min(ASK_EVERY_S, left_s))
        return away.for_good

    def _say(self, level: Literal["info", "warn"], text: Said) -> None:
        self._emit(Note(t=self._clock(), level=level, text=text))


def _knows_not(record: RequestRecord, model: str) -> bool:
    """Whether somebody is there and refuses the request because of its model, which the refusal names."""
    return record.ending == "http" and record.status in (400, 404) and model in (record.error or "")
