"""Tokens of a workload's requests: what is reckoned is what is drawn."""

import numpy as np
import pytest

from core.config import Lengths, Workload
from core.fleet import answers_of, attention_dots, tokens_of
from core.records import RepeatOrder, Segment
from core.schedule import draw


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


def test_lognormal_lengths_are_those_that_the_load_draws() -> None:
    workload = Workload(
        input_tokens=Lengths(median=500, sigma=0.9, maximum=4096), output_tokens=Lengths(median=180, sigma=0.7, maximum=1024)
    )
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
