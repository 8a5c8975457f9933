"""Where the knee is, fitted over all repeats so far: a pass probability that falls with the logarithm of the rate. Pure.

Repeats with one seed have the same gaps and lengths at every rate, so each seed is one observation, whatever the number of its
requests: the rate from which on it fails, known to lie between the highest rate that it passed and the lowest that it failed.
"""

import math
from collections.abc import Iterable
from functools import lru_cache

import msgspec
import numpy as np
from numpy.typing import NDArray

from core.records import Phase
from core.results import KneeEstimate, StepResult

Floats = NDArray[np.float64]

_POINTS = 300
_SPREADS = np.exp(np.linspace(math.log(0.03), math.log(0.5), 12))
"""Standard deviation, in log rate, of where single repeats of a minute begin to fail: 5 to 24 % at simulated knees."""
_SPREAD_WEIGHTS = np.exp(-0.5 * (np.log(_SPREADS / 0.10) / 0.6) ** 2)
_OFFSETS = np.array([-0.2, 0.3, 0.8, 1.3])
"""How far above the long-run knee the median repeat begins to fail, in such deviations: misses come in bursts, so a repeat at
the knee passes with 54 to 80 %."""
_OFFSET_WEIGHTS = np.array([0.5, 1.0, 1.0, 0.5])
_MINUTE_S = 60.0
_LONGER = 0.4
"""A repeat of twice the length scatters by 1/2**0.4: doubling M cut the deviation by 1.25 to 1.4 in simulation."""
RAMP_S = 10.0
"""A segment of the ramp lasts 6 to 10 s, so its fail says little; its pass says nothing."""
_LAPSE = 0.005
"""What any repeat may do against the curve, so that one outlier does not rule a rate out."""
COVERED, NOMINAL = 0.96, 0.90
"""The interval holds 96 % of the fitted weight and is called a 90 % one: what the curve leaves out makes it too narrow. On 20
random replicas that were not used for tuning it held the knee in 95 % of 400 standard searches and 97 % of 60 acceptance ones;
on a flat curve, a queue with one server, in 85 % of 20 standard and 8 of 10 acceptance searches."""


class Flip(msgspec.Struct, frozen=True, kw_only=True):
    """What one seed showed: the highest rate that it passed and the lowest that it failed (None: none), and its longest window."""

    passed_rps: float | None
    failed_rps: float | None
    measure_s: float


def flips(steps: Iterable[StepResult]) -> list[Flip]:
    """One for each seed of full steps; each phase draws its own (`core.schedule.PHASE_KEY`)."""
    seeds: dict[tuple[Phase, int], list[tuple[float, bool, float]]] = {}
    for step in steps:
        for repeat in step.repeats:
            if repeat.verdict in ("pass", "fail"):
                seen = step.rate_rps, repeat.verdict == "pass", repeat.measure_s or _MINUTE_S
                seeds.setdefault((step.phase, repeat.index), []).append(seen)
    return [_flip(seen) for seen in seeds.values()]


def _flip(seen: list[tuple[float, bool, float]]) -> Flip:
    passed = max((rate for rate, good, _ in seen if good), default=None)
    failed = min((rate for rate, good, _ in seen if not good), default=None)
    if passed is not None and failed is not None and passed > failed:  # not monotone: it flips somewhere between them
        passed, failed = failed, passed
    return Flip(passed_rps=passed, failed_rps=failed, measure_s=max(measure_s for *_, measure_s in seen))


class Fit:
    """Weights over knee, spread and offset, given the seeds so far; the knee is looked for between `low_rps` and `high_rps`."""

    def __init__(self, seen: Iterable[Flip], low_rps: float, high_rps: float) -> None:
        self._log_rps = np.linspace(math.log(low_rps), math.log(high_rps), _POINTS)
        log_weight = np.log(_SPREAD_WEIGHTS)[None, :, None] + np.log(_OFFSET_WEIGHTS)[None, None, :] + np.zeros((_POINTS, 1, 1))
        for flip in seen:
            below = 1.0 if flip.failed_rps is None else self._fails(flip.failed_rps, flip.measure_s)
            under = 0.0 if flip.passed_rps is None else self._fails(flip.passed_rps, flip.measure_s)
            log_weight += np.log(_LAPSE + np.maximum(below - under, 0.0))
        weight = np.exp(log_weight - log_weight.max())
        self._weight: Floats = weight / weight.sum()
        self._below: Floats = np.cumsum(self._weight.sum((1, 2)))

    def knee_rps(self, share: float) -> float:
        """The rate below which the knee lies with this weight."""
        return math.exp(float(np.interp(share, self._below, self._log_rps)))

    def above(self, rate_rps: float) -> float:
        """The weight for a knee above this rate."""
        return 1.0 - float(np.interp(math.log(rate_rps), self._log_rps, self._below))

    def all_pass(self, rate_rps: float, repeats: int, measure_s: float) -> float:
        """The chance that all of so many new repeats pass there."""
        return float((self._weight * (1 - self._fails(rate_rps, measure_s)) ** repeats).sum())

    def most_fail(self, rate_rps: float, measure_s: float) -> float:
        """The chance that two of three new repeats fail there."""
        fails = self._fails(rate_rps, measure_s)
        return float((self._weight * fails**2 * (3 - 2 * fails)).sum())

    def estimate(self) -> KneeEstimate:
        """The interval for the knee."""
        low, high = (1 - COVERED) / 2, (1 + COVERED) / 2
        return KneeEstimate(low_rps=self.knee_rps(low), high_rps=self.knee_rps(high), nominal=NOMINAL)

    def _fails(self, rate_rps: float, measure_s: float) -> Floats:
        """The chance that one repeat fails, at each knee, spread and offset (axes 0, 1, 2)."""
        spread = (_SPREADS * (_MINUTE_S / measure_s) ** _LONGER)[None, :, None]
        from_middle = (math.log(rate_rps) - self._log_rps[:, None, None]) / spread - _OFFSETS[None, None, :]
        return np.asarray(0.5 * (1 + np.tanh(0.851 * from_middle)))  # logistic, as wide as a normal curve


def fit_of(steps: Iterable[StepResult], ramp_failed_rps: float | None) -> Fit | None:
    """The fit of a run's full steps and of the rate that failed in its ramp; None before a step has passed and one has failed."""
    seen = flips(step for step in steps if step.phase in ("search", "confirm", "tighten", "list"))
    if ramp_failed_rps is not None:
        seen.append(Flip(passed_rps=None, failed_rps=ramp_failed_rps, measure_s=RAMP_S))
    passed = [flip.passed_rps for flip in seen if flip.passed_rps is not None]
    failed = [flip.failed_rps for flip in seen if flip.failed_rps is not None]
    if not passed or not failed:
        return None
    return _fit(tuple(seen), min(passed + failed) / 2, 1.3 * max(passed + failed))


@lru_cache(maxsize=32)
def _fit(seen: tuple[Flip, ...], low_rps: float, high_rps: float) -> Fit:
    """4 ms with a dozen seeds: every drawing of the bracket asks for it again."""
    return Fit(seen, low_rps, high_rps)
