"""A log-scale histogram for gaps, so that a child can sum up thousands of them in a few integers.

Bin b holds values in (GAMMA^(b-1), GAMMA^b] microseconds; any quantile is within 1 % of the true value
(the DDSketch scheme: Masson, Rim and Lee, VLDB 2019, with relative accuracy 0.01).
"""

import math
from collections.abc import Iterable

from core.records import GapSummary
from core.results import Percentiles

ACCURACY = 0.01
GAMMA = (1 + ACCURACY) / (1 - ACCURACY)
_LOG_GAMMA = math.log(GAMMA)
_UNIT_S = 1e-6


def bin_of(value_s: float) -> int:
    """The bin of a gap in seconds; everything up to a microsecond falls into bin 0."""
    return max(0, math.ceil(math.log(value_s / _UNIT_S) / _LOG_GAMMA)) if value_s > _UNIT_S else 0


def value_of(bin_index: int) -> float:
    """The value in seconds that stands for a bin: within ACCURACY of everything in it."""
    return _UNIT_S * 2 * GAMMA**bin_index / (GAMMA + 1)


def percentiles(summaries: Iterable[GapSummary]) -> Percentiles:
    """Nearest-rank percentiles over the gaps of many answers, never above the largest gap."""
    counts: dict[int, int] = {}
    n, total, largest = 0, 0.0, 0.0
    for summary in summaries:
        n += summary.n
        total += summary.sum_s
        largest = max(largest, summary.max_s)
        for bin_index, count in summary.bins:
            counts[bin_index] = counts.get(bin_index, 0) + count
    if n == 0:
        return Percentiles()
    ordered = sorted(counts.items())
    return Percentiles(
        p50=_rank(ordered, n, 0.50, largest),
        p95=_rank(ordered, n, 0.95, largest),
        p99=_rank(ordered, n, 0.99, largest),
        mean=total / n,
        max=largest,
        n=n,
    )


def _rank(ordered: list[tuple[int, int]], n: int, q: float, largest: float) -> float:
    wanted, seen = math.ceil(q * n), 0
    for bin_index, count in ordered:
        seen += count
        if seen >= wanted:
            return min(value_of(bin_index), largest)
    return largest
