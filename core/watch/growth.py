"""When a replica will be at its knee: a line through the rates of the last minutes, said only where it clearly rises."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

BIN_S = 10.0
"""Arrivals are counted over so long at least: one point of the line."""

SPAN_S = 300.0
"""The last five minutes: long enough that Poisson noise does not look like growth, short enough for the growth of a morning."""

FEWEST = 12
"""Points; two minutes. A line through fewer has no error to speak of."""

ERRORS = 3.0
"""A slope of so many standard errors is growth. At two, one replica in 25 at a steady rate would be called rising (Student's t, 10
degrees of freedom), several of a fleet at any time; at three it is one in 150."""

FARTHEST_S = 3600.0
"""Minutes that were measured say nothing of what comes after an hour."""


@dataclass(frozen=True, slots=True)
class Growth:
    """What the rate of arrivals does. `eta_s`: until the knee, where it rises; None where that is more than an hour."""

    state: Literal["unknown", "steady", "falling", "rising", "above"]
    eta_s: float | None = None


def growth(bins: Sequence[tuple[float, float, float]], knee_rps: float, now: float) -> Growth:
    """`bins` are (begin, end, requests that arrived in between) in order of time, of which those of the last five minutes count.

    The standard error is that of a least-squares slope, and at least what Poisson arrivals of the same mean would have.
    """
    recent = [each for each in bins if each[1] > now - SPAN_S]
    if len(recent) < FEWEST:
        return Growth("unknown")
    times = [(begin + end) / 2 for begin, end, _ in recent]
    rates = [n / (end - begin) for begin, end, n in recent]
    mean_t, mean = sum(times) / len(times), sum(rates) / len(rates)
    spread = sum((t - mean_t) ** 2 for t in times)
    slope = sum((t - mean_t) * (rate - mean) for t, rate in zip(times, rates, strict=True)) / spread
    level = mean + slope * (now - mean_t)
    if mean >= knee_rps and level >= knee_rps:
        return Growth("above")
    left = sum((rate - mean - slope * (t - mean_t)) ** 2 for t, rate in zip(times, rates, strict=True))
    poisson = max(0.0, mean) / (sum(end - begin for begin, end, _ in recent) / len(recent))
    error = math.sqrt(max(left / (len(recent) - 2), poisson) / spread)
    if slope > ERRORS * error and slope > 0:
        eta_s = max(0.0, knee_rps - level) / slope
        return Growth("rising", eta_s if eta_s <= FARTHEST_S else None)
    return Growth("falling" if -slope > ERRORS * error and slope < 0 else "steady")
