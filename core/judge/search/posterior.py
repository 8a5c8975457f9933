"""Where the knee is, by all windows so far: how far each was from the limits, not only on which side. Pure.

A window's figure is X = ln(margin at the target) (`core.results.SloMargin`): at most 0 is a pass. It grows with the rate, and with
the work that the window happened to bring: where it stands is e = ln(rate / knee) + GAMMA z - offset + noise, z = ln(work /
expected work). Above the knee X is b e. Below it X does not fall for ever, because an idle server has its latencies, too: it nears
a floor, as far below the limits as the server leaves room, X = -floor (1 - exp(b e / floor)). With a deep floor that is nearly
a line; with a high one, where a queue or a full cache makes the knee, X stands still until there and says only that the knee is not
near. The gain b, the floor, the noise and how far single windows are kinder than the long run are not known; they are summed out
over a grid, beside the knee. A window that was cut gives the least that X can have been, one that was ended as a sure pass says
that X is at most 0.

What is likely beforehand, and the shape, are by the windows of 258 searches of the 43 replicas of the built-in ones and of
tests/data/replicas/tuned.json and held_out.json: those with which the true knees got most weight.
"""

import math
from collections.abc import Sequence
from functools import lru_cache

import msgspec
import numpy as np
from numpy.typing import NDArray

from core.results import KneeEstimate

Floats = NDArray[np.float64]

_POINTS = 180
_GAINS = np.exp(np.linspace(math.log(0.3), math.log(14.0), 7))
"""How fast X rises with the logarithm of the rate: .3 where TPOT decides, whose limit is far above an idle server's, to 14 where a
queue forms."""
_GAIN_WEIGHTS = np.exp(-0.5 * np.log(_GAINS / 3.0) ** 2)
_FLOORS = np.array([1.1, 1.6, 5.0])
"""How far below the limits X stands on a server without load, over the lowest X of any window (LEAST_FLOOR: at least)."""
_LEAST_FLOOR = 0.05
_SPREADS = np.exp(np.linspace(math.log(0.02), math.log(0.35), 6))
"""Standard deviation, in log rate, of what a window that allows MISSES_ALLOWED tells of the knee once its load is known: .03 to .2
measured, half of them .05 to .11."""
_SPREAD_WEIGHTS = np.exp(-0.5 * (np.log(_SPREADS / 0.075) / 0.55) ** 2)
_OFFSETS = np.array([0.0, 0.4, 1.0])
"""How far, in such deviations, windows are kinder than the long run: misses come in bursts, so most windows have fewer."""
_OFFSET_WEIGHTS = np.array([0.6, 0.25, 0.15])
"""With more for large ones the knee lay in the upper tenth of its posterior in a quarter of those searches."""
GAMMA = 0.9
"""How much of the realised load moves X, against the rate itself (regression over simulated windows)."""
MISSES_ALLOWED = 20.0
_MORE = 0.4
"""What a window tells scatters as 1 / (misses that its target allows)**0.4 (regression: .38; neither its length nor its length in
requests' durations says more): a window of a few requests tells as little as these do, however long it is."""
_FEWEST = 1.0
_NEAREST = 0.05
"""X is told from the floor down to this share of it."""
_UNSHARP = 0.015
"""Deviation of X that no load explains: near the floor nothing else moves it."""
_FARTHER = 0.4
"""Far from the knee a window says less about where it is: no server follows the curve."""
_FREEDOM = 5.0
_LAPSE = 0.01
"""What any window may do against the curve, so that one outlier does not rule a rate out."""
_MOST_X, _MOST_BOUND = 2.5, 1.0
"""Beyond these a figure says no more than on which side it lies: drowning servers are off any line."""
OFF = 0.02
"""What no number of windows tells: their warm-up is a little too strict, and the curve is not a line. Without it one upper end in
twenty was a few percent below the knee."""
_RAMP_SPREAD, _RAMP_LAPSE = 2.4, 0.03
"""A segment of the ramp lasts 6 to 10 s, so its fail says little; its pass says nothing."""
_TINY = 1e-300
_UNKNOWN_LOAD = 1.25
"""The load of a window that is still to come is part of its noise."""
COVERED, NOMINAL = 0.96, 0.90
"""The interval holds 96 % of the weight and is called a 90 % one: what the line leaves out makes it too narrow."""


