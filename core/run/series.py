"""The shared time axis of a run: what happened in each second, or in each longer bin once the run is long."""

import math
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from core.judge import Ends, Firsts, Indices, Sends
from core.percentiles import percentiles
from core.records import RequestEnded, RequestFirst, RequestHeld, RequestSent, ServerSample
from core.results import Bounds
from core.slo import tpot_s
from core.view import Outcomes, SeriesPoint

MAX_BINS = 600
"""More than a wide terminal has columns; past it the bins double, so a run of any length stays this small."""
FIRST_BIN_S = 1.0
KEPT_VALUES = 1024
"""Latencies kept of bins that are merged, evenly out of the sorted ones: a quantile moves by a rank of about 0.1 %."""
_SHOWN_FROM_FRAC = 0.25
"""A bin that has just begun is not shown: rates over a few milliseconds would jump."""


@dataclass(slots=True)
class _Gauge:
    """Mean of a server's gauge over the readings of a bin."""

    total: float = 0.0
    n: int = 0

    def add(self, value: float | None) -> None:
        if value is not None:
            self.total += value
            self.n += 1

    def merge(self, other: "_Gauge") -> None:
        self.total += other.total
        self.n += other.n

    @property
    def mean(self) -> float | None:
        return self.total / self.n if self.n else None


@dataclass(slots=True)
class _Values:
    """Latencies of a bin: all of them, or after merging an even choice of those of `n`."""

    kept: "array[float]" = field(default_factory=lambda: array("d"))
    n: int = 0

    def add(self, value: float) -> None:
        self.kept.append(value)
        self.n += 1

    def add_all(self, values: NDArray[np.float64]) -> None:
        self.kept.frombytes(values.tobytes())
        self.n += values.size

    def merge(self, other: "_Values") -> None:
        total = self.n + other.n
        if total > KEPT_VALUES:
            self._thin(round(KEPT_VALUES * self.n / total))
            other._thin(round(KEPT_VALUES * other.n / total))
        self.kept += other.kept
        self.n = total

    def _thin(self, size: int) -> None:
        ordered, n = sorted(self.kept), len(self.kept)
        if size < n:
            self.kept = array("d", (ordered[math.floor((k + 0.5) * n / size)] for k in range(size)))


@dataclass(slots=True)
class _Bin:
    step: int
    ttft_s: _Values = field(default_factory=_Values)
    tpot_s: _Values = field(default_factory=_Values)
    sent: int = 0
    in_flight_change: int = 0
    no_first_change: int = 0
    offered: int = 0
    served: int = 0
    waiting: _Gauge = field(default_factory=_Gauge)
    running: _Gauge = field(default_factory=_Gauge)
    kv_usage: _Gauge = field(default_factory=_Gauge)
    preemptions: float = 0.0
    preemptions_over_s: float = 0.0
    floor: tuple[float, float] | None = None
    rate_rps: float | None = None
    counted: int = 0
    good: int = 0
    missed: int = 0
    told: Outcomes | None = None

    def merge(self, later: "_Bin") -> None:
        """Take in the bin that follows."""
        self.told = None
        self.step = later.step
        self.ttft_s.merge(later.ttft_s)
        self.tpot_s.merge(later.tpot_s)
        self.sent += later.sent
        self.in_flight_change += later.in_flight_change
        self.no_first_change += later.no_first_change
        self.offered += later.offered
        self.served += later.served
        self.waiting.merge(later.waiting)
        self.running.merge(later.running)
        self.kv_usage.merge(later.kv_usage)
        self.preemptions += later.preemptions
        self.preemptions_over_s += later.preemptions_over_s
        self.floor = later.floor or self.floor
        self.rate_rps = self.rate_rps if later.rate_rps is None else later.rate_rps
        self.counted += later.counted
        self.good += later.good
        self.missed += later.missed


class OfRate(NamedTuple):
    """Requests that came or left; those that came each with the rate that is judged by then, and whether it lies in the window of a
    repeat."""

    sends: Sends
    rate_rps: NDArray[np.float64]
    counted: NDArray[np.bool_]


