"""Which rate is judged next: first where the knee is, then which end of the bracket is brought in, and at which rate. Pure.

While the region is looked for, the ends close in by the square root of their ratio; a segment of the ramp that passed says where
to look and no more. After that a fail is cheap and a pass costs all repeats: the clear fail is brought down first, while that is
likely to succeed, and the passing rate is then looked for where all of its repeats are likely to pass, below most of what the fit
leaves for the knee. With both ends there, the time left goes where it is expected to narrow the bracket most in a second.
"""

import math
from typing import Literal

import msgspec

from core.judge.search.fit import Fit
from core.modes import RAMP_FACTOR, STEPS_EXPECTED, Stage

_DUST = 1e-9
"""Relative slack for a ratio of rates that were multiplied and rooted."""


class Ends(msgspec.Struct, frozen=True, kw_only=True):
    """What is known: the highest rate that passed a full step, the lowest that failed, the ramp's highest below its fail (each
    None: none), the highest rate of the ramp, and the ratio at which the ends are near enough."""

    passed_rps: float | None
    failed_rps: float | None
    ramp_rps: float | None
    top_rps: float
    grid: float

    def near(self, low_rps: float, high_rps: float) -> bool:
        """Whether two rates are within the grid."""
        return high_rps / low_rps <= self.grid * (1 + _DUST)

    def found(self) -> bool:
        """Whether nothing is left to narrow: the ends are near, or nothing failed up to the highest rate."""
        if self.passed_rps is None:
            return False
        return self.failed_rps is None or self.near(self.passed_rps, self.failed_rps)

    def candidate(self) -> float:
        """The rate of the next full step."""
        passed_rps, failed_rps, ramp_rps = self.passed_rps, self.failed_rps, self.ramp_rps
        if failed_rps is None:
            return self.top_rps
        if passed_rps is not None:
            return math.sqrt(passed_rps * failed_rps)
        if ramp_rps is not None and ramp_rps < failed_rps:
            return ramp_rps if self.near(ramp_rps, failed_rps) else math.sqrt(ramp_rps * failed_rps)
        return failed_rps / RAMP_FACTOR

    def steps_expected(self) -> float:
        """How many full steps are still to come, the next or running one included."""
        passed_rps, failed_rps, ramp_rps = self.passed_rps, self.failed_rps, self.ramp_rps
        if failed_rps is None:
            return 1.0 if passed_rps is None else 0.0
        if passed_rps is not None:
            return self._halvings(passed_rps, failed_rps)
        if ramp_rps is not None and ramp_rps < failed_rps:
            return 1 + self._halvings(ramp_rps, failed_rps)
        return STEPS_EXPECTED

    def _halvings(self, low_rps: float, high_rps: float) -> float:
        """How often the ratio must be rooted until the ends are within the grid."""
        if self.near(low_rps, high_rps):
            return 0.0
        return float(math.ceil(math.log2(math.log(high_rps / low_rps) / math.log(self.grid)) - _DUST))


REPEATS, REPEATS_EXPECTED = 3, 2.0
"""A rate clearly fails when two of three repeats fail there; the third is run only if the first two disagree."""
START_REPEATS = 2.0
"""Such a step is begun if so many full repeats fit the time left: two are needed at least."""
RESERVED = 1.5
"""Before a rate has passed, so many times the repeats of a candidate are kept back for it: one of two candidates fails."""
STEP = 1.03
"""Rates closer than this cannot be told apart by three repeats of a minute, whose attainment scatters by 2 to 13 points."""
PASS_QUANTILE, PASS_CHANCE = 0.25, 0.5
"""A candidate for the passing rate: no more than a quarter of the weight for the knee lies below it, and half of them pass."""
FAIL_QUANTILE, FAIL_CHANCE = 0.93, 0.8
"""A candidate for the clear fail: at least 93 % of the weight lie below it, and four of five fail clearly."""
FAIL_SHARE, PASS_SHARE = 0.6, 0.4
"""How much of its full length a repeat takes that fails, and of all its repeats a candidate for the passing rate that fails."""
NEAR = 1.35
"""A clear fail within this ratio of the candidate for the passing rate is near enough to look for that first."""
UNPROVEN = 1.2
"""What one failing step is worth as an upper end: as much as a clear fail at this many times its rate."""
_FINE = 1.01


