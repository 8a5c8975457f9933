import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.percentiles import nearest_rank, percentiles
from core.results import Percentiles


def test_none_of_nothing() -> None:
    assert percentiles([]) == Percentiles()


def test_one_value_is_every_percentile() -> None:
    assert percentiles([0.25]) == Percentiles(p50=0.25, p95=0.25, p99=0.25, mean=0.25, max=0.25, n=1)


@pytest.mark.parametrize(("n", "p50", "p95", "p99"), [(20, 10, 19, 20), (40, 20, 38, 40), (100, 50, 95, 99), (101, 51, 96, 100)])
def test_nearest_rank_of_one_to_n(n: int, p50: int, p95: int, p99: int) -> None:
    found = percentiles(float(v) for v in reversed(range(1, n + 1)))
    assert (found.p50, found.p95, found.p99, found.n) == (p50, p95, p99, n)


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=300), st.sampled_from([0.5, 0.95, 0.99, 1.0]))
def test_a_percentile_is_a_value_with_its_share_at_or_below(values: list[float], q: float) -> None:
    ordered = np.sort(np.array(values))
    found = nearest_rank(ordered, q)
    assert found in values
    assert np.count_nonzero(ordered <= found) >= math.floor(q * len(values))
    assert np.count_nonzero(ordered < found) <= q * len(values) + 1e-6
    assert found <= max(values)
