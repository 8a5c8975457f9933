"""What whole windows say of the knee: the posterior holds it, narrows with windows, and lets a few odd ones be odd."""

import math
import random

import msgspec
import pytest

from core.engine import Limits, StepModel
from core.judge.search.posterior import Window, posterior_of
from core.judge.search.with_twin import ByTwin, with_twin
from core.results import MOST_SHIFT, TwinReading, TwinShift

KNEE_RPS = 10.0
RATES_RPS = (6.0, 8.0, 9.0, 9.5, 10.5, 11.0, 13.0)


def window(rate_rps: float, rng: random.Random | None = None, *, gain: float = 2.0, allowed: float = 20.0, step: int = 0) -> Window:
    """What a server with this knee shows, with noise where there is a source of it."""
    noise = 0.0 if rng is None else rng.gauss(0, 0.07 * (20 / allowed) ** 0.4)
    x = gain * (math.log(rate_rps / KNEE_RPS) + noise)
    return Window(rate_rps=rate_rps, passed=x <= 0, allowed=allowed, x=x, step=step)


def some(seed: int, rounds: int = 1, **kind: float) -> list[Window]:
    rng = random.Random(seed)
    return [window(rate_rps, rng, **kind) for rate_rps in RATES_RPS * rounds]  # type: ignore[arg-type]


def width(windows: list[Window]) -> float:
    known = posterior_of(windows, None)
    assert known is not None
    return math.log(known.knee_rps(0.97) / known.knee_rps(0.03))


@pytest.mark.parametrize("gain", [0.4, 2.0, 6.0])
def test_it_holds_the_knee_of_windows_that_scatter(gain: float) -> None:
    known = [posterior_of(some(seed, gain=gain), None) for seed in range(60)]
    inside = [each for each in known if each is not None and each.knee_rps(0.02) <= KNEE_RPS <= each.knee_rps(0.98)]
    assert len(inside) >= 55


def test_more_windows_narrow_it() -> None:
    assert width(some(1)) > width(some(1, 2)) > width(some(1, 6))


def test_windows_of_few_requests_say_less() -> None:
    assert width(some(2, allowed=4)) > 1.2 * width(some(2, allowed=80))


def test_nothing_is_known_before_a_pass_and_a_fail() -> None:
    assert posterior_of([window(8.0)], None) is None
    assert posterior_of([window(12.0)], None) is None
    assert posterior_of([window(8.0)], 16.0) is not None


def test_one_odd_window_does_not_rule_a_rate_out() -> None:
    odd = Window(rate_rps=7.0, passed=False, allowed=5.0, x=None, least=0.1)
    known = posterior_of([*some(3), odd], None)
    assert known is not None
    assert known.below(7.0) < 0.05


def test_work_by_chance_is_taken_off_what_a_window_showed() -> None:
    """A fail with a fifth more work than its rate lets expect says little against that rate."""
    plain, heavy = (
        posterior_of([*some(4), Window(rate_rps=9.8, passed=False, allowed=40.0, x=0.2, z=z)], None) for z in (0.0, 0.2)
    )
    assert plain is not None
    assert heavy is not None
    assert heavy.below(9.8) < plain.below(9.8)


def test_where_figures_stand_still_until_the_knee_it_is_looked_for_at_the_elbow() -> None:
    """As a server with few places shows it: latencies are those of an idle one until requests wait."""
    below = [Window(rate_rps=rate_rps, passed=True, allowed=20.0, x=-0.32) for rate_rps in (6.0, 7.5, 9.0, 9.5)]
    above = [Window(rate_rps=10.5, passed=False, allowed=20.0, x=0.3), Window(rate_rps=11.5, passed=False, allowed=20.0, x=0.9)]
    known = posterior_of(below + above, None)
    assert known is not None
    assert 9.3 < known.knee_rps(0.5) < 10.5
    assert known.below(8.5) < 0.1


def test_figures_far_below_the_limits_say_no_more_than_that_the_knee_is_not_near() -> None:
    """Lower windows with the same figure move nothing: an idle server would show it, too."""
    fails = [Window(rate_rps=12.0, passed=False, allowed=20.0, x=0.4)]
    known = [
        posterior_of(fails + [Window(rate_rps=rate_rps, passed=True, allowed=20.0, x=-0.3) for rate_rps in (9.0, *more)], None)
        for more in ((), (5.0, 5.5, 6.0))
    ]
    medians = [each.knee_rps(0.5) for each in known if each is not None]
    assert medians[1] == pytest.approx(medians[0], rel=0.1)


def test_a_bound_counts_as_at_least_that_much() -> None:
    near, far = (
        posterior_of([*some(5), Window(rate_rps=11.0, passed=False, allowed=20.0, x=None, least=least)], None)
        for least in (0.0, 0.8)
    )
    assert near is not None
    assert far is not None
    assert far.knee_rps(0.5) < near.knee_rps(0.5)


