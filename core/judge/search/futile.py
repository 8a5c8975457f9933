"""Whether a lower rate could help at all: misses that do not fall with the rate are not made by the load. Pure."""

from collections.abc import Iterable
from typing import NamedTuple

from core.results import StepResult

FARTHER = 2.0
"""Two failing rates are compared when they are so many times apart: the search goes down by halves."""
FALLEN = 0.7
"""Misses of the lower rate below this share of those at the higher one have fallen: going on down may help."""
LIGHT, SLOWER = 1.5, 1.1
"""Load makes requests slower. Where the median request takes at most so many times the idle server's, and at the higher rate at
most so many times what it takes at the lower one, load does nothing there, and misses are not made by it. At simulated knees the
median is 2 to 4 times the idle one; where a TPOT limit is nearer to the idle server's than that, only the second tells."""
DECIDED = 20
"""So many requests must be decided at each rate: a step that fails at once has seen hardly any."""


class Futile(NamedTuple):
    """Two failing rates and the shares of their decided requests that missed: the lower one misses as much as the higher."""

    low_rps: float
    low_frac: float
    high_rps: float
    high_frac: float


def futile(steps: Iterable[StepResult], idle_e2e_p50_s: float) -> Futile | None:
    """What says that a rate below all of these failing full steps would fail as well; None while it might not."""
    known = [seen for step in steps if (seen := _seen(step)) is not None]
    if not known:
        return None
    low = min(known, key=lambda seen: seen.rate_rps)
    higher = [seen for seen in known if seen.rate_rps >= FARTHER * low.rate_rps * (1 - 1e-9)]
    high = min(higher, key=lambda seen: seen.rate_rps, default=None)
    if high is None or high.missed_frac * FALLEN > low.missed_frac:
        return None
    if low.e2e_p50_s > LIGHT * idle_e2e_p50_s or high.e2e_p50_s > SLOWER * low.e2e_p50_s:
        return None
    return Futile(low.rate_rps, low.missed_frac, high.rate_rps, high.missed_frac)


class _Seen(NamedTuple):
    rate_rps: float
    missed_frac: float
    e2e_p50_s: float


def _seen(step: StepResult) -> _Seen | None:
    """What the last repeat of a step that failed has shown; None where it did not fail, or hardly anything was decided."""
    if step.verdict not in ("fail", "mixed"):
        return None
    last = step.repeats[-1]
    decided, e2e_p50_s = last.good + last.misses, last.e2e_s.p50
    return None if decided < DECIDED or e2e_p50_s is None else _Seen(step.rate_rps, last.misses / decided, e2e_p50_s)
