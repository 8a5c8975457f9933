"""What a row of server readings says about one repeat: differences of counters, maxima, and whose requests they were."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

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

_COUNTERS: tuple[Counter, ...] = get_args(Counter)
_AGREEING = 3
"""Gauges and counters of one reading may be an engine step apart; a surplus counts only when three readings in a row show it."""


@dataclass(frozen=True, slots=True)
class Readings:
    """Readings in the order of time, from just before a repeat's start to its end; none when the server has no metrics."""

    samples: Sequence[ServerSample]

    @property
    def breaks(self) -> int:
        """How often a row's process changed or one of its counters fell, against the last reading that had the row.

        Once is a restart. More often, a balancer shows several processes in turn; then no difference means anything. A row that
        is missing from a reading has not restarted, although the sums fell by what it holds. A process that began before the one
        that it follows is no restart either: it counts as several.
        """
        return self._followed()[0]

    @property
    def restarted(self) -> tuple[str, ...]:
        """The rows whose process gave way to a later one, by name."""
        return tuple(name for name, several in self._followed()[1].items() if not several)

    @property
    def mixed(self) -> bool:
        """Whether a row is of several processes in turn."""
        return any(self._followed()[1].values())

    def _followed(self) -> tuple[int, dict[str, bool]]:
        """How often a row broke, and which did: whether it is of several processes."""
        last: dict[str, _Row] = {}
        before: dict[str, _Row] = {}
        found, broke = 0, dict[str, bool]()
        for sample in self.samples:
            now = _rows(sample)
            broken = {name: row for name, row in now.items() if name in last and row.follows_not(last[name])}
            older = any(row.is_older(last[name]) for name, row in broken.items())
            found += 2 if older else bool(broken) or (not sample.by_replica and _others_there(before, now))
            for name, row in broken.items():
                broke[name] = broke.get(name, False) or row.is_older(last[name]) or (name in broke and row.started is None)
            if _ALONE not in now:  # whose row it is that stands alone meanwhile, is not known
                last.pop(_ALONE, None)
            last, before = last | now, now
        return found, broke

    @property
    def whole(self) -> Sequence[ServerSample]:
        """The readings with the most rows: only between these do sums over the rows mean the same."""
        names = [frozenset(_rows(sample)) for sample in self.samples]
        most = max(reversed(names), key=len, default=frozenset())
        return [sample for sample, seen in zip(self.samples, names, strict=True) if seen == most]

    def since(self, t: float) -> "Readings":
        """The newest reading at or before `t`, and those after it."""
        older = sum(sample.t <= t for sample in self.samples)
        return Readings(self.samples[max(older - 1, 0) :])

    def delta(self, name: Counter) -> float | None:
        """By how much a counter rose; None if it is not exposed, was read less than twice, or is not one counter throughout."""
        known: list[float] = [value for s in self.whole if (value := getattr(s, name)) is not None]
        return known[-1] - known[0] if len(known) > 1 and known[-1] >= known[0] and not self.breaks else None

    def mean(self, name: Histogram) -> float | None:
        """Mean of what a histogram took in over the repeat; None if it took in nothing or is not known."""
        known: list[tuple[float, float]] = [value for s in self.whole if (value := getattr(s, name)) is not None]
        if len(known) < 2 or self.breaks or known[-1][1] <= known[0][1]:
            return None
        return (known[-1][0] - known[0][0]) / (known[-1][1] - known[0][1])

    def count(self, name: Histogram) -> int:
        """How many values a histogram took in over the repeat; 0 where that is not known."""
        known: list[tuple[float, float]] = [value for s in self.whole if (value := getattr(s, name)) is not None]
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
        base, whole = self.samples[0].requests_success_total, self.whole
        usable = [s for s in whole[1:] if until is None or s.t <= until] if whole[0] is self.samples[0] else []
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


_ALONE = ""
"""The name of the row of a reading that shows one engine."""


@dataclass(frozen=True, slots=True)
class _Row:
    """What tells one engine's process from the one that takes its place."""

    started: float | None
    counters: tuple[float | None, ...]

    def follows_not(self, before: "_Row") -> bool:
        """Whether this cannot be the process of `before`, later. Where both began at the same time, one counter that fell is a part
        of it that was not shown; a restart behind whoever shows the page takes all of them."""
        both = zip(before.counters, self.counters, strict=True)
        fell = [now < was for was, now in both if was is not None and now is not None and was > 0]
        if before.started is None or self.started is None:
            return any(fell)
        return before.started != self.started or (bool(fell) and all(fell))

    def is_older(self, before: "_Row") -> bool:
        """Whether its process began before that of `before`."""
        return self.started is not None and before.started is not None and self.started < before.started


def _rows(sample: ServerSample) -> dict[str, _Row]:
    """By the name of the engine; of a reading with one, the whole."""
    engines = sample.by_engine
    if not engines:
        return {_ALONE: _Row(sample.epoch, tuple(getattr(sample, name) for name in _COUNTERS))}
    each = sample.by_replica or any(engine.started is not None for engine in engines)
    return {
        engine.name: _Row(
            engine.started if each else sample.epoch,
            (engine.requests_success_total, engine.prompt_tokens_total, engine.generation_tokens_total),
        )
        for engine in engines
    }


def _others_there(before: Mapping[str, _Row], now: Mapping[str, _Row]) -> bool:
    """Whether no row of the reading before is left, and none of its processes either."""
    were, are = ({row.started for row in rows.values()} - {None} for rows in (before, now))
    return not before.keys() & now.keys() and bool(were and are) and were.isdisjoint(are)