def test_a_pass_is_likelier_the_lower_the_rate_and_the_fewer_windows() -> None:
    known = posterior_of(some(6), None)
    assert known is not None
    chances = [known.if_passed(rate_rps, 2, 20.0)[0] for rate_rps in (7.0, 9.0, 10.0, 12.0)]
    assert chances == sorted(chances, reverse=True)
    assert known.if_passed(9.0, 1, 20.0)[0] > known.if_passed(9.0, 10, 20.0)[0]


def test_a_verdict_to_come_would_move_it() -> None:
    known = posterior_of(some(7), None)
    assert known is not None
    passed, failed = known.if_passed(9.5, 2, 20.0), known.if_failed(10.5, 20.0)
    assert passed[1] < known.below(9.5)
    assert failed[1] < known.above(10.5)
    assert failed[0] == pytest.approx(1 - known.if_passed(10.5, 1, 20.0)[0])


# --- with a twin ---


def reading(windows: list[Window], *, shift: float = 0.0, scatter: float = 0.01, median: float | None = None) -> TwinReading:
    """A twin whose knee is off by `shift` (log), and whose windows are explained but for `scatter`."""
    rng = random.Random(9)
    shifts = tuple(
        TwinShift(step=each.step, repeat=each.repeat, shift=max(-MOST_SHIFT, min(MOST_SHIFT, shift + rng.gauss(0, scatter))))
        for each in windows
    )
    curve = tuple((at / 100, 1 / (1 + math.exp(at / 4))) for at in range(-22, 31, 4))
    return TwinReading(
        knee_rps=KNEE_RPS * math.exp(shift),
        se_frac=0.012,
        shifts=shifts,
        pass_curve=curve,
        measure_s=60.0,
        median_shift=abs(shift) if median is None else median,
        steps=StepModel(a_s=0.01, b_s=1e-4, c_s=1e-7, p_s=5e-5, error_frac=0.05),
        limits=Limits(max_seqs=256, max_batched_tokens=2048),
    )


def numbered(seed: int) -> list[Window]:
    rng = random.Random(seed)
    return [window(rate_rps, rng, step=at) for at, rate_rps in enumerate(RATES_RPS)]


@pytest.mark.parametrize("shift", [-0.08, 0.0, 0.08])
def test_a_twin_that_explains_the_windows_narrows_it_around_the_true_knee(shift: float) -> None:
    windows = numbered(1)
    plain = posterior_of(windows, None)
    assert plain is not None
    known = with_twin(plain, windows, reading(windows, shift=shift))
    assert isinstance(known, ByTwin)
    assert known.knee_rps(0.02) < KNEE_RPS < known.knee_rps(0.98)
    assert known.knee_rps(0.97) / known.knee_rps(0.03) < plain.knee_rps(0.97) / plain.knee_rps(0.03)


def test_a_window_that_ended_as_a_sure_pass_bounds_its_shift_and_is_no_scatter() -> None:
    """How far it stayed below the limits is not known: the twin needs at most this speed to reach them."""
    windows = numbered(1)
    plain = posterior_of(windows, None)
    assert plain is not None
    seen = reading(windows)
    early = Window(rate_rps=6.5, passed=True, allowed=20.0, x=None, step=50)
    with_it = msgspec.structs.replace(seen, shifts=(*seen.shifts, TwinShift(step=50, repeat=0, shift=0.4, early=True)))
    known, more = with_twin(plain, windows, seen), with_twin(plain, [*windows, early], with_it)
    assert isinstance(known, ByTwin)
    assert isinstance(more, ByTwin)
    assert more.spread == pytest.approx(known.spread, rel=0.1)
    assert more.knee_rps(0.5) == pytest.approx(known.knee_rps(0.5), rel=0.01)


def test_no_verdict_to_come_moves_a_twin() -> None:
    windows = numbered(1)
    plain = posterior_of(windows, None)
    assert plain is not None
    known = with_twin(plain, windows, reading(windows))
    assert known.if_passed(9.5, 2, 20.0)[1] == known.below(9.5)
    assert known.if_failed(10.5, 20.0)[1] == pytest.approx(known.above(10.5))


def test_a_twin_that_explains_nothing_is_left_out() -> None:
    windows = numbered(2)
    plain = posterior_of(windows, None)
    assert plain is not None
    assert with_twin(plain, windows, None) is plain
    assert with_twin(plain, windows, reading(windows, shift=0.2)) is plain, "far from the windows"
    assert with_twin(plain, windows, reading(windows, scatter=0.3)) is plain, "no closer than they are to each other"


def test_windows_that_the_twin_has_not_seen_count_by_their_verdict() -> None:
    windows = numbered(3)
    plain = posterior_of(windows, None)
    assert plain is not None
    seen = reading(windows)
    fails = [Window(rate_rps=9.0, passed=False, allowed=80.0, x=0.1, step=50 + at) for at in range(3)]
    before, after = with_twin(plain, windows, seen), with_twin(plain, [*windows, *fails], seen)
    assert after.below(9.5) > before.below(9.5)
