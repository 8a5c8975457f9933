"""A run whose prompts stand in a file, against the embedded replica: what is sent, what is refused, and what is recorded of it."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from core import report
from core.config import Api, Lengths, Method, ProbeConfig, Target, Workload
from core.facts import says
from core.records import RequestEnded
from core.replica import process
from core.results import Answer
from core.run import Found
from core.run import log as runs
from core.run.events import CheckDone, Event, RepeatStarted, RunStarted, WorkloadKnown
from core.run.log import RunLog
from core.run.material import recording
from core.run.session import Session
from core.workloads import Source
from tests.core.traffic.files import jsonl, written
from tui.cli.recorded import Recorded

SECRET = "the parrot has been told"
LIMIT_S = 120.0
ROWS = [{"prompt": f"{SECRET} {n} " + "and again " * (n % 30), "output_tokens": 4 + n % 5} for n in range(120)]


@asynccontextmanager
async def replica() -> AsyncIterator[str]:
    server = await process.start("demo")
    try:
        yield server.url
    finally:
        await server.stop()


def asked(url: str, path: Path, api: Api = "completions") -> ProbeConfig:
    workload = Workload(output_tokens=Lengths(median=7), source=Source(kind="dataset", file=path.name))
    return ProbeConfig(target=Target(url=url, api=api), workload=workload, method=Method(rates_rps=(20.0,), measure_s=5.0))


class Counting(RunLog):
    """A run file that stops its run once so many requests have ended."""

    session: Session
    left = 40

    def append(self, event: Event) -> None:
        super().append(event)
        self.left -= isinstance(event, RequestEnded)
        if self.left == 0:
            self.session.stop()


async def run(path: Path, url: str, log: Path, found: Found | None = None) -> Answer:
    """A run that is stopped soon after its load has begun."""
    file = Counting(log)
    try:
        file.session = Session(asked(url, path), file, dataset=path, found=found)
        async with asyncio.timeout(LIMIT_S):
            return await file.session.run()
    finally:
        file.close()


def of(events: list[Event], kind: type[Event]) -> list[Event]:
    return [event for event in events if isinstance(event, kind)]


async def checked(path: Path, url: str, api: Api = "completions") -> Session:
    """A session that has made its checks."""
    file = RunLog(path.with_name("checks.jsonl"))
    session = Session(asked(url, path, api), file, dataset=path)
    await session.preflight()
    file.close()
    return session


@pytest.mark.parametrize("kept", [False, True], ids=["checks of its own", "checks made before"])
async def test_a_run_sends_the_rows_and_its_file_holds_their_lengths_and_nothing_of_their_text(tmp_path: Path, kept: bool) -> None:
    path, log = written(tmp_path, jsonl(*ROWS), "secret.jsonl"), tmp_path / "run.jsonl"
    async with replica() as url:
        found = (await checked(path, url)).found if kept else None
        answer = await run(path, url, log, found)
    assert answer.outcome == "interrupted"

    events = list(runs.read_run(log))
    loads = {event.order.order for event in events if isinstance(event, RepeatStarted) and event.order.phase == "list"}
    ended = [event for event in events if isinstance(event, RequestEnded) and event.order in loads and event.ending == "ok"]
    assert len(ended) >= 10
    assert all(event.prompt_tokens == event.asked_input and event.output_tokens == event.asked_output for event in ended)
    assert len({event.asked_input for event in ended}) > 5
    assert len(of(events, WorkloadKnown)) == 1
    workload = recording(events).config.workload
    assert workload.source == Source(kind="dataset", file="secret.jsonl", form="prompts", rows=120, of_rows=120)
    assert {part.row for part in workload.mix} == set(range(120))

    text = log.read_text() + report.to_text(Recorded(str(log)).view(), None)
    assert all(words not in text for words in (SECRET, "parrot", "and again", str(tmp_path)))


@pytest.mark.parametrize("api", ["completions", "chat"])
async def test_the_checks_pass_with_rows_on_both_apis(tmp_path: Path, api: Api) -> None:
    path = written(tmp_path, jsonl(*ROWS[:20]))
    async with replica() as url:
        session = await checked(path, url, api)
    checks = {check.check: check for check in session.state.view(0.0).checks}
    assert {name for name, check in checks.items() if check.status == "refuse"} == set()
    assert says(checks["prompt length"].message, "prompt_as_asked")
    assert session.found is not None
    assert session.found.hello.dataset is not None


async def test_a_file_with_too_many_bad_rows_is_refused_before_load(tmp_path: Path) -> None:
    path, log = written(tmp_path, jsonl(*ROWS[:10], {"prompt": 3})), tmp_path / "run.jsonl"
    async with replica() as url:
        answer = await run(path, url, log)
    events = list(runs.read_run(log))
    assert answer.outcome == "refused"
    assert says(answer.message, "rows_refused", "row_bad")
    assert of(events, RequestEnded) == []
    assert [event.check.check for event in events if isinstance(event, CheckDone)][-1] == "dataset"


async def test_messages_on_the_completions_api_are_refused_by_the_name_of_the_file(tmp_path: Path) -> None:
    row = {"messages": [{"role": "user", "content": SECRET}]}
    path, log = written(tmp_path, json.dumps(row), "a.jsonl"), tmp_path / "run.jsonl"
    async with replica() as url:
        answer = await run(path, url, log)
    assert answer.outcome == "refused"
    assert "--api chat" in str(answer.message)
    assert len(of(list(runs.read_run(log)), RunStarted)) == 1
    assert SECRET not in log.read_text()
    assert str(tmp_path) not in log.read_text()
