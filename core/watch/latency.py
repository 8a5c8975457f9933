"""A percentile of a server's own latencies: of what its histogram counted between two readings."""

import math
from dataclasses import dataclass

from core.server import Buckets


@dataclass(frozen=True, slots=True)
class Estimate:
    """Seconds, interpolated within a bucket. `over`: it lies above the last finite bucket, so it is more than `value_s`."""

    value_s: float
    over: bool = False


def quantile(older: Buckets, newer: Buckets, q: float) -> Estimate | None:
    """The q-quantile of the observations between two readings; None where there was none, or where the buckets are others.

    As Prometheus' `histogram_quantile` (promql/quantile.go, BucketQuantile): linear within the bucket, whose lower end is 0 for the
    first; from the last, unbounded bucket on it is the highest finite bound, here with the word that it is more.
    """
    if older.bounds != newer.bounds:
        return None
    counts = [max(0.0, after - before) for before, after in zip(older.counts, newer.counts, strict=True)]
    total = counts[-1]
    if total <= 0 or not math.isfinite(total):
        return None
    rank = q * total
    at = next(n for n, count in enumerate(counts) if count >= rank or n == len(counts) - 1)
    if at == len(newer.bounds):
        return Estimate(newer.bounds[-1], over=True)
    upper, lower = newer.bounds[at], newer.bounds[at - 1] if at else 0.0
    if at == 0 and upper <= 0:
        return Estimate(upper)
    before = counts[at - 1] if at else 0.0
    inside = counts[at] - before
    return Estimate(lower + (upper - lower) * (rank - before) / inside if inside > 0 else upper)
