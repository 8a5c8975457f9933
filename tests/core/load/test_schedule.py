"""Arrivals are a true Poisson process, the same one at every rate and in every process."""

import hashlib
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from core.config import Lengths, Workload
from core.records import Phase
from core.schedule import Plan, draw
from tests.core.load.orders import order

FIXED = Workload()
SPREAD = Workload(
    input_tokens=Lengths(median=500, sigma=0.8, maximum=2000), output_tokens=Lengths(median=180, sigma=0.6, maximum=600, minimum=4)
)


def ks_distance_from_exponential(gaps: NDArray[np.float64]) -> float:
    ordered = np.sort(gaps)
    cdf = 1 - np.exp(-ordered / ordered.mean())
    steps = np.arange(ordered.size + 1) / ordered.size
    return float(max((steps[1:] - cdf).max(), (cdf - steps[:-1]).max()))


def dispersion(offsets: NDArray[np.float64], window_s: float, duration_s: float) -> float:
    counts = np.histogram(offsets, bins=int(duration_s / window_s), range=(0, duration_s))[0]
    return float(counts.var() / counts.mean())


@pytest.mark.parametrize("seed", [1, 11, 99])
def test_gaps_are_exponential_and_counts_dispersed_like_poisson(seed: int) -> None:
    plan = draw(order((10, 1000), seed=seed), FIXED)
    assert abs(len(plan) - 10_000) < 300
    assert ks_distance_from_exponential(np.diff(plan.offsets_s)) < 1.63 / len(plan) ** 0.5  # 1 % level
    assert 0.9 < dispersion(plan.offsets_s, 0.2, 1000) < 1.1


def test_nothing_rescales_the_draw() -> None:
    """The count of a repeat, and of its first half, scatters like Poisson's; gaps rescaled to a duration would halve it."""
    plans = [draw(order((2.5, 40), repeat=r), FIXED) for r in range(300)]
    whole = np.array([len(p) for p in plans])
    half = np.array([(p.offsets_s < 20).sum() for p in plans])
    assert 0.8 < whole.var() / 100 < 1.2
    assert 0.8 < half.var() / 50 < 1.2


def test_a_repeat_has_the_same_unit_gaps_and_lengths_at_every_rate() -> None:
    slow, fast = draw(order((0.3, 100)), SPREAD), draw(order((7.7, 100)), SPREAD)
    n = len(slow)
    assert 0 < n < len(fast)
    np.testing.assert_allclose(slow.offsets_s * 0.3, fast.offsets_s[:n] * 7.7, rtol=1e-12)
    np.testing.assert_array_equal(slow.input_tokens, fast.input_tokens[:n])
    np.testing.assert_array_equal(slow.output_tokens, fast.output_tokens[:n])


def test_segments_bend_time_but_keep_the_draw() -> None:
    """Through the integrated rate, piecewise segments hold the unit arrivals of one constant rate."""
    segments = ((6.0, 10.0), (4.0, 20.0), (0.0, 5.0), (8.0, 10.0))
    plan = draw(order(*segments), FIXED)
    units = draw(order((1.0, 60 + 80 + 80)), FIXED).offsets_s
    starts = np.array([0.0, 10.0, 30.0, 35.0])
    mass = np.array([0.0, 60.0, 140.0, 140.0])
    rates = np.array([6.0, 4.0, 0.0, 8.0])
    integrated = mass[plan.segment] + (plan.offsets_s - starts[plan.segment]) * rates[plan.segment]
    np.testing.assert_allclose(integrated, units, rtol=1e-9)
    assert set(plan.segment.tolist()) == {0, 1, 3}
    assert (np.diff(plan.offsets_s) > 0).all()
    ends = np.array([10.0, 30.0, 35.0, 45.0])
    assert (plan.offsets_s >= starts[plan.segment]).all()
    assert (plan.offsets_s <= ends[plan.segment]).all()