class Series:
    """Bins since `start`; written by the run's state as events are applied, read as points.

    A bin may still change while events of its time come in late, so points are made again from the first changed bin.
    """

    def __init__(self, start: float) -> None:
        self.start = start
        self.bin_s = FIRST_BIN_S
        self._bins: list[_Bin] = []
        self._points: list[SeriesPoint] = []
        self._levels: list[tuple[int, int] | None] = []
        self._step = 0
        self._newest_sample: ServerSample | None = None

    def ends_before(self, t: float) -> list[float]:
        """The ends of the bins, begun or not, that lie after the newest bin's start and not after `t`."""
        first = max(len(self._bins), 1)
        return [self.start + k * self.bin_s for k in range(first, min(self._index(t), MAX_BINS) + 1)]

    def advance(self, t: float) -> None:
        """Open every bin up to the one of time `t`; merges pairs of bins when there would be too many."""
        while self._index(t) >= MAX_BINS:
            self._double()
        while len(self._bins) <= self._index(t):
            self._bins.append(_Bin(self._step))

    def step(self, t: float, step: int) -> None:
        self._step = step
        self._at(t).step = step

    def sent(self, event: RequestSent, rate_rps: float, counted: bool) -> None:
        """`rate_rps`: the rate that is judged, of a ramp that of the segment. `counted`: it lies in the window of a repeat."""
        self.held(event, rate_rps, counted)
        self.let_through(event)

    def held(self, event: RequestHeld | RequestSent, rate_rps: float, counted: bool) -> None:
        """The same of one that a gateway's limit holds back: it was offered, and has not left."""
        due = self._at(event.t_sched)
        due.offered += 1
        due.rate_rps = rate_rps
        due.counted += counted

    def let_through(self, event: RequestSent) -> None:
        """One that was held back has left."""
        at = self._at(event.t_sent)
        at.sent += 1
        at.in_flight_change += 1
        at.no_first_change += 1

    def first(self, event: RequestFirst, t_sched: float) -> None:
        at = self._at(event.t_first)
        at.no_first_change -= 1
        at.ttft_s.add(event.t_first - t_sched)

    def ended(self, event: RequestEnded, had_first: bool) -> None:
        """`had_first`: its first token was told before (`first`). Only for requests that were sent."""
        at = self._at(event.t_end)
        at.in_flight_change -= 1
        if not had_first:
            at.no_first_change -= 1
        if event.ending != "ok":
            return
        at.served += 1
        tpot = tpot_s(event)
        if tpot is not None and event.t_last is not None:
            self._at(event.t_last).tpot_s.add(tpot)

    def decided(self, t_sched: float, good: bool | None) -> None:
        """What became of the request that was due then; None: it was cut off before that was known. It changes no point."""
        due = self._bins[min(self._index(t_sched), len(self._bins) - 1)]
        due.good += good is True
        due.missed += good is False

    @property
    def room_s(self) -> float:
        """How long after the start the newest bin ends."""
        return len(self._bins) * self.bin_s

    def take_in(
        self, sends: OfRate, firsts: Firsts, waited_s: NDArray[np.float64], ends: Ends, had_first: NDArray[np.bool_]
    ) -> None:
        """What `held`, `let_through`, `first`, `ended` and `decided` do, of many requests, in the order in which they were told.
        `waited_s`: TTFT of the first tokens. Requests that were cut off are not among them."""
        for at, mine in self._by_bin(sends.sends.come.t_sched):
            at.offered += mine.size
            at.rate_rps = float(sends.rate_rps[mine[-1]])
            at.counted += int(sends.counted[mine].sum())
        for at, mine in self._by_bin(sends.sends.t_sent):
            at.sent += mine.size
            at.in_flight_change += mine.size
            at.no_first_change += mine.size
        for at, mine in self._by_bin(firsts.t_first):
            at.no_first_change -= mine.size
            at.ttft_s.add_all(waited_s[mine])
        for at, mine in self._by_bin(ends.t_end):
            n_left = int(ends.left[mine].sum())
            at.in_flight_change -= n_left
            at.no_first_change -= n_left - int(had_first[mine].sum())
            at.served += int(ends.ok[mine].sum())
        told = ~np.isnan(ends.tpot_s)
        for at, mine in self._by_bin(ends.t_last[told]):
            at.tpot_s.add_all(ends.tpot_s[told][mine])
        good = ends.good
        for at, mine in self._by_bin(ends.t_sched):
            n_good = int(good[mine].sum())
            at.good += n_good
            at.missed += mine.size - n_good

    def _by_bin(self, t: NDArray[np.float64]) -> Iterator[tuple[_Bin, Indices]]:
        """Which of these times fall into which bin, as `_at` has it, each in their order."""
        if not t.size:
            return
        index = np.minimum(np.maximum((t - self.start) / self.bin_s, 0.0).astype(np.int64), len(self._bins) - 1)
        low, high = int(index.min()), int(index.max())
        self._changed(low)
        if low == high:
            yield self._bins[low], np.arange(t.size)
            return
        for at in range(low, high + 1):
            mine = np.flatnonzero(index == at)
            if mine.size:
                yield self._bins[at], mine

    def outcomes(self, now: float, overdue: Iterable[float]) -> tuple[Outcomes, ...]:
        """What became of the requests of each bin that `points` shows; `overdue`: when those were due that are open and late."""
        late = Counter(min(self._index(t), len(self._bins) - 1) for t in overdue)
        shown = self._bins[: min(self._index(now), MAX_BINS - 1) + 1]
        return tuple(self._outcomes(index, at, late[index]) for index, at in enumerate(shown))

    def _outcomes(self, index: int, at: _Bin, late: int) -> Outcomes:
        """The one told before where nothing of the bin has changed, as of most bins of a long run."""
        told, is_open = at.told, at.offered - at.good - at.missed - late
        known = (at.good, at.missed + late, is_open)
        if told is None or told.step != at.step or (told.good, told.missed, told.open) != known:
            told = at.told = Outcomes(
                t_s=index * self.bin_s,
                step=at.step,
                rate_rps=at.rate_rps,
                counted=2 * at.counted > at.offered,
                good=at.good,
                missed=at.missed + late,
                open=is_open,
            )
        return told

    def sample(self, sample: ServerSample) -> None:
        at = self._at(sample.t)
        at.waiting.add(sample.waiting)
        at.running.add(sample.running)
        at.kv_usage.add(sample.kv_usage_frac)
        before, self._newest_sample = self._newest_sample, sample
        if before is None or before.epoch != sample.epoch or before.preemptions_total is None or sample.preemptions_total is None:
            return
        if sample.t > before.t and sample.preemptions_total >= before.preemptions_total:
            at.preemptions += sample.preemptions_total - before.preemptions_total
            at.preemptions_over_s += sample.t - before.t

    def floor(self, t: float, bounds: Bounds) -> None:
        """The running attainment of the current repeat at `t`, which stays as that of the bin just before or around `t`."""
        if self._bins and bounds.so_far is not None:
            index = min(max(math.ceil((t - self.start) / self.bin_s) - 1, 0), len(self._bins) - 1)
            self._bins[index].floor = bounds.so_far
            self._changed(index)

    def points(self, now: float, live: Bounds | None) -> tuple[SeriesPoint, ...]:
        """All bins up to `now`; `live` is the account of the current repeat at `now`, None when none runs."""
        last = min(self._index(now), MAX_BINS - 1)
        closed = min(last, len(self._bins) - 1)  # the newest bin can still get the floor of its end
        for index in range(len(self._points), closed):
            self._points.append(self._point(index, self._bins[index], self.bin_s))
        shown = self._points[:closed]
        so_far = live.so_far if live else None
        for index in range(closed, last + 1):
            over_s = min(now - self.start - index * self.bin_s, self.bin_s)
            if over_s >= _SHOWN_FROM_FRAC * self.bin_s:
                known = self._bins[index] if index < len(self._bins) else _Bin(self._step)
                shown.append(self._point(index, known, over_s, so_far))
        return tuple(shown)

    def _index(self, t: float) -> int:
        return max(math.floor((t - self.start) / self.bin_s), 0)

    def _at(self, t: float) -> _Bin:
        """The bin of time `t`; what is stamped after the newest event falls into the newest bin."""
        index = min(self._index(t), len(self._bins) - 1)
        self._changed(index)
        return self._bins[index]

    def _changed(self, index: int) -> None:
        del self._points[index:]
        del self._levels[index:]

    def _double(self) -> None:
        merged = self._bins[::2]
        for earlier, later in zip(merged, self._bins[1::2], strict=False):
            earlier.merge(later)
        self._bins = merged
        self.bin_s *= 2
        self._changed(0)

    def _level(self, index: int) -> tuple[int, int] | None:
        """Requests in flight, and those of them without a first token, at the end of a bin; None before the first was sent."""
        while len(self._levels) <= min(index, len(self._bins) - 1):
            before = self._levels[-1] if self._levels else None
            new = self._bins[len(self._levels)]
            in_flight, no_first = before or (0, 0)
            begun = before is not None or new.sent > 0
            self._levels.append((in_flight + new.in_flight_change, no_first + new.no_first_change) if begun else None)
        return self._levels[min(index, len(self._levels) - 1)]

    def _point(self, index: int, at: _Bin, over_s: float, so_far: tuple[float, float] | None = None) -> SeriesPoint:
        in_flight, no_first = self._level(index) or (None, None)
        ttft, tpot = percentiles(at.ttft_s.kept), percentiles(at.tpot_s.kept)
        floor = so_far or at.floor
        return SeriesPoint(
            t_s=index * self.bin_s,
            step=at.step,
            ttft_p50_s=ttft.p50,
            ttft_p95_s=ttft.p95,
            ttft_p99_s=ttft.p99,
            tpot_p50_s=tpot.p50,
            tpot_p95_s=tpot.p95,
            tpot_p99_s=tpot.p99,
            in_flight=in_flight,
            no_first_token=no_first,
            waiting=at.waiting.mean,
            running=at.running.mean,
            kv_usage_frac=at.kv_usage.mean,
            preemptions_per_s=at.preemptions / at.preemptions_over_s if at.preemptions_over_s else None,
            offered_rps=at.offered / over_s,
            served_rps=at.served / over_s,
            floor_lo=floor[0] if floor else None,
            floor_hi=floor[1] if floor else None,
        )
