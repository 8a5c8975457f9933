"""How many tokens the requests of a workload have: means and 90th percentiles, from the distributions they are drawn from."""

from functools import lru_cache
from statistics import NormalDist

import msgspec
import numpy as np
from numpy.typing import NDArray

from core.config import Lengths, Workload

_POINTS = 2000
_POINTS_OF_SUM = 400
"""Midpoints of as many equal shares of the distribution: means within 0.1 %, percentiles of sums within half a percent."""


class Tokens(msgspec.Struct, frozen=True, kw_only=True):
    """Prompt L and answer O of one request, in tokens; drawn apart, so the sum's p90 is less than the sum of both.
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
    """The tokens of a workload's requests, as the load draws them: lognormal, cut to its limits, in whole tokens."""
    answers = answers_of(workload.output_tokens)
    prompts, outputs = _grid(workload.input_tokens, _POINTS), _grid(workload.output_tokens, _POINTS)
    mean_input = float(prompts.mean())
    sums = np.add.outer(_grid(workload.input_tokens, _POINTS_OF_SUM), _grid(workload.output_tokens, _POINTS_OF_SUM)).ravel()
    return msgspec.structs.replace(
        answers,
        mean_input=mean_input,
        mean_total=mean_input + answers.mean_output,
        p90_total=_p90(sums),
        prefill_dots=float(np.mean([attention_dots(prompt, 1)[0] for prompt in prompts])),
        decode_dots=float(np.mean([attention_dots(mean_input, answer)[1] for answer in outputs])),
    )


def answers_of(lengths: Lengths) -> Tokens:
    """What is known when only the length of answers is."""
    outputs = _grid(lengths, _POINTS)
    return Tokens(mean_output=float(outputs.mean()), p90_output=_p90(outputs))


def _grid(lengths: Lengths, points: int) -> NDArray[np.float64]:
    if lengths.fixed:
        return np.array([lengths.median])
    normal = NormalDist(np.log(lengths.median), lengths.sigma)
    drawn = np.exp([normal.inv_cdf((i + 0.5) / points) for i in range(points)])
    cut: NDArray[np.float64] = np.floor(np.clip(drawn, lengths.minimum, lengths.maximum))
    return cut


def _p90(values: NDArray[np.float64]) -> float:
    """Nearest rank."""
    ordered = np.sort(values)
    return float(ordered[int(np.ceil(0.9 * ordered.size - 1e-9)) - 1])
