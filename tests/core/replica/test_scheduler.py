"""The scheduler in virtual time: against the rules written a second time, exact queues, and what must always hold."""

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.engine import BLOCK_TOKENS, EngineSpec
from core.replica.scheduler import Scheduler, Sequence, Step
from tests.core.replica.reference import simulate
from tests.core.replica.timeline import cold, play, spec

TIGHT = spec(kv_blocks=14, max_batched_tokens=48, max_seqs=6)


@st.composite
def workloads(draw: st.DrawFn) -> tuple[EngineSpec, list[float], list[int], list[int]]:
    """Small engines under every kind of shortage, and requests that fit into them."""
    blocks = draw(st.integers(12, 220))
    engine = spec(kv_blocks=blocks, max_seqs=draw(st.integers(1, 8)), max_batched_tokens=draw(st.sampled_from([16, 40, 64, 2048])))
    n = draw(st.integers(1, 25))
    lengths = st.lists(st.integers(1, 6 * BLOCK_TOKENS - 1), min_size=n, max_size=n)
    gaps = draw(st.lists(st.sampled_from([0.0, 0.003, 0.02, 0.3]), min_size=n, max_size=n))
    return engine, np.cumsum(gaps).tolist(), draw(lengths), draw(lengths)


@given(workloads())
@settings(max_examples=150, deadline=None)
def test_first_tokens_and_finishes_equal_an_independent_model(case: tuple[EngineSpec, list[float], list[int], list[int]]) -> None:
    engine, arrivals, prompts, outputs = case
    assert play(engine, cold(arrivals, prompts, outputs)) == simulate(engine, arrivals, prompts, outputs)


def test_equals_the_independent_model_on_a_long_busy_run() -> None:
    rng = np.random.default_rng(5)
    engine = spec(per_sequence_s=4e-4, kv_blocks=224)
    n = 1500
    arrivals = np.cumsum(rng.exponential(1 / 21, n)).tolist()
    prompts = np.clip(rng.lognormal(np.log(128), 0.3, n), 8, 512).astype(int).tolist()
    outputs = np.clip(rng.lognormal(np.log(40), 0.5, n), 1, 128).astype(int).tolist()
    ours = play(engine, cold(arrivals, prompts, outputs))
    assert ours == simulate(engine, arrivals, prompts, outputs)
    assert ours.preemptions > 10


@given(workloads())
@settings(max_examples=80, deadline=None)
def test_blocks_are_conserved_and_everything_finishes(case: tuple[EngineSpec, list[float], list[int], list[int]]) -> None:
    engine, arrivals, prompts, outputs = case
    sequences = cold(arrivals, prompts, outputs)

    def watch(scheduler: Scheduler, step: Step) -> None:
        held = sum(sequence.blocks for sequence in scheduler.running)
        assert held + scheduler.free_blocks == engine.kv_blocks
        assert step.used_blocks == held
        assert all(sequence.blocks * BLOCK_TOKENS >= sequence.context for sequence in scheduler.running)
        assert sum(sequence.planned for sequence in scheduler.running) <= engine.max_batched_tokens
        assert len(scheduler.running) <= engine.max_seqs

    result = play(engine, sequences, watch)
    assert all(sequence.generated == output for sequence, output in zip(sequences, outputs, strict=True))
    assert all(a < f <= e for a, f, e in zip(arrivals, result.first_s, result.finish_s, strict=True))
    assert sum(sequence.preemptions for sequence in sequences) == result.preemptions


@given(workloads())
@settings(max_examples=80, deadline=None)
def test_first_tokens_come_in_order_of_arrival(case: tuple[EngineSpec, list[float], list[int], list[int]]) -> None:
    engine, arrivals, prompts, outputs = case
    result = play(engine, cold(arrivals, prompts, outputs))
    if not result.preemptions:
        assert result.first_s == sorted(result.first_s)


