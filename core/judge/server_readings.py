"""What a row of server readings says about one repeat: differences of counters, maxima, and whose requests they were."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from core.records import ServerSample

Counter = Literal[
    "preemptions_total",
    "prompt_tokens_total",
    "generation_tokens_total",
    "requests_success_total",
    "prefix_queries_total",
    "prefix_hits_total",
]
Histogram = Literal["ttft_s", "queue_time_s", "prefill_time_s", "decode_time_s"]
Gauge = Literal["running", "waiting", "kv_usage_max_frac", "kv_usage_frac"]

_COUNTERS: tuple[Counter, ...] = (
    "preemptions_total",
    "prompt_tokens_total",
    "generation_tokens_total",
    "requests_success_total",
    "prefix_queries_total",
    "prefix_hits_total",
)
_AGREEING = 3
"""Gauges and counters of one reading may be an engine step apart; a surplus counts only when three readings in a row show it."""


@dataclass(frozen=True, slots=True)
class Readings:
    """Readings in the order of time, from just before a repeat's start to its end; none when the server has no metrics."""

    samples: Sequence[ServerSample]

    @property
    def breaks(self) -> int:
        """How often the epoch changed or a counter fell from one reading to the next.

        Once is a restart. More often, a balancer shows several processes in turn; then no difference means anything.
        """
        return sum(_breaks(before, after) for before, after in pairwise(self.samples))

    def since(self, t: float) -> "Readings":
        """The newest reading at or before `t`, and those after it."""
        older = sum(sample.t <= t for sample in self.samples)
        return Readings(self.samples[max(older - 1, 0) :])

    def delta(self, name: Counter) -> float | None:
        """By how much a counter rose; None if it is not exposed, was read less than twice, or is not one counter throughout."""
        known: list[float] = [value for s in self.samples if (value := getattr(s, name)) is not None]
        return known[-1] - known[0] if len(known) > 1 and not self.breaks else None

    def mean(self, name: Histogram) -> float | None:
        """Mean of what a histogram took in over the repeat; None if it took in nothing or is not known."""
        known: list[tuple[float, float]] = [value for s in self.samples if (value := getattr(s, name)) is not None]
        if len(known) < 2 or self.breaks or known[-1][1] <= known[0][1]:
            return None
        return (known[-1][0] - known[0][0]) / (known[-1][1] - known[0][1])

    def count(self, name: Histogram) -> int:
        """How many values a histogram took in over the repeat; 0 where that is not known."""
        known: list[tuple[float, float]] = [value for s in self.samples if (value := getattr(s, name)) is not None]
        return 0 if len(known) < 2 or self.breaks else max(0, round(known[-1][1] - known[0][1]))

    def highest(self, *names: Gauge, since: float) -> float | None:
        """The highest value of the first of these gauges that is exposed, over readings from `since` on."""
        for name in names:
            known = [value for s in self.samples if s.t >= since and (value := getattr(s, name)) is not None]
            if known:
                return float(max(known))
        return None

    @property
    def prefix_hit_frac(self) -> float | None:
        """Share of the prompt tokens looked up that were found in the prefix cache. A ratio: releases count tokens or blocks."""
        hits, queries = self.delta("prefix_hits_total"), self.delta("prefix_queries_total")
        return hits / queries if hits is not None and queries is not None and queries > 0 else None

    def others(self, sent_at: NDArray[np.float64], failed_at: NDArray[np.float64], until: float | None) -> float | None:
        """At least how many requests of others the server had during the repeat; None where the counters cannot tell.

        At a reading, each of our requests sent by then is under way, running, waiting, succeeded or failed, so what the
        server counts as succeeded, running and waiting beyond that is others'. Ours that the server never took for a success
        (`failed_at`: their ends) are left out; so are readings after `until`, when our own aborts begin: an aborted request
        is nowhere counted (vLLM 0.32, v1/engine/output_processor.py). Both arrays in any order.
        """
        if self.breaks or len(self.samples) < 2:
            return None
        base = self.samples[0].requests_success_total
        usable = [s for s in self.samples[1:] if until is None or s.t <= until]
        if base is None or not usable:
            return None
        sent, failed = np.sort(sent_at), np.sort(failed_at)
        surplus: list[float] = []
        for s in usable[-_AGREEING:]:
            if s.requests_success_total is None:
                return None
            # The counts are from some moment in [t - took, t]: all that was sent by then may be in them, and only what had
            # failed before is surely not.
            ours = int(np.searchsorted(sent, s.t, side="right")) - int(np.searchsorted(failed, s.t - s.took_s))
            surplus.append(s.requests_success_total - base + (s.running or 0.0) + (s.waiting or 0.0) - ours)
        return max(0.0, min(surplus))


def _breaks(before: ServerSample, after: ServerSample) -> bool:
    if before.epoch is not None and after.epoch is not None and before.epoch != after.epoch:
        return True
    return any(
        (was := getattr(before, name)) is not None and (now := getattr(after, name)) is not None and now < was for name in _COUNTERS
    )
