"""Better, worse, or not told apart: on which two measured verdicts a claim rests, and what would tell."""

from typing import Any

import pytest
from msgspec.structs import replace

from core.compare import Against, Side, Step, compare
from core.facts import Fact
from core.results import Knee
from tests.core.compare.sides import asked, repeat, requests, side, step


def told(a: Side, b: Side) -> Against:
    (found,) = compare([a, b]).against
    return found


def codes(*facts: Fact) -> list[str]:
    return [each.code for each in facts]


@pytest.mark.parametrize(
    ("a", "b", "verdict"),
    [
        ((8.0, 10.0), (10.1, 13.0), "better"),
        ((10.1, 13.0), (8.0, 10.0), "worse"),
        ((8.0, 10.0), (10.0, 13.0), "not_told"),
        ((8.0, 10.0), (9.0, 13.0), "not_told"),
        ((None, 5.0), (6.0, 8.0), "better"),
        ((8.0, None), (10.0, 13.0), "not_told"),
        ((8.0, None), (4.0, 6.0), "worse"),
        ((8.0, 10.0), (None, 7.0), "worse"),
    ],
)
def test_what_one_holds_the_other_was_measured_not_to_hold(a: Any, b: Any, verdict: str) -> None:
    found = told(side(*a), side(*b))
    assert found.verdict == verdict
    if verdict == "better":
        assert found.headline.figures["pass_rps"] > found.headline.figures["fail_rps"] == a[1]  # type: ignore[operator]
        assert found.tells == ()


def test_a_server_that_misses_when_idle_is_worse_than_any_that_holds() -> None:
    none = side(None, None, outcome="infeasible", knee=Knee())
    assert (told(side(1.0, 2.0), none).verdict, told(none, side(1.0, 2.0)).verdict) == ("worse", "better")
    assert told(none, none).verdict == "not_told"


def listed(verdict: str, margin: float = 0.5, repeats: int = 3, failed: int = 1, n: int = 121, upper: float = 0.9) -> Side:
    """Rates 2 and 4, which all of its repeats passed, or 4 failed in so many that ran, by at most `upper`."""
    its = asked(rates="2, 4")
    low = step(2.0, "pass", *[repeat(requests=requests(n, margin=margin))] * repeats)
    if verdict == "pass":
        knee = Knee(pass_rps=4.0, pass_repeats=repeats)
        return side(4.0, None, outcome="at_least", asked=its, knee=knee, steps=(low, step(4.0, "pass", *[repeat()] * repeats)))
    knee = Knee(pass_rps=2.0, pass_repeats=repeats, first_fail_rps=4.0)
    return side(2.0, 4.0, asked=its, knee=knee, steps=(low, step(4.0, "fail", *[repeat("fail", (0.1, upper))] * failed)))


def test_one_draw_decides_where_what_is_paired_says_the_same() -> None:
    """A list stops a rate at its first failing repeat; the same requests below it use more of their limits."""
    found = told(listed("pass"), listed("fail", margin=0.6))
    assert (found.verdict, found.headline.code) == ("worse", "compare_worse_at")
    assert (found.headline.figures["passed"], found.headline.figures["failed"], found.headline.figures["run"]) == (3, 1, 1)
    assert told(listed("fail", margin=0.6), listed("pass")).verdict == "better"


def test_one_draw_decides_nothing_where_the_pairs_do_not_say_so() -> None:
    """Alike, or against it."""
    assert told(listed("pass"), listed("fail")).verdict == "not_told"
    assert told(listed("pass"), listed("fail", margin=0.4)).verdict == "not_told"
    assert codes(*told(listed("pass"), listed("fail")).tells) == ["compare_open", "compare_thin"]


def test_the_same_window_far_apart_needs_no_interval() -> None:
    """It was cut at its fail: at most 60 % of what 99 % of the other's met, by the same requests."""
    assert told(listed("pass", n=0), listed("fail", n=0, upper=0.6)).verdict == "worse"
    assert told(listed("fail", n=0, upper=0.6), listed("pass", n=0)).verdict == "better"


def test_one_interval_of_many_is_luck() -> None:
    """At one of three rates the same requests use more of their limits."""

    def three(*margins: float) -> tuple[Step, ...]:
        return tuple(step(at / 2, "pass", repeat(requests=requests(121, margin=each))) for at, each in enumerate(margins, 1))

    a, b = listed("pass"), listed("fail")
    like, once, most = three(0.5, 0.5, 0.5), three(0.6, 0.5, 0.5), three(0.6, 0.6, 0.5)
    verdicts = [told(replace(a, steps=(*like, a.steps[1])), replace(b, steps=(*its, b.steps[1]))).verdict for its in (once, most)]
    assert verdicts == ["not_told", "worse"]


def test_without_any_pair_known_it_takes_a_clear_fail() -> None:
    assert told(listed("pass", n=0), listed("fail", n=0)).verdict == "not_told", "one failing repeat"
    assert told(listed("pass", n=0, repeats=2), listed("fail", n=0, repeats=2, failed=2)).verdict == "worse"


def test_brackets_and_pairs_that_disagree_decide_nothing() -> None:
    """B's bracket lies above A's, and the same requests use more of their limits there."""
    a, b = side(5.0, 6.0, steps=listed("pass").steps), side(7.0, 8.0, steps=listed("pass", margin=0.6).steps)
    assert told(a, b).verdict == "not_told"
    assert told(replace(a, steps=()), b).verdict == "better"


