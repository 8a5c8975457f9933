"""Several senders' reports as one sender's: children of this machine, or other machines."""

from collections.abc import Hashable
from typing import Generic, TypeVar

import msgspec

from core.records import ChildMessage, LoadDone, LoadTick, WorkerTick

Key = TypeVar("Key", bound=Hashable)

_OVER = WorkerTick(in_flight=0, loop_lag_max_s=0.0, cpu_frac=0.0)
"""Of a machine whose share is over while others still send."""


class Merge(Generic[Key]):
    """One order's: what senders say of requests as it is, what they say of themselves summed up. `machines`: the keys that each
    LoadTick tells of apart, in this order; none for children of one machine."""

    def __init__(self, senders: int, machines: tuple[Key, ...] = ()) -> None:
        self._senders = senders
        self._machines = machines
        self._ticks: dict[Key, LoadTick] = {}
        self._done: dict[Key, LoadDone] = {}

    def take(self, sender: Key, message: ChildMessage) -> ChildMessage | None:
        """What is to be told now; None when the others have not said theirs yet."""
        match message:
            case LoadTick():
                before = self._ticks.get(sender)
                self._ticks[sender] = message if before is None else _worst(before, message)
                return self._tick()
            case LoadDone():
                self._done[sender] = message
                return self._all_done() if len(self._done) == self._senders else None
            case _:
                return message

    def is_done(self, sender: Key) -> bool:
        """Whether a sender has nothing left to do."""
        return sender in self._done

    def _tick(self) -> LoadTick | None:
        """One when all that are still at it have said theirs."""
        if len(self._ticks.keys() | self._done.keys()) < self._senders:
            return None
        ticks = list(self._ticks.values())
        machines = tuple(_of_machine(self._ticks.get(key)) for key in self._machines)
        self._ticks.clear()
        return LoadTick(
            order=ticks[-1].order,
            t=max(tick.t for tick in ticks),
            in_flight=sum(tick.in_flight for tick in ticks),
            loop_lag_max_s=max(tick.loop_lag_max_s for tick in ticks),
            cpu_frac=max(tick.cpu_frac for tick in ticks),
            workers=machines,
        )

    def _all_done(self) -> LoadDone:
        done = list(self._done.values())
        return LoadDone(
            order=done[-1].order,
            t=max(one.t for one in done),
            sent=sum(one.sent for one in done),
            unsent=sum(one.unsent for one in done),
            cpu_frac=max(one.cpu_frac for one in done),
            loop_lag_max_s=max(one.loop_lag_max_s for one in done),
            memory_peak_bytes=max((one.memory_peak_bytes or 0) for one in done) or None,
        )


def _worst(before: LoadTick, now: LoadTick) -> LoadTick:
    """Two ticks of a sender that was ahead of the others, as one that hides nothing."""
    return msgspec.structs.replace(
        now, loop_lag_max_s=max(before.loop_lag_max_s, now.loop_lag_max_s), cpu_frac=max(before.cpu_frac, now.cpu_frac)
    )


def _of_machine(tick: LoadTick | None) -> WorkerTick:
    if tick is None:
        return _OVER
    return WorkerTick(in_flight=tick.in_flight, loop_lag_max_s=tick.loop_lag_max_s, cpu_frac=tick.cpu_frac)
