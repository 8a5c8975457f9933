"""Two real vLLM servers behind a gateway: a round robin of our own, and nginx where it is installed.

What each replica did by its own counters is held against the gateway's word for who answered each request. No rate means anything
here: limits are loose, and the target so low that a window of twelve seconds has requests enough.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import pytest_asyncio

from core.records import LoadDone, RequestEnded
from core.run import read_run
from core.run.events import RepeatStarted, ServerSampled
from tests.real_vllm import gateways
from tests.real_vllm.on_two_cores import answer_of
from tests.real_vllm.server import serve

pytestmark = [pytest.mark.vllm, pytest.mark.asyncio(loop_scope="module")]

ASKED = ["--input-tokens", "64", "--output-tokens", "64"]
LOOSE = ["--ttft", "20s", "--target", "80%"]
LISTED = ["--rates", "3", "--measure", "12s"]
EDGE_S = 2.0
"""A replica's reading may be a second old, and an answer that it has counted is still on its way to us."""
EVEN = 0.35
"""An even share may be told to be so much off: of the dozen requests that each gets, some end beside the readings."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def replicas() -> AsyncIterator[list[str]]:
    """Two servers with the same model, started beside each other; of so few blocks, one request's can be seen."""
    async with AsyncExitStack() as opened:
        async with asyncio.TaskGroup() as starting:
            one = ("tiny", "--max-num-seqs", "16", "--num-gpu-blocks-override", "256")
            both = [starting.create_task(opened.enter_async_context(serve(*one))) for _ in range(2)]
        yield [each.result() for each in both]


async def test_the_replicas_behind_our_round_robin_tell_what_it_gave_them(replicas: list[str], tmp_path: Path) -> None:
    async with gateways.behind_round_robin(replicas) as gateway:
        await told_and_given_agree(gateway, replicas, tmp_path / "run.jsonl")


async def test_the_replicas_behind_nginx_tell_what_it_gave_them(replicas: list[str], tmp_path: Path) -> None:
    if gateways.nginx() is None:
        pytest.skip("nginx is not installed here")
    async with gateways.behind_nginx(replicas) as gateway:
        await told_and_given_agree(gateway, replicas, tmp_path / "run.jsonl")


async def test_a_check_of_the_fleet_against_one_of_them_ends_in_a_measured_rate(replicas: list[str], tmp_path: Path) -> None:
    one = tmp_path / "one.jsonl"
    alone = await answer_of(["probe", replicas[0], *ASKED, *LOOSE, *LISTED], one)
    assert alone["knee"]["pass_rps"] == 3
    async with gateways.behind_round_robin(replicas) as gateway:
        arguments = ["fleet-check", gateway, "--run", str(one), *named(replicas), "--budget", "60s"]
        result = await answer_of(arguments, tmp_path / "fleet.jsonl", codes=(0, 1))
    check = result["fleet_check"]
    print(check)
    judged = {step["rate_rps"] for step in result["steps"] if step["verdict"] in ("pass", "fail")}
    measured = {rate for rate in (check["holds_rps"], check["fails_rps"]) if rate is not None}
    assert measured
    assert measured <= judged
    assert check["verdict"] in ("holds", "fails")
    assert (check["replicas"], check["pass_rps_one"], check["full_rps"]) == (2, 3, 6)
    assert check["planned_rps"] in judged
    assert check["busiest_share"] == pytest.approx(1, abs=EVEN)


async def told_and_given_agree(gateway: str, replicas: list[str], run_file: Path) -> None:
    """Probe it at one rate: what is told of each replica is what the gateway's header says that it was given."""
    result = await answer_of(["probe", gateway, *named(replicas), *ASKED, *LOOSE, *LISTED], run_file)
    print(result["server"], result["replicas"])
    names = [urlsplit(url).netloc for url in replicas]
    assert result["server"]["url"] == gateway
    assert (result["server"]["backends"], result["server"]["engines"]) == (2, 2)
    assert [each["name"] for each in result["replicas"]] == names
    (repeat,) = result["steps"][-1]["repeats"]
    uses = {use["name"]: use for use in repeat["replicas"]}
    print(list(uses.values()))
    assert list(uses) == names
    lowest, highest = given(run_file, repeat)
    for name, use in uses.items():
        assert lowest[name] <= use["requests"] <= highest[name]
        assert use["share"] == pytest.approx(1, abs=EVEN), "it takes turns"
        assert use["prefix_hit_frac"] == 0, "known, and none: every prompt is cold"
        assert use["preemptions"] == 0
        assert use["running_mean"] is not None
        assert use["waiting_mean"] is not None
        assert 0 <= use["kv_usage_mean"] <= use["kv_usage_max"] <= 1
    assert max(use["kv_usage_max"] for use in uses.values()) > 0
    assert (repeat["sent"], repeat["errors"]) == (repeat["planned"], 0)
    assert sum(use["share"] for use in uses.values()) == pytest.approx(2)


def given(run_file: Path, repeat: dict[str, Any]) -> tuple[Counter[str], Counter[str]]:
    """How many requests of the repeat each replica answered between the readings of it, by the gateway: at least and at most."""
    events = list(read_run(run_file))
    order = next(e.order for e in events if isinstance(e, RepeatStarted) and e.order.order == repeat["order"])
    done_at = next(e.t for e in events if isinstance(e, LoadDone) and e.order == repeat["order"])
    begins_at = order.start_at + repeat["warmup_s"]
    read_at = [e.sample.t for e in events if isinstance(e, ServerSampled) and e.sample.by_replica]
    since, until = max(t for t in read_at if t <= begins_at), max(t for t in read_at if t <= done_at)
    ended = [e for e in events if isinstance(e, RequestEnded) and e.ending == "ok" and e.backend is not None]
    at = [(e.t_end, (e.backend or "").removeprefix("http://")) for e in ended]
    lowest = Counter(name for t, name in at if since + EDGE_S < t < until - EDGE_S)
    assert lowest, "a window that is longer than its edges"
    return lowest, Counter(name for t, name in at if since - EDGE_S < t < until + EDGE_S)


def named(replicas: list[str]) -> list[str]:
    return [word for url in replicas for word in ("--replica", url)]
