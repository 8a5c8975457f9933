"""A log-scale histogram for gaps, so that a child can sum up thousands of them in a few integers.

Bin b holds values in (GAMMA^(b-1), GAMMA^b] microseconds; any quantile is within 1 % of the true value
(the DDSketch scheme: Masson, Rim and Lee, VLDB 2019, with relative accuracy 0.01).
"""

import math

from core.percentiles import rank
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


class Sketch:
    """The gaps of many answers in one histogram, which stays as small as that of one."""

    def __init__(self) -> None:
        self._counts: dict[int, int] = {}
        self._n, self._total_s, self._largest_s = 0, 0.0, 0.0

    def add(self, summary: GapSummary) -> None:
        """Take in the gaps of one more answer."""
        self._n += summary.n
        self._total_s += summary.sum_s
        self._largest_s = max(self._largest_s, summary.max_s)
        for bin_index, count in summary.bins:
            self._counts[bin_index] = self._counts.get(bin_index, 0) + count

    def percentiles(self) -> Percentiles:
        """Nearest-rank percentiles over all of them, never above the largest gap."""
        if self._n == 0:
            return Percentiles()
        ordered, n, largest = sorted(self._counts.items()), self._n, self._largest_s
        return Percentiles(
            p50=_rank(ordered, n, 0.50, largest),
            p95=_rank(ordered, n, 0.95, largest),
            p99=_rank(ordered, n, 0.99, largest),
            mean=self._total_s / n,
            max=largest,
            n=n,
        )


def _rank(ordered: list[tuple[int, int]], n: int, q: float, largest: float) -> float:
    wanted, seen = rank(q, n), 0
    for bin_index, count in ordered:
        seen += count
        if seen >= wanted:
            return min(value_of(bin_index), largest)
    return largest
