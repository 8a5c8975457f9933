"""The search for the region of the knee: which rate the next full step runs, and how many are still to come. Pure.

The ends close in by the square root of their ratio. A segment of the ramp that passed says where to look and no more.
"""

import math

import msgspec

from core.judge.modes import RAMP_FACTOR, STEPS_EXPECTED

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
