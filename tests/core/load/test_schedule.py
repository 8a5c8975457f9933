"""Arrivals are a true renewal process, Poisson or of another CV, the same one at every rate and in every process."""

import hashlib
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace
from numpy.typing import NDArray

from core.config import Lengths, Workload
from core.records import Phase, RepeatOrder
from core.schedule import Plan, draw, joint, seeds
from core.workloads import COLD, MixPart, Prefix, parse_mix
from tests.core.load.orders import order

FIXED = Workload()
SPREAD = Workload(
    input_tokens=Lengths(median=500, sigma=0.8, maximum=2000), output_tokens=Lengths(median=180, sigma=0.6, maximum=600, minimum=4)
)


CVS = (0.5, 1.0, 2.0, 4.0)
every_cv = pytest.mark.parametrize("cv", CVS)


def with_cv(cv: float, workload: Workload = FIXED) -> Workload:
    return replace(workload, arrival_cv=cv)


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


@every_cv
def test_gaps_have_the_rate_and_the_variation_that_were_asked_for(cv: float) -> None:
    """Over 40,000 gaps; the count of a long stretch is dispersed as that of a renewal process, by CV²."""
    plan = draw(order((10, 4000)), with_cv(cv))
    assert abs(len(plan) - 40_000) < 3.5 * cv * 200
    gaps = np.diff(plan.offsets_s)
    assert gaps.std() / gaps.mean() == pytest.approx(cv, rel=0.05)
    assert dispersion(plan.offsets_s, 20.0, 4000) == pytest.approx(cv**2, rel=0.3)


@every_cv
def test_the_first_seconds_are_like_any_others(cv: float) -> None:
    """The process begins in the middle of itself. With a whole gap first, a CV of 4 would bring 7 of 20 arrivals more."""
    plans = [draw(order((10, 40), repeat=r), with_cv(cv)).offsets_s for r in range(1500)]
    first, later = (np.array([((p >= begin) & (p < begin + 2)).sum() for p in plans]) for begin in (0, 30))
    assert first.mean() == pytest.approx(20, abs=4 * cv * (20 / 1500) ** 0.5)
    assert later.mean() == pytest.approx(20, abs=4 * cv * (20 / 1500) ** 0.5)
    assert first.var() / later.var() == pytest.approx(1, abs=0.25)


def test_gamma_gaps_of_shape_1_are_exponential() -> None:
    plan = draw(order((10, 1000)), with_cv(1 + 1e-9))
    assert ks_distance_from_exponential(np.diff(plan.offsets_s)) < 1.63 / len(plan) ** 0.5
    assert 0.9 < dispersion(plan.offsets_s, 0.2, 1000) < 1.1


@pytest.mark.parametrize("segments", [((2.0, 50.0),), ((6.0, 10.0), (0.0, 5.0), (4.0, 90.0)), ((0.1, 30.0), (700.0, 20.0))])
@pytest.mark.parametrize("seed", [0, 11, 12345])
def test_a_cv_of_1_is_the_poisson_process_of_earlier_versions(segments: tuple[tuple[float, float], ...], seed: int) -> None:
    """Bit for bit, as it was drawn before there was a CV: recorded runs hold no arrivals, only what they are drawn from."""
    plan = draw(order(*segments, seed=seed, repeat=2), SPREAD)
    arrivals, workload = np.random.SeedSequence(seed, spawn_key=(1, 2)).spawn(2)
    rates, durations = (np.array(each) for each in zip(*segments, strict=True))
    mass_end, time_end = np.cumsum(rates * durations), np.cumsum(durations)
    gaps = np.random.Generator(np.random.PCG64(arrivals)).standard_exponential(4 * int(mass_end[-1]) + 100)
    units = np.cumsum(gaps)
    units = units[units < mass_end[-1]]
    segment = np.searchsorted(mass_end, units, side="right")
    due = np.append(0.0, time_end)[segment] + (units - np.append(0.0, mass_end)[segment]) / rates[segment]
    np.testing.assert_array_equal(plan.offsets_s, due)
    lengths = np.random.Generator(np.random.PCG64(workload.spawn(3)[0])).normal(np.log(500), 0.8, len(plan))
    np.testing.assert_array_equal(plan.input_tokens, np.floor(np.clip(np.exp(lengths), 1, 2000)))


