"""The queue rule against an independent slow copy of it, and on queues whose load is known."""

import math
import statistics
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from core.judge.queue_trend import falls_behind, queue_verdict, trends
from core.results import QueueVerdict

SERVICES_PER_S, WINDOW_S, SEEDS = 200.0, 120.0, range(20)

Times = NDArray[np.float64]
ALIKE: Times = np.array([1.0, 1.0])
"""Answers that take equally long."""
RATE = 300.0
"""So many requests that chance makes less than 2 % of them: two standard deviations of 18,000 are 1.5 %."""


def mm1(load: float, seed: int, warmup_s: float = 0.0) -> tuple[Times, Times, Times]:
    """Arrivals, starts and ends of service in a queue with one server, exponential gaps and services.

    Lindley's recursion without its loop: with S the running sum of services, end_i = S_i + max over j <= i of (a_j - S_(j-1)).
    """
    draw = np.random.default_rng(seed)
    n = int(1.2 * load * SERVICES_PER_S * (WINDOW_S + warmup_s)) + 1000
    arrivals = np.cumsum(draw.exponential(1 / (load * SERVICES_PER_S), n))
    services = draw.exponential(1 / SERVICES_PER_S, n)
    done = np.cumsum(services)
    ends = done + np.maximum.accumulate(arrivals - (done - services))
    return arrivals, ends - services, ends


def verdicts(load: float) -> Counter[QueueVerdict]:
    """What the rule says of 20 windows of 120 s, the queue empty at first. "First token": the service begins."""
    found: Counter[QueueVerdict] = Counter()
    for seed in SEEDS:
        arrivals, starts, ends = mm1(load, seed)
        found[
            queue_verdict(
                arrivals, starts, ends, 0.0, WINDOW_S, float(np.mean(ends - arrivals)), ends - starts, load * SERVICES_PER_S
            )
        ] += 1
    return found


def test_a_lightly_loaded_queue_never_rises() -> None:
    assert verdicts(0.80) == {"flat": 20}


def test_an_overloaded_queue_rises() -> None:
    assert verdicts(1.05)["rising"] >= 19


def test_close_to_the_boundary_it_is_never_confidently_wrong() -> None:
    """At 0.95 the queue is stable, so it must not be called rising. At 1.00 it grows like the root of time: both are right."""
    assert verdicts(0.95)["rising"] == 0
    at_capacity = verdicts(1.00)
    assert at_capacity["rising"] <= 5
    assert sum(at_capacity.values()) == 20


def slow_verdict(
    sent: list[float], first: list[float], ended: list[float], start: float, end: float, e2e: float, rate: float
) -> QueueVerdict:
    """The rule once more, from its words: counted reading by reading, pair by pair. All answers take equally long."""
    step = max(0.1, (end - start) / 400)
    readings = np.arange(start, end, step).tolist()
    per_block = len(readings) // 10
    planned = rate * (end - start)
    begun = [f for f in first if f < end]
    short = 1 - sum(f >= start for f in begun) / planned
    if short < 1 and short > max(0.02, 0.5 / math.sqrt(planned)):
        waits = sorted(f - s for s, f in zip(sorted(sent), sorted(begun), strict=False))
        free = max(1.0, 10 * rate * waits[min(2, len(waits) - 1)])
        if sum(sum(s <= t for s in sent) - sum(f <= t for f in begun) > free for t in readings) >= 0.95 * len(readings):
            return "rising"
    noise = 2 / math.sqrt(max(1, sum(start <= s < end for s in sent)))

    def growth(leaves: list[float]) -> tuple[float, float]:
        blocks = []
        for k in range(10):
            block = [sum(s <= t for s in sent) - sum(x <= t for x in leaves) for t in readings[k * per_block : (k + 1) * per_block]]
            blocks.append(sum(block) / per_block)
        pairs = [(i, j) for i in range(10) for j in range(i + 1, 10)]
        score = sum((blocks[j] > blocks[i]) - (blocks[j] < blocks[i]) for i, j in pairs)
        z = (score - math.copysign(1, score)) / math.sqrt(10 * 9 * 25 / 18) if score else 0.0
        slope = statistics.median((blocks[j] - blocks[i]) / (j - i) for i, j in pairs)
        return z, 10 * slope / max(1, sum(start <= s < end for s in sent))

    (z_q, g_q), (z_n, g_n) = growth(first), growth(ended)
    if z_q > 2.58 and g_q > max(0.02, noise):
        return "rising"
    if end - start >= max(60, 12 * e2e) and z_n > 3.0 and g_n > max(0.08, noise):
        return "rising"
    return "undecided" if (z_q > 1.64 and g_q > 0.01) or (z_n > 1.64 and g_n > 0.03) else "flat"


@settings(max_examples=60, deadline=None)
@given(
    rate=st.floats(0.2, 3),
    queueing=st.floats(0, 0.5),
    holding=st.floats(0, 0.5),
    start=st.floats(0, 10),
    length=st.sampled_from([5.0, 30.0, 60.0, 61.7]),
    seed=st.integers(0, 1000),
)
def test_equals_an_independent_slow_copy(
    rate: float, queueing: float, holding: float, start: float, length: float, seed: int
) -> None:
    """Queueing and holding times that grow over the window by a share of it, so that all three verdicts come up."""
    draw = np.random.default_rng(seed)
    sent = np.sort(draw.uniform(0, start + length + 5, int(rate * length) + 1))
    first = sent + 0.05 + queueing * draw.uniform(0, 1, sent.size) * sent
    ended = first + 0.1 + holding * draw.uniform(0, 1, sent.size) * sent
    e2e = float(np.mean(ended - sent))
    shuffled = draw.permutation(sent.size)
    fast = queue_verdict(sent[shuffled], first[shuffled], ended[shuffled], start, start + length, e2e, ALIKE, rate)
    assert fast == slow_verdict(sent.tolist(), first.tolist(), ended.tolist(), start, start + length, e2e, rate)


