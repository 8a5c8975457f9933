"""What a finished step says about how it was run: whether its warm-up must be done again, and how its repeats scatter."""

import statistics
from collections.abc import Sequence

from core.facts import Fact, fact
from core.results import RepeatResult

WARMUP_TOLERANCE = 0.05
"""The warm-up's own effect changes little from 1.9 to 2.0 mean durations; a step costs minutes."""

WIDE_SPREAD = 0.03
"""Between honest 60 s repeats at the knee of simulated replicas the standard deviation was 3 to 13 points (2 on a flat curve)."""


def too_short_warmup(result: RepeatResult) -> float | None:
    """The warm-up in seconds that this repeat has to be done again with; None where its own will do.

    Only a pass is doubted, since an empty start flatters a server and a fail stands all the more.
    """
    needed_s = result.warmup_needed_s
    if result.verdict != "pass" or needed_s is None:
        return None
    return needed_s if result.warmup_s < (1 - WARMUP_TOLERANCE) * needed_s else None


def spread_note(results: Sequence[RepeatResult]) -> Fact | None:
    """For a step whose repeats differ widely, so that nobody takes it for a fault; None for fewer than two whole repeats.

    Repeats that were cut short have no attainment to compare.
    """
    attained = [r.attainment for r in results if r.verdict in ("pass", "fail") and r.attainment is not None]
    if len(attained) < 2 or (spread := statistics.stdev(attained)) <= WIDE_SPREAD:
        return None
    return fact("repeats_scatter", deviation_frac=spread, repeats=len(attained))
