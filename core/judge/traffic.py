"""How the requests of a repeat left and came back, all of them: the series behind the queue rule, and the lateness."""

from array import array

import numpy as np
from numpy.typing import NDArray

from core.percentiles import percentiles
from core.records import RequestEnded, RequestFirst, RequestSent
from core.results import Percentiles


class Traffic:
    """Counts what is under way. A request that never left the client is never in here."""

    def __init__(self, planned: int) -> None:
        self._left = bytearray(planned)
        self._has_first = bytearray(planned)
        self._lateness_s = array("d")
        self._sent_at = array("d")
        self._first_at = array("d")
        self._ended_at = array("d")

    def sent(self, event: RequestSent) -> None:
        self._left[event.index] = True
        self._sent_at.append(event.t_sent)
        self._lateness_s.append(event.t_sent - event.t_sched - event.connect_s)

    def first(self, event: RequestFirst) -> None:
        self._has_first[event.index] = True
        self._first_at.append(event.t_first)

    def ended(self, event: RequestEnded) -> None:
        if not self._left[event.index]:
            return
        self._ended_at.append(event.t_end)
        if not self._has_first[event.index]:
            self._first_at.append(event.t_end if event.t_first is None else event.t_first)

    def has_left(self, index: int) -> bool:
        """Whether that request was sent."""
        return bool(self._left[index])

    @property
    def sent_count(self) -> int:
        """Requests sent so far, warm-up and tail included."""
        return len(self._sent_at)

    @property
    def in_flight(self) -> int:
        """Requests sent that have not ended."""
        return len(self._sent_at) - len(self._ended_at)

    @property
    def no_first_token(self) -> int:
        """Requests sent that have neither a first token nor ended."""
        return len(self._sent_at) - len(self._first_at)

    @property
    def lateness_s(self) -> Percentiles:
        """How late the sends were against the plan, over all of them, in seconds."""
        return percentiles(self._lateness_s)

    @property
    def sent_at(self) -> NDArray[np.float64]:
        """Times of the sends, as reported."""
        return np.array(self._sent_at)

    @property
    def first_at(self) -> NDArray[np.float64]:
        """Times at which requests stopped waiting: their first token, or their end without one."""
        return np.array(self._first_at)

    @property
    def ended_at(self) -> NDArray[np.float64]:
        """Times of the ends."""
        return np.array(self._ended_at)
