"""A run of conversations against the embedded replica: what is sent after what, and what a turn that fails does to the others."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import msgspec
import numpy as np
import pytest

from core.config import Method, ProbeConfig, Slo, Target, Workload
from core.facts import fact, says
from core.records import Ending, RepeatOrder, RequestEnded, RequestSent, ServerInfo
from core.replica import process
from core.results import Answer, JudgeRules
from core.run import log as runs
from core.run.events import CheckDone, Event, RepeatJudged, RepeatStarted
from core.run.hold import HeldOrder
from core.run.log import RunLog
from core.run.material import recording
from core.run.session import Session
from core.schedule import draw
from core.twin import lacks
from core.workloads import Prefix, Source
from tests.core.load.server import Received, answer, chunk, serving
from tests.core.run.both_ways import same
from tests.core.traffic.files import written
from tui.cli.recorded import Recorded

LIMIT_S = 120.0
BAD = "the one that breaks"
TALKS = [
    {"conversations": [{"from": who, "value": f"{who} {row} {n} " + "so " * 20} for n in range(3) for who in ("human", "gpt")]}
    for row in range(12)
]
TALKS[0]["conversations"][2]["value"] = BAD


@asynccontextmanager
async def replica() -> AsyncIterator[str]:
    """The embedded replica, behind a proxy that refuses a turn that ends in `BAD` once the checks are over."""
    server = await process.start("demo")
    generated = 0
    async with httpx.AsyncClient(timeout=60.0) as client:

        async def forward(request: Received) -> bool:
            nonlocal generated
            if request.path.endswith("/chat/completions"):
                generated += 1
                if generated > 12 and request.json["messages"][-1]["content"] == BAD:
                    await request.write(answer(500, b'{"error": {"message": "no"}}', "Content-Type: application/json"))
                    return False
            method = "POST" if request.body else "GET"
            headers = {"Content-Type": "application/json"}
            async with client.stream(method, server.url + request.path, content=request.body, headers=headers) as reply:
                kind = reply.headers.get("content-type", "text/plain")
                head = f"HTTP/1.1 {reply.status_code} OK\r\nContent-Type: {kind}\r\nTransfer-Encoding: chunked\r\n\r\n"
                await request.write(head.encode())
                async for data in reply.aiter_raw():
                    if data:
                        await request.write(chunk(data))
            await request.write(b"0\r\n\r\n")
            return False

        try:
            async with serving(forward) as front:
                yield front.url
        finally:
            await server.stop()


def asked(url: str, path: Path) -> ProbeConfig:
    source = Source(kind="dataset", file=path.name)
    workload = Workload(source=source, prefix=Prefix(kind="turns"), think_s=0.05)
    slo = Slo(ttft_s=5.0, tpot_s=None, target=0.5, max_error_rate=0.5)
    method = Method(rates_rps=(12.0,), measure_s=5.0)
    return ProbeConfig(target=Target(url=url, api="chat"), slo=slo, workload=workload, method=method)


async def run(path: Path, url: str, log: Path) -> Answer:
    file = RunLog(log)
    try:
        async with asyncio.timeout(LIMIT_S):
            return await Session(asked(url, path), file, dataset=path).run()
    finally:
        file.close()


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Event], Path]:
    folder = tmp_path_factory.mktemp("turns")
    path, log = written(folder, json.dumps(TALKS), "talks.json"), folder / "run.jsonl"

    async def go() -> None:
        async with replica() as url:
            await run(path, url, log)

    asyncio.run(go())
    return list(runs.read_run(log)), log


def test_turns_follow_the_answers_before_them_and_those_after_a_failed_one_are_never_sent(
    events: tuple[list[Event], Path],
) -> None:
    said, log = events
    config = recording(said).config
    order = next(event.order for event in said if isinstance(event, RepeatStarted) and event.order.phase == "list")
    plan = draw(order, config.workload)
    assert plan.after is not None
    ended = {event.index: event for event in said if isinstance(event, RequestEnded) and event.order == order.order}
    sent = {event.index: event for event in said if isinstance(event, RequestSent) and event.order == order.order}
    followed = [index for index in sent if plan.after[index] >= 0]
    assert len(followed) > 5
    for index in followed:
        before = ended[index - 1]
        assert before.ending == "ok"
        assert sent[index].t_sched == pytest.approx(before.t_end + 0.05, abs=1e-6)
    failed = [index for index, event in ended.items() if event.ending == "http"]
    assert failed
    assert {ended[index + 1].ending for index in failed} == {"previous_failed"}
    assert all(index + 1 not in sent for index in failed)

    judged = next(event.result for event in said if isinstance(event, RepeatJudged))
    measured = [at for at, segment in enumerate(order.segments) if segment.role == "measured"]
    assert judged.planned == int(np.isin(plan.segment, measured).sum())
    assert BAD not in log.read_text()
    assert Recorded(str(log)).view().steps[-1].repeats[0].planned == judged.planned, "the file gives the same plan again"


def test_conversations_that_are_taken_in_together_are_seen_as_one_by_one(events: tuple[list[Event], Path]) -> None:
    same(events[0], 5)


def test_turns_find_the_ones_before_them_in_the_cache(events: tuple[list[Event], Path]) -> None:
    said, _ = events
    judged = next(event.result for event in said if isinstance(event, RepeatJudged))
    assert judged.prefix_hit_frac is not None
    assert judged.prefix_hit_frac > 0.25


def test_the_checks_tell_of_the_conversations_and_no_model_is_asked(events: tuple[list[Event], Path]) -> None:
    said, _ = events
    (dataset,) = [event.check for event in said if isinstance(event, CheckDone) and event.check.check == "dataset"]
    assert says(dataset.message, "rows_turns")
    workload = recording(said).config.workload
    assert lacks(workload) == fact("twin_lacks_turns")
    assert msgspec.structs.replace(workload, think_s=None).turns


def ended_as(index: int, ending: Ending) -> RequestEnded:
    return RequestEnded(
        order=1, index=index, t_sched=10.0 + index, t_end=11.0 + index, asked_input=9, asked_output=9, ending=ending
    )


def test_turns_that_were_never_sent_are_no_sign_of_life_while_a_rate_is_held() -> None:
    order = RepeatOrder(order=1, phase="hold", step=1, repeat=0, seed=1, segments=(), start_at=0.0)
    held = HeldOrder(order, JudgeRules(slo=Slo()), 120.0, lambda t: (), ServerInfo(url=""))
    for index in range(0, 24, 2):
        held.hear(ended_as(index, "connection"))
        held.hear(ended_as(index + 1, "previous_failed"))
    assert held.unserved is not None
    assert held.dark
