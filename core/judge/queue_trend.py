"""Whether the queue grew over the measured window, from what the client itself sees.

Two things are looked at. First the server's own pace: where requests waited all along, it began what it can, and if that is less
than the rate plans, the rate is beyond it. Neither the luck of the arrivals nor a queue that grows late hides that, so it needs no
longer window where answers are long. Second the trend of two series: Q(t), requests sent that have no first token yet, and N(t),
requests sent that have not ended: ten block means of each, their trend (Mann-Kendall) and its size (Theil-Sen slope, as a share of
the arrivals). `python -m tests.benchmarks.queue_rule` counts what both see at rates around saturation.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from core.results import QueueVerdict

BLOCKS = 10
"""Block means are nearly independent where single readings are not; ten give Mann-Kendall enough pairs (45)."""

RISING_Q_Z, RISING_Q_GROWTH = 2.58, 0.02
"""p < 0.005 one-sided, and a growth of at least 2 % of the arrivals."""

GROWTH_NOISE = 2.0
"""A growth must exceed so many standard deviations of the work that arrives by chance: of 100 requests 2 % are two, and at 0.9 of
saturation of eight slots 14 % of windows grew by that."""

RISING_N_Z, RISING_N_GROWTH = 3.0, 0.08
"""For servers that admit everything, where Q stays flat. N also moves with the lengths drawn, so it must say more ..."""

LONG_WINDOW_S, LONG_WINDOW_E2E = 60.0, 12.0
"""... and is heard only in windows of at least 60 s and 12 mean request durations; N is correlated over a few of those."""

UNDECIDED_Z, UNDECIDED_Q_GROWTH, UNDECIDED_N_GROWTH = 1.64, 0.01, 0.03
"""p < 0.05: not enough to fail a rate (28 % of 60 s windows at the knee look so), enough to say so."""

BUSY_SHARE, FREE_WAITS, FREE_RANK = 0.95, 10.0, 2
"""Requests waited all along: in this share of the readings Q was above ten times what it would be if each waited as short as the
third shortest in the repeat, which begins on an idle server."""

BEHIND_FRAC, BEHIND_NOISE = 0.02, 0.5
"""What a server with a queue begins scatters only with the lengths: it must fall short of the plan by 2 %, and by their scatter
over the root of the requests, of which half is assumed at least (prompts, steps)."""

_FINEST_GRID_S, _GRID_POINTS = 0.1, 400


@dataclass(frozen=True, slots=True)
class Trend:
    """Mann-Kendall z of the block means, and their growth over the window as a share of the arrivals in it."""

    z: float
    growth: float


def queue_verdict(
    sent_at: NDArray[np.float64],
    first_at: NDArray[np.float64],
    ended_at: NDArray[np.float64],
    start: float,
    end: float,
    mean_e2e_s: float | None,
    answers_s: NDArray[np.float64],
    rate_rps: float,
) -> QueueVerdict:
    """Judge the window [start, end) from the times of sends, first tokens and ends of all requests, in any order.

    A request that ends without a first token leaves Q at its end: `first_at` holds that time for it. `mean_e2e_s` None
    (nothing ended well): the N clause is not heard. `answers_s`: how long answers of the window took from their first token;
    `rate_rps`: the rate that was planned. Times in seconds on one clock.
    """
    scatter = float(answers_s.std() / answers_s.mean()) if answers_s.size and answers_s.mean() > 0 else 0.0
    if falls_behind(sent_at, first_at, start, end, rate_rps, scatter):
        return "rising"
    queued, open_ = trends(sent_at, first_at, ended_at, start, end)
    long_enough = mean_e2e_s is not None and end - start >= max(LONG_WINDOW_S, LONG_WINDOW_E2E * mean_e2e_s)
    arrivals = max(1, int(np.count_nonzero((sent_at >= start) & (sent_at < end))))
    by_chance = GROWTH_NOISE * ((1 + scatter**2) / arrivals) ** 0.5
    if queued.z > RISING_Q_Z and queued.growth > max(RISING_Q_GROWTH, by_chance):
        return "rising"
    if long_enough and open_.z > RISING_N_Z and open_.growth > max(RISING_N_GROWTH, by_chance):
        return "rising"
    if queued.z > UNDECIDED_Z and queued.growth > UNDECIDED_Q_GROWTH:
        return "undecided"
    if open_.z > UNDECIDED_Z and open_.growth > UNDECIDED_N_GROWTH:
        return "undecided"
    return "flat"


def falls_behind(
    sent_at: NDArray[np.float64], first_at: NDArray[np.float64], start: float, end: float, rate_rps: float, scatter: float
) -> bool:
    """Whether requests waited all along [start, end), and the server began fewer of them than the rate plans.

    `scatter`: of the answers' durations, their standard deviation over their mean. Waits are taken first come, first served.
    """
    planned = rate_rps * (end - start)
    sent, first = np.sort(sent_at), np.sort(first_at[first_at < end])
    begun = first.size - int(np.searchsorted(first, start, side="left"))
    if begun == 0 or 1 - begun / planned <= max(BEHIND_FRAC, max(BEHIND_NOISE, scatter) / planned**0.5):
        return False
    waits_s = np.sort(first - sent[: first.size])
    free_s = float(waits_s[min(FREE_RANK, waits_s.size - 1)])
    grid = _grid(start, end)
    waiting = np.searchsorted(sent, grid, side="right") - np.searchsorted(first, grid, side="right")
    return bool(np.mean(waiting > max(1.0, FREE_WAITS * rate_rps * free_s)) >= BUSY_SHARE)


def trends(
    sent_at: NDArray[np.float64], first_at: NDArray[np.float64], ended_at: NDArray[np.float64], start: float, end: float
) -> tuple[Trend, Trend]:
    """The trends of Q and of N over [start, end)."""
    grid = _grid(start, end)
    sent = np.sort(sent_at)
    so_far = np.searchsorted(sent, grid, side="right")
    queued = so_far - np.searchsorted(np.sort(first_at), grid, side="right")
    open_ = so_far - np.searchsorted(np.sort(ended_at), grid, side="right")
    arrivals = max(1, int(np.searchsorted(sent, end, side="left") - np.searchsorted(sent, start, side="left")))
    return _trend(queued, arrivals), _trend(open_, arrivals)


def _grid(start: float, end: float) -> NDArray[np.float64]:
    length_s = end - start
    return np.arange(start, end, min(max(_FINEST_GRID_S, length_s / _GRID_POINTS), length_s / BLOCKS))


def _trend(readings: NDArray[np.int64], arrivals: int) -> Trend:
    """Kendall (1975) for z, with the continuity correction; Sen (1968) for the slope per block."""
    per_block = readings.size // BLOCKS
    means = readings[: per_block * BLOCKS].reshape(BLOCKS, per_block).mean(axis=1)
    earlier, later = np.triu_indices(BLOCKS, k=1)
    differences = means[later] - means[earlier]
    score = float(np.sign(differences).sum())
    variance = BLOCKS * (BLOCKS - 1) * (2 * BLOCKS + 5) / 18
    slope = float(np.median(differences / (later - earlier)))
    return Trend(z=(score - float(np.sign(score))) / variance**0.5, growth=BLOCKS * slope / arrivals)
