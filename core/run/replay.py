"""A recorded run as a thing to move in: the state at any of its moments is made from the events up to it, as it was live."""

import bisect
import copy
from collections.abc import Iterable
from itertools import accumulate

from core.run.events import Event, time_of
from core.run.state import State
from core.view import RunView

CHECKPOINTS = 16
"""Copies of the state on the way, so that going back does not mean going through the whole run again each time. They are made when
somebody goes back for the first time: most who open a run look at its end, and a copy takes longer than the events between two."""


class Replay:
    """The events of a run, in the order in which they were logged, and a state that follows the moment that is asked for."""

    def __init__(self, events: Iterable[Event]) -> None:
        """At least one event. What is stamped before its predecessor in the log counts as of that one's time."""
        self._events = list(events)
        self._known_at = list(accumulate((time_of(event) for event in self._events), max))
        self._every = max(1, len(self._events) // CHECKPOINTS)
        self._checkpoints: list[State] = []
        self._state, self._applied = State(keeps_records=False), 0

    @property
    def length_s(self) -> float:
        """From the first event to the last, in seconds."""
        return self._known_at[-1] - self._known_at[0]

    def view(self, at_s: float) -> RunView:
        """The view as it was `at_s` seconds after the run began; moments beyond its ends are the ends."""
        now = self._known_at[0] + min(max(at_s, 0.0), self.length_s)
        self._go_to(bisect.bisect_right(self._known_at, now))
        return self._state.view(now)

    def _go_to(self, n: int) -> None:
        if n < self._applied:
            self._checkpoints = self._checkpoints or [State(keeps_records=False)]
            at = min(n // self._every, len(self._checkpoints) - 1)
            self._state, self._applied = copy.deepcopy(self._checkpoints[at]), at * self._every
        for event in self._events[self._applied : n]:
            self._state.apply(event)
            self._applied += 1
            if self._checkpoints and self._applied == len(self._checkpoints) * self._every:
                self._checkpoints.append(copy.deepcopy(self._state))
