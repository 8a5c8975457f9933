"""How far latencies moved from one run to another at rates that both saw. Pure."""

import math
from statistics import median
from typing import Literal

import msgspec

from core.compare.side import Repeat, Side
from core.results import Percentiles

NEAR = 1.02
"""Rates within this factor count as one: TTFT at the knee moves by more between two repeats."""
MOST_LOST = 0.1
"""A window in which more of the planned requests did not end well has percentiles of the lucky ones."""

Latency = Literal["ttft_s", "tpot_s", "e2e_s"]
LATENCIES: tuple[Latency, ...] = ("ttft_s", "tpot_s", "e2e_s")
PERCENTILES: tuple[Literal["p50", "p95"], ...] = ("p50", "p95")


class Shift(msgspec.Struct, frozen=True, kw_only=True):
    """One percentile of one latency at a rate that both saw, as the median over each one's repeats."""

    a_rps: float
    b_rps: float
    latency: Latency
    percentile: Literal["p50", "p95"]
    a_s: float
    b_s: float

    @property
    def shift_frac(self) -> float:
        """0.1: B takes 10 % longer."""
        return self.b_s / self.a_s - 1


def shifts(a: Side, b: Side) -> tuple[Shift, ...]:
    """For each rate of A the nearest of B within NEAR, the lowest first."""
    ours, theirs = _by_rate(a), _by_rate(b)
    found: list[Shift] = []
    for a_rps in sorted(ours):
        b_rps = min(theirs, key=lambda rate: abs(math.log(rate / a_rps)), default=None)
        if b_rps is None or max(b_rps / a_rps, a_rps / b_rps) > NEAR:
            continue
        for latency in LATENCIES:
            for percentile in PERCENTILES:
                a_s, b_s = (_figure(repeats, latency, percentile) for repeats in (ours[a_rps], theirs[b_rps]))
                if a_s and b_s:
                    found.append(Shift(a_rps=a_rps, b_rps=b_rps, latency=latency, percentile=percentile, a_s=a_s, b_s=b_s))
    return tuple(found)


def _by_rate(side: Side) -> dict[float, list[Repeat]]:
    """The repeats whose percentiles stand for their rate. A ramp has none: it goes on before a rate has settled."""
    rates: dict[float, list[Repeat]] = {}
    for step in side.steps:
        whole = [each for each in step.repeats if each.counts and each.succeeded >= (1 - MOST_LOST) * each.planned]
        if whole and step.phase != "ramp":
            rates.setdefault(step.rate_rps, []).extend(whole)
    return rates


def _figure(repeats: list[Repeat], latency: Latency, percentile: str) -> float | None:
    values = [value for repeat in repeats if (value := getattr(_of(repeat, latency), percentile)) is not None]
    return median(values) if values else None


def _of(repeat: Repeat, latency: Latency) -> Percentiles:
    match latency:
        case "ttft_s":
            return repeat.ttft_s
        case "tpot_s":
            return repeat.tpot_s
        case "e2e_s":
            return repeat.e2e_s
