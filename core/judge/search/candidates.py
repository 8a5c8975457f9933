"""Which rate is judged next: first where the knee is, then which end of the bracket is brought in, and at which rate. Pure.

While the region is looked for, the ends close in by the square root of their ratio; a segment of the ramp that passed says where
to look and no more. After that a fail is cheap and a pass costs all repeats: the clear fail is brought down first, while that is
likely to succeed, and the passing rate is then looked for where all of its repeats are likely to pass, below most of what the fit
leaves for the knee. With both ends there, the time left goes where it is expected to narrow the bracket most in a second.
"""

import math
from collections.abc import Callable
from typing import Literal

import msgspec
import numpy as np

from core.judge.search.bracket import PASS_WEIGHT, UPPER_WEIGHT
from core.judge.search.posterior import Posterior
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


STEP = 1.02
"""Rates closer than this to an end cannot be told from it by windows of a minute."""
FIRST_QUANTILE, FIRST_WITHIN = 0.35, 0.25
"""Before any whole window has been read within this (log rate) of the likely knee, one is read a little below it."""
FALL_BACK_LOW, FALL_BACK_HIGH = 0.62, 1.6
"""What the ends count as, against the likely knee, while there are none."""
PASS_TAKES, FAIL_TAKES = 0.9, 0.8
"""How much of its full length a candidate takes on average: some fail, and the hopeless are cut."""
PASS_FROM, PASS_TO, FAIL_FROM, FAIL_TO, FINE = -1.0, 0.02, -0.02, 0.80, 0.01
"""Where candidates are looked for, in log rate from the likely knee."""


class Known(msgspec.Struct, frozen=True, kw_only=True):
    """What the windows amount to so far. `passed_rps` and `upper_rps`: the ends (None: none). `read_rps`: the rates of whole
    windows; `passing`: those whose windows all passed, with how many these are."""

    passed_rps: float | None
    upper_rps: float | None
    read_rps: tuple[float, ...]
    passing: dict[float, int]


class Aim(msgspec.Struct, frozen=True, kw_only=True):
    """One possible step: so many repeats at a rate, which are expected to take `takes_s` and to narrow the bracket by `narrows`, in
    log rate a second."""

    phase: Literal["confirm", "tighten"]
    rate_rps: float
    repeats: int
    takes_s: float
    narrows: float


def aims(
    fit: Posterior,
    known: Known,
    stage: Stage,
    allowed: Callable[[float], float],
    repeat_s: Callable[[float], float],
    top_rps: float,
) -> list[Aim]:
    """Every step that may be worth its time, the most worthwhile first: a rate that can become an end is one that would not be
    disqualified at once if it were judged as hoped. `repeat_s`: what a repeat takes at a rate, `allowed`: how many misses the
    target allows it."""
    middle_rps = fit.knee_rps(0.5)
    near = any(abs(math.log(rate_rps / middle_rps)) < FIRST_WITHIN for rate_rps in known.read_rps)
    if not known.read_rps or (known.passed_rps is not None and not near):
        rate_rps = min(fit.knee_rps(FIRST_QUANTILE), top_rps)
        return [Aim(phase="tighten", rate_rps=rate_rps, repeats=1, takes_s=repeat_s(rate_rps), narrows=math.inf)]
    low_rps = known.passed_rps or FALL_BACK_LOW * middle_rps
    high_rps = known.upper_rps or FALL_BACK_HIGH * middle_rps
    found = []
    around = {min(middle_rps * math.exp(at), top_rps): stage.repeats for at in np.arange(PASS_FROM, PASS_TO, FINE)}
    lacking = {at: stage.repeats - have for at, have in known.passing.items() if have < stage.repeats}
    for rate_rps, repeats in (around | lacking).items():
        chance, below = fit.if_passed(rate_rps, repeats, allowed(rate_rps))
        if below > PASS_WEIGHT or rate_rps <= STEP * (known.passed_rps or 0.0):
            continue
        takes_s = PASS_TAKES * repeats * repeat_s(rate_rps)
        narrows = chance * math.log(rate_rps / low_rps) / takes_s
        found.append(Aim(phase="confirm", rate_rps=rate_rps, repeats=repeats, takes_s=takes_s, narrows=narrows))
    for rate_rps in (min(middle_rps * math.exp(at), top_rps) for at in np.arange(FAIL_FROM, FAIL_TO, FINE)):
        chance, above = fit.if_failed(rate_rps, allowed(rate_rps))
        if above > UPPER_WEIGHT or rate_rps * STEP >= (known.upper_rps or math.inf):
            continue
        takes_s = FAIL_TAKES * repeat_s(rate_rps)
        narrows = chance * math.log(high_rps / rate_rps) / takes_s
        found.append(Aim(phase="tighten", rate_rps=rate_rps, repeats=1, takes_s=takes_s, narrows=narrows))
    worthwhile = [aim for aim in found if aim.narrows > 0]
    if known.passed_rps is None:  # an answer needs a rate that holds before it needs anything else
        worthwhile = [aim for aim in worthwhile if aim.phase == "confirm"] or worthwhile
    return sorted(worthwhile, key=lambda aim: aim.narrows, reverse=True)
