"""Which request of a plan belongs to which stretch of a repeat, and when the measured window is."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from core.records import RepeatOrder, Role, Segment


@dataclass(frozen=True, slots=True)
class Layout:
    """A drawn plan seen by segments. `due` are absolute times; `slices[s]` is the range of request indices of segment s;
    `window` is the measured stretch as absolute [start, end)."""

    segments: tuple[Segment, ...]
    due: NDArray[np.float64]
    slices: tuple[tuple[int, int], ...]
    window: tuple[float, float]

    @classmethod
    def of(cls, order: RepeatOrder, offsets_s: NDArray[np.float64], segment: NDArray[np.int32]) -> "Layout":
        """From the arrays of the plan. An order without segments (offsets given) is one measured stretch.

        Raises ValueError for arrays that do not fit together or are not in the order of time.
        """
        segments = order.segments or (_whole(offsets_s),)
        _check(offsets_s, segment, len(segments))
        edges = np.searchsorted(segment, np.arange(len(segments) + 1)).tolist()
        ends = [order.start_at + t for t in np.cumsum([s.duration_s for s in segments]).tolist()]
        starts = [order.start_at, *ends[:-1]]
        measured = [i for i, s in enumerate(segments) if s.role == "measured"]
        return cls(
            segments=segments,
            due=order.start_at + offsets_s,
            slices=tuple(pairwise(edges)),
            window=(starts[measured[0]], ends[measured[-1]]) if measured else (ends[-1], ends[-1]),
        )

    def of_role(self, role: Role) -> tuple[int, ...]:
        """The segments with that role, in the order of time."""
        return tuple(i for i, s in enumerate(self.segments) if s.role == role)

    def length_s(self, role: Role) -> float:
        """How long the segments with that role are together."""
        return sum((s.duration_s for s in self.segments if s.role == role), 0.0)

    def due_before(self, t: float) -> int:
        """How many measured requests were planned to leave before `t`."""
        ranges = [self.slices[i] for i in self.of_role("measured")]
        return sum(int(np.searchsorted(self.due[low:high], t)) for low, high in ranges)


def _whole(offsets_s: NDArray[np.float64]) -> Segment:
    duration_s = float(offsets_s[-1]) if offsets_s.size and offsets_s[-1] > 0 else 1.0
    return Segment(rate_rps=offsets_s.size / duration_s, duration_s=duration_s, role="measured")


def _check(offsets_s: NDArray[np.float64], segment: NDArray[np.int32], segments: int) -> None:
    if offsets_s.size != segment.size:
        raise ValueError(f"a plan of {offsets_s.size} offsets for {segment.size} requests")
    if np.any(np.diff(offsets_s) < 0) or np.any(np.diff(segment) < 0):
        raise ValueError("a plan must be in the order of time")
    if segment.size and not 0 <= int(segment[0]) <= int(segment[-1]) < segments:
        raise ValueError(f"a plan whose requests belong to segments {segment[0]} to {segment[-1]} of {segments}")
