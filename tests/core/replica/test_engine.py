"""The engine in time: absolute steps, late loops, merged deltas, aborts; on clocks of our own."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from prometheus_client.parser import text_string_to_metric_families

from core.engine import EngineSpec
from core.replica.engine import Delta, Engine, Generation
from core.replica.metrics import EngineMetrics
from tests.core.replica.timeline import spec

STEP_S = 0.01
PLAIN = spec(per_sequence_s=0.0, per_kv_token_s=0.0, per_prefill_token_s=0.0)


class VirtualClock:
    """Jumps to where it is asked to, and a little further when `late_s` is set; stands still while `held`."""

    def __init__(self, late_s: float = 0.0) -> None:
        self.t = 100.0
        self.late_s = late_s
        self.free_to_go = asyncio.Event()
        self.free_to_go.set()
        self.waiting = asyncio.Event()

    def now(self) -> float:
        return self.t

    async def sleep_until(self, t: float) -> None:
        self.waiting.set()
        await asyncio.sleep(0)
        await self.free_to_go.wait()
        self.t = max(self.t, t) + self.late_s


@asynccontextmanager
async def running(clock: VirtualClock, engine_spec: EngineSpec = PLAIN) -> AsyncIterator[tuple[Engine, EngineMetrics]]:
    metrics = EngineMetrics("m", engine_spec, 2048)
    engine = Engine(engine_spec, metrics, clock)
    task = asyncio.create_task(engine.run())
    await asyncio.sleep(0)
    try:
        yield engine, metrics
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def collect(generation: Generation) -> list[Delta]:
    deltas = [await generation.next()]
    while deltas[-1].finish_reason is None:
        deltas.append(await generation.next())
    return deltas


def values(metrics: EngineMetrics) -> dict[str, float]:
    families = text_string_to_metric_families(metrics.text().decode())
    return {
        sample.name.removeprefix("vllm:"): sample.value
        for family in families
        for sample in family.samples
        if "le" not in sample.labels and sample.labels.get("finished_reason", "length") == "length"
    }


async def test_tokens_come_one_a_step_and_end_with_length() -> None:
    clock = VirtualClock()
    async with running(clock) as (engine, _):
        deltas = await collect(engine.submit(20, 5, ()))
    assert deltas == [Delta(1, None)] * 4 + [Delta(1, "length")]
    assert abs(clock.t - (100.0 + 5 * STEP_S)) < 1e-9


async def test_a_late_event_loop_does_not_make_the_engine_slower() -> None:
    clock = VirtualClock(late_s=0.7 * STEP_S)
    async with running(clock) as (engine, metrics):
        await collect(engine.submit(20, 400, ()))
        seen = values(metrics)
    assert abs(clock.t - (100.0 + 400 * STEP_S + 0.7 * STEP_S)) < 1e-9
    assert abs(seen["request_decode_time_seconds_sum"] - 399 * STEP_S) < 1e-6
    assert abs(seen["e2e_request_latency_seconds_sum"] - 400.7 * STEP_S) < 1e-6


async def test_a_loop_that_stood_still_catches_up_at_once() -> None:
    clock = VirtualClock()
    async with running(clock) as (engine, _):
        generation = engine.submit(20, 50, ())
        await generation.next()
        clock.t += 30 * STEP_S
        at = clock.t
        for _ in range(30):
            await generation.next()
        assert abs(clock.t - at) < 1e-9
        await collect(generation)
    assert abs(clock.t - (100.0 + 50 * STEP_S)) < 1e-9


async def test_who_arrives_during_a_step_is_scheduled_when_it_ends() -> None:
    clock = VirtualClock()
    async with running(clock) as (engine, metrics):
        clock.free_to_go.clear()
        first = engine.submit(20, 3, ())
        await clock.waiting.wait()
        clock.t += 0.4 * STEP_S
        second = engine.submit(20, 1, ())
        clock.free_to_go.set()
        await asyncio.gather(collect(first), collect(second))
        seen = values(metrics)
    assert abs(seen["request_queue_time_seconds_sum"] - 0.6 * STEP_S) < 1e-9
    assert abs(clock.t - (100.0 + 3 * STEP_S)) < 1e-9


async def test_an_idle_engine_starts_when_the_request_comes() -> None:
    clock = VirtualClock()
    async with running(clock) as (engine, metrics):
        await collect(engine.submit(20, 1, ()))
        clock.t += 5.0
        await collect(engine.submit(20, 1, ()))
        seen = values(metrics)
    assert abs(seen["time_to_first_token_seconds_sum"] - 2 * STEP_S) < 1e-9
    assert seen["request_queue_time_seconds_sum"] == 0.0


async def test_deltas_merge_while_the_reader_is_late() -> None:
    async with running(VirtualClock()) as (engine, _):
        slow, other = engine.submit(20, 7, ()), engine.submit(20, 8, ())
        await collect(other)
        assert await slow.next() == Delta(7, "length")


async def test_an_abort_ends_the_reader_and_empties_the_gauges() -> None:
    async with running(VirtualClock()) as (engine, metrics):
        other = engine.submit(20, 2, ())
        generation = engine.submit(200, 500, ())
        await generation.next()
        await collect(other)
        assert values(metrics)["num_requests_running"] == 1
        engine.abort(generation)
        assert (await collect(generation))[-1].finish_reason == "abort"
        await collect(engine.submit(20, 1, ()))
        seen = values(metrics)
    assert (seen["num_requests_running"], seen["kv_cache_usage_perc"]) == (0.0, 0.0)
    assert seen["request_success_total"] == 2.0  # vLLM does not count a request whose client went away
    assert seen["prompt_tokens_total"] == 240.0


async def test_a_stopped_engine_ends_open_and_later_requests() -> None:
    async with running(VirtualClock()) as (engine, _):
        generation = engine.submit(20, 10**4, ())
        await generation.next()
        engine.stop()
        late = engine.submit(20, 5, ())
        assert (await collect(generation))[-1].finish_reason == "abort"
        assert await collect(late) == [Delta(0, "abort")]


async def test_an_engine_that_is_cancelled_ends_open_requests() -> None:
    async with running(VirtualClock()) as (engine, _):
        generation = engine.submit(20, 10**4, ())
        await generation.next()
        assert not engine.stopped
    assert (await collect(generation))[-1].finish_reason == "abort"
    assert engine.stopped


async def test_counters_and_histograms_of_a_finished_run() -> None:
    hashes = (1, 2, 3)
    async with running(VirtualClock()) as (engine, metrics):
        for _ in range(2):
            await collect(engine.submit(50, 5, hashes))
        seen = values(metrics)
    assert seen["prompt_tokens_total"] == 100.0
    assert seen["generation_tokens_total"] == 10.0
    assert seen["request_success_total"] == 2.0
    assert (seen["prefix_cache_queries_total"], seen["prefix_cache_hits_total"]) == (100.0, 48.0)
    assert seen["inter_token_latency_seconds_count"] == 8.0
    assert seen["request_prompt_tokens_sum"] == 100.0
    assert seen["request_generation_tokens_sum"] == 10.0
    assert abs(seen["request_prefill_time_seconds_sum"] - 2 * STEP_S) < 1e-9


async def test_preemptions_and_kv_usage_show() -> None:
    async with running(VirtualClock(), spec(kv_blocks=10)) as (engine, metrics):
        generations = [engine.submit(63, 60, ()) for _ in range(2)]
        peak = 0.0
        readers = asyncio.gather(*(collect(generation) for generation in generations))
        while not readers.done():
            peak = max(peak, values(metrics)["kv_cache_usage_perc"])
            await asyncio.sleep(0)
        await readers
        seen = values(metrics)
    assert peak == 1.0
    assert seen["num_preemptions_total"] == sum(generation.sequence.preemptions for generation in generations) > 0
