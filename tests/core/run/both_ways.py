"""Events that are taken in one by one and many at once: all that anyone sees of the run must be the same."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from core.judge import Tally
from core.results import Bounds, Percentiles, WorkerUse
from core.run.events import Event, time_of
from core.run.state import State


@dataclass(frozen=True)
class Account:
    """What readers can ask of a repeat's tally that is not in a view."""

    by_segment: tuple[Bounds, ...]
    measured_sent: int
    measured_endings: Counter[str]
    not_due: int
    left_out: list[int]
    drains_from: float
    lateness_s: Percentiles
    sent: list[tuple[int, float]]
    queue: list[list[float]]
    workers: tuple[WorkerUse, ...]

    @classmethod
    def of(cls, tally: Tally, now: float) -> "Account":
        index, late_s = tally.traffic.lateness_by_request
        return cls(
            by_segment=tuple(tally.bounds(now, at) for at in range(len(tally.layout.segments))),
            measured_sent=tally.measured_sent,
            measured_endings=Counter(tally.measured_endings),
            not_due=tally.not_due(),
            left_out=tally.left_out(now).tolist(),
            drains_from=tally.drains_from(tally.layout.window[1]),
            lateness_s=tally.lateness_s,
            sent=list(zip(index.tolist(), late_s.tolist(), strict=True)),
            queue=[sorted(times.tolist()) for times in tally.traffic.queue_series],  # in any order: the rule counts them
            workers=() if tally.senders is None else tally.senders.uses(index, late_s, ()),
        )


def same(events: Sequence[Event], pieces: int = 1) -> None:
    """One by one, and in so many pieces, of which each is looked at."""
    alone, together = State(keeps_records=False), State(keeps_records=False)
    edges = [round(at * len(events) / pieces) for at in range(pieces + 1)]
    now = 0.0
    for low, high in pairwise(edges):
        for event in events[low:high]:
            alone.apply(event)
        together.apply_all(events[low:high])
        now = max([now, *(time_of(event) for event in events[low:high])])
        assert together.view(now) == alone.view(now)
        assert together.newest_t == alone.newest_t
        one, other = (None if state.tally is None else Account.of(state.tally, now) for state in (alone, together))
        assert other == one