def test_a_step_costs_what_its_batch_says() -> None:
    engine = spec(step_s=1.0, per_sequence_s=0.1, per_kv_token_s=0.01, per_prefill_token_s=0.001)
    scheduler = Scheduler(engine)
    for sequence in cold([0.0, 0.0], [20, 30], [3, 3]):
        scheduler.submit(sequence)
    assert scheduler.step(0.0).duration_s == pytest.approx(1 + 0.001 * 50)
    assert scheduler.step(2.0).duration_s == pytest.approx(1 + 0.1 * 2 + 0.01 * (20 + 30))
    assert scheduler.step(4.0).duration_s == pytest.approx(1 + 0.1 * 2 + 0.01 * (21 + 31))


@pytest.mark.parametrize(("known", "cached"), [(0, 0), (40, 32), (500, 96)])
def test_a_prefix_that_every_prompt_has_is_not_computed(known: int, cached: int) -> None:
    """In whole blocks, and never the last token, since the answer starts from it."""
    engine = msgspec.structs.replace(spec(step_s=1.0, per_prefill_token_s=0.001), known_prefix_tokens=known)
    scheduler = Scheduler(engine)
    sequence = cold([0.0], [112], [2])[0]
    scheduler.submit(sequence)
    assert scheduler.step(0.0).duration_s == pytest.approx(1 + 0.001 * (112 - cached))
    assert sequence.cached_tokens == cached


def test_a_long_prompt_is_computed_in_chunks_beside_the_decoding_ones() -> None:
    scheduler = Scheduler(spec(max_batched_tokens=100))
    short, long = cold([0.0, 0.0], [10, 250], [5, 5])
    scheduler.submit(short)
    scheduler.step(0.0)
    scheduler.submit(long)
    chunks = []
    while not long.generated:
        assert scheduler.step(1.0).emitted[0] is short
        chunks.append(long.planned)
    assert chunks == [99, 99, 52]


def test_the_one_admitted_last_is_preempted_recomputes_all_and_resumes_first() -> None:
    scheduler = Scheduler(spec(kv_blocks=10))
    old, young, late = cold([0.0, 0.0, 0.0], [63, 63, 63], [40, 40, 2])
    for sequence in (old, young, late):
        scheduler.submit(sequence)
    step = scheduler.step(0.0)
    assert step.emitted == [old, young]  # 8 of 10 blocks: the third must wait
    assert step.waiting == 1
    while not young.preemptions:
        step = scheduler.step(0.0)
    assert step.preempted == 1
    assert (young.blocks, young.context, young.prefill_left) == (0, 0, 63 + young.generated)
    assert young not in step.emitted
    assert old in step.emitted
    assert step.admitted == []  # nothing is let in by a step that had to preempt
    kept = young.generated
    while young not in step.emitted:
        assert late not in step.emitted
        step = scheduler.step(0.0)
    assert young.generated == kept + 1
    assert step.emitted.index(young) < step.emitted.index(late)


@pytest.mark.parametrize(("free_blocks", "admitted"), [(10, 2), (9, 1)])
def test_an_admission_leaves_one_percent_free_beside_others(free_blocks: int, admitted: int) -> None:
    scheduler = Scheduler(spec(kv_blocks=200, max_batched_tokens=10_000))  # two blocks are kept free
    first, second = (200 - free_blocks) * BLOCK_TOKENS - 8, 8 * BLOCK_TOKENS
    for sequence in cold([0.0, 0.0], [first, second], [1, 1]):
        scheduler.submit(sequence)
    assert len(scheduler.step(0.0).admitted) == admitted


def test_alone_a_request_may_take_every_block() -> None:
    scheduler = Scheduler(spec(kv_blocks=200, max_batched_tokens=10_000))
    (only,) = cold([0.0], [200 * BLOCK_TOKENS - 1], [1])
    scheduler.submit(only)
    assert scheduler.step(0.0).emitted == [only]


def test_one_slot_waits_exactly_as_lindley_says() -> None:
    rng = np.random.default_rng(3)
    engine = spec(max_seqs=1, per_kv_token_s=0.0)
    n = 300
    arrivals = np.cumsum(rng.exponential(0.2, n)).tolist()
    prompts, outputs = rng.integers(1, 100, n).tolist(), rng.integers(1, 20, n).tolist()
    result = play(engine, cold(arrivals, prompts, outputs))
    free_at = 0.0
    for i in range(n):
        begin = max(arrivals[i], free_at)
        free_at = begin + 0.01 + 5e-5 * prompts[i] + (outputs[i] - 1) * (0.01 + 1e-4)
        assert result.first_s[i] == pytest.approx(begin + 0.01 + 5e-5 * prompts[i], abs=1e-9)
        assert result.finish_s[i] == pytest.approx(free_at, abs=1e-9)