def test_nothing_rescales_the_draw() -> None:
    """The count of a repeat, and of its first half, scatters like Poisson's; gaps rescaled to a duration would halve it."""
    plans = [draw(order((2.5, 40), repeat=r), FIXED) for r in range(300)]
    whole = np.array([len(p) for p in plans])
    half = np.array([(p.offsets_s < 20).sum() for p in plans])
    assert 0.8 < whole.var() / 100 < 1.2
    assert 0.8 < half.var() / 50 < 1.2


@every_cv
def test_a_repeat_has_the_same_unit_gaps_and_lengths_at_every_rate(cv: float) -> None:
    slow, fast = draw(order((0.3, 200)), with_cv(cv, SPREAD)), draw(order((7.7, 200)), with_cv(cv, SPREAD))
    n = len(slow)
    assert 0 < n < len(fast)
    np.testing.assert_allclose(slow.offsets_s * 0.3, fast.offsets_s[:n] * 7.7, rtol=1e-12)
    np.testing.assert_array_equal(slow.input_tokens, fast.input_tokens[:n])
    np.testing.assert_array_equal(slow.output_tokens, fast.output_tokens[:n])


@every_cv
def test_segments_bend_time_but_keep_the_draw(cv: float) -> None:
    """Through the integrated rate, piecewise segments hold the unit arrivals of one constant rate."""
    segments = ((6.0, 10.0), (4.0, 20.0), (0.0, 5.0), (8.0, 10.0))
    plan = draw(order(*segments), with_cv(cv))
    units = draw(order((1.0, 60 + 80 + 80)), with_cv(cv)).offsets_s
    starts = np.array([0.0, 10.0, 30.0, 35.0])
    mass = np.array([0.0, 60.0, 140.0, 140.0])
    rates = np.array([6.0, 4.0, 0.0, 8.0])
    integrated = mass[plan.segment] + (plan.offsets_s - starts[plan.segment]) * rates[plan.segment]
    np.testing.assert_allclose(integrated, units, rtol=1e-9)
    assert set(plan.segment.tolist()) == {0, 1, 3}
    assert (np.diff(plan.offsets_s) >= 0).all()
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
    phases: tuple[Phase, ...] = ("ramp", "search", "confirm", "tighten", "single", "preflight", "list", "hold", "prefix")
    firsts = [
        float(draw(order((5, 20), phase=p, repeat=r, seed=s), FIXED).offsets_s[0]) for p in phases for r in (0, 1) for s in (1, 2)
    ]
    assert len(set(firsts)) == len(firsts)


@every_cv
def test_a_seed_of_its_own_gives_new_arrivals_for_the_same_requests(cv: float) -> None:
    workload = with_cv(cv, SPREAD)
    one, other = draw(order((5, 60)), workload), draw(order((5, 60), arrival_seed=12), workload)
    n = min(len(one), len(other))
    assert not np.array_equal(one.offsets_s[:n], other.offsets_s[:n])
    np.testing.assert_array_equal(one.input_tokens[:n], other.input_tokens[:n])
    np.testing.assert_array_equal(one.output_tokens[:n], other.output_tokens[:n])
    prompts = [seeds(order((5, 60), arrival_seed=seed)).prompts.generate_state(4).tolist() for seed in (None, 12)]
    assert prompts[0] == prompts[1]


@every_cv
def test_and_new_requests_at_the_same_times(cv: float) -> None:
    workload = with_cv(cv, SPREAD)
    one, other = draw(order((5, 60)), workload), draw(order((5, 60), seed=12, arrival_seed=11), workload)
    np.testing.assert_array_equal(one.offsets_s, other.offsets_s)
    assert not np.array_equal(one.input_tokens, other.input_tokens)
    assert not np.array_equal(one.output_tokens, other.output_tokens)


