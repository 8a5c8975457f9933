"""A percentile between two readings is Prometheus' own, and none is made up."""

import pytest

from core.server import Buckets
from core.watch import Estimate, quantile

BOUNDS = (0.1, 0.5, 1.0)


def between(*counts: float, before: tuple[float, ...] = (5, 5, 5, 5), q: float = 0.5) -> Estimate | None:
    after = tuple(a + b for a, b in zip(before, counts, strict=True))
    return quantile(Buckets(BOUNDS, before), Buckets(BOUNDS, after), q)


@pytest.mark.parametrize(
    ("counts", "q", "value_s"),
    [
        ((10, 10, 10, 10), 0.5, 0.05),  # the first bucket begins at 0
        ((0, 10, 10, 10), 0.5, 0.3),  # half way from .1 to .5
        ((0, 8, 10, 10), 0.9, 0.75),  # rank 9: the first of two in .5 to 1
        ((0, 8, 10, 10), 0.8, 0.5),  # a rank on a bound
    ],
)
def test_it_is_interpolated_within_its_bucket(counts: tuple[float, ...], q: float, value_s: float) -> None:
    found = between(*counts, q=q)
    assert found is not None
    assert (round(found.value_s, 9), found.over) == (value_s, False)


def test_above_the_last_finite_bucket_it_is_said_to_be_more() -> None:
    assert between(0, 8, 10, 20, q=0.95) == Estimate(1.0, over=True)


def test_without_an_observation_in_between_there_is_none() -> None:
    assert between(0, 0, 0, 0) is None
    assert quantile(Buckets((1.0,), (0, 0)), Buckets((2.0,), (4, 4)), 0.5) is None


def test_what_fell_counts_as_nothing() -> None:
    assert quantile(Buckets(BOUNDS, (9, 9, 9, 9)), Buckets(BOUNDS, (1, 1, 1, 1)), 0.5) is None
