"""The curve through all repeats: what one seed counts for, and that the knee is where it should be."""

import random

import pytest

from core.judge.search.fit import Fit, Flip, fit_of, flips
from core.schedule import PHASE_KEY
from tests.core.judge.feed import step_result


def test_a_seed_is_one_observation_however_often_it_ran() -> None:
    steps = [
        step_result(8.0, "pass", "pass", "pass", phase="confirm"),
        step_result(12.0, "mixed", "pass", "fail", phase="confirm"),
        step_result(12.0, "fail", "fail", phase="tighten"),
        step_result(6.0, "void", "void", phase="search"),
    ]
    seen = {(flip.passed_rps, flip.failed_rps) for flip in flips(steps)}
    assert seen == {(12.0, None), (8.0, 12.0), (None, 12.0)}
    once, twice = (fit_of([*steps, *steps[:1] * again], 16.0) for again in (0, 5))
    assert once is not None
    assert twice is not None
    assert once.estimate() == twice.estimate()


def test_a_seed_that_is_not_monotone_flips_between_its_rates() -> None:
    steps = [step_result(8.0, "fail"), step_result(10.0, "pass")]
    assert flips(steps) == [Flip(passed_rps=8.0, failed_rps=10.0, measure_s=60.0)]


def test_nothing_is_fitted_before_something_passed_and_something_failed() -> None:
    assert fit_of([], 16.0) is None
    assert fit_of([step_result(8.0, "fail")], 16.0) is None
    assert fit_of([step_result(8.0, "pass")], None) is None
    assert fit_of([step_result(8.0, "pass")], 16.0) is not None


@pytest.mark.parametrize("spread", [0.05, 0.15])
def test_the_interval_holds_the_knee_and_narrows_with_more_seeds(spread: float) -> None:
    """Seeds flip log-normally around 1.03 times the knee and each is known to within a tenth."""
    noise, held = random.Random(5), 0
    widths: list[float] = []
    for seeds in (4, 12):
        width = 0.0
        for _ in range(20):
            at = [10.3 * 2.718281828 ** noise.gauss(0, spread) for _ in range(seeds)]
            fit = Fit([Flip(passed_rps=t / 1.05, failed_rps=t * 1.05, measure_s=60.0) for t in at], 4.0, 25.0)
            found = fit.estimate()
            held += found.low_rps <= 10.0 <= found.high_rps
            width += found.high_rps / found.low_rps
        widths.append(width)
    assert held >= 36
    assert widths[1] < widths[0]


def test_more_repeats_pass_less_often_and_longer_ones_scatter_less() -> None:
    fit = Fit([Flip(passed_rps=9.0, failed_rps=11.0, measure_s=60.0)] * 3, 4.0, 25.0)
    assert fit.all_pass(9.0, 10, 60.0) < fit.all_pass(9.0, 3, 60.0) < fit.all_pass(8.0, 3, 60.0)
    assert fit.most_fail(13.0, 60.0) > fit.most_fail(11.0, 60.0)
    assert fit.most_fail(14.0, 300.0) > fit.most_fail(14.0, 60.0)
    assert fit.knee_rps(0.1) < fit.knee_rps(0.5) < fit.knee_rps(0.9)


def test_a_list_and_the_confirmation_have_seeds_of_their_own() -> None:
    steps = [step_result(8.0, "pass", phase="confirm"), step_result(6.0, "fail", phase="list")]
    assert {(flip.passed_rps, flip.failed_rps) for flip in flips(steps)} == {(8.0, None), (None, 6.0)}
    assert len(set(PHASE_KEY.values())) == len(PHASE_KEY)
