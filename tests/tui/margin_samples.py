"""Margins of made-up rates: what the cliff shows of the samples of a run."""

import math
from statistics import NormalDist

from core.margins import BINS, bin_of
from core.view import RateMargins

_SPREAD = 0.35
"""Of the logarithm."""


def rate(rate_rps: float, middle: float, n: int, *, judged: int = 0, open: int = 0, failed: int = 0) -> RateMargins:
    """`n` requests that ended around a margin of `middle`, and others that are open, from just sent to half of it."""
    ended, least = [0] * BINS, [0] * BINS
    for at in range(n):
        ended[bin_of(middle * math.exp(_SPREAD * NormalDist().inv_cdf((at + 0.5) / n)))] += 1
    for at in range(open):
        least[bin_of(middle * (at + 0.5) / open / 2)] += 1
    return RateMargins(rate_rps=rate_rps, ended=tuple(ended), open=tuple(least), failed=failed, judged=judged)


RAMP = (rate(4.0, 0.2, 24), rate(8.0, 0.35, 89))
BEYOND = rate(16.0, 1.2, 60, open=21)
HOLDS = rate(11.3, 0.54, 480, judged=440)
"""As many as pass miss the limits."""
MIXED = rate(12.4, 0.56, 242, judged=230, open=52)
FAILS = rate(13.6, 0.8, 420, judged=380, open=90, failed=2)
STANDARD = (RAMP[0], rate(8.0, 0.35, 169, judged=80), HOLDS, MIXED, FAILS, BEYOND)
HELD = (rate(6.0, 0.4, 430, judged=400), rate(6.6, 0.45, 78, judged=71, open=12))
