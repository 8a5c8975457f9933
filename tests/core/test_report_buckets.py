"""Requests by their lengths, in each form of the result."""

from typing import Any

from msgspec.structs import replace

from core import report
from core.config import Slo
from core.facts import fact, says
from core.results import Answer, Bucket, FailCount, Knee, StepResult
from core.run.answers import complete
from core.units import DASH
from core.view import RunView
from tests import builders
from tests.core.test_report import strict, view


def bucket(input_tokens: tuple[int, int], n: int, good: int, **given: Any) -> Bucket:
    figures: dict[str, Any] = {
        **{"output": (128, 128), "decided": n, "errors": n // 50, "attainment": good / n, "ttft_p50_s": 0.1, "ttft_p95_s": 0.4},
        **{"tpot_p50_s": 0.02, "tpot_p95_s": 0.03, "e2e_p95_s": 5.0},
    }
    return Bucket(input=input_tokens, n=n, good=good, **(figures | given))


SHORT, LONG = bucket((512, 1023), 900, 891), bucket((1024, 2047), 100, 80, ttft_p95_s=0.9)
RARE = bucket((64, 4096), 12, 10, others=True, output=(1, 999), tpot_p50_s=None, tpot_p95_s=None)
OPEN = replace(LONG, decided=60, good=20, attainment=None)


def steps(*buckets: Bucket, fails: tuple[Bucket, ...] = (SHORT, OPEN)) -> tuple[StepResult, ...]:
    held = [builders.repeat("pass", index=index, buckets=buckets) for index in (0, 1)]
    return (
        builders.step(11.3, "pass", *held, number=1),
        builders.step(16.0, "fail", builders.repeat("fail", buckets=fails), number=2),
    )


KNEE = Knee(pass_rps=11.3, pass_repeats=2, first_fail_rps=16.0, first_fail=FailCount(failed=1, run=1))


def run(*buckets: Bucket, fails: tuple[Bucket, ...] = (SHORT, OPEN)) -> RunView:
    answer = Answer(outcome="bracket", message="made by hand", knee=KNEE)
    return view(steps=steps(*buckets, fails=fails), answer=answer)


def squeezed(text: str) -> str:
    return " ".join(text.split()).replace(DASH, "-")


def test_the_text_has_a_table_for_each_end_of_the_bracket() -> None:
    whole = report.to_text(run(SHORT, LONG, RARE), None)
    text = squeezed(whole)
    assert "tokens in out requests inside TTFT p50 TTFT p95 TPOT p50 TPOT p95 E2E p95 errors" in text
    assert (
        "By length at 11.3 requests/s, which holds (2,024 requests in 2 repeats; each percentile is the highest of the repeats; "
        "* of too few answers):"
    ) in text
    assert "512-1,023 128 1,800 99.0 % 100 ms 400 ms 20.0 ms 30.0 ms 5.00 s 36" in text
    assert "1,024-2,047 128 200 80.0 % 100 ms 900 ms 20.0 ms 30.0 ms 5.00 s 4" in text
    assert "others 24 83.3 % 100 ms 400 ms* - - 5.00 s* 0" in text
    assert "By length at 16.0 requests/s, which fails (1,000 requests in 1 repeat):" in text
    assert "1,024-2,047 128 100 20.0-60.0 % 100 ms 900 ms 20.0 ms 30.0 ms 5.00 s 2" in text
    assert max(map(len, whole.splitlines())) <= report.WIDTH


def test_where_it_would_be_too_wide_the_medians_are_left_out() -> None:
    wide = {"output": (262_144, 524_287), "attainment": None, "decided": 1_999_999}
    whole = report.to_text(run(SHORT, bucket((262_144, 524_287), 2_000_000, 1_999_998, **wide)), None)
    assert "tokens in out requests inside TTFT p95 TPOT p95 E2E p95 errors" in squeezed(whole)
    assert "512-1,023 128 1,800 99.0 % 400 ms 30.0 ms 5.00 s 36" in squeezed(whole)
    assert max(map(len, whole.splitlines())) <= report.WIDTH


def test_one_kind_of_request_has_no_table() -> None:
    assert "By length" not in report.to_text(run(SHORT, fails=(SHORT,)), None)
    assert "By length" not in report.to_markdown(run(SHORT, fails=(SHORT,)), "x.jsonl")
    assert "By length at 11.3" not in report.to_text(run(SHORT), None)


def test_markdown_has_the_same_tables() -> None:
    text = report.to_markdown(run(SHORT, LONG), "x.jsonl").replace(DASH, "-")
    assert "By length at 11.3 requests/s, which holds (2,000 requests in 2 repeats; each percentile is the highest" in text
    assert "| tokens in | out | requests | inside | TTFT p50 | TTFT p95 | TPOT p50 | TPOT p95 | E2E p95 | errors |" in text
    assert "| 1,024-2,047 | 128 | 200 | 80.0 % | 100 ms | 900 ms | 20.0 ms | 30.0 ms | 5.00 s | 4 |" in text
    assert "By length at 16.0 requests/s, which fails" in text


def test_the_json_has_each_repeat_and_what_came() -> None:
    one = builders.repeat("pass", buckets=(SHORT, RARE), sizes=((18, 14, 90), (19, 14, 3)))
    data = strict(report.to_json(view(steps=(builders.step(11.3, "pass", one),)), None))["steps"][0]["repeats"][0]
    assert [(each["input"], each["output"], each["n"], each["others"]) for each in data["buckets"]] == [
        ([512, 1023], [128, 128], 900, False),
        ([64, 4096], [1, 999], 12, True),
    ]
    assert data["sizes"] == [[18, 14, 90], [19, 14, 3]]


def test_lengths_that_fail_while_the_whole_passes_stand_in_the_answer() -> None:
    said: list[object] = []
    made = run(SHORT, LONG)
    assert made.answer is not None
    assert made.config is not None
    config = replace(made.config, slo=Slo(ttft_s=0.5, tpot_s=0.05))
    answer = complete(made.answer, config, made, None, [fact("bursty_arrivals", arrival_cv=2.0)], said.append)
    (told,) = (note for note in answer.knee.notes if says(note, "bucket_fails"))
    assert told == fact(
        "bucket_fails",
        rate_rps=11.3,
        input_tokens=[1024.0, 2047.0],
        output_tokens=[128.0, 128.0],
        others=False,
        attained_frac=0.8,
        at_most=False,
        target=0.95,
        n=200,
    )
    assert not said
    noted = replace(made, answer=answer)
    assert "prompts of 1,024 to 2,047 tokens" in " ".join(report.to_text(noted, None).split())
    assert strict(report.to_json(noted, None))["knee"]["notes_fact"][-1]["code"] == "bucket_fails"
