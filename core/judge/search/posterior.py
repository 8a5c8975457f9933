"""Where the knee is, by all windows so far: how far each was from the limits, not only on which side. Pure.

A window's figure is X = ln(margin at the target) (`core.results.SloMargin`): at most 0 is a pass. It grows with the rate, and with
the work that the window happened to bring: b (ln(rate / knee) + GAMMA z - offset) + noise, z = ln(work / expected work). The gain
b, the noise and how far single windows are kinder than the long run are not known; they are summed out over a grid, beside the
knee. A window that was cut gives the least that X can have been, one that was ended as a sure pass says that X is at most 0.

The constants are from 27,720 windows of 41 simulated servers at .55 to 1.6 of their knees: how far single windows are off the
median of their rate, in log rate, against what might explain it.
"""

import math
from collections.abc import Iterable, Sequence
from functools import lru_cache

import msgspec
import numpy as np
from numpy.typing import NDArray

from core.results import KneeEstimate

Floats = NDArray[np.float64]

_POINTS = 180
_GAINS = np.exp(np.linspace(math.log(0.3), math.log(9.0), 9))
"""How fast X rises with the logarithm of the rate: .3 where TPOT decides, whose limit is far above an idle server's, to 8 where a
queue forms; half of the servers are between .6 and 3.5."""
_GAIN_WEIGHTS = np.exp(-0.5 * (np.log(_GAINS / 2.2) / 0.85) ** 2)
_SPREADS = np.exp(np.linspace(math.log(0.02), math.log(0.35), 8))
"""Standard deviation, in log rate, of what a window that allows MISSES_ALLOWED tells of the knee once its load is known: .03 to .2
measured, half of them .05 to .11."""
_SPREAD_WEIGHTS = np.exp(-0.5 * (np.log(_SPREADS / 0.075) / 0.55) ** 2)
_OFFSETS = np.array([0.0, 0.5, 1.0, 1.5])
"""How far, in such deviations, windows are kinder than the long run: misses come in bursts, so most windows have fewer. The rate
that half of the windows of 60 s pass was 0 to 12 % above the knee, 5 % on average."""
_OFFSET_WEIGHTS = np.array([0.2, 0.3, 0.3, 0.2])
GAMMA = 0.9
"""How much of the realised load moves X, against the rate itself (regression over simulated windows)."""
MISSES_ALLOWED = 20.0
_MORE = 0.4
"""What a window tells scatters as 1 / (misses that its target allows)**0.4 (regression: .38; neither its length nor its length in
requests' durations says more): a window of a few requests tells as little as these do, however long it is."""
_FEWEST = 1.0
_BENT = 1.0
"""Far below the knee X does not fall for ever: a server without load has its latencies, too. There b ln(rate / knee) stands for
ln(1 + X), which is X near the knee."""
_LOWEST = -0.93
_FARTHER = 0.4
"""The line is bent all the same: far from the knee a window says less about where it is."""
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

    def all_pass(self, rate_rps: float, windows: int, allowed: float) -> float:
        """The chance that all of so many new windows pass there, each of which allows so many misses."""
        raise NotImplementedError


class ByWindows(Posterior):
    """By the windows alone: weights over knee, gain, spread and offset (axes 0 to 3); the knee is looked for between `low_rps` and
    `high_rps`."""

    def __init__(self, windows: Iterable[Window], ramp_failed_rps: float | None, low_rps: float, high_rps: float) -> None:
        log_rps = np.linspace(math.log(low_rps), math.log(high_rps), _POINTS)
        gains, spreads, offsets = (np.log(weights / weights.sum()) for weights in (_GAIN_WEIGHTS, _SPREAD_WEIGHTS, _OFFSET_WEIGHTS))
        log_weight = gains[:, None, None] + spreads[None, :, None] + offsets[None, None, :] + np.zeros((_POINTS, 1, 1, 1))
        for window in windows:
            log_weight += window.weight * _log_likelihood(window, log_rps)
        if ramp_failed_rps is not None:
            above = (math.log(ramp_failed_rps) - log_rps[:, None]) / (_SPREADS * _RAMP_SPREAD)
            log_weight += np.log(_RAMP_LAPSE + (1 - 2 * _RAMP_LAPSE) * normal(above))[:, None, :, None]
        weight = np.exp(log_weight - log_weight.max())
        self._joint: Floats = (weight / weight.sum()).sum(1)  # whether windows pass is no question of the gain
        self.spread = float((self._joint.sum((0, 2)) * _SPREADS).sum())
        super().__init__(log_rps, self._joint.sum((1, 2)))

    def all_pass(self, rate_rps: float, windows: int, allowed: float) -> float:
        """The chance that all of so many new windows pass there, each of which allows so many misses."""
        mean, deviation = _expected(rate_rps, allowed, 0.0, self._log_rps)
        fails = normal(np.asarray(mean / (_UNKNOWN_LOAD * deviation)))[:, 0]
        return float((self._joint * (1 - fails) ** windows).sum())


def _log_likelihood(window: Window, log_rps: Floats) -> Floats:
    mean, deviation = _expected(window.rate_rps, window.allowed, window.z, log_rps)
    gains = _GAINS[None, :, None, None]
    if window.x is not None and abs(window.x) < _MOST_X:
        off = (_straight(window.x) / gains - mean) / deviation
        return np.asarray(-0.5 * (_FREEDOM + 1) * np.log1p(off * off / _FREEDOM) - np.log(deviation * gains))
    least = min(max(window.least, 0.0), _MOST_BOUND)
    fails = normal((mean - least / gains if least else mean) / deviation)
    return np.asarray(np.log(_LAPSE + (1 - 2 * _LAPSE) * (1 - fails if window.passed else fails)))


def _straight(x: float) -> float:
    return x if x >= 0 else _BENT * math.log1p(max(x / _BENT, _LOWEST))


def _expected(rate_rps: float, allowed: float, z: float, log_rps: Floats) -> tuple[Floats, Floats]:
    """Mean and deviation of what a window shows, over its gain."""
    spread = (_SPREADS * scatter(allowed))[None, None, :, None]
    from_knee = (math.log(rate_rps) - log_rps)[:, None, None, None]
    mean = from_knee + GAMMA * z - _OFFSETS[None, None, None, :] * spread
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
