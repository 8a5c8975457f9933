"""Marks on the slider of the load at peak: the largest share of a replica's safe rate at which the fleet survives something."""

import math
from statistics import NormalDist
from typing import Literal

import msgspec

from core.config import SMALLEST_HEADROOM, FleetAsk
from core.facts import Fact, fact
from core.fleet.evidence import Evidence
from core.fleet.sizing import ceil_dusted

GRID = 10_000
"""Marks are cut off after four decimals."""
_HIGHEST_TARGET = 0.9999
ROUGH_BELOW = 0.25
"""Burstier arrivals than this are no longer estimated well (see `bursty_frac`)."""

MarkName = Literal["peak", "lost", "rollout", "growth", "burstiness"]


class Mark(msgspec.Struct, frozen=True, kw_only=True):
    """`rho` is the highest load at peak, after rounding the replicas up, at which it still holds; `replicas` the fewest for it.

    None: no load at peak is low enough, or it cannot be known (`why` says so). `binds`: no other mark is smaller. `holds`: at the
    load at peak that is set.
    """

    name: MarkName
    rho: float | None
    replicas: int | None
    why: Fact
    holds: bool | None = None
    binds: bool = False


def largest_rho(peak_rps: float, replica_rps: float, replicas: int) -> float | None:
    """The largest rho, in steps of 0.0001, with ceil(peak/(rho*r)) >= replicas; None when it is below the lowest load at peak.

    N - 1 replicas are enough from rho = peak/(r*(N - 1)) on, so it lies just below that.
    """
    if replicas <= ceil_dusted(peak_rps / replica_rps):
        return 1.0
    ticks = math.floor(GRID * peak_rps / (replica_rps * (replicas - 1)))
    while ticks >= 1 and ceil_dusted(peak_rps * GRID / (ticks * replica_rps)) < replicas:
        ticks -= 1
    rho = ticks / GRID
    return rho if rho >= SMALLEST_HEADROOM else None


def bursty_frac(replica_rps: float, e2e_s: float, burstiness: float, target: float) -> float:
    """Share of a rate measured with Poisson arrivals that is left with burstier ones; 1 where they are not.

    The number of requests in service has, over a mean E2E, mean m = rate * E2E and variance I*m with the index of dispersion
    I = 1/burstiness of gamma gaps (Poisson: 1). The knee's quantile of it, m + z*sqrt(m) at the target, must not be passed:
    square-root staffing with peakedness (Whitt 1992, "Understanding the efficiency of multi-server service systems"). Against
    the knees of the simulated replicas under gamma arrivals (`python -m tests.benchmarks.burstiness`) it is off by at most 0.11
    down to a burstiness of 0.25, mostly too low and at most 0.08 too high; at 0.1 it is up to 0.28 too high.
    """
    z = max(0.0, NormalDist().inv_cdf(min(target, _HIGHEST_TARGET)))
    streams = replica_rps * e2e_s
    reach = streams + z * math.sqrt(streams)
    spread = z * math.sqrt(1 / burstiness)
    root = (-spread + math.sqrt(spread * spread + 4 * reach)) / 2
    return min(1.0, root * root / streams)


def marks_of(ask: FleetAsk, peak_rps: float, replica_rps: float, evidence: Evidence) -> tuple[Mark, ...]:
    """All marks that were asked for and those that the data give, for one replica that carries `replica_rps`."""
    needs = ceil_dusted(peak_rps / replica_rps)

    def mark(name: MarkName, replicas: int, why: Fact) -> Mark:
        rho = largest_rho(peak_rps, replica_rps, replicas)
        holds = ceil_dusted(peak_rps / (ask.headroom * replica_rps)) >= replicas
        return Mark(name=name, rho=rho, replicas=replicas, why=why, holds=holds)

    found = [mark("peak", needs, _at_peak(replica_rps, evidence))]
    if ask.lost:
        found.append(mark("lost", needs + ask.lost, fact("mark_lost", replicas=ask.lost, rate_rps=replica_rps)))
    if ask.rollout:
        found.append(mark("rollout", needs + ask.rollout, fact("mark_rollout", replicas=ask.rollout, rate_rps=replica_rps)))
    if ask.growth_per_min is not None and ask.scale_out_s is not None:
        times = (1 + ask.growth_per_min) ** (ask.scale_out_s / 60)
        figures = {"growth_per_min_frac": ask.growth_per_min, "scale_out_s": ask.scale_out_s, "times": times}
        why = fact("mark_growth", **figures, rate_rps=replica_rps)
        found.append(mark("growth", ceil_dusted(peak_rps * times / replica_rps), why))
    if ask.burstiness is not None:
        found.append(_burst_mark(ask, peak_rps, replica_rps, evidence))
    known = [each.rho if each.rho is not None else 0.0 for each in found if each.replicas is not None]
    lowest = min(known)
    return tuple(msgspec.structs.replace(each, binds=each.replicas is not None and (each.rho or 0.0) == lowest) for each in found)


def _at_peak(replica_rps: float, evidence: Evidence) -> Fact:
    floor = next((held.floor for held in evidence.held if held.rate_rps == replica_rps), None)
    return fact("mark_peak", rate_rps=replica_rps, floor_frac=floor, target=evidence.target)


def _burst_mark(ask: FleetAsk, peak_rps: float, replica_rps: float, evidence: Evidence) -> Mark:
    assert ask.burstiness is not None
    if evidence.recorded:
        why = fact("mark_burst_recorded", burstiness=ask.burstiness)
        return Mark(name="burstiness", rho=None, replicas=None, why=why)
    if evidence.arrival_cv != 1:
        why = fact("mark_burst_measured", burstiness=ask.burstiness, arrival_cv=evidence.arrival_cv)
        return Mark(name="burstiness", rho=None, replicas=None, why=why)
    e2e_s = evidence.at_pass.e2e_mean_s if evidence.at_pass is not None else None
    if e2e_s is None:
        why = fact("mark_burst_unknown", burstiness=ask.burstiness)
        return Mark(name="burstiness", rho=None, replicas=None, why=why)
    left = bursty_frac(replica_rps, e2e_s, ask.burstiness, evidence.target)
    replicas = ceil_dusted(peak_rps / (left * replica_rps))
    return Mark(
        name="burstiness",
        rho=largest_rho(peak_rps, replica_rps, replicas),
        replicas=replicas,
        why=fact(
            "mark_burst",
            burstiness=ask.burstiness,
            bursty_rps=left * replica_rps,
            rate_rps=replica_rps,
            e2e_mean_s=e2e_s,
            rough=ask.burstiness < ROUGH_BELOW,
        ),
        holds=ceil_dusted(peak_rps / (ask.headroom * replica_rps)) >= replicas,
    )
