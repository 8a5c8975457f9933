"""When requests are due: arrivals as absolute offsets, drawn whole before the first is sent. Pure."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import PCG64, Generator, SeedSequence
from numpy.typing import NDArray

from core.config import Lengths, Workload
from core.records import Phase, RepeatOrder, Segment

PHASE_KEY: dict[Phase, int] = {
    "ramp": 0,
    "search": 1,
    "confirm": 2,
    "tighten": 3,
    "single": 4,
    "preflight": 5,
    "list": 6,
    "hold": 7,
}
"""First part of each repeat's spawn key, so that no two phases share a draw."""


_FRESH: frozenset[Phase] = frozenset({"search", "confirm", "tighten"})


def fresh_draw(phase: Phase, step: int) -> int | None:
    """The draw of a step: its own in a search, where one unlucky draw at every rate would fail them all (same search in virtual
    time: the bracket held the knee in .94 with fresh draws, in .87 with one). Rates of a list stay comparable by one draw: None."""
    return step if phase in _FRESH else None


@dataclass(frozen=True, slots=True)
class Plan:
    """One repeat as drawn: request i is due at `offsets_s[i]` after the order's `start_at`, belongs to `segment[i]` of the
    order and asks for `input_tokens[i]`, `output_tokens[i]`. All arrays have the same length and are read-only."""

    offsets_s: NDArray[np.float64]
    segment: NDArray[np.int32]
    input_tokens: NDArray[np.int64]
    output_tokens: NDArray[np.int64]

    def __len__(self) -> int:
        return int(self.offsets_s.size)


@dataclass(frozen=True, slots=True)
class Seeds:
    """Independent sources of one repeat. Each quantity has its own, so request i gets the same draw however many are drawn."""

    arrivals: SeedSequence
    input_lengths: SeedSequence
    output_lengths: SeedSequence
    prompts: SeedSequence


def seeds(order: RepeatOrder) -> Seeds:
    """The sources of an order: SeedSequence(seed, spawn_key=(phase, draw, repeat)).spawn(2) -> arrivals, workload.

    Without a draw (also in files from before there were any) the key is (phase, repeat), alike at every rate.
    """
    between = () if order.draw is None else (order.draw,)
    root = SeedSequence(order.seed, spawn_key=(PHASE_KEY[order.phase], *between, order.repeat))
    arrivals, workload = root.spawn(2)
    input_lengths, output_lengths, prompts = workload.spawn(3)
    return Seeds(arrivals, input_lengths, output_lengths, prompts)


def draw(order: RepeatOrder, workload: Workload) -> Plan:
    """The plan of an order; the same order and workload give the same plan in every process.

    Raises ValueError for segments or given offsets that are no schedule (negative, not finite, not in order).
    """
    source = seeds(order)
    if order.offsets_s is not None:
        offsets_s = _given(order.offsets_s)
        segment = np.zeros(offsets_s.size, dtype=np.int32)
    else:
        offsets_s, segment = _poisson(order.segments, Generator(PCG64(source.arrivals)))
    n = offsets_s.size
    input_tokens = _lengths(workload.input_tokens, n, source.input_lengths)
    output_tokens = _lengths(workload.output_tokens, n, source.output_lengths)
    return Plan(_frozen(offsets_s), _frozen(segment), _frozen(input_tokens), _frozen(output_tokens))


def _given(offsets_s: tuple[float, ...]) -> NDArray[np.float64]:
    offsets = np.array(offsets_s, dtype=np.float64)
    if not np.isfinite(offsets).all() or (offsets < 0).any() or (np.diff(offsets) < 0).any():
        raise ValueError("offsets_s must be finite, not negative, and in order")
    return offsets


def _poisson(segments: tuple[Segment, ...], rng: Generator) -> tuple[NDArray[np.float64], NDArray[np.int32]]:
    """Exact Poisson arrivals at piecewise constant rates: unit exponentials, cumulated, mapped through the integrated rate.

    The time-rescaling theorem (Cinlar 1975) makes the result Poisson; in a first segment of constant rate it is u / rate, so
    repeats with one seed share their unit gaps at every rate.
    """
    rates = np.array([s.rate_rps for s in segments], dtype=np.float64)
    durations = np.array([s.duration_s for s in segments], dtype=np.float64)
    if not (np.isfinite(rates).all() and np.isfinite(durations).all()) or (rates < 0).any() or (durations < 0).any():
        raise ValueError("segments need finite rates and durations, not negative")
    mass_end, time_end = np.cumsum(rates * durations), np.cumsum(durations)
    units = _units_up_to(float(mass_end[-1]) if segments else 0.0, rng)
    segment = np.searchsorted(mass_end, units, side="right").astype(np.int32)
    mass_start, time_start = np.append(0.0, mass_end), np.append(0.0, time_end)
    return time_start[segment] + (units - mass_start[segment]) / rates[segment], segment


def _units_up_to(mass: float, rng: Generator) -> NDArray[np.float64]:
    """Arrivals of the unit-rate process in [0, mass). Block sizes do not show in the result: the draw is one sequence."""
    gaps = rng.standard_exponential(int(mass + 4 * mass**0.5) + 16)
    while gaps.sum() < mass:
        gaps = np.append(gaps, rng.standard_exponential(gaps.size))
    units: NDArray[np.float64] = np.cumsum(gaps)
    return units[units < mass]


def _lengths(lengths: Lengths, n: int, source: SeedSequence) -> NDArray[np.int64]:
    if lengths.fixed:
        return np.full(n, int(lengths.median), dtype=np.int64)
    drawn = np.exp(Generator(PCG64(source)).normal(np.log(lengths.median), lengths.sigma, n))
    lengths_drawn: NDArray[np.int64] = np.floor(np.clip(drawn, lengths.minimum, lengths.maximum)).astype(np.int64)
    return lengths_drawn


def _frozen(array: NDArray[Any]) -> NDArray[Any]:
    array.setflags(write=False)
    return array
