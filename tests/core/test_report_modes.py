"""The result and the text of runs with several repeats, lists, required rates, and the moments inside a repeat."""

import msgspec
import pytest

from core import report
from core.config import Method, ProbeConfig, Target
from core.report import to_markdown
from core.results import Answer, Bucket, FailCount, Knee, Percentiles, StepResult, WorstBlock
from tests.core.test_report import ANSWER, STEPS, VIEW, step, strict, view

STANDARD = ProbeConfig(target=Target(url="http://x"), method=Method(mode="standard", reset_cache=True, between=True))


def zones(answer: Answer, steps: tuple[StepResult, ...] = STEPS, config: ProbeConfig = STANDARD) -> list[str]:
    text = report.to_text(view(answer=answer, steps=steps, config=config), None)
    return [line.strip() for line in text.splitlines() if line.strip().startswith(("PASS  ", "MIXED", "FIRST FAIL", "CLEAR FAIL"))]


def test_three_zones_with_the_repeats_behind_each_end() -> None:
    knee = Knee(
        pass_rps=11.3137085, pass_repeats=3, first_fail_rps=12.4, first_fail=FailCount(failed=1, run=2),
        clear_fail_rps=13.7, clear_fail=FailCount(failed=2, run=3),
    )  # fmt: skip

    assert zones(msgspec.structs.replace(ANSWER, knee=knee)) == [
        "PASS        11.3 requests/s, 3 of 3 repeats passed, floor 96.0 %",
        "MIXED       from 12.4 requests/s, 1 of 2 repeats failed",
        "CLEAR FAIL  13.7 requests/s, 2 of 3 repeats failed",
    ]


def test_a_first_fail_that_is_clear_leaves_no_mixed_zone() -> None:
    both = FailCount(failed=2, run=3)
    knee = Knee(pass_rps=None, first_fail_rps=12.4, first_fail=both, clear_fail_rps=12.4, clear_fail=both)

    assert zones(msgspec.structs.replace(ANSWER, outcome="below", knee=knee)) == [
        "PASS        no rate was seen to hold",
        "CLEAR FAIL  12.4 requests/s, 2 of 3 repeats failed",
    ]


def test_what_fixes_the_experiment_is_in_the_result() -> None:
    data = report.result(view(config=STANDARD), None)

    work = data["workload"]
    assert work["sampling"] == {"temperature": 0.0, "top_p": 1.0, "ignore_eos": True}
    assert (work["cache"], work["reset_cache"], work["between"]) == ("cold", True, True)
    assert data["method"]["mode"] == "standard"
    assert data["client"]["hostname_hash"] == "ab12"


BLOCK = WorstBlock(from_s=30.0, to_s=45.0, attainment=0.841)
BUCKETS = (
    Bucket(
        input=(8, 90),
        output=(1, 20),
        n=30,
        decided=30,
        good=27,
        errors=1,
        attainment=0.9,
        ttft_p50_s=0.1,
        ttft_p95_s=0.4,
        tpot_p95_s=None,
        e2e_p95_s=0.5,
    ),
)


def test_worst_block_buckets_and_lag_come_from_the_repeat() -> None:
    steps = (step(2, 11.3, "search", "pass", (0.96, 0.96), worst_block=BLOCK, buckets=BUCKETS, loop_lag_max_s=0.004),)
    one = strict(report.to_json(view(steps=steps), None))["steps"][0]["repeats"][0]

    assert one["worst_block"] == {"from_s": 30.0, "to_s": 45.0, "attainment": 0.841}
    assert one["buckets"] == [
        {
            **{"input": [8, 90], "output": [1, 20], "others": False, "n": 30, "decided": 30, "good": 27, "errors": 1},
            **{"attainment": 0.9, "ttft_p50_s": 0.1, "ttft_p95_s": 0.4, "tpot_p50_s": None, "tpot_p95_s": None, "e2e_p95_s": 0.5},
        }
    ]
    assert one["loop_lag_max_s"] == 0.004


def test_a_worst_block_below_the_target_is_told_as_what_it_is() -> None:
    low = step(2, 11.3, "search", "pass", (0.96, 0.96), worst_block=BLOCK)
    fine = step(3, 12.3, "search", "pass", (0.99, 0.99), worst_block=msgspec.structs.replace(BLOCK, attainment=0.97))
    text = report.to_text(view(steps=(low, fine)), None)

    assert "no independent sample" in text
    assert "11.3 requests/s, repeat 1: 84.1 % from 30 s to 45 s of the window" in text
    assert "12.3 requests/s, repeat 1" not in text
    assert "Worst stretch" not in report.to_text(view(steps=(fine,)), None)


