"""The end of a run whose requests have many lengths, drawn as a run draws them, of which the longest prompts are slow."""

import numpy as np
from msgspec.structs import replace

from core.config import Lengths, Workload
from core.judge import buckets_that_fail
from core.length_classes import LengthClasses, size_bin
from core.records import RepeatOrder, Segment
from core.results import Bucket, RepeatResult, StepResult
from core.schedule import draw
from core.view import RunView
from core.workloads import parse_mix
from tests.tui import knee_samples

DRAWN = Workload(
    input_tokens=Lengths(median=500, sigma=0.9, maximum=6000, minimum=16),
    output_tokens=Lengths(median=120, sigma=0.7, maximum=1000, minimum=4),
)
MIXED = Workload(mix=parse_mix("256:64=5,1024:128=3,4096:64=1,8192:512=1"))


def told_apart(repeat: RepeatResult, work: Workload, seed: int) -> RepeatResult:
    """The same repeat with the lengths of a workload: prompts of more than 512 tokens miss, the more the longer they are. One
    request never ended."""
    order = RepeatOrder(
        order=1,
        phase="search",
        step=1,
        repeat=0,
        seed=seed,
        segments=(Segment(rate_rps=repeat.planned / 40, duration_s=40.0, role="measured"),),
        start_at=0.0,
    )
    plan, classes = draw(order, work), LengthClasses.of(work)
    which = classes.which(plan.input_tokens, plan.output_tokens)
    buckets = []
    for at in np.unique(which).tolist():
        inputs, outputs = plan.input_tokens[which == at], plan.output_tokens[which == at]
        others, n, slow = at == len(classes.spans), inputs.size, max(float(inputs.mean()) / 512 - 1, 0.0)
        good = round(n * (0.99 - 0.06 * min(slow, 2)))
        spans = ((int(inputs.min()), int(inputs.max())), (int(outputs.min()), int(outputs.max()))) if others else classes.spans[at]
        buckets.append(
            Bucket(
                **{"input": spans[0], "output": spans[1], "others": others, "n": n, "decided": n, "good": good, "errors": 0},
                attainment=good / n,
                ttft_p50_s=0.06 + float(inputs.mean()) / 20_000,
                ttft_p95_s=0.1 + float(inputs.mean()) / 9_000,
                tpot_p50_s=0.012,
                tpot_p95_s=0.02,
                e2e_p95_s=0.1 + 0.02 * float(outputs.max()),
            )
        )
    pairs = zip(plan.input_tokens.tolist(), plan.output_tokens.tolist(), strict=True)
    ended = [(size_bin(i), size_bin(o)) for i, o in pairs][1:]
    bins, counts = np.unique(ended, axis=0, return_counts=True)
    sizes = tuple((*pair, n) for pair, n in zip(map(tuple, bins.tolist()), counts.tolist(), strict=True))
    return replace(repeat, planned=len(plan), sent=len(plan), succeeded=len(plan) - 1, buckets=tuple(buckets), sizes=sizes)


def finished(work: Workload = DRAWN) -> RunView:
    """The sample run with these lengths; at the rate that holds the longest prompts fail, and the answer says so."""
    view = knee_samples.finished()
    steps: list[StepResult] = []
    for step in view.steps:
        windows = [told_apart(each, work, 7 * step.step + at) for at, each in enumerate(step.repeats)]
        steps.append(step if step.phase == "ramp" else replace(step, repeats=tuple(windows)))
    assert view.config is not None
    assert view.answer is not None
    notes = buckets_that_fail(view.answer.knee, steps, view.config.slo.target)
    knee = replace(view.answer.knee, notes=(*view.answer.knee.notes, *notes))
    config = replace(view.config, workload=work)
    return replace(view, steps=tuple(steps), config=config, answer=replace(view.answer, knee=knee))
