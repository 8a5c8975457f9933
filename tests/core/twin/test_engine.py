"""The twin's engine against the replica's own scheduler: every token time is the same, to the last bit."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.engine import EngineSpec
from core.records import RepeatOrder, Segment
from core.replica.catalog import CATALOG, Replica
from core.replica.scheduler import Scheduler, Sequence
from core.schedule import Plan, draw
from core.twin import fast_engine
from tests.core.judge.virtual import probe_of

Times = tuple[dict[int, float], dict[int, float]]


def plan_of(replica: Replica, rate_rps: float, duration_s: float, seed: int) -> Plan:
    segments = (Segment(rate_rps=rate_rps, duration_s=duration_s, role="measured"),)
    order = RepeatOrder(order=1, phase="search", step=1, repeat=0, seed=seed, segments=segments, start_at=0.0)
    return draw(order, probe_of(replica, seed).workload)


def slowly(replica: Replica, plan: Plan) -> tuple[Times, int]:
    """First and last token of each request, and how often one was preempted."""
    scheduler, index_of = Scheduler(replica.engine), dict[Sequence, int]()
    first, last, preempted, now = dict[int, float](), dict[int, float](), 0, 0.0
    for i, due_s in enumerate(plan.offsets_s.tolist()):
        sequence = Sequence(due_s, int(plan.input_tokens[i]), int(plan.output_tokens[i]))
        index_of[sequence] = i
        scheduler.submit(sequence)
    while (start_s := scheduler.next_start(now)) is not None:
        step = scheduler.step(start_s)
        now, preempted = step.end_s, preempted + step.preempted
        for sequence in step.emitted:
            first.setdefault(index_of[sequence], now)
            if sequence.finished:
                last[index_of[sequence]] = now
    return (first, last), preempted


def fast(replica: Replica, plan: Plan) -> Times:
    first, last, before = dict[int, float](), dict[int, float](), 0.0
    for t, started, ended in fast_engine(replica.engine, plan):
        assert t >= before
        before = t
        first.update(dict.fromkeys(started, t))
        last.update(dict.fromkeys(ended, t))
    return first, last


@pytest.mark.parametrize("name", CATALOG)
@settings(deadline=None, max_examples=4)
@given(load=st.floats(0.3, 1.8), seed=st.integers(0, 1000))
def test_it_is_the_replicas_schedule(name: str, load: float, seed: int) -> None:
    replica = CATALOG[name]
    assert replica.truth_rps is not None
    plan = plan_of(replica, load * replica.truth_rps, 8.0, seed)
    assert fast(replica, plan) == slowly(replica, plan)[0]


def test_it_is_the_schedule_where_the_cache_overflows() -> None:
    replica = CATALOG["demo"]
    plan = plan_of(replica, 40.0, 20.0, 3)
    times, preempted = slowly(replica, plan)
    assert preempted > 20
    assert fast(replica, plan) == times


@settings(deadline=None, max_examples=60)
@given(
    seqs=st.integers(1, 12),
    batched=st.integers(12, 600),
    kv_blocks=st.integers(80, 400),
    costs=st.tuples(st.floats(1e-3, 2e-2), st.floats(0, 1e-3), st.floats(0, 1e-6), st.floats(0, 1e-3)),
    load=st.floats(0.2, 3.0),
    seed=st.integers(0, 1000),
)
def test_it_is_the_schedule_of_any_engine(
    seqs: int, batched: int, kv_blocks: int, costs: tuple[float, float, float, float], load: float, seed: int
) -> None:
    """Whatever is scarce: places, tokens of a step or blocks."""
    a, b, c, p = costs
    engine = EngineSpec(
        step_s=a,
        per_sequence_s=b,
        per_kv_token_s=c,
        per_prefill_token_s=p,
        kv_blocks=kv_blocks,
        max_seqs=seqs,
        max_batched_tokens=batched,
    )
    replica = msgspec.structs.replace(CATALOG["demo"], engine=engine)
    per_request_s = (128 * p + 36 * (a + b + 140 * c)) / min(seqs, 4)
    plan = plan_of(replica, load / per_request_s, 60 * per_request_s / load, seed)
    assert fast(replica, plan) == slowly(replica, plan)[0]


def test_what_never_fits_is_refused() -> None:
    plan = plan_of(CATALOG["demo"], 10.0, 10.0, 1)
    spec = CATALOG["demo"].engine
    with pytest.raises(ValueError, match="KV cache"):
        fast_engine(msgspec.structs.replace(spec, kv_blocks=5), plan)
    with pytest.raises(ValueError, match="token for each"):
        fast_engine(msgspec.structs.replace(spec, max_batched_tokens=64), plan)
