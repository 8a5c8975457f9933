"""Where the knee is, with a twin of the server beside the windows: it explains what the windows' own requests did to it. Pure.

Each window has a shift: by which factor its plan must be sped up for the twin to show the window's figure. A twin that is the
server has none; one that is 5 % faster has 5 % everywhere. So the shifts are taken around the twin's own knee, growing or falling
with the distance from it, and what is left is noise. The twin counts only where it explains the windows: shifts that are small, and
scatter less than the windows do without it. It chooses rates and guards ends; no answer and no interval comes from it.
"""

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from core.judge.search.posterior import ByWindows, Floats, Posterior, Window, blurred, normal, scatter
from core.results import MOST_SHIFT, TwinReading, TwinShift

USED_BELOW, USED_SPREAD, USED_SHARE = 0.15, 0.05, 0.9
"""The twin counts while half of its shifts are smaller than this, and their spread is below this or this share of the windows'."""
_POINTS = 400
_SPREADS = np.exp(np.linspace(math.log(0.012), math.log(0.25), 12))
_SPREAD_WEIGHTS = np.exp(-0.5 * (np.log(_SPREADS / 0.04) / 0.7) ** 2)
"""Standard deviation of a shift: 2 to 11 % measured with constants that were a little wrong. It depends little on how many requests
a window has, because the twin is asked with these very requests."""
_SLOPES = np.linspace(-0.6, 0.6, 9)
_SLOPE_WEIGHTS = np.exp(-0.5 * (_SLOPES / 0.25) ** 2)
"""How the shift grows with the distance from the knee, where the twin's steps grow in another way than the server's."""
_FARTHER, _LEAST = 0.12, 0.008
_FREEDOM = 5.0
_LAPSE = 0.01
_AT_MOST = 0.98 * MOST_SHIFT
"""A shift at the end of its range may be any that is larger."""
_UNSEEN_SPREAD, _UNSEEN_LAPSE = 0.12, 0.05
"""A window that the twin has not looked at yet counts by its verdict alone."""


class ByTwin(Posterior):
    """By the shifts of a twin; the chance of a pass is that of the twin's own windows."""

    def __init__(self, windows: Sequence[Window], reading: TwinReading, low_rps: float, high_rps: float) -> None:
        log_rps = np.linspace(math.log(low_rps), math.log(high_rps), _POINTS)
        spreads, slopes = (np.log(weights / weights.sum()) for weights in (_SPREAD_WEIGHTS, _SLOPE_WEIGHTS))
        log_weight = spreads[None, :, None] + slopes[None, None, :] + np.zeros((_POINTS, 1, 1))
        seen = {(shift.step, shift.repeat): shift for shift in reading.shifts}
        for window in windows:
            shift = seen.get((window.step, window.repeat))
            log_weight += _by_verdict(window, log_rps) if shift is None else _by_shift(window, shift, reading.knee_rps, log_rps)
        weight = np.exp(log_weight - log_weight.max())
        self.spread = float((weight.sum((0, 2)) * _SPREADS).sum() / weight.sum())
        self._curve = np.array(reading.pass_curve)
        super().__init__(log_rps, blurred(weight.sum((1, 2)), reading.se_frac / float(log_rps[1] - log_rps[0])))

    def _once(self, chances: Floats, rate_rps: float) -> tuple[float, float]:
        """That a window passes or fails by the luck of its requests is no news to a twin that is asked with these requests."""
        return float((self._weight * chances).sum()), self.below(rate_rps)

    def _passes(self, rate_rps: float, windows: int, allowed: float) -> Floats:
        """By the twin's own windows: how many misses each allows is theirs."""
        passes = np.interp(math.log(rate_rps) - self._log_rps, self._curve[:, 0], self._curve[:, 1])
        return np.asarray(passes**windows)


def _by_shift(window: Window, shift: TwinShift, knee_rps: float, log_rps: Floats) -> Floats:
    from_knee = (math.log(window.rate_rps) - log_rps)[:, None, None]
    mean = (math.log(knee_rps) - log_rps)[:, None, None] + _SLOPES[None, None, :] * from_knee
    spread = _SPREADS[None, :, None]
    deviation = np.sqrt(spread**2 + (_FARTHER * from_knee) ** 2 + _LEAST**2)
    off = (shift.shift - mean) / deviation
    if not (shift.cut or shift.early) and abs(shift.shift) < _AT_MOST:
        return np.asarray(-0.5 * (_FREEDOM + 1) * np.log1p(off * off / _FREEDOM) - np.log(deviation))
    slower = shift.cut or (
        shift.shift > 0 and not shift.early
    )  # so far or farther: the server is slower than the twin at this shift
    return np.asarray(np.log(_LAPSE + (1 - 2 * _LAPSE) * normal(-off if slower else off)))


def _by_verdict(window: Window, log_rps: Floats) -> Floats:
    from_knee = (math.log(window.rate_rps) - log_rps)[:, None, None]
    fails = normal(from_knee / (_UNSEEN_SPREAD * scatter(window.allowed)))
    return np.asarray(np.log(_UNSEEN_LAPSE + (1 - 2 * _UNSEEN_LAPSE) * (1 - fails if window.passed else fails)))


def with_twin(plain: ByWindows, windows: Sequence[Window], reading: TwinReading | None) -> Posterior:
    """The posterior with the twin where it explains the windows, else that of the windows alone."""
    if reading is None or not reading.pass_curve or reading.median_shift is None or reading.median_shift >= USED_BELOW:
        return plain
    by_twin = _by_twin(tuple(windows), reading)
    return by_twin if by_twin.spread < max(USED_SHARE * plain.spread, USED_SPREAD) else plain


@lru_cache(maxsize=8)
def _by_twin(windows: tuple[Window, ...], reading: TwinReading) -> ByTwin:
    rates_rps = [window.rate_rps for window in windows]
    return ByTwin(windows, reading, min(rates_rps) / 2, 1.4 * max(rates_rps))