class Window(msgspec.Struct, frozen=True, kw_only=True):
    """One judged window. `allowed`: how many misses its target allows. `x`: its figure, None where it was cut, or where most
    requests of the quantile never ended; `least`: what X is at least, then. `z`: ln(work / expected work). `weight` below 1 where
    windows share a draw. `step` and `repeat`: which of the run's it is."""

    rate_rps: float
    passed: bool
    allowed: float
    x: float | None
    least: float = 0.0
    z: float = 0.0
    weight: float = 1.0
    step: int = 0
    repeat: int = 0


def normal(values: Floats) -> Floats:
    """The distribution function of the normal one (Abramowitz and Stegun 26.2.17, within 1e-7), without scipy."""
    t = 1 / (1 + 0.2316419 * np.abs(values))
    poly = t * (0.319381530 + t * (-0.356563782 + t * (1.781477937 + t * (-1.821255978 + t * 1.330274429))))
    tail = np.exp(-0.5 * values**2) / math.sqrt(2 * math.pi) * poly
    return np.asarray(np.where(values >= 0, 1 - tail, tail))


def blurred(weight: Floats, points: float) -> Floats:
    """Weights on a grid with a normal error of so many of its points."""
    if points <= 0:
        return weight
    reach = math.ceil(4 * points)
    around = np.exp(-0.5 * (np.arange(-reach, reach + 1) / points) ** 2)
    spread = np.convolve(weight, around / around.sum())[reach : reach + weight.size]
    return np.asarray(spread / spread.sum())


def scatter(allowed: float) -> float:
    """By how much more, or less, a window scatters that allows so many misses."""
    return float((MISSES_ALLOWED / max(allowed, _FEWEST)) ** _MORE)


class Posterior:
    """What is known of the knee: weights over rates. Both kinds, by windows alone and with a twin, answer the same questions."""

    def __init__(self, log_rps: Floats, weight: Floats) -> None:
        self._log_rps, self._weight = log_rps, blurred(weight / weight.sum(), OFF / float(log_rps[1] - log_rps[0]))
        self._below: Floats = np.cumsum(self._weight)

    def knee_rps(self, share: float) -> float:
        """The rate below which the knee lies with this weight."""
        return math.exp(float(np.interp(share, self._below, self._log_rps)))

    def below(self, rate_rps: float) -> float:
        """The weight for a knee below this rate."""
        return float(np.interp(math.log(rate_rps), self._log_rps, self._below))

    def above(self, rate_rps: float) -> float:
        """The weight for a knee above this rate."""
        return 1.0 - self.below(rate_rps)

    def estimate(self) -> KneeEstimate:
        """The interval for the knee."""
        low, high = (1 - COVERED) / 2, (1 + COVERED) / 2
        return KneeEstimate(low_rps=self.knee_rps(low), high_rps=self.knee_rps(high), nominal=NOMINAL)

    def if_passed(self, rate_rps: float, windows: int, allowed: float) -> tuple[float, float]:
        """The chance that all of so many new windows pass there, each of which allows so many misses, and the weight that is to be
        expected for a knee below that rate once they have."""
        return self._once(self._passes(rate_rps, windows, allowed), rate_rps)

    def if_failed(self, rate_rps: float, allowed: float) -> tuple[float, float]:
        """The chance that a new window fails there, and the weight that is to be expected for a knee above it once it has."""
        chance, below = self._once(1 - self._passes(rate_rps, 1, allowed), rate_rps)
        return chance, 1.0 - below

    def _once(self, chances: Floats, rate_rps: float) -> tuple[float, float]:
        """The chance of what has these chances for each place of the knee, and the weight below the rate once it has happened."""
        weight = self._weight * chances
        total = float(weight.sum())
        return total, float(np.interp(math.log(rate_rps), self._log_rps, np.cumsum(weight))) / max(total, _TINY)

    def _passes(self, rate_rps: float, windows: int, allowed: float) -> Floats:
        """For each place of the knee, the chance that all of so many new windows pass."""
        raise NotImplementedError