@pytest.mark.parametrize(("met", "words"), [(True, "met"), (False, "not met"), (None, "not judged")])
def test_a_required_rate_is_told_in_text_and_result(met: bool | None, words: str) -> None:
    config = ProbeConfig(target=Target(url="http://x"), method=Method(require_rps=10.0))
    required = view(config=config, answer=msgspec.structs.replace(ANSWER, required_met=met))

    assert f"Required rate 10.0 requests/s: {words}.\n" in report.to_text(required, None)
    assert report.result(required, None)["required"] == {"rate_rps": 10.0, "met": met}
    assert report.result(VIEW, None)["required"] is None


def latency(p50: float, p95: float, p99: float, n: int = 400) -> Percentiles:
    return Percentiles(p50=p50, p95=p95, p99=p99, n=n)


def holding(*repeats: dict[str, Percentiles]) -> tuple[StepResult, ...]:
    """The step that holds in the sample run, with these latencies in its repeats."""
    one = step(2, ANSWER.knee.pass_rps or 0.0, "search", "pass", (0.96, 0.96))
    return (*STEPS[:1], msgspec.structs.replace(one, repeats=tuple(msgspec.structs.replace(one.repeats[0], **r) for r in repeats)))


def test_the_latencies_of_the_rate_that_holds_stand_beside_it() -> None:
    first = {"ttft_s": latency(0.1, 0.3, 0.5), "tpot_s": latency(0.02, 0.03, 0.04), "e2e_s": latency(1.0, 2.0, 3.0)}
    line = (
        "p50 / p95 / p99 at 11.3 requests/s: TTFT 100 ms / 300 ms / 500 ms, TPOT 20.0 ms / 30.0 ms / 40.0 ms, "
        "E2E 1.00 s / 2.00 s / 3.00 s"
    )
    one = view(steps=holding(first))
    assert line in " ".join(report.to_text(one, None).split())
    assert f"\n{line}\n" in to_markdown(one, "")

    second = {"ttft_s": latency(0.2, 0.25, 0.4, n=19), "tpot_s": Percentiles(), "e2e_s": latency(1.5, 1.6, 3.5, n=99)}
    several = (
        "TTFT 200 ms / 300 ms / 500 ms, TPOT 20.0 ms / 30.0 ms / 40.0 ms, E2E 1.50 s / 2.00 s / 3.50 s*; "
        "each the highest of 2 repeats; * of too few answers"
    )
    two = view(steps=holding(first, second))
    assert several in " ".join(report.to_text(two, None).split())
    assert several.replace("*", "\\*") in to_markdown(two, "")


def test_without_a_rate_that_holds_or_without_answers_there_are_no_latencies() -> None:
    none = msgspec.structs.replace(ANSWER, knee=msgspec.structs.replace(ANSWER.knee, pass_rps=None))
    known = {"ttft_s": latency(0.1, 0.3, 0.5)}
    for each in (view(answer=none, steps=holding(known)), view(steps=holding({}))):
        assert "p50 / p95" not in report.to_text(each, None)
        assert "p50 / p95" not in to_markdown(each, "")


def test_held_rates_are_a_table_with_what_was_measured_of_a_segment_that_was_cut_off() -> None:
    late = Percentiles(p95=0.25, n=40)
    held = (
        step(1, 4.0, "hold", "pass", (0.99, 0.99), ttft_s=latency(0.1, 0.2, 0.3), served_rps=3.98),
        step(2, 4.4, "hold", "unjudged", None, ttft_s=late, served_rps=4.3),
    )
    lines = report.to_text(view(steps=held), None).splitlines()
    at = lines.index("Rates held:")

    assert [line.split() for line in lines[at + 2 : at + 4]] == [
        ["4.00", "pass", "1/1", "99.0", "%", "200", "ms", "-", "-", "3.98"],
        ["4.40", "unjudged", "0/0", "-", "250", "ms", "-", "-", "4.30"],
    ]


def test_a_list_is_a_table() -> None:
    late = Percentiles(p95=0.25, n=400)
    listed = (
        step(1, 4.0, "list", "pass", (0.99, 0.99), ttft_s=late, e2e_s=Percentiles(p95=2.5, n=400), served_rps=3.98),
        step(2, 6.0, "list", "fail", (0.2, 0.409)),
        StepResult(step=3, rate_rps=8.0, phase="list", verdict="unjudged", reason="stopped", floor=None, repeats=()),
    )
    lines = report.to_text(view(steps=listed), None).splitlines()
    at = lines.index("Rates asked for:")

    assert [line.split() for line in lines[at + 2 : at + 5]] == [
        ["4.00", "pass", "1/1", "99.0", "%", "250", "ms", "-", "2.50", "s", "3.98"],
        ["6.00", "fail", "0/1", "at", "most", "41", "%", "-", "-", "-", "11.1"],
        ["8.00", "unjudged", "0/0", "-", "-", "-", "-", "-"],
    ]
    assert max(len(line) for line in lines) <= report.WIDTH