def test_the_same_seed_for_both_is_the_seed_of_all() -> None:
    assert digest(draw(order((5, 60), arrival_seed=11), SPREAD)) == digest(draw(order((5, 60)), SPREAD))


def test_lengths_do_not_hang_on_arrivals_or_on_each_other() -> None:
    spread_inputs = Workload(input_tokens=SPREAD.input_tokens, output_tokens=Lengths(median=7))
    both, one = draw(order((3, 30)), SPREAD), draw(order((3, 30)), spread_inputs)
    np.testing.assert_array_equal(both.input_tokens, one.input_tokens)
    np.testing.assert_array_equal(both.offsets_s, one.offsets_s)
    assert (one.output_tokens == 7).all()


@pytest.mark.parametrize("r", [-1.0, -0.4, 0.7, 1.0])
def test_lengths_that_go_together_are_correlated_as_asked_and_spread_as_before(r: float) -> None:
    """Of the logarithms, before they are cut and floored; both lengths alone are drawn as ever."""
    lengths = [Lengths(median=20_000, sigma=sigma, maximum=9_000_000) for sigma in (0.8, 0.6)]
    wide = Workload(input_tokens=lengths[0], output_tokens=lengths[1])
    plan, apart = (draw(order((10, 2000)), replace(wide, length_correlation=each)) for each in (r, 0.0))
    logs = np.log([plan.input_tokens, plan.output_tokens])
    assert np.corrcoef(logs)[0, 1] == pytest.approx(r, abs=0.02)
    assert (logs[1].mean(), logs[1].std()) == (pytest.approx(np.log(20_000), abs=0.02), pytest.approx(0.6, rel=0.03))
    assert np.array_equal(plan.input_tokens, apart.input_tokens)
    assert np.array_equal(plan.offsets_s, apart.offsets_s)
    longer = draw(order((10, 3000)), replace(wide, length_correlation=r))
    assert np.array_equal(longer.output_tokens[: len(plan)], plan.output_tokens), "a request has its lengths however many are drawn"


def test_a_mix_draws_both_lengths_from_one_kind_in_the_shares_of_the_weights() -> None:
    mix = Workload(mix=parse_mix("1024:128=3,4096:64=1"))
    plan, drawn = draw(order((10, 2000)), mix), joint(mix, 10)
    assert plan.part is not None
    assert np.mean(plan.part == 0) == pytest.approx(0.75, abs=0.01)
    assert set(zip(plan.input_tokens.tolist(), plan.output_tokens.tolist(), strict=True)) == {(1024, 128), (4096, 64)}
    assert drawn.mean(drawn.input_tokens) == 1792.0
    assert drawn.share(drawn.output_tokens == 64) == 0.25
    assert drawn.at(drawn.input_tokens, np.array([0.0, 0.75, 0.76, 1.0])).tolist() == [1024, 1024, 4096, 4096]


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


def rows_of(asked: RepeatOrder, rows: int = 2000) -> list[int]:
    mix = tuple(MixPart(input_tokens=1 + at, output_tokens=5, row=at) for at in range(rows))
    plan = draw(asked, Workload(mix=mix))
    assert plan.part is not None
    assert (plan.input_tokens == 1 + plan.part).all()
    return [int(part) for part in plan.part]


def test_no_row_of_a_dataset_comes_twice_before_all_have_come_once() -> None:
    drawn = rows_of(order((10, 100)), rows=300)
    assert len(drawn) > 700
    assert sorted(drawn[:300]) == sorted(drawn[300:600]) == list(range(300))


def test_request_i_is_the_same_row_however_many_there_are_and_whenever_they_come() -> None:
    few, many, bursts = (rows_of(asked) for asked in (order((1, 100)), order((9, 100)), order((9, 100), arrival_seed=3)))
    assert few == many[: len(few)]
    assert many[:500] == bursts[:500]


