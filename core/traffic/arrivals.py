"""A trace as the arrivals of a run: which lengths it mixes, and the stretch of it that each repeat plays, sped up to its rate."""

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.random import SeedSequence
from numpy.typing import NDArray

from core.config import ProbeConfig
from core.errors import UserError
from core.facts import Fact, fact
from core.modes import recorded_s
from core.records import Segment, SharedBlocks
from core.shared_blocks import found_frac, known_tokens
from core.traffic.blocks import shared_blocks
from core.traffic.ticks import spread
from core.traffic.trace import NAME, Trace, fitting, usable, window
from core.traffic.trace_forms import TimeUnit
from core.traffic.trace_reading import read_trace
from core.units import count
from core.workloads import MixPart, Source, TraceUse, TraceWindow

MOST_KINDS = 200_000
"""Each pair of lengths stands in the run file (40 bytes), and is looked through at each draw."""
_SPREAD_KEY = 9
"""Of the seed's spawn keys, behind those of the phases and of a closed loop."""
_DECIMALS = 6
"""A microsecond: no recording is finer, and no send is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What is taken of a trace: `unit` None: as the file tells; `window` None: all of it; `scale`: judge this speed alone;
    `spread`: requests that share a tick are spread over it, drawn from `seed`; `shares`: prompts share the blocks that it names."""

    path: Path
    unit: TimeUnit | None = None
    window: TraceWindow | None = None
    scale: float | None = None
    spread: bool = False
    seed: int = 0
    shares: bool = False


class Given(NamedTuple):
    """Offsets in seconds after an order's time zero, which kind of the mix each of them is, and what their prompts share."""

    offsets_s: tuple[float, ...]
    parts: tuple[int, ...]
    shared: SharedBlocks | None = None


@dataclass(frozen=True, slots=True, eq=False)
class TraceArrivals:
    """Recorded requests, ready to be played at any rate. `parts[i]`: which of the `mix` row i of the `trace` is.

    The time of an order runs through the recording at each segment's rate over its mean, as a drawn process runs through unit gaps
    (`core.schedule`). A recording that is over begins again: that is for tails and held rates; repeats have their own stretches.
    """

    asked: Asked
    trace: Trace
    use: TraceUse
    source: Source
    mix: tuple[MixPart, ...]
    parts: NDArray[np.int32]

    @property
    def found(self) -> tuple[Fact, ...]:
        """What is worth a word of the trace before its load: prompts are cold, or share what they shared when it was recorded."""
        return tuple(self._prompts if each.code == "trace_blocks" else each for each in self.trace.found)

    @property
    def _prompts(self) -> Fact:
        rows = np.arange(len(self.trace))
        if (shared := self._shared(rows, np.zeros_like(rows))) is None:
            return fact("trace_cold")
        whole_frac = found_frac(known_tokens(shared), self.trace.input_tokens, 1)
        return fact("trace_shared", block_tokens=shared.block_tokens, whole_frac=whole_frac)

    def settled(self, config: ProbeConfig) -> ProbeConfig:
        """The run with these requests, and where a scale is asked for, with the rate that it makes."""
        workload = msgspec.structs.replace(config.workload, mix=self.mix, source=self.source, trace=self.use)
        method = config.method
        if self.asked.scale is not None:
            method = msgspec.structs.replace(method, rates_rps=(self.asked.scale * self.use.mean_rps,))
        return msgspec.structs.replace(config, workload=workload, method=method)

    def fitted(self, config: ProbeConfig, context_tokens: int) -> tuple["TraceArrivals", ProbeConfig]:
        """Without what does not fit the model's context, and the run with what is left: its mean rate is lower, and so is the one
        rate that a scale makes. Raises UserError if nothing fits."""
        trace = fitting(self.trace, context_tokens)
        if trace is self.trace:
            return self, config
        fitted = _made(self.asked, trace, self.use, self.source)
        if self.asked.scale is not None and config.method.rates_rps != (self.asked.scale * self.use.mean_rps,):
            fitted = replace(fitted, asked=replace(self.asked, scale=None))  # a run after this one judges other rates
        return fitted, fitted.settled(config)

    def stretch(self, segments: tuple[Segment, ...], k: int, planned: tuple[Segment, ...], from_s: float = 0.0) -> Given:
        """The k-th (from 0) of the disjoint stretches that a step of these `planned` segments takes from a moment of the recording
        on, played through `segments`.

        Their warm-up may have become longer, which then takes what was recorded before: no two measured windows share a request.
        """
        mean_rps = self.use.mean_rps
        long_s = recorded_s(planned, mean_rps, "warmup", "measured")
        measured_from_s = from_s + k * long_s + recorded_s(planned, mean_rps, "warmup")
        return self.played(segments, measured_from_s - recorded_s(segments, mean_rps, "warmup"))

    def played(self, segments: tuple[Segment, ...], from_s: float) -> Given:
        """The recording from a moment of its window on, played through the segments of an order."""
        mean_rps = self.use.mean_rps
        rates = np.array([segment.rate_rps for segment in segments])
        durations = np.array([segment.duration_s for segment in segments])
        mass_end, time_end = np.cumsum(rates * durations), np.cumsum(durations)
        behind_s, rows, laps = self._rows(from_s, from_s + float(mass_end[-1]) / mean_rps)
        mass = behind_s * mean_rps
        at = np.minimum(np.searchsorted(mass_end, mass, side="right"), len(segments) - 1)
        mass_start, time_start = np.append(0.0, mass_end), np.append(0.0, time_end)
        offsets_s = np.round(time_start[at] + (mass - mass_start[at]) / rates[at], _DECIMALS)
        offsets = tuple(np.maximum.accumulate(offsets_s).tolist())
        return Given(offsets, tuple(self.parts[rows].tolist()), self._shared(rows, laps))

    def _shared(self, rows: NDArray[np.int64], laps: NDArray[np.int64]) -> SharedBlocks | None:
        """What the prompts of some rows share; None where they are to be cold."""
        if not self.asked.shares or self.trace.chains is None:
            return None
        return shared_blocks(self.trace.chains, rows, laps, self.trace.input_tokens)

    def _rows(self, from_s: float, to_s: float) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.int64]]:
        """The rows of [from, to) by their times after its begin, where the window is followed by itself: times, rows, laps."""
        span_s, time_s = self.use.window_s, self.trace.time_s
        behind, rows, laps = [], [], []
        for lap in range(math.floor(from_s / span_s), math.floor(to_s / span_s) + 1):
            low, high = np.searchsorted(time_s, [from_s - lap * span_s, to_s - lap * span_s])
            behind.append(time_s[low:high] + (lap * span_s - from_s))
            rows.append(np.arange(low, high))
            laps.append(np.full(high - low, lap))
        return np.maximum(np.concatenate(behind), 0.0), np.concatenate(rows), np.concatenate(laps)