def higher(one: Side, factor: float) -> Side:
    """The same list at rates so many times as high, by other seeds: nothing is paired."""
    ends = {name: factor * value for name in ("pass_rps", "first_fail_rps") if (value := getattr(one.knee, name)) is not None}
    steps = tuple(replace(each, rate_rps=factor * each.rate_rps) for each in one.steps)
    return replace(one, knee=replace(one.knee, **ends), steps=steps, asked=asked(rates="3, 6", arrival_seed=12, workload_seed=12))


def test_a_list_by_other_seeds_must_hold_and_fail_by_more_than_one_repeat() -> None:
    """One repeat at 4 failed, and 6 holds by three: so near a knee that may be luck."""
    thin = told(listed("fail"), higher(listed("pass"), 1.5))
    assert (thin.verdict, codes(*thin.tells)) == ("not_told", ["compare_open", "compare_thin"])
    assert told(listed("fail", failed=2), higher(listed("pass"), 1.5)).verdict == "better"
    assert told(listed("fail", failed=2), higher(listed("pass", repeats=1), 1.5)).verdict == "not_told"


def drifting(low: float, high: float, drift: float) -> Side:
    return side(low, high, steps=(step(low, "pass", repeat(drift_frac=0.0), repeat(drift_frac=drift)),))


def test_a_server_that_changed_must_be_further_apart_than_it_changed() -> None:
    """Steps took 30 % longer at its end: a claim needs more than that, and says so."""
    near, far = (told(side(8.0, 10.0), drifting(low, 20.0, 0.3)) for low in (11.0, 14.0))
    assert (near.verdict, codes(*near.tells)) == ("not_told", ["compare_unsteady"])
    assert far.verdict == "better"
    for found in (near, far):
        (mark,) = found.headline.of
        assert isinstance(mark, Fact)
        assert (mark.code, mark.figures["name"]) == ("compare_drift", "B")
        assert mark.figures["slowest_frac"] == pytest.approx(0.3)
    faster = told(side(8.0, 10.0), drifting(11.0, 20.0, -0.25))
    assert faster.verdict == "not_told"
    assert told(side(8.0, 10.0), drifting(10.5, 20.0, 0.05)).verdict == "better", "5 % is no change"


def test_a_run_that_was_ended_says_so_in_its_headline() -> None:
    found = told(side(8.0, 10.0, outcome="interrupted"), side(11.0, 12.0))
    assert (found.verdict, found.headline.of) == ("better", (Fact(code="compare_unfinished", figures={"name": "A"}),))


def test_middles_within_five_percent_are_not_told_by_any_bracket() -> None:
    found = told(side(8.0, 10.0), side(8.2, 10.2))
    assert codes(*found.tells) == ["compare_near"]
    assert found.tells[0].figures["apart_frac"] == pytest.approx(0.0225, abs=1e-3)


def test_the_time_grows_with_the_square_of_what_is_missing() -> None:
    """Brackets 50 % wide whose middles are 20 % apart: (ln 1.5 / ln 1.2)^2 = 4.95 times 180 s, which a standard search takes."""
    (tell,) = told(side(8.0, 12.0), side(9.6, 14.4)).tells
    assert tell.code == "compare_longer"
    assert tell.figures["time_s"] == pytest.approx(4.946 * 180, rel=1e-3)
    assert tell.figures["apart_frac"] == pytest.approx(0.2)
    assert tell.figures["mode"] == "standard"
    (longer,) = told(side(8.0, 12.0, duration_s=3000.0), side(9.6, 14.4)).tells
    assert longer.figures["mode"] is None, "longer than any mode"
    (unknown,) = told(side(8.0, 12.0, duration_s=None), side(9.6, 14.4, duration_s=None)).tells
    assert (unknown.figures["time_s"], unknown.figures["mode"]) == (None, None)


def test_an_end_that_is_not_known_is_asked_for() -> None:
    found = told(side(8.0, None, outcome="at_least"), side(None, 9.0, outcome="below"))
    assert [(tell.code, tell.figures["name"], tell.figures["end"]) for tell in found.tells] == [
        ("compare_open", "A", "upper"),
        ("compare_open", "B", "lower"),
    ]


def test_a_rate_of_one_draw_says_how_many_repeats_it_would_take() -> None:
    """Differences that scatter more than they are: the interval must become as narrow as the mean is large."""
    ours, theirs = (0.97, 0.98, 0.99), (0.93, 0.98, 0.98)
    a, b = (side(4.0, 5.0, steps=(step(4.0, "pass", *map(lambda s: repeat(attainment=s), shares)),)) for shares in (ours, theirs))
    tell = next(each for each in told(a, b).tells if each.code == "compare_repeats")
    (rate,) = told(a, b).rates
    assert rate.difference is not None
    half = (rate.difference.high - rate.difference.low) / 2
    assert tell.figures["repeats"] == pytest.approx(3 * (half / abs(rate.difference.mid)) ** 2, abs=1)


def test_seeds_do_not_hinder_a_claim_by_brackets() -> None:
    assert told(side(8.0, 10.0), side(11.0, 13.0, asked=asked(arrival_seed=1, workload_seed=1))).verdict == "better"
