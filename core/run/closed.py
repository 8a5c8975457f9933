"""A closed loop beside the answer: twice as many requests in flight each time, until too many of them miss a limit.

It comes after the last repeat, so that none of its load can be part of one, and whatever ends it, the answer stands.
"""

import asyncio
import math
from collections.abc import Callable

import msgspec
import numpy as np

from core.config import ProbeConfig
from core.facts import Fact, Said, fact
from core.judge import REPORT_DELAY_S, Decision, Readings, others_took_part
from core.records import NO_ERRORS, ChildMessage, ClosedOrder, LoadDone, RequestEnded, RequestFirst, RequestSent
from core.results import Answer, ClosedLoop, ClosedRung
from core.run.conductor import Ask, Conductor, OrderRun
from core.run.ends import RunEnds, Stopped
from core.run.events import ClosedMeasured, Event, Expected, Note
from core.run.limits import MEASURED, Others
from core.run.scraping import Readings as Kept
from core.slo import allowed_misses, good, needed_good, sure_miss_at

RUNG_S = 20.0
"""How long each number of requests in flight is kept up."""
MOST_IN_FLIGHT = 1024
"""No more than that: four times the sequences that vLLM runs at once by default, and each needs a socket."""
RUNGS_EXPECTED = 5
SHORTEST_SEEN_S = 2.0
"""So long at least the rate of a loop is looked at before it is held against --max-rps."""


def wants_closed(config: ProbeConfig, answer: Answer) -> bool:
    """Whether one was asked for, and there is an answer that it can stand beside."""
    return config.method.closed_loop and answer.outcome in MEASURED


class Rung:
    """The account of one closed order: what was sent, how it ended, what is surely too late. Latencies count from the send.

    `cut_by`: why it had to be cut off; one that was shows nothing. `over`: the child has told its end."""

    def __init__(self, config: ProbeConfig, order: ClosedOrder) -> None:
        self._slo, self._longest = config.limits, config.workload.longest_output
        self._order = order
        self._open: dict[int, tuple[float, float | None, int]] = {}
        self._good = self._completed = self._ended = 0
        self._last = order.start_at
        self.sent_at: list[float] = []
        self.failed_at: list[float] = []
        self._errors = self.client_errors = 0
        self.cut_by: Fact | None = None
        self.over = False

    @property
    def errors(self) -> int:
        """Requests that failed by the server's doing."""
        return self._errors - self.client_errors

    @property
    def begun(self) -> int:
        """All requests, those included that no connection took."""
        return self._ended + len(self._open)

    def hear(self, message: ChildMessage) -> None:
        """What the child says of it."""
        match message:
            case RequestSent():
                self.sent_at.append(message.t_sent)
                self._open[message.index] = message.t_sent, None, 0
            case RequestFirst() if message.index in self._open:
                self._open[message.index] = self._open[message.index][0], message.t_first, message.first_tokens
            case RequestEnded():
                self._end(message)
            case LoadDone():
                self.over = True
            case _:
                pass

    def _end(self, record: RequestEnded) -> None:
        from_send = record if record.t_sent is None else msgspec.structs.replace(record, t_sched=record.t_sent)
        self._open.pop(record.index, None)
        self._last = max(self._last, record.t_end)
        self._ended += 1
        self._completed += record.ending == "ok"
        self._good += good(from_send, self._slo)
        if record.ending not in NO_ERRORS:
            self._errors += 1
            self.client_errors += record.ending == "client"
            if record.t_sent is not None:
                self.failed_at.append(record.t_end)

    def surely_fails(self, now: float) -> bool:
        """Once nothing more is sent: whether so many have missed, or are open and too late, that the target is out of reach."""
        seen = now - REPORT_DELAY_S
        late = sum(self._sure_miss_at(*request) < seen for request in self._open.values())
        return self._ended - self._good + late > allowed_misses(self.begun, self._slo.target)

    def _sure_miss_at(self, sent: float, first: float | None, tokens: int) -> float:
        """For a request of whatever kind, of which only the moments are known: for the longest answer, by the widest limits."""
        return max(sure_miss_at(slo, sent, self._longest, first, tokens) for slo in self._slo.each)

    @property
    def end(self) -> float:
        """From here on nothing is sent."""
        return self._order.start_at + self._order.duration_s

    def sent_rps(self, now: float) -> float:
        """How many were begun a second so far."""
        return self.begun / max(now - self._order.start_at, SHORTEST_SEEN_S)

    def result(self) -> ClosedRung:
        """What it came to; one that was cut off while open has missed."""
        return ClosedRung(
            in_flight=self._order.in_flight,
            duration_s=max(0.0, self._last - self._order.start_at),
            sent=self.begun,
            completed=self._completed,
            good=self._good,
            met=self.begun > 0 and self._good >= needed_good(self.begun, self._slo.target),
        )


