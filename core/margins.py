"""The bins in which margins are counted: equal steps of the logarithm, with an edge at the limit. Pure."""

import math

PER_DOUBLING = 8
"""A bin is 9 % wide: finer than a row of any picture of them."""
_DOUBLINGS_BELOW, _DOUBLINGS_ABOVE = 8, 5
AT_LIMIT = _DOUBLINGS_BELOW * PER_DOUBLING
"""The first bin of what lies above the limit; those before it are good."""
BINS = AT_LIMIT + _DOUBLINGS_ABOVE * PER_DOUBLING
"""From 1/256 of a limit to 32 times it; what lies beyond is counted in the bins at the ends."""


def bin_of(margin: float | None) -> int:
    """The bin of a margin (`core.slo.margin`); a request that had nothing to compare (None) was as good as can be."""
    if margin is None or margin <= 0:
        return 0
    if math.isinf(margin):
        return BINS - 1
    at = math.ceil(math.log2(margin) * PER_DOUBLING) - 1 + AT_LIMIT
    at = min(max(at, 0), BINS - 1)
    if margin <= 1.0:  # whatever the logarithm rounds to, the limit itself is good
        return min(at, AT_LIMIT - 1)
    return max(at, AT_LIMIT)


def lower_edge(at: int) -> float:
    """The margin above which bin `at` begins; that of the bin behind the last is its end."""
    return math.exp2((at - AT_LIMIT) / PER_DOUBLING)
