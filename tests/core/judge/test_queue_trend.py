"""The queue rule against an independent slow copy of it, and on queues whose load is known."""

import math
import statistics
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from core.judge.queue_trend import queue_verdict, trends
from core.results import QueueVerdict

SERVICES_PER_S, WINDOW_S, SEEDS = 200.0, 120.0, range(20)

Times = NDArray[np.float64]


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
        found[queue_verdict(arrivals, starts, ends, 0.0, WINDOW_S, float(np.mean(ends - arrivals)))] += 1
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


def slow_verdict(sent: list[float], first: list[float], ended: list[float], start: float, end: float, e2e: float) -> QueueVerdict:
    """The rule once more, from its words: counted reading by reading, pair by pair."""
    step = max(0.1, (end - start) / 400)
    readings = np.arange(start, end, step).tolist()
    per_block = len(readings) // 10

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
    if (z_q > 2.58 and g_q > 0.02) or (end - start >= max(60, 12 * e2e) and z_n > 3.0 and g_n > 0.08):
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
    fast = queue_verdict(sent[shuffled], first[shuffled], ended[shuffled], start, start + length, e2e)
    assert fast == slow_verdict(sent.tolist(), first.tolist(), ended.tolist(), start, start + length, e2e)


def growing(by: float, window_s: float = 60.0, rate: float = 10.0) -> tuple[Times, Times]:
    """Sends at an even rate, and leavings at (1 - by) times that rate: the backlog grows by a share `by` of the arrivals."""
    sent = np.arange(0, window_s, 1 / rate)
    return sent, sent / (1 - by) + 0.3


@pytest.mark.parametrize(
    ("by", "verdict"),
    [(0.0, "flat"), (0.008, "flat"), (0.012, "undecided"), (0.019, "undecided"), (0.022, "rising"), (0.3, "rising")],
)
def test_how_much_growth_of_the_waiting_is_needed(by: float, verdict: QueueVerdict) -> None:
    sent, first = growing(by)
    assert queue_verdict(sent, first, first + 0.5, 0.0, 60.0, 1.0) == verdict


def test_open_requests_count_only_in_long_windows() -> None:
    """A server that admits everything: first tokens at once, answers that take ever longer."""
    sent, ended = growing(0.2)
    at_once = sent + 0.05
    assert queue_verdict(sent, at_once, ended, 0.0, 60.0, 4.9) == "rising"
    assert queue_verdict(sent, at_once, ended, 0.0, 60.0, 5.1) == "undecided", "60 s are fewer than 12 mean durations"
    assert queue_verdict(sent, at_once, ended, 0.0, 60.0, None) == "undecided", "nothing ended well"
    sent, ended = growing(0.2, window_s=59.0)
    assert queue_verdict(sent, sent + 0.05, ended, 0.0, 59.0, 1.0) == "undecided"


@pytest.mark.parametrize("length", [0.05, 1.0, 3.0, 1000.0])
def test_nothing_and_very_short_windows_are_flat(length: float) -> None:
    nothing = np.array([], dtype=np.float64)
    assert queue_verdict(nothing, nothing, nothing, 0.0, length, None) == "flat"
    one = np.array([length / 2])
    assert queue_verdict(one, one + 0.001, one + 0.002, 0.0, length, 0.002) in ("flat", "undecided")


def test_growth_is_a_share_of_the_arrivals() -> None:
    sent, first = growing(0.1)
    queued, _ = trends(sent, first, first, 0.0, 60.0)
    assert queued.growth == pytest.approx(0.1, abs=0.005)
    assert queued.z == pytest.approx(44 / math.sqrt(125))
