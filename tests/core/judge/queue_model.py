"""The queue that everything here can be checked against: one server, first come first served, at known rates."""

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from core.percentiles import nearest_rank
from core.slo import needed_good

SEEDS = range(101, 113)
REQUESTS, UNMEASURED = 50_000, 5_000
SHORT_S, LONG_S, SHORT_SHARE = 0.020, 0.180, 0.8
MEAN_S = SHORT_SHARE * SHORT_S + (1 - SHORT_SHARE) * LONG_S
LIMIT_S, TARGET = 0.250, 0.95
RATES = (2, 4, 6, 8, 10, 14, 18)


def starts_and_finishes(arrivals: Iterable[float], services: Iterable[float]) -> tuple[list[float], list[float]]:
    """Lindley's recursion: a request starts when it is there and the one before it has finished."""
    starts, finishes = [], []
    free = 0.0
    for arrival, service in zip(arrivals, services, strict=True):
        start = arrival if arrival > free else free
        free = start + service
        starts.append(start)
        finishes.append(free)
    return starts, finishes


def service_times(seed: int) -> list[float]:
    draw = random.Random(seed)
    return [SHORT_S if draw.random() < SHORT_SHARE else LONG_S for _ in range(REQUESTS)]


def arrival_times(seed: int, rate_rps: float) -> list[float]:
    draw = random.Random(seed + 10_000)
    now, times = 0.0, []
    for _ in range(REQUESTS):
        now += draw.expovariate(rate_rps)
        times.append(now)
    return times


@dataclass(frozen=True)
class Run:
    """One open-loop run, its measured requests only."""

    actual_rps: float
    p95_wait_s: float
    good: int
    measured: int

    @property
    def attainment(self) -> float:
        return self.good / self.measured

    @property
    def passed(self) -> bool:
        return self.good >= needed_good(self.measured, TARGET)


def open_loop(seed: int, rate_rps: float, services: Sequence[float]) -> Run:
    arrivals = arrival_times(seed, rate_rps)
    starts, finishes = starts_and_finishes(arrivals, services)
    arrived, started, finished = (np.array(times[UNMEASURED:]) for times in (arrivals, starts, finishes))
    return Run(
        actual_rps=(arrived.size - 1) / (arrived[-1] - arrived[0]),
        p95_wait_s=nearest_rank(np.sort(started - arrived), 0.95),
        good=int(np.count_nonzero(finished - arrived <= LIMIT_S)),
        measured=arrived.size,
    )


def closed_loop_line(services: Sequence[Sequence[float]]) -> str:
    """One client that waits for each answer: no queueing, so its rate is 1/E[s], whatever the open loop says."""
    rates = [REQUESTS / sum(times) for times in services]
    attained = [sum(t <= LIMIT_S for t in times) / len(times) for times in services]
    return f"closed-loop: rate_range={min(rates):.2f}-{max(rates):.2f} req/s, min_attain={min(attained):.2%}"


def row(rate_rps: float, runs: Sequence[Run]) -> str:
    actual = [run.actual_rps for run in runs]
    attained = [run.attainment for run in runs]
    worst_ms = 1000 * max(run.p95_wait_s for run in runs)
    return (
        f"{rate_rps:4} {rate_rps * MEAN_S:.2f} {min(actual):.2f}-{max(actual):.2f} {worst_ms:14.1f} "
        f"{min(attained):.2%}-{max(attained):.2%} {min(attained):7.2%} {'PASS' if all(r.passed for r in runs) else 'FAIL'}"
    )


def table() -> str:
    services = {seed: service_times(seed) for seed in SEEDS}
    lines = [
        closed_loop_line(list(services.values())),
        "rate rho actual_rps_range worst_p95q_ms attain_range       floor   slo_check",
    ]
    lines += [row(rate, [open_loop(seed, rate, services[seed]) for seed in SEEDS]) for rate in RATES]
    return "\n".join(lines) + "\n"
