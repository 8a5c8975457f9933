"""Growth is said where a line clearly rises, and at a steady rate, however noisy, hardly ever."""

import numpy as np
import pytest

from core.watch import Growth
from core.watch.growth import growth

SECONDS = 300


def bins(rate_rps: float, per_s: float, seed: int | None = None, seconds: int = SECONDS) -> list[tuple[float, float, float]]:
    """Arrivals every 10 s at a rate that grows by `per_s` each second; Poisson with a seed, else exactly so many."""
    draw = np.random.default_rng(seed)
    begins = range(0, seconds, 10)
    means = [10 * (rate_rps + per_s * (begin + 5)) for begin in begins]
    counts = means if seed is None else draw.poisson(means)
    return [(float(begin), begin + 10.0, float(n)) for begin, n in zip(begins, counts, strict=True)]


def test_a_rising_rate_reaches_the_knee_when_the_line_does() -> None:
    found = growth(bins(4.0, 0.02), 20.0, 300.0)
    assert found.state == "rising"
    assert found.eta_s == pytest.approx((20.0 - 10.0) / 0.02)


def test_noise_is_not_growth() -> None:
    """At three standard errors about one in 300 lines rises by chance."""
    states = [growth(bins(8.0, 0.0, seed), 12.0, 300.0).state for seed in range(400)]
    assert states.count("rising") <= 8
    assert states.count("steady") >= 380


def test_growth_in_noise_is_seen() -> None:
    found = [growth(bins(5.0, 0.02, seed), 30.0, 300.0) for seed in range(100)]
    assert sum(each.state == "rising" for each in found) >= 99
    assert np.median([each.eta_s for each in found if each.eta_s is not None]) == pytest.approx(950, rel=0.1)


@pytest.mark.parametrize(
    ("rate_rps", "per_s", "knee_rps", "said"),
    [
        (9.0, 0.0, 12.0, Growth("steady")),
        (9.0, -0.02, 12.0, Growth("falling")),
        (14.0, 0.0, 12.0, Growth("above")),
        (4.0, 0.001, 12.0, Growth("steady")),
        (100.0, 0.05, 1000.0, Growth("rising")),  # in five hours, which five minutes do not foresee
    ],
)
def test_what_else_a_rate_does(rate_rps: float, per_s: float, knee_rps: float, said: Growth) -> None:
    assert growth(bins(rate_rps, per_s), knee_rps, 300.0) == said


def test_two_minutes_are_needed_and_older_ones_do_not_count() -> None:
    assert growth(bins(4.0, 0.02, seconds=110), 20.0, 110.0) == Growth("unknown")
    assert growth(bins(4.0, 0.02), 20.0, 700.0) == Growth("unknown")
