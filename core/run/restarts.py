"""Did the server restart while nothing was sent, between two orders? Its readings are compared across the gap. Pure."""

from collections.abc import Sequence

from core.facts import Fact, fact
from core.judge import Readings, replicas_change
from core.records import ServerSample


class Restarts:
    """Told of the readings before each order (`begin`) and of those during it (`ended`).

    One break in the gap, and none before or after it, is a restart. More of them, or a process that was seen before, are several
    processes behind one address.
    """

    def __init__(self) -> None:
        self._rate_rps: float | None = None
        self._inside = 0
        self._changed = False
        self._before: tuple[ServerSample, ...] = ()
        self._epoch: float | None = None
        self._epochs: set[float] = set()

    def begin(self, readings: Sequence[ServerSample], *, ours: bool) -> None:
        """An order is about to be sent; `readings`: of the order before it and since. `ours`: something that the user asked for has
        been done to the server meanwhile, so that a restart in the gap is no news."""
        self._before = () if ours else tuple(readings)

    def ended(self, rate_rps: float, readings: Sequence[ServerSample]) -> Fact | None:
        """The order is over, with these readings: a fact if the server restarted between it and the one before."""
        before, self._before = self._before, ()
        was_rps, self._rate_rps = self._rate_rps, rate_rps
        was_inside, self._inside = self._inside, Readings(readings).breaks
        back = bool(readings) and readings[0].epoch != self._epoch and readings[0].epoch in self._epochs
        self._epoch = readings[-1].epoch if readings else None
        self._epochs |= {sample.epoch for sample in (*before, *readings) if sample.epoch is not None}
        was_changed, self._changed = self._changed, replicas_change(readings) is not None
        if was_rps is None or not before or not readings:
            return None
        if readings[-1].by_replica:
            changed = was_changed or self._changed
            return None if changed else _replicas_changed(was_rps, rate_rps, (*before, *readings))
        if was_inside or self._inside:
            return None
        if back or Readings((*before, *readings)).breaks != 1:
            return None
        if was_rps == rate_rps:
            return fact("restarted_between_repeats", rate_rps=rate_rps)
        return fact("restarted_between_steps", before_rps=was_rps, rate_rps=rate_rps)

    def forget(self) -> None:
        """What was before is no part of the run's answer any more."""
        self._rate_rps, self._inside, self._before, self._changed = None, 0, (), False


def _replicas_changed(was_rps: float, rate_rps: float, readings: Sequence[ServerSample]) -> Fact | None:
    """Of an order during which they changed, its own verdict says so."""
    found = replicas_change(readings)
    if found is None:
        return None
    names, ends = (*found.names, *found.restarted), {"before": found.before, "after": found.after}
    return fact("replicas_changed_between", *names, before_rps=was_rps, rate_rps=rate_rps, **ends)