class BesideAnswer:
    """Runs the loops one after another on the run's conductor, and tells what they show."""

    def __init__(
        self,
        config: ProbeConfig,
        idle_e2e_s: float,
        *,
        conductor: Conductor,
        readings: Kept,
        others: Others,
        ask: Ask,
        emit: Callable[[Event], None],
        clock: Callable[[], float],
        ends_at: float | None,
    ) -> None:
        """`ends_at`: when --max-duration is over, on the clock."""
        self._config = config
        self._idle_e2e_s = idle_e2e_s
        self._conductor = conductor
        self._readings = readings
        self._others = others
        self._ask = ask
        self._emit = emit
        self._clock = clock
        self._ends_at = math.inf if ends_at is None else ends_at
        self._rungs: list[ClosedRung] = []
        self._over = False

    async def run(self, answer: Answer) -> None:
        """Double the requests in flight until the target is missed, or something else ends it."""
        now = self._clock()
        self._emit(Note(t=now, text=fact("closed_begins", answer.message, each_s=RUNG_S)))
        self._emit(Expected(t=now, left_s=RUNGS_EXPECTED * RUNG_S, why=fact("left_closed_loop")))
        in_flight = 1
        while (why := self._limit(in_flight)) is None and (why := await self._rung(in_flight)) is None:
            in_flight *= 2
        self._end(why)

    def broken_off(self, error: BaseException) -> None:
        """Say what ended it, where that was not of its own doing; the answer is what it was."""
        if self._over:
            return
        match error:
            case Stopped() | asyncio.CancelledError():
                self._end(fact("closed_stopped"))
            case RunEnds(fact=why):
                self._end(fact("closed_broken", why))
            case _:
                self._end(fact("closed_broken", str(error) or type(error).__name__))

    def _end(self, why: Said) -> None:
        self._over = True
        self._emit(ClosedMeasured(t=self._clock(), closed=ClosedLoop(rungs=tuple(self._rungs), ended=why)))

    def _limit(self, in_flight: int) -> Fact | None:
        """Why so many requests may not be in flight, or not for so long."""
        safety, last = self._config.safety, self._rungs[-1] if self._rungs else None
        if safety.max_in_flight is not None and in_flight > safety.max_in_flight:
            return fact("closed_in_flight", limit=safety.max_in_flight, own=False)
        if in_flight > MOST_IN_FLIGHT:
            return fact("closed_in_flight", limit=MOST_IN_FLIGHT, own=True)
        # twice as many in flight are never served at more than twice the rate
        at_most_rps = 2 * last.completed_rps if last is not None else 1 / self._idle_e2e_s
        if safety.max_rps is not None and at_most_rps > safety.max_rps:
            return fact("closed_max_rps", limit_rps=safety.max_rps)
        if self._clock() + RUNG_S > self._ends_at:
            return fact("closed_no_time")
        return None

    async def _rung(self, in_flight: int) -> Fact | None:
        """One number of requests in flight; why it is the last, or None."""
        before = self._conductor.current
        self._readings.keep_from_now(before.done.t if before is not None and before.done is not None else -math.inf)
        order = ClosedOrder(
            order=self._conductor.next_order(),
            in_flight=in_flight,
            duration_s=RUNG_S,
            seed=self._config.method.seed_of_requests,
            start_at=self._conductor.start_at(),
        )
        rung = Rung(self._config, order)
        self._others.begin()
        run = await self._conductor.run(order, lambda now: self._decide(rung, now), self._idle_e2e_s, rung.hear)
        await self._readings.settle(self._ask if run.lost is None else None, self._idle_e2e_s, cut_off=run.aborted_at is not None)
        if (why := self._spoilt(run, rung)) is not None:
            return fact("closed_broken", why)
        result = rung.result()
        self._rungs.append(result)
        figures = {"in_flight": in_flight, "rate_rps": result.completed_rps, "attainment": result.attainment}
        now, target = self._clock(), self._config.slo.target
        self._emit(ClosedMeasured(t=now, closed=ClosedLoop(rungs=tuple(self._rungs))))
        self._emit(Note(t=now, text=fact("closed_rung", target=target, **figures)))
        return None if result.met else fact("closed_missed", target=target, **figures)

    def _decide(self, rung: Rung, now: float) -> Decision | None:
        """When a loop is over, by itself or because it has to be."""
        max_rps = self._config.safety.max_rps
        if (why := self._others.suffer(rung.errors, now)) is not None:
            rung.cut_by = fact("backed_off_held", why)
        elif max_rps is not None and now < rung.end and rung.sent_rps(now) > max_rps:
            rung.cut_by = fact("closed_max_rps", limit_rps=max_rps)
        drained = now > rung.end + self._config.method.drain_s or (now > rung.end and rung.surely_fails(now))
        if rung.cut_by is None and not rung.over and not drained:
            return None
        return Decision(kind="complete", reason=fact("segments_judged"))

    def _spoilt(self, run: OrderRun, rung: Rung) -> Fact | None:
        """Why a loop shows nothing: it was cut off, the server was lost, this machine failed, or others took part."""
        if (why := rung.cut_by or run.lost) is not None:
            return why
        if rung.client_errors:
            return fact("client_failed", requests=rung.client_errors, said=None)
        if self._config.safety.with_others:
            return None
        others = Readings(self._readings.judged).others(np.array(rung.sent_at), np.array(rung.failed_at), run.aborted_at)
        return others_took_part(others, len(rung.sent_at))