def growing(by: float, window_s: float = 60.0, rate: float = RATE) -> tuple[Times, Times]:
    """Sends at an even rate, and leavings at (1 - by) times that rate: the backlog grows by a share `by` of the arrivals."""
    sent = np.arange(0, window_s, 1 / rate)
    return sent, sent / (1 - by) + 0.3


@pytest.mark.parametrize(
    ("by", "verdict"),
    [(0.0, "flat"), (0.008, "flat"), (0.012, "undecided"), (0.019, "undecided"), (0.022, "rising"), (0.3, "rising")],
)
def test_how_much_growth_of_the_waiting_is_needed(by: float, verdict: QueueVerdict) -> None:
    sent, first = growing(by)
    assert queue_verdict(sent, first, first + 0.5, 0.0, 60.0, 1.0, ALIKE, RATE) == verdict


def test_growth_that_chance_explains_is_not_rising() -> None:
    """Of 600 requests two standard deviations are 8 %, and more where lengths scatter; of 18,000 they are 1.5 %."""
    lengths = np.array([0.1, 0.1, 0.1, 5.0])
    for rate, answers_s, by, verdict in (
        (10.0, ALIKE, 0.07, "undecided"),
        (10.0, ALIKE, 0.10, "rising"),
        (10.0, lengths, 0.10, "undecided"),
        (300.0, lengths, 0.10, "rising"),
    ):
        sent, first = growing(by, rate=rate)
        first = np.where(first < 6.0, sent, first)  # somebody waits only later, so that the trend alone decides
        assert queue_verdict(sent, first, first + 0.5, 0.0, 60.0, 1.0, answers_s, rate) == verdict


def test_open_requests_count_only_in_long_windows() -> None:
    """A server that admits everything: first tokens at once, answers that take ever longer."""
    sent, ended = growing(0.2)
    at_once = sent + 0.05
    assert queue_verdict(sent, at_once, ended, 0.0, 60.0, 4.9, ALIKE, RATE) == "rising"
    assert queue_verdict(sent, at_once, ended, 0.0, 60.0, 5.1, ALIKE, RATE) == "undecided", "60 s are fewer than 12 mean durations"
    assert queue_verdict(sent, at_once, ended, 0.0, 60.0, None, ALIKE, RATE) == "undecided", "nothing ended well"
    sent, ended = growing(0.2, window_s=59.0)
    assert queue_verdict(sent, sent + 0.05, ended, 0.0, 59.0, 1.0, ALIKE, RATE) == "undecided"


@pytest.mark.parametrize("length", [0.05, 1.0, 3.0, 1000.0])
def test_nothing_and_very_short_windows_are_flat(length: float) -> None:
    nothing = np.array([], dtype=np.float64)
    assert queue_verdict(nothing, nothing, nothing, 0.0, length, None, nothing, 1.0) == "flat"
    one = np.array([length / 2])
    assert queue_verdict(one, one + 0.001, one + 0.002, 0.0, length, 0.002, one, 1.0) in ("flat", "undecided")


def test_growth_is_a_share_of_the_arrivals() -> None:
    sent, first = growing(0.1)
    queued, _ = trends(sent, first, first, 0.0, 60.0)
    assert queued.growth == pytest.approx(0.1, abs=0.005)
    assert queued.z == pytest.approx(44 / math.sqrt(125))


def busy(pace: float, waiting: int, rate: float = 2.0, window_s: float = 60.0, warmup_s: float = 20.0) -> tuple[Times, Times]:
    """Sends at an even rate, some more at once at 10 s, and a server that from then on begins `pace` times as many."""
    sent = np.sort(np.concatenate([np.full(waiting, 10.0), np.arange(0, warmup_s + window_s, 1 / rate)]))
    free = sent + 0.05
    first = np.where(sent < 10.0, free, np.maximum(free, 10.0 + np.arange(sent.size) / (pace * rate) - 20 / (pace * rate)))
    return sent, first


@pytest.mark.parametrize(
    ("pace", "waiting", "verdict"),
    [(0.85, 8, "rising"), (0.97, 8, "flat"), (1.0, 8, "flat"), (0.85, 0, "rising")],
)
def test_a_server_that_is_never_idle_and_begins_less_than_is_planned_falls_behind(pace: float, waiting: int, verdict: str) -> None:
    sent, first = busy(pace, waiting)
    assert falls_behind(sent, first, 20.0, 80.0, 2.0, 0.0) is (verdict == "rising")


def test_few_arrivals_are_not_taken_for_a_server_that_falls_behind() -> None:
    """A third of the planned requests come: nobody waits, or nobody waits for long."""
    sent = np.arange(0, 80, 1.5)
    assert not falls_behind(sent, sent + 0.05, 20.0, 80.0, 1.0, 0.0)
    assert not falls_behind(sent, sent + 3.0, 20.0, 80.0, 1.0, 0.0), "each waits as long as on the idle server"


def test_scattering_answers_make_a_pace_less_sure() -> None:
    sent, first = busy(0.85, 8)
    assert falls_behind(sent, first, 20.0, 80.0, 2.0, 1.0)
    assert not falls_behind(sent, first, 20.0, 80.0, 2.0, 2.0), "of 120 such requests 18 % are by chance"
