"""A server whose steps are no straight line of the batch, and uneven in time, as on a machine that others use."""

import heapq
import math
from collections.abc import Callable, Iterator

import msgspec
import numpy as np

from core.config import Lengths, ProbeConfig, Slo, Target, Workload
from core.facts import fact
from core.judge import Decision
from core.records import RepeatOrder, RequestRecord, Segment
from core.schedule import Plan
from core.twin import Emitted
from tests.core.judge.virtual import Play

StepTime = Callable[[int, int], float]
"""Seconds of one step, by how many decode and how many prompt tokens are computed in it."""

SLOTS = 16
INPUT, OUTPUT = 64, 48
UNEVEN = 0.3
"""Of the logarithm of step times: those of one second take up to twice as long as those of the next."""
LASTS_S = 1.5
"""How long a slow moment lasts."""


def straight(decoding: int, prompt_tokens: int) -> float:
    """As of a small model on a processor: a prompt of 64 tokens takes as long as five who decode."""
    return 0.012 + 0.003 * decoding + 0.0003 * prompt_tokens


def quadratic(decoding: int, prompt_tokens: int) -> float:
    """Twice the batch takes nearly four times as long."""
    return 0.02 + 0.0005 * decoding**2 + 0.0003 * prompt_tokens


def with_a_knee(decoding: int, prompt_tokens: int) -> float:
    """Flat up to eight sequences, steep above them."""
    return 0.03 + 0.01 * max(0, decoding - 8) + 0.0003 * prompt_tokens


def flattening(decoding: int, prompt_tokens: int) -> float:
    """Steep at first, then flat."""
    return 0.01 + 0.02 * math.sqrt(decoding) + 0.0003 * prompt_tokens


SERVERS = (straight, quadratic, with_a_knee, flattening)


def serve(plan: Plan, step_s: StepTime, spread: float, seed: int) -> Iterator[Emitted]:
    """The plan on SLOTS slots. Each step takes `step_s` times a factor whose logarithm spreads by `spread` and drifts within
    LASTS_S."""
    rng = np.random.default_rng(seed)
    due, prompt, asked = plan.offsets_s.tolist(), plan.input_tokens.tolist(), plan.output_tokens.tolist()
    now, step, coming, noise = 0.0, 0, 0, spread * rng.standard_normal()
    ends: list[tuple[int, int]] = []
    while coming < len(due) or ends:
        if not ends and coming < len(due):
            now = max(now, due[coming])
        entering: list[int] = []
        while coming < len(due) and due[coming] <= now and len(ends) + len(entering) < SLOTS and not entering:
            entering.append(coming)
            coming += 1
        seconds = step_s(len(ends), sum(prompt[i] for i in entering)) * math.exp(noise)
        now, step = now + seconds, step + 1
        kept = math.exp(-seconds / LASTS_S)
        noise = kept * noise + spread * math.sqrt(1 - kept**2) * rng.standard_normal()
        last = []
        while ends and ends[0][0] <= step:
            last.append(heapq.heappop(ends)[1])
        for i in entering:
            heapq.heappush(ends, (step + max(asked[i] - 1, 1), i))
        if entering or last:
            yield Emitted(now, entering, sorted(last))


def played(
    step_s: StepTime, rate_rps: float, number: int, factor: float = 1.0, spread: float = 0.0, lasts_s: float = 60.0
) -> list[RequestRecord]:
    """A repeat at this rate whose steps take `factor` times as long. What is open at its end is cut off."""
    segments = (Segment(rate_rps=rate_rps, duration_s=lasts_s, role="measured"),)
    order = RepeatOrder(order=number, phase="list", step=1, repeat=number, seed=number, segments=segments, start_at=0.0)
    lengths = [Lengths(median=median, sigma=0.3, maximum=4 * median, minimum=1) for median in (INPUT, OUTPUT)]
    config = ProbeConfig(
        target=Target(url="http://127.0.0.1:8000"),
        slo=Slo(ttft_s=120.0),
        workload=Workload(input_tokens=lengths[0], output_tokens=lengths[1]),
    )

    def changed(decoding: int, prompt_tokens: int) -> float:
        return factor * step_s(decoding, prompt_tokens)

    play = Play(order, config, lambda plan: serve(plan, changed, spread, number))
    play.until(lambda now: Decision(kind="complete", reason=fact("all_decided")) if now >= lasts_s else None)
    play.abort(lasts_s)
    times, later = ("t_sched", "t_sent", "t_first", "t_last", "t_end"), 1000.0 * number
    return [
        msgspec.structs.replace(r, **{name: t + later for name in times if (t := getattr(r, name)) is not None})
        for r in play.tally.records
    ]
