"""Nearest-rank percentiles: always a value that was seen, never above the maximum."""

import math
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from core.results import Percentiles

FEW = {"p95": 20, "p99": 100}
"""Nearest rank makes the p95 or p99 of fewer values the slowest one or nearly so."""

_DUST = 1e-9
"""0.95 * 20 may come out a hair above 19 in binary; a rank must not move for that."""


def rank(q: float, n: int) -> int:
    """The nearest rank of a share of n >= 1 values, counted from 1: ceil(q n)."""
    return max(math.ceil(q * n - _DUST), 1)


def nearest_rank(ordered: NDArray[np.float64], q: float) -> float:
    """The value of that rank, of n >= 1 values in ascending order."""
    return float(ordered[rank(q, ordered.size) - 1])


def percentiles(values: Iterable[float]) -> Percentiles:
    """p50, p95, p99, mean and maximum of any number of values, in their unit; all None when there are none."""
    ordered = np.sort(np.fromiter(values, dtype=np.float64))
    if ordered.size == 0:
        return Percentiles()
    return Percentiles(
        p50=nearest_rank(ordered, 0.50),
        p95=nearest_rank(ordered, 0.95),
        p99=nearest_rank(ordered, 0.99),
        mean=float(ordered.mean()),
        max=float(ordered[-1]),
        n=int(ordered.size),
    )
