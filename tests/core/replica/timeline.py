"""Runs the product's scheduler in virtual time."""

from collections.abc import Callable

from core.engine import EngineSpec
from core.replica.scheduler import Scheduler, Sequence, Step
from tests.core.replica.reference import Timeline

Watch = Callable[[Scheduler, Step], None]


def spec(
    *,
    step_s: float = 0.01,
    per_sequence_s: float = 1e-4,
    per_kv_token_s: float = 1e-7,
    per_prefill_token_s: float = 5e-5,
    kv_blocks: int = 1000,
    max_seqs: int = 256,
    max_batched_tokens: int = 2048,
) -> EngineSpec:
    """An engine with room to spare unless told otherwise."""
    return EngineSpec(
        step_s=step_s,
        per_sequence_s=per_sequence_s,
        per_kv_token_s=per_kv_token_s,
        per_prefill_token_s=per_prefill_token_s,
        kv_blocks=kv_blocks,
        max_seqs=max_seqs,
        max_batched_tokens=max_batched_tokens,
    )


def play(engine: EngineSpec, sequences: list[Sequence], watch: Watch | None = None) -> Timeline:
    """Submit all, run until nothing is left; `watch` sees every step."""
    scheduler = Scheduler(engine)
    for sequence in sequences:
        scheduler.submit(sequence)
    index = {sequence: i for i, sequence in enumerate(sequences)}
    first, finish = [-1.0] * len(sequences), [-1.0] * len(sequences)
    preemptions, now = 0, 0.0
    while (start := scheduler.next_start(now)) is not None:
        step = scheduler.step(start)
        now = step.end_s
        preemptions += step.preempted
        for sequence in step.emitted:
            if sequence.generated == 1:
                first[index[sequence]] = now
            if sequence.finished:
                finish[index[sequence]] = now
        if watch is not None:
            watch(scheduler, step)
    return Timeline(first, finish, preemptions)


def cold(arrivals: list[float], prompts: list[int], outputs: list[int]) -> list[Sequence]:
    """Requests that share no prefix."""
    return [Sequence(a, p, o) for a, p, o in zip(arrivals, prompts, outputs, strict=True)]