class Known(msgspec.Struct, frozen=True, kw_only=True):
    """The ends so far (each None: none). `confirmed_fail_rps`: lowest fail of the confirmation; `floor_rps`: highest rate where
    most repeats of a tightening passed; `upper_rps`: the upper end; `unsure_rps`: the highest clear fail below it; `ceiling_rps`:
    the lowest rate above the floor that failed before, for sure or not."""

    passed_rps: float | None
    failed_rps: float | None
    confirmed_fail_rps: float | None
    floor_rps: float | None
    upper_rps: float | None
    unsure_rps: float | None
    ceiling_rps: float | None


class Aim(msgspec.Struct, frozen=True, kw_only=True):
    """One possible step: by how much it is expected to narrow the bracket (log rate per repeat), the repeats that have to fit."""

    phase: Literal["confirm", "tighten"]
    rate_rps: float
    narrows: float
    repeats: float


def passing(fit: Fit, known: Known, stage: Stage, measure_s: float) -> Aim | None:
    """The next candidate for the passing rate; None where none is left between the ends."""
    rate_rps = fit.knee_rps(PASS_QUANTILE)
    while fit.all_pass(rate_rps, stage.repeats, measure_s) < PASS_CHANCE:
        rate_rps /= _FINE
    if known.failed_rps is not None:
        rate_rps = min(rate_rps, known.failed_rps / STEP)
    if known.confirmed_fail_rps is not None:
        rate_rps = min(rate_rps, known.confirmed_fail_rps / stage.grid)
    if known.passed_rps is None:
        return Aim(phase="confirm", rate_rps=rate_rps, narrows=math.inf, repeats=stage.repeats)
    if rate_rps <= STEP * known.passed_rps:
        return None
    chance = fit.all_pass(rate_rps, stage.repeats, measure_s)
    takes = stage.repeats * (chance + (1 - chance) * PASS_SHARE)
    narrows = chance * math.log(rate_rps / known.passed_rps) / takes
    return Aim(phase="confirm", rate_rps=rate_rps, narrows=narrows, repeats=stage.repeats)


def failing(fit: Fit, known: Known, measure_s: float, top_rps: float) -> Aim | None:
    """The next candidate for the upper end; None where none is left that is likely enough to fail clearly."""
    tried_rps = STEP * max(rate or 0.0 for rate in (known.floor_rps, known.passed_rps, known.unsure_rps))
    if tried_rps > top_rps:
        return None
    low_rps = max(fit.knee_rps(FAIL_QUANTILE), tried_rps)
    upper_rps, highest_rps = _upper(known, low_rps)
    best: Aim | None = None
    rate_rps = min(low_rps, top_rps)
    while rate_rps <= min(highest_rps, top_rps):
        chance = fit.most_fail(rate_rps, measure_s)
        takes = chance * 2 * FAIL_SHARE + (1 - chance) * 2.3
        narrows = chance * math.log(upper_rps / rate_rps) / takes
        if chance >= FAIL_CHANCE and (best is None or narrows > best.narrows):
            best = Aim(phase="tighten", rate_rps=rate_rps, narrows=narrows, repeats=START_REPEATS)
        rate_rps *= _FINE
    return best


def _upper(known: Known, low_rps: float) -> tuple[float, float]:
    """What the upper end counts as now, and the highest candidate for a lower one."""
    if known.upper_rps is not None:
        return known.upper_rps, known.upper_rps / STEP
    highest_rps = max(low_rps, known.ceiling_rps or 0.0)
    return UNPROVEN * highest_rps, highest_rps