def test_one_slot_under_poisson_waits_as_pollaczek_and_khinchine_say() -> None:
    rng = np.random.default_rng(8)
    n, service_s, load = 40_000, 0.015, 0.7
    arrivals = np.cumsum(rng.exponential(service_s / load, n))
    result = play(spec(max_seqs=1), cold(arrivals.tolist(), [100] * n, [1] * n))
    wait_s = np.mean(np.array(result.first_s) - arrivals) - service_s
    assert wait_s == pytest.approx(load * service_s / (2 * (1 - load)), rel=0.04)


def test_who_has_not_arrived_yet_takes_no_part() -> None:
    scheduler = Scheduler(spec())
    now, later = cold([1.0, 1.5], [10, 10], [2, 2])
    scheduler.submit(now)
    scheduler.submit(later)
    assert scheduler.next_start(0.0) == 1.0
    assert scheduler.step(1.0).emitted == [now]
    assert scheduler.step(1.5).emitted == [now, later]
    assert scheduler.next_start(1.51) == 1.51
    scheduler.step(1.51)
    assert scheduler.next_start(1.6) is None


@pytest.mark.parametrize("progress", [0, 1, 3])
def test_an_aborted_request_frees_its_blocks_at_the_next_step(progress: int) -> None:
    scheduler = Scheduler(spec())
    gone, stays = cold([0.0, 0.0], [100, 50], [50, 50])
    scheduler.submit(gone)
    scheduler.submit(stays)
    for _ in range(progress):
        scheduler.step(0.0)
    scheduler.abort(gone)
    step = scheduler.step(0.0)
    assert step.emitted == [stays]
    assert step.used_blocks == stays.blocks


def test_the_last_abort_leaves_an_empty_engine_after_one_empty_step() -> None:
    scheduler = Scheduler(spec())
    (only,) = cold([0.0], [100], [50])
    scheduler.submit(only)
    scheduler.step(0.0)
    scheduler.abort(only)
    assert scheduler.next_start(3.0) == 3.0
    step = scheduler.step(3.0)
    assert (step.duration_s, step.running, step.waiting, step.used_blocks) == (0.0, 0, 0, 0)
    assert scheduler.next_start(3.0) is None


def test_an_aborted_preempted_request_does_not_come_back() -> None:
    scheduler = Scheduler(TIGHT)
    sequences = cold([0.0] * 4, [30] * 4, [90] * 4)
    for sequence in sequences:
        scheduler.submit(sequence)
    while not any(sequence.preemptions for sequence in sequences):
        scheduler.step(0.0)
    victim = next(sequence for sequence in sequences if sequence.preemptions)
    scheduler.abort(victim)
    generated = victim.generated
    while scheduler.next_start(0.0) is not None:
        scheduler.step(0.0)
    assert victim.generated == generated
    assert all(sequence.finished for sequence in sequences if sequence is not victim)
    assert scheduler.free_blocks == TIGHT.kv_blocks


def test_what_could_never_fit_is_refused() -> None:
    scheduler = Scheduler(spec(kv_blocks=4))
    with pytest.raises(ValueError, match="does not fit"):
        scheduler.submit(Sequence(0.0, 60, 5))
    scheduler.submit(Sequence(0.0, 60, 4))
    with pytest.raises(ValueError, match="at least one"):
        scheduler.submit(Sequence(0.0, 0, 4))


@pytest.mark.parametrize("wrong", [{"step_s": 0.0}, {"per_kv_token_s": -1.0}, {"step_s": float("nan")}, {"kv_blocks": 0}])
def test_an_engine_that_cannot_be_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="must be"):
        spec(**wrong)  # type: ignore[arg-type]
