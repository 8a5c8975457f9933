"""The twin: an engine with the constants of a measured server, asked what it would do with a plan. Pure."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from core.config import Slo, Workload
from core.engine import Limits, StepModel
from core.schedule import Plan

Window = tuple[float, float]
"""From when to when requests count, in seconds after the plan's beginning."""

PassCurve = tuple[tuple[float, float], ...]
"""(ln(rate / knee), share of windows that pass there), rising rates, falling shares."""


@dataclass(frozen=True, slots=True)
class LongKnee:
    """The rate that the twin carries in the long run, and its standard error by the draws, as a share of it."""

    rate_rps: float
    se_frac: float


@dataclass(frozen=True, slots=True)
class Twin:
    """An engine that starts empty with every plan. `speed` 1.1 lets the requests of a plan come in 1/1.1 of the time."""

    steps: StepModel
    limits: Limits

    def margins(self, plan: Plan, slo: Slo, speed: float = 1.0) -> NDArray[np.float64]:
        """Of each request of the plan the margin (`core.slo.margin`); inf where it never ended."""
        raise NotImplementedError

    def figure(self, plan: Plan, window: Window, slo: Slo, speed: float = 1.0) -> float:
        """X of the window: ln of the target quantile of its requests' margins."""
        raise NotImplementedError

    def shift(self, plan: Plan, window: Window, slo: Slo, x: float, guess: float = 0.0) -> float:
        """By which factor, as a logarithm within MOST_SHIFT, the plan must be sped up for the twin to show this X. Above zero the
        twin is faster than the server was."""
        raise NotImplementedError

    def knee(self, workload: Workload, slo: Slo, near_rps: float, requests: int = 0, seed: int = 0) -> LongKnee | None:
        """The rate at which the target share of requests is good in the long run, looked for from `near_rps` on; None where there
        is none within a factor of 8. The same seed draws the same requests whatever the constants are."""
        raise NotImplementedError

    def pass_curve(self, workload: Workload, slo: Slo, knee_rps: float, measure_s: float, seed: int = 0) -> PassCurve:
        """Which share of windows of `measure_s` passes at rates around the knee."""
        raise NotImplementedError
