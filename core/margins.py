"""The bins in which margins are counted: equal steps of the logarithm, with an edge at the limit. Pure."""

import bisect
import math

PER_DOUBLING = 8
"""A bin is 9 % wide: finer than a row of any picture of them."""
_DOUBLINGS_BELOW, _DOUBLINGS_ABOVE = 8, 5
AT_LIMIT = _DOUBLINGS_BELOW * PER_DOUBLING
"""The first bin of what lies above the limit; those before it are good."""
BINS = AT_LIMIT + _DOUBLINGS_ABOVE * PER_DOUBLING
"""From 1/256 of a limit to 32 times it; what lies beyond is counted in the bins at the ends."""


def lower_edge(at: int) -> float:
    """The margin above which bin `at` begins; that of the bin behind the last is its end."""
    return math.exp2((at - AT_LIMIT) / PER_DOUBLING)


INNER_EDGES = tuple(lower_edge(at) for at in range(1, BINS))
"""Each is the greatest margin of the bin below it, so that 1.0, the limit itself, is good. They are compared with and never
reckoned by a logarithm, whose rounding would move what lies at an edge."""


def bin_of(margin: float | None) -> int:
    """The bin of a margin (`core.slo.margin`); a request that had nothing to compare (None) was as good as can be."""
    return 0 if margin is None else bisect.bisect_left(INNER_EDGES, margin)
