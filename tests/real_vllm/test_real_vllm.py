"""The whole line against the real vLLM server, scheduler, KV cache and /metrics; only the models are made up.

No test names a rate: machines differ by a factor of four. Nothing is asserted on the wall clock.
"""

import asyncio
import json
import math
import secrets
import statistics
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from core.access import Access
from core.config import Lengths, ProbeConfig, Slo, Target, Workload
from core.load.generator import Generator
from core.records import Hello, LoadDone, Phase, RepeatOrder, RequestEnded, Segment, ServerSample
from core.schedule import draw
from core.server.metrics import Scraper
from core.server.preflight import Preflight
from core.slo import tpot_s, ttft_s
from tests.real_vllm.on_two_cores import answer_of
from tests.real_vllm.server import serve

pytestmark = pytest.mark.vllm

SHORT = Workload(input_tokens=Lengths(median=64), output_tokens=Lengths(median=32))
BRIEF = Workload(input_tokens=Lengths(median=16), output_tokens=Lengths(median=16))
"""So short that a machine which takes a second for a prompt of 64 tokens still serves a hundred requests in a quick search."""


async def test_quick_probe_brackets_the_knee_within_a_factor_of_four(tmp_path: Path) -> None:
    """TTFT 500 ms and TPOT 30 ms, which suit a model that decodes in 10 ms; on a slow machine five times the figures of single
    requests instead. Limits near those of one request would be missed by the machine's own unrest (a shared one changes its speed
    by three), at any rate; five times as long only a queue and a batch can make it."""
    async with serve("small", "--max-num-seqs", "16") as url:
        async with _Loader.of(url, "small", BRIEF) as loader:
            ttft_ms = max(500, _five_times_idle_ms(ttft_s, loader.idle_records))
            tpot_ms = max(30, _five_times_idle_ms(tpot_s, loader.idle_records))
        options = ["--input-tokens", "16", "--output-tokens", "16", "--peak-rps", "100"]
        options += ["--ttft", f"{ttft_ms}ms", "--tpot", f"{tpot_ms}ms"]
        result = await answer_of(["probe", url, *options], tmp_path / "run.jsonl")
    knee = result["knee"]
    print(json.dumps(knee), f"{result['duration_s']:.0f} s")
    assert result["outcome"] == "bracket"
    assert 0 < knee["pass_rps"] < knee["first_fail_rps"] <= 4 * knee["pass_rps"]
    assert result["server"]["version"] == "0.32.0"
    assert result["server"]["kv_cache_tokens"] > 2048
    assert result["fleet"]["replicas"] * result["fleet"]["headroom"] * knee["pass_rps"] >= 100
    judged = [repeat for step in result["steps"] if step["phase"] == "search" for repeat in step["repeats"]]
    assert any(repeat["kv_usage_max"] > 0 for repeat in judged)
    assert all(repeat["prefix_hit_frac"] == 0 for repeat in judged)


async def test_held_rate_agrees_with_the_servers_own_counters() -> None:
    async with serve("small", "--max-num-seqs", "16") as url, _Loader.of(url, "small", SHORT) as loader:
        before = await loader.idle()
        ended = await loader.hold(rate_rps=1.5, duration_s=15)
        after = await loader.idle()
    assert ended
    assert {record.ending for record in ended} == {"ok"}
    assert _delta(before.requests_success_total, after.requests_success_total) == len(ended)
    assert _delta(before.prompt_tokens_total, after.prompt_tokens_total) == sum(record.prompt_tokens or 0 for record in ended)
    assert _delta(before.generation_tokens_total, after.generation_tokens_total) == sum(record.output_tokens for record in ended)
    assert all(record.prompt_tokens == 64 and record.output_tokens == 32 for record in ended)
    assert max(sample.kv_usage_max_frac or 0 for sample in loader.samples) > 0


