"""Prompts that share prefixes, as they are sent, against the replica's own prefix cache: its counters show what was planned."""

import json
import re

import httpx
import msgspec
import pytest

from core.config import Lengths, Workload
from core.load.prompts import Bodies
from core.prefixes import planned_hit_frac
from core.records import RepeatOrder, SharedBlocks
from core.schedule import draw
from core.shared_blocks import found_frac
from core.workloads import Prefix
from tests.core.load.orders import hello, order
from tests.core.replica.serving import FAST, MODEL, calling

WORKLOAD = Workload(
    input_tokens=Lengths(median=100), output_tokens=Lengths(median=1), prefix=Prefix(kind="shared", tokens=70, groups=3)
)
LOAD = order((5, 6))
PREFIXES = msgspec.structs.replace(order(number=2, phase="prefix", offsets_s=(0.0,) * 3), groups=(0, 1, 2))


async def counted(client: httpx.AsyncClient, name: str) -> int:
    """Prompt tokens so far: looked up ("queries"), or found ("hits")."""
    row = re.search(rf"^vllm:prefix_cache_{name}_total\S* (\S+)$", (await client.get("/metrics")).text, re.M)
    assert row is not None
    return int(float(row[1]))


async def sent(client: httpx.AsyncClient, asked: RepeatOrder, nonce: str = "aa", workload: Workload = WORKLOAD) -> tuple[int, int]:
    """Send an order's requests one after another: how many tokens were looked up, and how many found."""
    before = await counted(client, "queries"), await counted(client, "hits")
    plan = draw(asked, workload)
    bodies = Bodies(msgspec.structs.replace(hello(nonce=nonce, workload=workload), model=MODEL), asked, plan)
    for index in range(len(plan)):
        body = json.loads(bodies.build(index)) | {"stream": False}
        del body["stream_options"]
        assert (await client.post("/v1/completions", json=body)).status_code == 200
    return await counted(client, "queries") - before[0], await counted(client, "hits") - before[1]


async def test_the_counters_show_what_was_planned_once_the_prefixes_are_there() -> None:
    async with calling(FAST) as client:
        assert await sent(client, PREFIXES) == (3 * 71, 0)
        queries, hits = await sent(client, LOAD)
        assert hits / queries == planned_hit_frac(WORKLOAD, None) == pytest.approx(0.64)
        again = await sent(client, msgspec.structs.replace(LOAD, order=3))
        assert again == (queries, hits), "no more than the prefix is known of a prompt that comes again"


async def test_a_prefix_that_was_not_sent_is_missed_once_for_each_group() -> None:
    async with calling(FAST) as client:
        queries, hits = await sent(client, LOAD)
        assert hits == queries * 64 // 100 - 3 * 64


async def test_another_run_finds_nothing() -> None:
    async with calling(FAST) as client:
        await sent(client, LOAD)
        assert (await sent(client, PREFIXES, nonce="bb"))[1] == 0


async def test_prefixes_that_the_cache_cannot_hold_are_evicted() -> None:
    """The blocks used last are kept, as many as the KV cache has."""
    small = msgspec.structs.replace(
        FAST, engine=msgspec.structs.replace(FAST.engine, kv_blocks=128), input_tokens=FAST.input_tokens
    )
    many = msgspec.structs.replace(WORKLOAD, prefix=Prefix(kind="shared", tokens=70, groups=400))
    async with calling(small) as client:
        await sent(client, LOAD, workload=many)
        queries, hits = await sent(client, msgspec.structs.replace(LOAD, order=3), workload=many)
    assert hits < 0.2 * queries


async def test_recorded_blocks_are_found_as_an_endless_cache_would_find_them() -> None:
    """Whole blocks of 16 tokens of blocks of 40 that came before in the same order; the ones after it begin anew."""
    blocks = SharedBlocks(block_tokens=40, parents=(-1, 0, 0), blocks=(1, 1, 2), of=(1, 2, 0, 1, -1, 2, 2))
    asked = msgspec.structs.replace(order(offsets_s=(0.0,) * 7), shared=blocks)
    workload = msgspec.structs.replace(WORKLOAD, input_tokens=Lengths(median=130), prefix=Prefix(kind="trace"))
    plan = draw(asked, workload)
    assert plan.known_tokens is not None
    assert plan.known_tokens.tolist() == [0, 40, 40, 80, 0, 120, 120]
    planned = found_frac(plan.known_tokens, plan.input_tokens, 16)
    async with calling(FAST) as client:
        for number in (1, 2):
            queries, hits = await sent(client, msgspec.structs.replace(asked, order=number), workload=workload)
            assert (queries, hits) == (7 * 130, 32 + 32 + 80 + 112 + 112)
            assert hits / queries == planned
