"""Many events of a run's requests taken in together: the same state as one by one, in a fraction of the time.

Between two looks at the account of a repeat the events of its requests do not depend on each other: what one adds is a count in a
bin. So they are gathered until the newest bin of the time axis is over, and added up then as columns.
"""

from collections.abc import Callable, Iterator

import numpy as np

from core.config import Slo
from core.judge import SEND_WIDTH, Ends, Firsts, Indices, Rows, Sends, ended_row
from core.margins import BINS, INNER_EDGES
from core.records import Ending, RequestEnded, RequestFirst, RequestHeld, RequestSent
from core.run.events import (
    AnswerFound,
    Event,
    RepeatJudged,
    RepeatStarted,
    RunEnded,
    RunStarted,
    SearchRestarted,
    StepJudged,
    StepStarted,
    time_of,
)
from core.run.live_repeat import LiveRepeat
from core.run.series import OfRate, Series
from core.run.standing import Standing

_NEW, _HELD, _SENT, _BEGUN, _ENDED, _ALONE = range(6)
_OPEN = (_HELD, _SENT, _BEGUN)
"""How far a request is. One that does anything unusual is taken in alone from then on, event by event."""

TURNS = (RunStarted, StepStarted, RepeatStarted, RepeatJudged, StepJudged, SearchRestarted, AnswerFound, RunEnded)
"""Events that look at what became of the requests before them, or end the repeat that runs."""

_EDGES = np.array(INNER_EDGES)
_FAILED = BINS
"""Stands for the bin of a request that ended in an error."""


