"""A recorded run as a thing to move in: the state at any of its moments is made from the events up to it, as it was live."""

import bisect
import copy
from collections.abc import Iterable, Iterator
from itertools import accumulate, chain, islice

from core.run.events import Event, time_of
from core.run.state import State
from core.view import RunView

CHECKPOINTS = 16
"""Copies of the state on the way, so that going back does not mean going through the whole run again each time. They are made when
somebody goes back for the first time: most who open a run look at its end, and a copy takes longer than the events between two."""


class Replay:
    """The events of a run, in the order in which they were logged, and a state that follows the moment that is asked for."""

    def __init__(self, events: Iterable[Event]) -> None:
        """At least one event. What is stamped before its predecessor in the log counts as of that one's time.

        What can be gone through again (`core.run.log.Reread`) is, when somebody leaves the end; till then no event is kept.
        """
        self._source = list(events) if isinstance(events, Iterator) else events
        coming = iter(self._source)
        begin = next(coming)
        self._state = State(keeps_records=False)
        self._state.apply_all(chain([begin], coming))
        self._n = self._applied = self._state.applied
        self._begin_t, self._end_t = time_of(begin), self._state.newest_t
        self._events: list[Event] = []
        self._known_at: list[float] = []
        self._every = max(1, self._n // CHECKPOINTS)
        self._checkpoints: list[State] = []

    @property
    def length_s(self) -> float:
        """From the first event to the last, in seconds."""
        return self._end_t - self._begin_t

    def view(self, at_s: float) -> RunView:
        """The view as it was `at_s` seconds after the run began; moments beyond its ends are the ends."""
        now = self._begin_t + min(max(at_s, 0.0), self.length_s)
        self._go_to(self._n if at_s >= self.length_s else self._known_by(now))
        return self._state.view(now)

    def _known_by(self, now: float) -> int:
        if not self._events:
            self._events = list(islice(self._source, self._n))  # of a run that goes on there may be more by now
            self._known_at = list(accumulate((time_of(event) for event in self._events), max))
        return bisect.bisect_right(self._known_at, now)

    def _go_to(self, n: int) -> None:
        if n < self._applied:
            self._checkpoints = self._checkpoints or [State(keeps_records=False)]
            at = min(n // self._every, len(self._checkpoints) - 1)
            self._state, self._applied = copy.deepcopy(self._checkpoints[at]), at * self._every
        while self._applied < n:
            next_copy = len(self._checkpoints) * self._every
            until = next_copy if self._applied < next_copy < n else n
            self._state.apply_all(self._events[self._applied : until])
            self._applied = until
            if until == next_copy:
                self._checkpoints.append(copy.deepcopy(self._state))