def load_arrivals(asked: Asked) -> TraceArrivals:
    """Read a trace, and take what is asked for. Raises UserError for what is no trace, or too little of one."""
    whole = read_trace(asked.path, asked.unit)
    trace = usable(whole if asked.window is None else window(whole, asked.window))
    from_s = trace.clock_s - whole.clock_s
    if asked.shares and trace.chains is None:
        raise UserError(
            f"--prefix trace: the rows of {trace.file} do not name the blocks of their prompts (hash_ids, of a known size, as in "
            "Mooncake's traces); leave it out for cold prompts, or give such a trace."
        )
    if asked.spread:
        trace = spread(trace, SeedSequence(asked.seed, spawn_key=(_SPREAD_KEY,)))
    if trace.rate_rps is None or len(trace) < 2:
        raise UserError(f"{NAME}: {trace.file} has {count(len(trace), 'request')} at one time, which is no traffic to play.")
    use = TraceUse(
        file=trace.file,
        form=trace.format,
        unit=trace.unit,
        rows=len(trace),
        from_s=from_s,
        window_s=trace.span_s,
        span_s=whole.span_s,
        mean_rps=trace.rate_rps,
        gap_cv=1.0,
        tick_s=whole.tick_s,
        spread=asked.spread and whole.tick_s is not None,
    )
    bad = len(trace.bad) + len(trace.failed)
    source = Source(kind="trace", file=trace.file, form=trace.format, rows=len(trace), of_rows=len(whole), bad=bad)
    return _made(asked, trace, use, source)


def _made(asked: Asked, trace: Trace, use: TraceUse, source: Source) -> TraceArrivals:
    """The same with the figures of these rows."""
    pairs, part, weights = np.unique(
        trace.input_tokens.astype(np.int64) << 32 | trace.output_tokens, return_inverse=True, return_counts=True
    )
    if pairs.size > MOST_KINDS:
        raise UserError(
            f"{NAME}: {trace.file} has {count(int(pairs.size))} different pairs of lengths, and at most {count(MOST_KINDS)} are "
            "taken; take a part of it with --trace-window."
        )
    gaps_s = np.diff(trace.time_s)
    cv = float(gaps_s.std() / gaps_s.mean()) if gaps_s.size and gaps_s.mean() > 0 else 1.0
    return TraceArrivals(
        asked=asked,
        trace=trace,
        use=msgspec.structs.replace(use, rows=len(trace), mean_rps=len(trace) / use.window_s, gap_cv=cv),
        source=msgspec.structs.replace(source, rows=len(trace)),
        mix=tuple(
            MixPart(input_tokens=pair >> 32, output_tokens=pair & 0xFFFFFFFF, weight=float(weight))
            for pair, weight in zip(pairs.tolist(), weights.tolist(), strict=True)
        ),
        parts=part.astype(np.int32),
    )
