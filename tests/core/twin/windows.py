"""Windows of a simulated replica in virtual time, as a run has them: their orders, figures and records."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from core.engine import EngineSpec, Limits, StepModel
from core.facts import fact
from core.judge import Decision, Tally
from core.judge.window import slo_margin
from core.records import RepeatOrder, RequestRecord, Segment
from core.replica.catalog import Replica
from core.twin import FastEngine, TwinTask, TwinWindow
from tests.core.judge.virtual import Play, probe_of

COMPLETE = Decision(kind="complete", reason=fact("all_decided"))
RATES = (0.6, 0.8, 0.95, 1.1)
"""Of a run, over the knee."""


@dataclass(frozen=True)
class Seen:
    """What a run has of its windows."""

    windows: tuple[TwinWindow, ...]
    records: tuple[RequestRecord, ...]


def constants(engine: EngineSpec) -> StepModel:
    """The true constants of a simulated engine, as a fit would give them."""
    return StepModel(
        a_s=engine.step_s,
        b_s=engine.per_sequence_s,
        c_s=engine.per_kv_token_s,
        p_s=engine.per_prefill_token_s,
        error_frac=0.0,
    )


def limits_of(engine: EngineSpec) -> Limits:
    """What the engine would tell."""
    return Limits(max_seqs=engine.max_seqs, max_batched_tokens=engine.max_batched_tokens, kv_tokens=engine.kv_tokens)


def seen(replica: Replica, seed: int, rates: Sequence[float] = RATES, warmup_s: float = 10.0, measure_s: float = 90.0) -> Seen:
    """One window at each rate (over the knee), each after a warm-up, cut off when the last of its requests has ended."""
    windows: list[TwinWindow] = []
    records: list[RequestRecord] = []
    for step, rate in enumerate(rates, 1):
        order = order_of(rate * (replica.truth_rps or 1.0), seed, step, warmup_s, measure_s)
        tally = played(replica, order, seed)
        window = slo_margin(tally, tally.measured_indices.size, drained=True)
        assert window is not None
        x = None if window.at_target is None else math.log(max(window.at_target, 1e-3))
        windows.append(
            TwinWindow(
                order=order,
                repeat=0,
                from_s=warmup_s,
                to_s=warmup_s + measure_s,
                passed=x is not None and x <= 0,
                x=x,
            )
        )
        records += tally.records
    return Seen(tuple(windows), tuple(records))


def order_of(rate_rps: float, seed: int, step: int, warmup_s: float, measure_s: float) -> RepeatOrder:
    segments = (
        Segment(rate_rps=1.5 * rate_rps, duration_s=warmup_s / 2, role="warmup"),
        Segment(rate_rps=rate_rps, duration_s=warmup_s / 2, role="warmup"),
        Segment(rate_rps=rate_rps, duration_s=measure_s, role="measured"),
        Segment(rate_rps=rate_rps, duration_s=120.0, role="tail"),
    )
    return RepeatOrder(order=step, phase="search", step=step, repeat=0, seed=seed, draw=step, segments=segments, start_at=0.0)


def played(replica: Replica, order: RepeatOrder, seed: int) -> Tally:
    """The order served by the replica until every measured request has ended."""
    play = Play(order, probe_of(replica, seed), lambda plan: FastEngine(replica.engine, plan).run())
    measured = play.tally.measured_indices.size

    def over(now: float) -> Decision | None:
        return COMPLETE if len(play.tally.measured_records) == measured else None

    _, now = play.until(over)
    play.abort(now)
    return play.tally


def task_of(replica: Replica, run: Seen, limits: Limits | None = None, seed: int = 1) -> TwinTask:
    """A reading of these windows."""
    probe = probe_of(replica, seed)
    return TwinTask(
        windows=run.windows,
        workload=probe.workload,
        slo=probe.slo,
        limits=limits or limits_of(replica.engine),
        near_rps=0.9 * (replica.truth_rps or 1.0),
        warmup_s=10.0,
        measure_s=90.0,
        seed=seed,
    )
