"""How many tokens the requests of a workload have: means and 90th percentiles, of what they are drawn from, or of
answers that stop by themselves from those that came."""

import math
from functools import lru_cache

import msgspec
import numpy as np
from numpy.typing import NDArray

from core.config import Lengths, Workload
from core.schedule import joint, shares_of

_POINTS = 2000
_POINTS_OF_SUM = 400
"""Midpoints of as many equal shares of the distribution: means within 0.1 %, percentiles of sums within half a percent."""


class Tokens(msgspec.Struct, frozen=True, kw_only=True):
    """Prompt L and answer O of one request, in tokens; where they are drawn apart, the sum's p90 is less than the sum of both.
    None: the length of prompts is not known.

    `prefill_dots` and `decode_dots` are the mean dot products of causal attention of one request, per head and layer.
    """

    mean_output: float
    p90_output: float
    mean_input: float | None = None
    mean_total: float | None = None
    p90_total: float | None = None
    prefill_dots: float | None = None
    decode_dots: float | None = None


def attention_dots(prompt: float, answer: float) -> tuple[float, float]:
    """Dot products of dense causal attention, per head and layer, for L >= 1 prompt and O >= 1 answer tokens: (prefill, decode).

    L(L + 1)/2 and (O - 1)L + O(O - 1)/2, since the first token comes out of the prefill. No latency model (projections, MLP and
    scheduling are not in it): it says why two workloads of one total are not one load, and L and O belong together.
    """
    return prompt * (prompt + 1) / 2, (answer - 1) * prompt + answer * (answer - 1) / 2


@lru_cache(maxsize=16)  # 20 ms, and a screen asks at every redraw
def tokens_of(workload: Workload) -> Tokens:
    """The tokens of a workload's requests, as the load draws them: those of its mix, or lognormal, cut to its limits, in whole
    tokens."""
    if workload.joint:
        return _together(workload)
    answers = answers_of(workload.output_tokens)
    prompts, outputs = shares_of(workload.input_tokens, _POINTS), shares_of(workload.output_tokens, _POINTS)
    mean_input, both = float(prompts.mean()), joint(workload, _POINTS_OF_SUM)
    return msgspec.structs.replace(
        answers,
        mean_input=mean_input,
        mean_total=mean_input + answers.mean_output,
        p90_total=_p90(both.input_tokens + both.output_tokens),
        prefill_dots=float(np.mean([attention_dots(prompt, 1)[0] for prompt in prompts])),
        decode_dots=float(np.mean([attention_dots(mean_input, answer)[1] for answer in outputs])),
    )


def _together(workload: Workload) -> Tokens:
    """Where the two lengths of a request belong together."""
    lengths = joint(workload, _POINTS_OF_SUM)
    inputs, outputs = lengths.input_tokens, lengths.output_tokens
    p90 = np.array([0.9])
    dots = [attention_dots(prompt, answer) for prompt, answer in zip(inputs.tolist(), outputs.tolist(), strict=True)]
    prefill_dots, decode_dots = np.array(dots).T
    return Tokens(
        mean_output=lengths.mean(outputs),
        p90_output=float(lengths.at(outputs, p90)[0]),
        mean_input=lengths.mean(inputs),
        mean_total=lengths.mean(inputs + outputs),
        p90_total=float(lengths.at(inputs + outputs, p90)[0]),
        prefill_dots=lengths.mean(prefill_dots),
        decode_dots=lengths.mean(decode_dots),
    )


def answers_of(lengths: Lengths) -> Tokens:
    """What is known when only the length of answers is."""
    outputs = shares_of(lengths, _POINTS)
    return Tokens(mean_output=float(outputs.mean()), p90_output=_p90(outputs))


def tokens_that_came(workload: Workload, mean_output: float, p90_output: float, sd_output: float) -> Tokens:
    """The same where answers stop by themselves: prompts as the load draws them, answers by the mean, p90 and standard deviation of
    those that came.

    Of the sum of both only what is known of each is: its p90 is as far above the mean as two independent parts' are, the root of
    the sum of squares, which is exact where one of them has one length and for normal ones.
    """
    prompts = tokens_of(_with_answers_of_one(workload))
    assert prompts.mean_input is not None
    assert prompts.p90_total is not None
    above = math.hypot(prompts.p90_total - 1 - prompts.mean_input, p90_output - mean_output)
    mean_total, squares = prompts.mean_input + mean_output, mean_output**2 + sd_output**2
    return msgspec.structs.replace(
        prompts,
        mean_output=mean_output,
        p90_output=p90_output,
        mean_total=mean_total,
        p90_total=mean_total + above,
        decode_dots=(mean_output - 1) * prompts.mean_input + (squares - mean_output) / 2,
    )


def _with_answers_of_one(workload: Workload) -> Workload:
    """The same prompts; with answers all alike, whatever is said of the sum of both is said of prompts."""
    mix = tuple(msgspec.structs.replace(part, output_tokens=1, limits_s={}) for part in workload.mix)
    return msgspec.structs.replace(workload, mix=mix, output_tokens=Lengths(median=1), length_correlation=0.0)


def _p90(values: NDArray[np.float64]) -> float:
    """Nearest rank."""
    ordered = np.sort(values)
    return float(ordered[int(np.ceil(0.9 * ordered.size - 1e-9)) - 1])
