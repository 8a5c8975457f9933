"""What differs, what cannot be compared, and how far latencies moved."""

from typing import Any

import pytest

from core.compare import compare
from core.facts import Fact
from core.results import Knee, Percentiles
from tests.core.compare.sides import asked, repeat, side, step


def differs(what: str, a: Any, b: Any) -> Fact:
    return Fact(code="differs", figures={"what": what, "a": a, "b": b})


def test_what_was_asked_and_what_of_the_server_differs_is_told_with_both_values() -> None:
    flags = {"model": "m", "version": "0.15", "gpus": 1, "tp": None, "config.max_num_seqs": "16"}
    a = side(8.0, 10.0, server=flags)
    b = side(8.0, 10.0, server=flags | {"version": "0.16", "tp": 2, "config.max_num_seqs": "32"}, asked=asked(mode="standard"))
    (told,) = compare([a, b]).against
    assert told.asked == (differs("mode", "quick", "standard"),)
    assert told.server == (differs("version", "0.15", "0.16"), differs("config.max_num_seqs", "16", "32"))


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({"asked": asked(ttft_s=0.5)}, "compare_other_limits"),
        ({"asked": asked(target=0.99)}, "compare_other_limits"),
        ({"asked": asked(api="chat")}, "compare_other_work"),
        ({"asked": asked(output_tokens="64")}, "compare_other_work"),
        ({"asked": asked(gateway="8")}, "compare_other_work"),
        ({"going": True}, "compare_going"),
        ({"held_rps": 4.0}, "compare_held"),
        ({"outcome": "void"}, "compare_no_answer"),
        ({"outcome": "interrupted", "knee": Knee()}, "compare_no_answer"),
    ],
)
def test_runs_that_cannot_be_compared_say_why(given: dict[str, Any], code: str) -> None:
    found = compare([side(8.0, 10.0), side(8.0, 10.0, **given), side(12.0, 14.0)])
    refused, compared = found.against
    assert (refused.verdict, compared.verdict, found.complete) == ("refused", "better", False)
    assert refused.headline.code == "compare_refused"
    assert [why.code for why in refused.headline.of if isinstance(why, Fact)] == [code]
    assert (refused.rates, refused.shifts, refused.tells) == ((), (), ())


def test_a_reference_without_an_answer_is_named() -> None:
    (told,) = compare([side(None, None, outcome="refused", knee=Knee()), side(8.0, 10.0)]).against
    (why,) = told.headline.of
    assert isinstance(why, Fact)
    assert why.figures == {"name": "A", "outcome": "refused"}


def test_all_that_forbids_a_comparison_is_told_at_once() -> None:
    (told,) = compare([side(8.0, 10.0), side(8.0, 10.0, going=True, asked=asked(ttft_s=0.5, stop="natural"))]).against
    assert [why.code for why in told.headline.of if isinstance(why, Fact)] == [
        *("compare_going", "compare_other_limits", "compare_other_work")
    ]


def test_void_repeats_are_told_of() -> None:
    a = side(8.0, 10.0, steps=(step(8.0, "pass", repeat("void"), repeat()),))
    (told,) = compare([a, side(8.0, 10.0)]).against
    assert told.notes[0] == Fact(code="compare_void", figures={"name": "A", "repeats": 1})


def test_each_run_has_a_letter_and_there_must_be_two() -> None:
    found = compare([side(1.0, 2.0)] * 4)
    assert [name for name, _ in found.sides] == ["A", "B", "C", "D"]
    for n in (1, 27):
        with pytest.raises(ValueError, match=f"{n} runs"):
            compare([side(1.0, 2.0)] * n)


def seen(p50_s: float, **given: Any) -> Any:
    values = Percentiles(p50=p50_s, p95=2 * p50_s, n=100)
    return repeat(**({"ttft_s": values, "e2e_s": values} | given))


def test_latencies_move_at_rates_within_two_percent() -> None:
    a = side(4.0, 8.0, steps=(step(2.0, "pass", seen(0.1), seen(0.3), seen(0.2)), step(4.0, "pass", seen(0.4))))
    b = side(4.0, 8.0, steps=(step(2.03, "pass", seen(0.3)), step(4.1, "pass", seen(0.4))))
    (told,) = compare([a, b]).against
    assert {(shift.a_rps, shift.b_rps) for shift in told.shifts} == {(2.0, 2.03)}, "4 and 4.1 are 2.5 % apart"
    assert {(shift.latency, shift.percentile) for shift in told.shifts} == {
        *(("ttft_s", "p50"), ("ttft_s", "p95"), ("e2e_s", "p50"), ("e2e_s", "p95"))
    }
    first = told.shifts[0]
    assert (first.a_s, first.b_s) == (0.2, 0.3)
    assert first.shift_frac == pytest.approx(0.5)


@pytest.mark.parametrize("lucky", [seen(0.1, succeeded=80), seen(0.1, verdict="void")])
def test_percentiles_of_lucky_or_void_windows_count_for_nothing(lucky: Any) -> None:
    a = side(2.0, 8.0, steps=(step(2.0, "pass", seen(0.2)),))
    (told,) = compare([a, side(2.0, 8.0, steps=(step(2.0, "fail", lucky),))]).against
    assert told.shifts == ()


def test_a_ramp_has_no_latencies_of_a_rate() -> None:
    a = side(2.0, 8.0, steps=(step(2.0, "pass", seen(0.2), phase="ramp"),))
    (told,) = compare([a, a]).against
    assert told.shifts == ()