async def test_few_blocks_make_preemptions_and_a_full_kv_cache_visible() -> None:
    workload = Workload(input_tokens=Lengths(median=120), output_tokens=Lengths(median=200))
    async with (
        serve("tiny", "--num-gpu-blocks-override", "24", "--max-num-seqs", "64") as url,
        _Loader.of(url, "tiny", workload) as loader,
    ):
        before = await loader.idle()
        await loader.hold(rate_rps=30, duration_s=6)
        after = await loader.idle()
    assert _delta(before.preemptions_total, after.preemptions_total) > 0
    assert max(sample.kv_usage_max_frac or 0 for sample in loader.samples) > 0.9
    assert max(sample.waiting or 0 for sample in loader.samples) > 0


def _five_times_idle_ms(latency: Callable[[RequestEnded], float | None], records: list[RequestEnded]) -> int:
    return math.ceil(5000 * statistics.median(latency(record) or 0.0 for record in records))


def _delta(before: float | None, after: float | None) -> float:
    assert before is not None
    assert after is not None
    return after - before


class _Loader:
    """The product's own preflight, generator and scraper, joined as a run joins them but without a search."""

    def __init__(self, url: str, workload: Workload, generator: Generator, http: httpx.AsyncClient) -> None:
        self.workload = workload
        self.generator = generator
        self.messages = generator.messages()
        self.scraper = Scraper(f"{url}/metrics", http)
        self.samples: list[ServerSample] = []
        self.idle_records: list[RequestEnded] = []
        self.orders = 0

    @classmethod
    @asynccontextmanager
    async def of(cls, url: str, model: str, workload: Workload) -> "AsyncIterator[_Loader]":
        """Ready to load: preflight has passed, with a TTFT limit that no machine misses."""
        config = ProbeConfig(target=Target(url=url, model=model), slo=Slo(ttft_s=60.0, tpot_s=None), workload=workload)
        generator = await Generator.start()
        try:
            async with httpx.AsyncClient(trust_env=False) as http:
                loader = cls(url, workload, generator, http)
                preflight = Preflight(config, Access(), secrets.token_hex(8), http, loader.singles)
                checks = [check async for check in preflight.checks()]
                assert [check for check in checks if check.status == "refuse"] == []
                assert preflight.hello is not None
                await generator.hello(preflight.hello)
                loader.idle_records = preflight.singles
                yield loader
        finally:
            await generator.close()

    async def singles(self, hello: Hello, n: int, phase: Phase) -> list[RequestEnded]:
        await self.generator.hello(hello)
        return [ended for i in range(n) for ended in await self._run(self._order(phase, i, offsets_s=(0.0,)))]

    async def hold(self, rate_rps: float, duration_s: float) -> list[RequestEnded]:
        """All requests of one measured segment, none aborted, with the server sampled meanwhile."""
        sampling = asyncio.create_task(self._sample())
        order = self._order("hold", 0, segments=(Segment(rate_rps=rate_rps, duration_s=duration_s, role="measured"),))
        ended = await self._run(order)
        sampling.cancel()
        assert len(ended) == len(draw(order, self.workload))
        return ended

    async def idle(self) -> ServerSample:
        """A reading with nothing running or waiting."""
        async with asyncio.timeout(120):
            while True:
                sample = await self.scraper.once()
                if sample.running == 0 and sample.waiting == 0:
                    return sample
                await asyncio.sleep(0.2)

    async def _sample(self) -> None:
        while True:
            self.samples.append(await self.scraper.once())
            await asyncio.sleep(0.25)

    def _order(
        self, phase: Phase, repeat: int, segments: tuple[Segment, ...] = (), offsets_s: tuple[float, ...] | None = None
    ) -> RepeatOrder:
        self.orders += 1
        return RepeatOrder(
            order=self.orders,
            phase=phase,
            step=0,
            repeat=repeat,
            seed=11,
            segments=segments,
            offsets_s=offsets_s,
            start_at=time.monotonic() + 0.3,
        )

    async def _run(self, order: RepeatOrder) -> list[RequestEnded]:
        await self.generator.order(order)
        ended: list[RequestEnded] = []
        async for message in self.messages:
            if isinstance(message, RequestEnded):
                ended.append(message)
            if isinstance(message, LoadDone):
                return ended
        raise AssertionError("the generator ended")