class AtOnce:
    """The requests of one repeat, of which several events may wait until they are added up."""

    def __init__(
        self,
        live: LiveRepeat,
        slo: Slo,
        series: Series,
        standing: Standing,
        *,
        advance: Callable[[float], None],
        took: Callable[[int, float, float], None],
    ) -> None:
        """`advance` opens the bins of the time axis up to a moment; `took` is told how many events were taken in,
        the newest time and the longest `closing_s` among them."""
        self.live = live
        self._slo, self._series, self._standing, self._advance, self._took = slo, series, standing, advance, took
        self._order = live.order.order
        self._stage = bytearray(live.tally.has_ended.replace(b"\x01", bytes([_ENDED])))
        for index in live.open_indices:
            self._stage[index] = _ALONE
        n = len(self._stage)
        self._t_sched, self._t_first, self._first_tokens = np.zeros(n), np.zeros(n), np.zeros(n)
        self._has_first = np.zeros(n, dtype=bool)
        self._segment = live.tally.plan.segment
        self._rates = live.rates()
        self._shown_rps = np.array([rate.shown_rps for rate in self._rates])
        self._judged = np.array([rate.judged for rate in self._rates], dtype=bool)
        self._sent: Rows = []
        self._first: Rows = []
        self._ended: Rows = []
        self._endings: list[Ending] = []
        self._held: list[int] = []
        self._let_through: list[int] = []
        self._turned_away: list[int] = []
        """Rows of `_sent` of requests that a gateway's limit holds back or lets go, and of `_ended` of those that it turns away."""
        self._unsettled: list[tuple[Indices, Indices]] = []
        """Requests that ended since they were settled, and the bins of their margins."""
        self._start, self._room_s = series.start, series.room_s

    def take(self, events: Iterator[Event]) -> Event | None:
        """Take from these what is of a request of this repeat and can wait; the end of a bin adds up what waits before it.

        Returns the first that is not taken: it is to be taken in alone, after `before`. None: there is none.
        """
        order, stage, start, room_s = self._order, self._stage, self._start, self._room_s
        sent, first, ended, endings = self._sent, self._first, self._ended, self._endings
        held, let_through, turned_away = self._held, self._let_through, self._turned_away
        for event in events:  # all in one loop: a call for each event would cost as much as what it does
            if isinstance(event, RequestSent):
                index, t = event.index, event.t_sent
                if event.order != order or (was := stage[index]) > _HELD:
                    return event
                if t - start >= room_s:
                    room_s = self._make_room(t)
                stage[index] = _SENT
                if was == _HELD:
                    let_through.append(len(sent) // SEND_WIDTH)
                sent += (index, event.t_sched, t, event.connect_s, event.gateway_wait_s)
            elif isinstance(event, RequestFirst):
                index, t = event.index, event.t_first
                if event.order != order or stage[index] != _SENT:
                    return event
                if t - start >= room_s:
                    room_s = self._make_room(t)
                stage[index] = _BEGUN
                first += (index, t, event.first_tokens)
            elif isinstance(event, RequestEnded):
                index, t = event.index, event.t_end
                if event.order != order or (was := stage[index]) not in _OPEN or event.ending == "aborted":
                    return event
                if t - start >= room_s:
                    room_s = self._make_room(t)
                stage[index] = _ENDED
                if was == _HELD:
                    turned_away.append(len(endings))
                ended += ended_row(event)
                endings.append(event.ending)
            elif isinstance(event, RequestHeld):
                index, t = event.index, event.t
                if event.order != order or stage[index] != _NEW:
                    return event
                if t - start >= room_s:
                    room_s = self._make_room(t)
                stage[index] = _HELD
                held.append(len(sent) // SEND_WIDTH)
                sent += (index, event.t_sched, t, 0.0, 0.0)
            else:
                return event
        return None

    def before(self, event: Event) -> None:
        """One that is not taken comes: what it depends on is added up before it."""
        if isinstance(event, TURNS):
            self.settle()
        elif isinstance(event, RequestHeld | RequestSent | RequestFirst | RequestEnded):
            if isinstance(event, RequestHeld | RequestSent) or (isinstance(event, RequestEnded) and event.ending == "aborted"):
                self.add_up()
            if event.order == self._order:
                self._leave_alone(event.index)
        if (t := time_of(event)) - self._start >= self._room_s:
            self._make_room(t)

    def settle(self) -> None:
        """All accounts stand as if everything had been taken in one by one."""
        self.add_up()
        stage = np.frombuffer(self._stage, dtype=np.uint8)
        for at in np.flatnonzero(np.isin(stage, _OPEN)).tolist():
            self._leave_alone(at)
        if not self._unsettled:
            return
        index, bins = (np.concatenate(column) for column in zip(*self._unsettled, strict=True))
        self._unsettled = []
        repeat, segment = self.live.repeats(index), self._segment[index]
        for here in np.unique(repeat).tolist():
            for at, rate in enumerate(self._rates):
                mine = bins[(repeat == here) & (segment == at)]
                if mine.size and rate.told_rps is not None:
                    *ended, failed = np.bincount(mine, minlength=BINS + 1).tolist()
                    judged = mine.size if rate.judged else 0
                    self._standing.take_in(self._order, here, rate.told_rps, ended=ended, failed=failed, judged=judged)

    def add_up(self) -> None:
        """Add up what waits: all accounts but the one by rate, which `settle` brings up to date."""
        if not (self._sent or self._first or self._ended):
            return
        sends, firsts = Sends.of(self._sent, self._held, self._let_through), Firsts.of(self._first)
        ends = Ends.of(self._ended, self._endings, self._slo, self._turned_away)
        self._t_sched[sends.come.index] = sends.come.t_sched
        self._t_first[firsts.index] = firsts.t_first
        self._first_tokens[firsts.index] = firsts.first_tokens
        self._has_first[firsts.index] = True
        self.live.take_in(sends, firsts, ends)
        segment = self._segment[sends.come.index]
        of_rate = OfRate(sends, self._shown_rps[segment], self._judged[segment])
        waited_s = firsts.t_first - self._t_sched[firsts.index]
        self._series.take_in(of_rate, firsts, waited_s, ends, self._has_first[ends.index])
        newest_t = max(float(t.max(initial=-np.inf)) for t in (sends.come.t, sends.t_sent, firsts.t_first, ends.t_end))
        self._took(sends.told + firsts.index.size + ends.index.size, newest_t, ends.closing_s)
        bins = np.where(ends.ok, np.where(np.isnan(ends.margin), 0, np.searchsorted(_EDGES, ends.margin)), _FAILED)
        self._unsettled.append((ends.index, bins))
        for rows in (self._sent, self._first, self._ended):
            rows.clear()
        self._endings.clear()
        for places in (self._held, self._let_through, self._turned_away):
            places.clear()

    def _make_room(self, t: float) -> float:
        self.add_up()
        self._advance(t)
        self._room_s = self._series.room_s
        return self._room_s

    def _leave_alone(self, index: int) -> None:
        """From now on the events of this request are taken in alone: what waits is added up, and the accounts of open requests get
        to know it."""
        stage = self._stage[index]
        if stage == _ALONE:
            return
        self.add_up()
        self._stage[index] = _ALONE
        if stage not in _OPEN:
            return
        t_sched, t_first, tokens = (float(of[index]) for of in (self._t_sched, self._t_first, self._first_tokens))
        event: RequestHeld | RequestSent = RequestSent(order=self._order, index=index, t_sched=t_sched, t_sent=t_sched)
        if stage == _HELD:
            event = RequestHeld(order=self._order, index=index, t_sched=t_sched, t=t_sched)
        self.live.come(index, t_sched, begun=stage == _BEGUN)
        self._standing.sent(event, self.live.about(event)[0])
        if stage == _BEGUN:
            self._standing.first(RequestFirst(order=self._order, index=index, t_first=t_first, first_tokens=int(tokens)))
