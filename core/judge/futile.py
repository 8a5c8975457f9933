"""Whether a lower rate could help at all: misses that do not fall with the rate are not made by the load. Pure."""

from collections.abc import Iterable
from typing import NamedTuple

from core.results import StepResult

FARTHER = 2.0
"""Two failing rates are compared when they are so many times apart: the search goes down by halves."""
FALLEN = 0.7
"""Misses of the lower rate below this share of those at the higher one have fallen: going on down may help."""
LIGHT = 1.5
"""A rate whose median request takes no longer than so many times the idle server's is carried lightly, as by a server far below
its knee; at simulated knees the median is 2 to 4 times the idle one. Misses there are not made by the load."""


class Futile(NamedTuple):
    """Two failing rates and the shares of their decided requests that missed: the lower one misses as much as the higher."""

    low_rps: float
    low_frac: float
    high_rps: float
    high_frac: float


def futile(steps: Iterable[StepResult], idle_e2e_p50_s: float) -> Futile | None:
    """What says that a rate below all of these failing full steps would fail as well; None while it might not."""
    known = [(step, share) for step in steps if (share := _missed(step)) is not None]
    if not known:
        return None
    low, low_frac = min(known, key=lambda pair: pair[0].rate_rps)
    e2e_p50_s = low.repeats[-1].e2e_s.p50
    if e2e_p50_s is None or e2e_p50_s > LIGHT * idle_e2e_p50_s:
        return None
    higher = [(step, share) for step, share in known if step.rate_rps >= FARTHER * low.rate_rps * (1 - 1e-9)]
    if not higher:
        return None
    high, high_frac = min(higher, key=lambda pair: pair[0].rate_rps)
    return Futile(low.rate_rps, low_frac, high.rate_rps, high_frac) if low_frac >= FALLEN * high_frac else None


def _missed(step: StepResult) -> float | None:
    """The share of its decided requests that missed, over all repeats; None where it did not fail, or nothing was decided."""
    if step.verdict not in ("fail", "mixed"):
        return None
    repeats = [repeat for repeat in step.repeats if repeat.verdict in ("pass", "fail")]
    missed, decided = sum(r.misses for r in repeats), sum(r.good + r.misses for r in repeats)
    return missed / decided if decided else None