@pytest.mark.parametrize("phase", ["search", "confirm", "list"])
def test_repeats_share_few_rows(phase: Phase) -> None:
    """Of eight repeats that ask for 200 rows each of 2,000; at random two would share 20, and some pair many more."""
    draws = [None] if phase == "list" else [1, 2, 3, 4]
    repeats = [
        set(rows_of(replace(order((2, 100), phase=phase, repeat=repeat), draw=draw))[:200])
        for draw in draws
        for repeat in range(2 if len(draws) > 1 else 5)
    ]
    shared = [len(a & b) for at, a in enumerate(repeats) for b in repeats[:at]]
    assert sum(shared) / len(shared) < 20


def test_the_rates_of_a_list_get_the_same_rows() -> None:
    assert rows_of(order((2, 100), phase="list", repeat=1))[:100] == rows_of(order((5, 100), phase="list", repeat=1))[:100]


def test_plans_are_read_only() -> None:
    plan = draw(order((5, 20)), SPREAD)
    with pytest.raises(ValueError, match="read-only"):
        plan.offsets_s[0] = 1.0


def digest(plan: Plan) -> str:
    arrays = (plan.offsets_s, plan.segment, plan.input_tokens, plan.output_tokens)
    return hashlib.sha256(b"".join(a.tobytes() for a in arrays)).hexdigest()


def far_away() -> str:
    """What two processes must agree on."""
    asked = order((6, 10), (4, 50), seed=7, arrival_seed=8, repeat=2)
    return "".join(digest(draw(asked, with_cv(cv, SPREAD))) for cv in CVS)


def test_another_process_draws_the_same_plan() -> None:
    code = "from tests.core.load.test_schedule import far_away\nprint(far_away())"
    root = Path(__file__).parents[3]
    there = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True).stdout.strip()
    assert there == far_away()


GROUPED = Workload(prefix=Prefix(kind="shared", tokens=64, groups=5))


def groups(asked: RepeatOrder) -> list[int]:
    drawn = draw(asked, GROUPED).group
    assert drawn is not None
    return [int(group) for group in drawn]


def test_groups_are_drawn_evenly_from_the_seed_of_requests() -> None:
    drawn = groups(order((20, 100)))
    shares = np.bincount(drawn, minlength=5) / len(drawn)
    assert abs(shares - 0.2).max() < 0.05
    other_times = groups(order((20, 100), arrival_seed=12))
    n = min(len(drawn), len(other_times))
    assert drawn[:n] == other_times[:n]
    assert drawn[:n] != groups(order((20, 100), seed=12, arrival_seed=11))[:n]
    assert drawn[:50] == groups(order((1, 100)))[:50]


def test_groups_change_nothing_else_of_a_plan() -> None:
    plain = replace(GROUPED, prefix=COLD)
    assert digest(draw(order((5, 60)), plain)) == digest(draw(order((5, 60)), GROUPED))
    assert draw(order((5, 60)), plain).group is None


def test_a_mix_has_groups_too() -> None:
    mix = (MixPart(input_tokens=100, output_tokens=1), MixPart(input_tokens=200, output_tokens=1))
    plan = draw(order((5, 60)), replace(GROUPED, mix=mix))
    assert plan.group is not None
    assert plan.part is not None
    assert len(plan.group) == len(plan)
    assert len({(part, group) for part, group in zip(plan.part.tolist(), plan.group.tolist(), strict=True)}) == 10


def test_named_groups_are_one_request_each() -> None:
    asked = replace(order(phase="prefix"), segments=(), offsets_s=(0.0, 0.0), groups=(4, 1))
    plan = draw(asked, GROUPED)
    assert plan.group is not None
    assert (plan.group.tolist(), plan.input_tokens.tolist(), plan.output_tokens.tolist()) == ([4, 1], [65, 65], [1, 1])
