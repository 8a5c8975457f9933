"""Where the knee is, by all windows so far: how far each was from the limits, not only on which side. Pure.

A window's figure is X = ln(margin at the target) (`core.results.SloMargin`): at most 0 is a pass. It grows with the rate, and with
the work that the window happened to bring: X = b (ln(rate / knee) + GAMMA z) + noise, z = ln(work / expected work). The gain b, the
noise and how far single windows are kinder than the long run are not known; they are summed out over a grid, beside the knee.
A window that was cut gives the least that X can have been, one that was ended as a sure pass says that X is at most 0.
"""

import math
from collections.abc import Iterable, Sequence
from functools import lru_cache

import msgspec
import numpy as np
from numpy.typing import NDArray

from core.results import KneeEstimate

Floats = NDArray[np.float64]

_POINTS = 300
_GAINS = np.exp(np.linspace(math.log(0.5), math.log(9.0), 9))
"""How fast X rises with the logarithm of the rate: 1 where TPOT decides far below the knee, above 5 where a queue forms."""
_GAIN_WEIGHTS = np.exp(-0.5 * (np.log(_GAINS / 2.2) / 0.8) ** 2)
_SPREADS = np.exp(np.linspace(math.log(0.02), math.log(0.3), 9))
"""Standard deviation, in log rate, of what a window of WINDOW_S tells of the knee once its load is known: 3 to 14 % measured."""
_SPREAD_WEIGHTS = np.exp(-0.5 * (np.log(_SPREADS / 0.075) / 0.55) ** 2)
_OFFSETS = np.array([0.0, 0.4, 0.9])
"""How far, in such deviations, windows are kinder than the long run: misses come in bursts, so most windows have fewer."""
_OFFSET_WEIGHTS = np.array([0.3, 0.45, 0.25])
GAMMA = 0.9
"""How much of the realised load moves X, against the rate itself (method: regression over simulated windows)."""
WINDOW_S = 90.0
_LONGER = 0.4
"""A window of twice the length scatters by 1/2**0.4: doubling M cut the deviation by 1.25 to 1.4 in simulation."""
_FARTHER = 0.3
"""The line is bent: far from the knee a window says less about where it is."""
_FREEDOM = 5.0
_LAPSE = 0.01
"""What any window may do against the curve, so that one outlier does not rule a rate out."""
_MOST_X, _MOST_BOUND = 2.5, 1.0
"""Beyond these a figure says no more than on which side it lies: drowning servers are off any line."""
_RAMP_SPREAD, _RAMP_LAPSE = 2.4, 0.03
"""A segment of the ramp lasts 6 to 10 s, so its fail says little; its pass says nothing."""
COVERED, NOMINAL = 0.96, 0.90
"""The interval holds 96 % of the weight and is called a 90 % one: what the line leaves out makes it too narrow."""


class Window(msgspec.Struct, frozen=True, kw_only=True):
    """One judged window. `x`: its figure, None where it was cut, or where most requests of the quantile never ended; `least`: what X
    is at least, then. `z`: ln(work / expected work). `weight` below 1 where windows share a draw."""

    rate_rps: float
    measure_s: float
    passed: bool
    x: float | None
    least: float = 0.0
    z: float = 0.0
    weight: float = 1.0


def _normal(values: Floats) -> Floats:
    """The distribution function of the normal one (Abramowitz and Stegun 26.2.17, within 1e-7), without scipy."""
    t = 1 / (1 + 0.2316419 * np.abs(values))
    poly = t * (0.319381530 + t * (-0.356563782 + t * (1.781477937 + t * (-1.821255978 + t * 1.330274429))))
    tail = np.exp(-0.5 * values**2) / math.sqrt(2 * math.pi) * poly
    return np.asarray(np.where(values >= 0, 1 - tail, tail))