@pytest.mark.parametrize(("phase", "key"), [("ramp", 0), ("search", 1), ("confirm", 2), ("tighten", 3)])
def test_the_draw_follows_the_published_seeds(phase: Phase, key: int) -> None:
    arrivals, _ = np.random.SeedSequence(5, spawn_key=(key, 3)).spawn(2)
    units = np.cumsum(np.random.Generator(np.random.PCG64(arrivals)).standard_exponential(5))
    plan = draw(order((2.0, 50), seed=5, phase=phase, repeat=3), FIXED)
    np.testing.assert_array_equal(plan.offsets_s[:5], units / 2.0)


def test_repeats_phases_and_seeds_differ() -> None:
    phases: tuple[Phase, ...] = ("ramp", "search", "confirm", "tighten", "single", "preflight", "list", "hold")
    firsts = [
        float(draw(order((5, 20), phase=p, repeat=r, seed=s), FIXED).offsets_s[0]) for p in phases for r in (0, 1) for s in (1, 2)
    ]
    assert len(set(firsts)) == len(firsts)


def test_lengths_do_not_hang_on_arrivals_or_on_each_other() -> None:
    spread_inputs = Workload(input_tokens=SPREAD.input_tokens, output_tokens=Lengths(median=7))
    both, one = draw(order((3, 30)), SPREAD), draw(order((3, 30)), spread_inputs)
    np.testing.assert_array_equal(both.input_tokens, one.input_tokens)
    np.testing.assert_array_equal(both.offsets_s, one.offsets_s)
    assert (one.output_tokens == 7).all()


def test_lognormal_lengths_keep_median_and_limits() -> None:
    plan = draw(order((1000, 10)), SPREAD)
    assert 480 < np.median(plan.input_tokens) < 520
    assert plan.input_tokens.max() == 2000
    assert plan.output_tokens.min() >= 4
    assert 0.55 < np.log(plan.output_tokens).std() < 0.65
    assert abs(np.corrcoef(plan.input_tokens, plan.output_tokens)[0, 1]) < 0.05


def test_given_offsets_are_used_as_they_are() -> None:
    plan = draw(order((5, 5), offsets_s=(0.0, 0.25, 0.25, 3.0)), FIXED)
    assert plan.offsets_s.tolist() == [0.0, 0.25, 0.25, 3.0]
    assert plan.segment.tolist() == [0, 0, 0, 0]
    assert plan.input_tokens.tolist() == [512] * 4


def test_no_segments_is_an_empty_plan() -> None:
    assert len(draw(order(), FIXED)) == 0


@pytest.mark.parametrize("offsets", [(1.0, 0.5), (-1.0,), (float("nan"),), (float("inf"),)])
def test_offsets_that_are_no_schedule_are_refused(offsets: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match="offsets_s"):
        draw(order(offsets_s=offsets), FIXED)


@pytest.mark.parametrize("segment", [(-1.0, 5.0), (float("inf"), 5.0), (1.0, float("nan")), (1.0, -5.0)])
def test_segments_that_are_no_schedule_are_refused(segment: tuple[float, float]) -> None:
    with pytest.raises(ValueError, match="segments"):
        draw(order(segment), FIXED)


def test_plans_are_read_only() -> None:
    plan = draw(order((5, 20)), SPREAD)
    with pytest.raises(ValueError, match="read-only"):
        plan.offsets_s[0] = 1.0


def digest(plan: Plan) -> str:
    arrays = (plan.offsets_s, plan.segment, plan.input_tokens, plan.output_tokens)
    return hashlib.sha256(b"".join(a.tobytes() for a in arrays)).hexdigest()


def test_another_process_draws_the_same_plan() -> None:
    code = "from tests.core.load.test_schedule import *\nprint(digest(draw(order((6, 10), (4, 50), seed=7, repeat=2), SPREAD)))"
    root = Path(__file__).parents[3]
    there = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True).stdout.strip()
    assert there == digest(draw(order((6, 10), (4, 50), seed=7, repeat=2), SPREAD))
