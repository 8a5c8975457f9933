"""Tokens of a workload's requests: what is reckoned is what is drawn."""

import msgspec
import numpy as np
import pytest
from msgspec.structs import replace

from core.config import Lengths, Workload
from core.fleet import answers_of, attention_dots, tokens_of
from core.fleet.lengths import tokens_that_came
from core.records import RepeatOrder, Segment
from core.schedule import draw
from core.workloads import parse_mix


@pytest.mark.parametrize(
    ("prompt", "answer", "prefill", "decode"), [(2048, 128, 2_098_176, 268_224), (512, 1664, 131_328, 2_235_072)]
)
def test_two_requests_of_one_total_weigh_differently_in_prefill_and_decode(
    prompt: int, answer: int, prefill: int, decode: int
) -> None:
    assert attention_dots(prompt, answer) == (prefill, decode)
    assert prefill + decode == 2_366_400
    tokens = tokens_of(Workload(input_tokens=Lengths(median=prompt), output_tokens=Lengths(median=answer)))
    assert (tokens.prefill_dots, tokens.decode_dots) == (prefill, decode)


def test_an_answer_of_one_token_comes_out_of_the_prefill() -> None:
    assert attention_dots(10, 1) == (55, 0)


def test_fixed_lengths_are_their_own_mean_and_p90() -> None:
    tokens = tokens_of(Workload(input_tokens=Lengths(median=512), output_tokens=Lengths(median=128)))
    assert (tokens.mean_total, tokens.p90_total, tokens.mean_output, tokens.p90_output) == (640, 640, 128, 128)


LOGNORMAL = Workload(
    input_tokens=Lengths(median=500, sigma=0.9, maximum=4096), output_tokens=Lengths(median=180, sigma=0.7, maximum=1024)
)


@pytest.mark.parametrize(
    "workload",
    [
        LOGNORMAL,
        replace(LOGNORMAL, length_correlation=0.8),
        replace(LOGNORMAL, length_correlation=-0.8),
        Workload(mix=parse_mix("1024:128=3,4096:64=1,200:2000=0.5")),
    ],
)
def test_lengths_are_those_that_the_load_draws(workload: Workload) -> None:
    segment = Segment(rate_rps=1000.0, duration_s=200.0, role="measured")
    plan = draw(RepeatOrder(order=1, phase="search", step=1, repeat=0, seed=3, segments=(segment,), start_at=0.0), workload)
    total = plan.input_tokens + plan.output_tokens
    tokens = tokens_of(workload)
    assert tokens.mean_input == pytest.approx(plan.input_tokens.mean(), rel=0.01)
    assert tokens.mean_output == pytest.approx(plan.output_tokens.mean(), rel=0.01)
    assert tokens.mean_total == pytest.approx(total.mean(), rel=0.01)
    assert tokens.p90_output == pytest.approx(np.percentile(plan.output_tokens, 90), rel=0.01)
    assert tokens.p90_total == pytest.approx(np.percentile(total, 90), rel=0.015)
    drawn = attention_dots(plan.input_tokens.astype(float), plan.output_tokens.astype(float))  # type: ignore[arg-type]
    assert tokens.prefill_dots == pytest.approx(np.mean(drawn[0]), rel=0.02)
    assert tokens.decode_dots == pytest.approx(np.mean(drawn[1]), rel=0.02)


def test_answers_alone_tell_nothing_of_whole_requests() -> None:
    tokens = answers_of(Lengths(median=256))
    assert (tokens.mean_output, tokens.mean_input, tokens.mean_total, tokens.p90_total, tokens.decode_dots) == (
        256,
        None,
        None,
        None,
        None,
    )


def test_answers_that_came_make_requests_as_long_as_they_were() -> None:
    """Answers of one length are the same however it is known, and of scattered ones the sum of both is nearly that of the draws."""
    workload = Workload(input_tokens=Lengths(median=500, sigma=0.9, maximum=4096), output_tokens=Lengths(median=2000))
    exact = tokens_of(Workload(input_tokens=workload.input_tokens, output_tokens=Lengths(median=128)))
    came = tokens_that_came(workload, 128.0, 128.0, 0.0)
    assert msgspec.structs.asdict(came) == pytest.approx(msgspec.structs.asdict(exact), rel=0.01)
    rng = np.random.default_rng(7)
    answers = np.floor(rng.uniform(25, 128, 100_000)) + 1
    prompts = np.floor(np.clip(np.exp(rng.normal(np.log(500), 0.9, answers.size)), 1, 4096))
    came = tokens_that_came(workload, answers.mean(), float(np.percentile(answers, 90)), answers.std())
    assert came.mean_total == pytest.approx((prompts + answers).mean(), rel=0.01)
    assert came.p90_total == pytest.approx(np.percentile(prompts + answers, 90), rel=0.06)
    assert came.decode_dots == pytest.approx(np.mean((answers - 1) * prompts + answers * (answers - 1) / 2), rel=0.02)


@pytest.mark.parametrize(
    ("workload", "p90_prompt"),
    [
        (Workload(mix=parse_mix("1024:128=3,4096:64=1@ttft=9s"), stop="natural"), 4096),
        (replace(LOGNORMAL, length_correlation=0.8, stop="natural"), 1584),
    ],
    ids=["mix", "correlated"],
)
def test_answers_that_came_take_the_place_of_those_asked_for_with_the_same_prompts(workload: Workload, p90_prompt: int) -> None:
    asked, found = tokens_of(workload), tokens_that_came(workload, 60.0, 60.0, 0.0)
    assert (found.mean_output, found.p90_output) == (60.0, 60.0)
    assert found.mean_total == pytest.approx((asked.mean_input or 0.0) + 60.0, rel=0.001)
    assert found.p90_total == pytest.approx(p90_prompt + 60.0, rel=0.01)
    assert found.prefill_dots == pytest.approx(asked.prefill_dots, rel=0.001)