class ByWindows(Posterior):
    """By the windows alone: weights over knee, gain, spread, offset and floor (axes 0 to 4); the knee is looked for between
    `low_rps` and `high_rps`."""

    def __init__(self, windows: Sequence[Window], ramp_failed_rps: float | None, low_rps: float, high_rps: float) -> None:
        floors = _FLOORS * max(_LEAST_FLOOR, *(-window.x for window in windows if window.x is not None), 0.0)
        log_rps = np.linspace(math.log(low_rps), math.log(high_rps), _POINTS)
        log_weight = _PRIOR + np.zeros((_POINTS, 1, 1, 1, 1))
        for window in windows:
            log_weight += window.weight * _log_likelihood(window, floors, log_rps)
        if ramp_failed_rps is not None:
            above = (math.log(ramp_failed_rps) - log_rps[:, None]) / (_SPREADS * _RAMP_SPREAD)
            log_weight += np.log(_RAMP_LAPSE + (1 - 2 * _RAMP_LAPSE) * normal(above))[:, None, :, None, None]
        weight = np.exp(log_weight - log_weight.max())
        self._joint: Floats = np.maximum(
            (weight / weight.sum()).sum((1, 4)), _TINY
        )  # whether windows pass is no question of gain and floor
        self.spread = float((self._joint.sum((0, 2)) * _SPREADS).sum())
        super().__init__(log_rps, self._joint.sum((1, 2)))

    def _passes(self, rate_rps: float, windows: int, allowed: float) -> Floats:
        mean, deviation = _expected(rate_rps, allowed, 0.0, self._log_rps)
        fails = normal(np.asarray(mean / (_UNKNOWN_LOAD * deviation)))[:, 0, :, :, 0]
        return np.asarray((self._joint * (1 - fails) ** windows).sum((1, 2)) / self._joint.sum((1, 2)))


def _prior() -> Floats:
    weights = (_GAIN_WEIGHTS, _SPREAD_WEIGHTS, _OFFSET_WEIGHTS, np.ones(_FLOORS.size))
    gains, spreads, offsets, floors = (np.log(each / each.sum()) for each in weights)
    return np.asarray(gains[:, None, None, None] + spreads[:, None, None] + offsets[:, None] + floors)[None]


_PRIOR = _prior()
_GAIN = _GAINS[None, :, None, None, None]


def _log_likelihood(window: Window, floors: Floats, log_rps: Floats) -> Floats:
    mean, deviation = _expected(window.rate_rps, window.allowed, window.z, log_rps)
    if window.x is not None and abs(window.x) < _MOST_X:
        stands, slope, beyond = _stands(window.x, floors)
        variance = deviation**2 + (_UNSHARP / slope) ** 2
        return np.asarray(_student((stands - mean) ** 2 / variance) - 0.5 * np.log(variance) - np.log(slope) + _student(beyond**2))
    least = min(max(window.least, 0.0), _MOST_BOUND)
    fails = normal((mean - least / _GAIN if least else mean) / deviation)
    return np.asarray(np.log(_LAPSE + (1 - 2 * _LAPSE) * (1 - fails if window.passed else fails)))


def _stands(x: float, floors: Floats) -> tuple[Floats, Floats, Floats]:
    """Where the curve has this X, in log rate from the knee, how steep it is there, and by how many of its own deviations X lies
    below what the floor allows."""
    if x >= 0:
        return x / _GAIN, _GAIN, np.zeros(1)
    left = np.maximum(1 + x / floors, _NEAREST)
    beyond = np.maximum(0.0, -floors * (1 - _NEAREST) - x) / _UNSHARP
    return floors / _GAIN * np.log(left), _GAIN * left, beyond


def _student(square: Floats) -> Floats:
    return np.asarray(-0.5 * (_FREEDOM + 1) * np.log1p(square / _FREEDOM))


def _expected(rate_rps: float, allowed: float, z: float, log_rps: Floats) -> tuple[Floats, Floats]:
    """Mean and deviation of where a window stands, in log rate from the knee."""
    spread = (_SPREADS * scatter(allowed))[None, None, :, None, None]
    from_knee = (math.log(rate_rps) - log_rps)[:, None, None, None, None]
    mean = from_knee + GAMMA * z - _OFFSETS[None, None, None, :, None] * spread
    return np.asarray(mean), np.asarray(np.sqrt(spread**2 + (_FARTHER * from_knee) ** 2))


def posterior_of(windows: Sequence[Window], ramp_failed_rps: float | None) -> ByWindows | None:
    """The posterior of a run's windows and of the rate that failed in its ramp; None before one has passed and something failed."""
    failed = [window.rate_rps for window in windows if not window.passed]
    failed += [] if ramp_failed_rps is None else [ramp_failed_rps]
    if not failed or not any(window.passed for window in windows):
        return None
    rates_rps = [window.rate_rps for window in windows]
    return _posterior(tuple(windows), ramp_failed_rps, min(rates_rps) / 2, 1.4 * max(*rates_rps, *failed))


@lru_cache(maxsize=32)
def _posterior(windows: tuple[Window, ...], ramp_failed_rps: float | None, low_rps: float, high_rps: float) -> ByWindows:
    """20 ms with a dozen windows: every drawing of the bracket asks for it again."""
    return ByWindows(windows, ramp_failed_rps, low_rps, high_rps)