class Posterior:
    """Weights over knee, gain, spread and offset (axes 0 to 3); the knee is looked for between `low_rps` and `high_rps`."""

    def __init__(self, windows: Iterable[Window], ramp_failed_rps: float | None, low_rps: float, high_rps: float) -> None:
        self._log_rps = np.linspace(math.log(low_rps), math.log(high_rps), _POINTS)
        gains, spreads, offsets = (np.log(weights / weights.sum()) for weights in (_GAIN_WEIGHTS, _SPREAD_WEIGHTS, _OFFSET_WEIGHTS))
        log_weight = gains[:, None, None] + spreads[None, :, None] + offsets[None, None, :] + np.zeros((_POINTS, 1, 1, 1))
        for window in windows:
            log_weight += window.weight * self._log_likelihood(window)
        if ramp_failed_rps is not None:
            above = (math.log(ramp_failed_rps) - self._log_rps[:, None]) / (_SPREADS * _RAMP_SPREAD)
            log_weight += np.log(_RAMP_LAPSE + (1 - 2 * _RAMP_LAPSE) * _normal(above))[:, None, :, None]
        weight = np.exp(log_weight - log_weight.max())
        self._weight: Floats = (weight / weight.sum()).sum(1)  # what windows do is no question of the gain
        self._below: Floats = np.cumsum(self._weight.sum((1, 2)))

    def knee_rps(self, share: float) -> float:
        """The rate below which the knee lies with this weight."""
        return math.exp(float(np.interp(share, self._below, self._log_rps)))

    def below(self, rate_rps: float) -> float:
        """The weight for a knee below this rate."""
        return float(np.interp(math.log(rate_rps), self._log_rps, self._below))

    def above(self, rate_rps: float) -> float:
        """The weight for a knee above this rate."""
        return 1.0 - self.below(rate_rps)

    def all_pass(self, rate_rps: float, repeats: int, measure_s: float) -> float:
        """The chance that all of so many new windows pass there."""
        return float((self._weight * (1 - self._fails(rate_rps, measure_s)) ** repeats).sum())

    def most_fail(self, rate_rps: float, measure_s: float) -> float:
        """The chance that two of three new windows fail there."""
        fails = self._fails(rate_rps, measure_s)
        return float((self._weight * fails**2 * (3 - 2 * fails)).sum())

    def estimate(self) -> KneeEstimate:
        """The interval for the knee."""
        low, high = (1 - COVERED) / 2, (1 + COVERED) / 2
        return KneeEstimate(low_rps=self.knee_rps(low), high_rps=self.knee_rps(high), nominal=NOMINAL)

    def _log_likelihood(self, window: Window) -> Floats:
        mean, deviation, _ = self._expected(window.rate_rps, window.measure_s, window.z)
        if window.x is not None and abs(window.x) < _MOST_X:
            off = (window.x / _GAINS[None, :, None, None] - mean) / deviation
            density = -0.5 * (_FREEDOM + 1) * np.log1p(off * off / _FREEDOM) - np.log(deviation * _GAINS[None, :, None, None])
            return np.asarray(density)
        least = min(max(window.least, 0.0), _MOST_BOUND)
        fails = _normal((mean - least / _GAINS[None, :, None, None]) / deviation)
        return np.asarray(np.log(_LAPSE + (1 - 2 * _LAPSE) * (1 - fails if window.passed else fails)))

    def _expected(self, rate_rps: float, measure_s: float, z: float) -> tuple[Floats, Floats, Floats]:
        """Mean and deviation of X / b, and the deviation of a window that is not known yet, whose load is part of its noise."""
        scale = (WINDOW_S / measure_s) ** _LONGER
        spread = (_SPREADS * scale)[None, None, :, None]
        from_knee = (math.log(rate_rps) - self._log_rps)[:, None, None, None]
        mean = from_knee + GAMMA * z - _OFFSETS[None, None, None, :] * spread
        deviation = np.sqrt(spread**2 + (_FARTHER * from_knee) ** 2)
        return np.asarray(mean), np.asarray(deviation), np.asarray(1.25 * deviation)

    def _fails(self, rate_rps: float, measure_s: float) -> Floats:
        """The chance that one new window fails, at each knee, spread and offset (axes 0, 1, 2)."""
        mean, _, deviation = self._expected(rate_rps, measure_s, 0.0)
        return _normal(np.asarray(mean / deviation))[:, 0]


def posterior_of(windows: Sequence[Window], ramp_failed_rps: float | None) -> Posterior | None:
    """The posterior of a run's windows and of the rate that failed in its ramp; None before one has passed and something failed."""
    failed = [window.rate_rps for window in windows if not window.passed]
    failed += [] if ramp_failed_rps is None else [ramp_failed_rps]
    if not failed or not any(window.passed for window in windows):
        return None
    rates_rps = [window.rate_rps for window in windows]
    return _posterior(tuple(windows), ramp_failed_rps, min(rates_rps) / 2, 1.4 * max(*rates_rps, *failed))


@lru_cache(maxsize=32)
def _posterior(windows: tuple[Window, ...], ramp_failed_rps: float | None, low_rps: float, high_rps: float) -> Posterior:
    """20 ms with a dozen windows: every drawing of the bracket asks for it again."""
    return Posterior(windows, ramp_failed_rps, low_rps, high_rps)
