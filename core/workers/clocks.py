"""How far another machine's monotonic clock is from ours, from round trips; and messages brought from its clock onto ours. Pure."""

from collections import deque
from dataclasses import dataclass

from msgspec.structs import replace

from core.records import ChildMessage, LoadDone, LoadReady, LoadTick, RequestEnded, RequestFirst, RequestHeld, RequestSent

MOST_DRIFT = 100e-6
"""By how much two machines' clocks may run apart, in seconds a second: crystals keep 50e-6 each, and what NTP corrects is less."""

_KEPT = 256


@dataclass(frozen=True, slots=True)
class RoundTrip:
    """We asked at `t0` and had the answer at `t1`, by our clock; `remote` is what its clock said in between."""

    t0: float
    remote: float
    t1: float

    @property
    def offset_s(self) -> float:
        """How far their clock is ahead, give or take half of the round trip."""
        return self.remote - (self.t0 + self.t1) / 2

    def apart_s(self, other: "RoundTrip") -> float:
        """By how much two of them differ on that."""
        return abs(self.offset_s - other.offset_s)


@dataclass(frozen=True, slots=True)
class Offset:
    """Their time is ours plus `s`, give or take `error_s`."""

    s: float = 0.0
    error_s: float | None = None


class ClockEstimate:
    """The offset of one other clock, by the round trip that leaves the least doubt."""

    def __init__(self) -> None:
        self._trips: deque[RoundTrip] = deque(maxlen=_KEPT)
        self.trips = 0

    def add(self, trip: RoundTrip) -> None:
        """Take a round trip into account. Earlier ones that contradict it are of a clock that was set or stood still since then, as
        that of a virtual machine that was suspended, or that drifts more than any should."""
        agreeing = [old for old in self._trips if old.apart_s(trip) <= _doubt(old, trip.t1) + _doubt(trip, trip.t1)]
        if len(agreeing) < len(self._trips):
            self._trips = deque(agreeing, maxlen=_KEPT)
        self._trips.append(trip)
        self.trips += 1

    def at(self, now: float) -> Offset:
        """The offset at this time of ours. However unevenly a round trip divides into its two ways, the offset is off by half of it
        at most; a trip of some time ago leaves what the clocks can have run apart since, too. Without any trip the error is None.
        """
        if not self._trips:
            return Offset()
        best = min(self._trips, key=lambda trip: _doubt(trip, now))
        return Offset(best.offset_s, _doubt(best, now))


def astray_s(trip: RoundTrip, begun: Offset, begun_at: float) -> float:
    """By how much at least their clock has left the offset that was reckoned with at `begun_at`, beyond what clocks run apart; 0
    where that explains it."""
    explained_s = (trip.t1 - trip.t0) / 2 + (begun.error_s or 0.0) + MOST_DRIFT * max(0.0, trip.t1 - begun_at)
    return max(0.0, abs(trip.offset_s - begun.s) - explained_s)


def _doubt(trip: RoundTrip, now: float) -> float:
    return (trip.t1 - trip.t0) / 2 + MOST_DRIFT * max(0.0, now - trip.t1)


def brought_home(message: ChildMessage, offset_s: float) -> ChildMessage:
    """A message with its times by our clock. One offset for all of an order leaves every duration as it was measured."""
    match message:
        case RequestEnded():
            return replace(
                message,
                t_sched=message.t_sched - offset_s,
                t_start=_back(message.t_start, offset_s),
                t_sent=_back(message.t_sent, offset_s),
                t_first=_back(message.t_first, offset_s),
                t_last=_back(message.t_last, offset_s),
                t_end=message.t_end - offset_s,
            )
        case RequestSent():
            return replace(message, t_sched=message.t_sched - offset_s, t_sent=message.t_sent - offset_s)
        case RequestFirst():
            return replace(message, t_first=message.t_first - offset_s)
        case RequestHeld():
            return replace(message, t_sched=message.t_sched - offset_s, t=message.t - offset_s)
        case LoadTick() | LoadDone() | LoadReady():
            return replace(message, t=message.t - offset_s)


def _back(t: float | None, offset_s: float) -> float | None:
    return None if t is None else t - offset_s
