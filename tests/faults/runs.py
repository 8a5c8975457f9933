"""Whole runs and single requests against a fault server, in virtual time over real sockets, by the real client code.

The child's part runs in this process, since virtual time belongs to one loop; the child as a process is `tests/core/load`'s.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any
from unittest import mock

import httpx
import msgspec

from core import prose
from core.access import Access
from core.config import Lengths, ProbeConfig, Slo, Workload
from core.facts import Said
from core.load import child, dispatch
from core.load.child import Child
from core.records import (
    Abort,
    Check,
    ChildMessage,
    ClosedOrder,
    Hello,
    LoadReady,
    RepeatOrder,
    RequestEnded,
    StopArrivals,
    WorkerInfo,
)
from core.results import Answer as RunAnswer
from core.results import StepResult
from core.run import log as runs
from core.run.events import CheckDone, Event, Note, SampleFailed, StepJudged
from core.run.log import RunLog
from core.run.session import Session
from core.server.http import Credential
from core.server.metrics import Scraper
from core.view import RunView
from tests import builders
from tests.core.load.calling import Caller, calling
from tests.core.load.server import serving
from tests.faults.answers import Answer
from tests.faults.clock import virtually
from tests.faults.server import Fault, FaultServer
from tui.cli.recorded import Recorded

TOKENS = 4
NO_ACCESS = Access()
LONGEST_S = 4000.0
"""A run in virtual time that takes longer than this hangs."""


def ended(fault: Fault | Answer, **options: object) -> RequestEnded:
    """One request to a server with this fault, in virtual time."""

    async def work() -> RequestEnded:
        async with calling(FaultServer(fault), **options) as (caller, _):  # type: ignore[arg-type]
            return await _call(caller)

    return virtually(work)


def ended_in_a_row(calls: int, *answers: Answer, pause_s: float = 0.0) -> tuple[list[RequestEnded], int]:
    """So many requests one after another, to a server that gives these answers in turn; and how many it saw."""

    async def work() -> tuple[list[RequestEnded], int]:
        given = iter(answers)
        async with calling(FaultServer(lambda server, request: next(given))) as (caller, server):
            records = []
            for _ in range(calls):
                records.append(await _call(caller))
                await asyncio.sleep(pause_s)
            return records, len(server.received)

    return virtually(work)


async def _call(caller: Caller) -> RequestEnded:
    async with asyncio.timeout(LONGEST_S):
        await caller.start()
    return caller.last


class InProcess:
    """What `core.load.generator.Generator` is, with the child's part in this loop."""

    workers: tuple[WorkerInfo, ...] = ()

    def __init__(self) -> None:
        self._inbox: asyncio.Queue[ChildMessage | None] = asyncio.Queue()
        self._child = Child(self._inbox.put_nowait, self._fail)
        self._inbox.put_nowait(LoadReady(t=time.monotonic(), python="", loop="virtual", transport="", fd_limit=1024))
        self.failure: BaseException | None = None

    async def hello(self, hello: Hello) -> None:
        await self._child.obey(hello)

    async def plan(self, peak_rps: float) -> None:
        """It sends by itself, whatever the rate."""

    async def order(self, order: RepeatOrder | ClosedOrder) -> None:
        await self._child.obey(order)

    async def stop_arrivals(self, order: int) -> None:
        await self._child.obey(StopArrivals(order=order))

    async def abort(self, order: int) -> None:
        await self._child.obey(Abort(order=order))

    async def messages(self) -> AsyncIterator[ChildMessage]:
        while (message := await self._inbox.get()) is not None:
            yield message
        if self.failure is not None:
            raise self.failure

    async def close(self) -> None:
        if self._child._run is not None:
            self._child._run.abort()
        if self._child._task is not None:
            await asyncio.gather(self._child._task, return_exceptions=True)
        if self._child._client is not None:
            await self._child._client.aclose()
        self._inbox.put_nowait(None)

    def _fail(self, problem: BaseException) -> None:
        self.failure = problem
        self._inbox.put_nowait(None)


@dataclass
class Ran:
    """A run that is over: its answer, its file, and the server as the run left it."""

    answer: RunAnswer
    path: Path
    server: FaultServer

    @cached_property
    def view(self) -> RunView:
        """The run as its file tells it."""
        return Recorded(str(self.path)).view()

    @cached_property
    def _all(self) -> list[Event]:
        return list(runs.read_run(self.path))

    def events(self, kind: type[Event]) -> list[Event]:
        return [event for event in self._all if isinstance(event, kind)]

    @property
    def steps(self) -> list[StepResult]:
        return [event.result for event in self.events(StepJudged) if isinstance(event, StepJudged)]

    @property
    def said(self) -> list[str]:
        """Every sentence of the run: checks, notes and failed readings, in order."""
        return [
            prose.text(
                event.check.message if isinstance(event, CheckDone) else event.text if isinstance(event, Note) else event.reason
            )
            for event in self._all
            if isinstance(event, CheckDone | Note | SampleFailed)
        ]

    @property
    def noted(self) -> list[Said]:
        """What its notes say, in order."""
        return [event.text for event in self._all if isinstance(event, Note)]


config = partial(
    builders.config,
    slo=Slo(ttft_s=0.5, tpot_s=0.3),
    workload=Workload(input_tokens=Lengths(median=16), output_tokens=Lengths(median=TOKENS)),
)


def probe(
    path: Path,
    make: Callable[[], FaultServer],
    probe: ProbeConfig | None = None,
    *,
    access: Access = NO_ACCESS,
    meddle: Callable[[Session, FaultServer], Coroutine[Any, Any, None]] | None = None,
) -> Ran:
    """A whole run against the server that `make` makes; its time begins with the run. `meddle` runs beside it."""
    given = probe or config()

    async def work() -> Ran:
        faults = make()
        async with _session(path, faults, given, access) as session:
            beside = asyncio.create_task(meddle(session, faults)) if meddle is not None else None
            answer = await session.run()
            if beside is not None:
                beside.cancel()
            return Ran(answer, path, faults)

    with mock.patch.object(dispatch, "LOOK_S", 0.5):  # looking at the loop every 20 ms would cost the most of a test
        return virtually(work)


def preflight(
    path: Path, make: Callable[[], FaultServer], probe: ProbeConfig | None = None, *, access: Access = NO_ACCESS
) -> tuple[dict[str, Check], FaultServer]:
    """The checks alone, by their names, and the server as they left it."""

    async def work() -> tuple[dict[str, Check], FaultServer]:
        faults = make()
        async with _session(path, faults, probe or config(), access) as session:
            return {check.check: check for check in await session.preflight()}, faults

    return virtually(work)


@asynccontextmanager
async def _session(path: Path, faults: FaultServer, given: ProbeConfig, access: Access) -> AsyncIterator[Session]:
    """The child's part collects garbage before each order: here it would look through all tests there are, a fifth of a second."""
    async with serving(faults) as server, asyncio.timeout(LONGEST_S):
        log = RunLog(path)
        try:
            with mock.patch.object(child, "gc"):
                yield Session(
                    msgspec.structs.replace(given, target=msgspec.structs.replace(given.target, url=server.url)),
                    log,
                    access=access,
                    start_load=_in_process,
                    scraper=_scraper,
                    clock=lambda: time.monotonic(),
                )
        finally:
            log.close()


async def _in_process() -> InProcess:
    return InProcess()


def _scraper(url: str, client: httpx.AsyncClient, credential: Credential, models: tuple[str, ...]) -> Scraper:
    return Scraper(url, client, credential=credential, models=models, clock=lambda: time.monotonic())
