"""Round numbers for axes: where an axis ends, so that it does not move with every point, and what is written along it."""

import math
from collections.abc import Callable

from core.units import clock
from tui.draw.plots import Labels

_NICE = (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.5, 10.0)
_FEW = (1.0, 1.5, 2.0, 3.0, 5.0, 10.0)
_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
_TIME_STEPS_S = (1, 2, 5, 10, 15, 20, 30, 60, 120, 180, 300, 600, 900, 1200, 1800, 3600, 7200, 14400, 21600, 43200, 86400)
_MOST_TICKS = 40
"""More than a wide terminal has room for."""


def nice_ceiling(value: float) -> float:
    """The next round number, so that an axis does not move with every point."""
    return _ceiling(value, _NICE)


def steady_ceiling(value: float) -> float:
    """The next of few round numbers, for an axis of which nothing is known beforehand: it moves five times where its values grow
    tenfold."""
    return _ceiling(value, _FEW)


def _ceiling(value: float, steps: tuple[float, ...]) -> float:
    if value <= 0 or not math.isfinite(value):
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in steps if step * power >= value * (1 - 1e-9))


def value_ticks(top: float, text: Callable[[float], str]) -> tuple[Labels, ...]:
    """Sets of labels from 0 to `top`, the finest first."""
    if top <= 0 or not math.isfinite(top):
        return ()
    power = 10.0 ** math.floor(math.log10(top))
    steps = [step * scale for scale in (power / 10, power) for step in _STEPS[:-1] if step * scale <= top * (1 + 1e-9)]
    sets = []
    for step in steps:
        values = [round(at * step, 12) for at in range(math.floor(top / step + 1e-9) + 1)]
        sets.append(tuple((value, text(value) if value else "0") for value in values))
    return tuple(sets)


def time_ticks(x_range: tuple[float, float]) -> tuple[Labels, ...]:
    """Sets of labels at round times, the finest first."""
    begin, end = x_range
    sets = []
    for step in _TIME_STEPS_S:
        if (end - begin) / step <= _MOST_TICKS:
            times = range(math.ceil(begin / step) * step, math.floor(end) + 1, step)
            sets.append(tuple((float(at), clock(at)) for at in times))
    return tuple(sets)
