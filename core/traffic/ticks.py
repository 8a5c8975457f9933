"""Timestamps that are cut to steps: requests that share one came at any time of the step, and fired together they are a burst that
never was."""

from dataclasses import replace

import numpy as np
from numpy.random import PCG64, Generator, SeedSequence
from numpy.typing import NDArray

from core.facts import fact
from core.traffic.trace import Trace, frozen

SNAP_S = 1.5e-3
"""Some stamps stand 1 ms below their tick (Mooncake's): they belong to it."""

_TICKS_S = (0.1, 1.0, 2.0, 3.0, 5.0, 10.0, 15.0, 20.0, 30.0, 60.0, 300.0, 600.0, 3600.0)
_SHORTEST_US = 2_000
"""Two of the milliseconds of a step would do: its beginning, and the one before."""
_BY_CHANCE = 0.01
_FEWEST = 4
"""Steps that must have a stamp: two stamps are always on some step."""


def tick(clock_s: float, time_s: NDArray[np.float64]) -> float | None:
    """The longest step on which all stamps stand, if that is hardly chance; None for none of 0.1 s or more.

    A stamp that stands on a step also stands on one k times as long with a probability of 1/k.
    """
    first_us = _microseconds(clock_s, time_s[:1000])
    likely = [tick_s for tick_s in _TICKS_S if _on(first_us, round(tick_s * 1e6))]
    stamps_us = _microseconds(clock_s, time_s) if likely else first_us
    found_us, found_s = _SHORTEST_US, None
    for tick_s in likely:
        step_us = round(tick_s * 1e6)
        if not _on(stamps_us, step_us):
            continue
        steps = np.unique((stamps_us + 1_000) // step_us).size
        if steps >= _FEWEST and (found_us / step_us) ** (steps - 1) < _BY_CHANCE:
            found_us, found_s = step_us, tick_s
    return found_s


def _microseconds(clock_s: float, time_s: NDArray[np.float64]) -> NDArray[np.int64]:
    return np.unique(np.round((clock_s + time_s) * 1e6).astype(np.int64))


def _on(stamps_us: NDArray[np.int64], step_us: int) -> bool:
    behind = stamps_us % step_us
    return bool(((behind == 0) | (behind == step_us - 1_000)).all())


def spread(trace: Trace, seed: SeedSequence) -> Trace:
    """The rows of each tick at random moments of it, in their order; a trace without a tick stays as it is."""
    if trace.tick_s is None:
        return trace
    tick_s = trace.tick_s
    begins = np.floor((trace.clock_s + trace.time_s) / tick_s + SNAP_S / tick_s) * tick_s - trace.clock_s
    drawn = np.sort(begins + tick_s * Generator(PCG64(seed)).random(len(trace)))
    span_s = max(trace.span_s, float(begins[-1]) + tick_s) if len(trace) else trace.span_s
    said = fact("trace_spread", tick_s=tick_s)
    return replace(trace, time_s=frozen(np.maximum(drawn, 0.0)), span_s=span_s, tick_s=None, notes=(*trace.notes, said))
