"""The known queue: exact figures of 84 open-loop runs, and the mean wait that theory gives."""

from pathlib import Path

import numpy as np
import pytest

from tests.core.judge.queue_model import (
    LONG_S,
    MEAN_S,
    SHORT_S,
    SHORT_SHARE,
    arrival_times,
    service_times,
    starts_and_finishes,
    table,
)

EXAMPLE = Path(__file__).parents[2] / "data" / "queue-example.txt"


def test_reproduces_the_queue_example_byte_for_byte() -> None:
    assert table().encode() == EXAMPLE.read_bytes()


def test_a_request_starts_when_it_is_there_and_the_server_is_free() -> None:
    starts, finishes = starts_and_finishes([0.0, 1.0, 5.0], [2.0, 2.0, 1.0])
    assert starts == [0.0, 2.0, 5.0]
    assert finishes == [2.0, 4.0, 6.0]


def test_mean_wait_is_pollaczek_khinchine() -> None:
    rate_rps = 10.0
    second_moment = SHORT_SHARE * SHORT_S**2 + (1 - SHORT_SHARE) * LONG_S**2
    expected_s = rate_rps * second_moment / (2 * (1 - rate_rps * MEAN_S))
    waits = []
    for seed in (1, 2, 3, 4):
        arrivals = arrival_times(seed, rate_rps)
        starts, _ = starts_and_finishes(arrivals, service_times(seed))
        waits.append(float(np.mean(np.array(starts) - np.array(arrivals))))
    assert expected_s == pytest.approx(0.0708, abs=5e-5)
    assert float(np.mean(waits)) == pytest.approx(expected_s, rel=0.05)
