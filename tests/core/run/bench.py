"""A session on fakes, and what tests ask about its run."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import httpx
import msgspec

from core.access import Access
from core.config import ProbeConfig
from core.judge.search.actions import Action, Done
from core.judge.search.search import Search
from core.records import Check
from core.results import Answer, StepResult
from core.run import log as runs
from core.run.events import Event, RunEnded, time_of
from core.run.found import Found
from core.run.log import RunLog
from core.run.loss import CallRoll
from core.run.session import Session
from core.run.state import State
from core.server.discovery import Discovery
from core.server.http import Credential
from core.server.preflight import SendSingles
from core.traffic import TraceArrivals
from core.view import RunView
from tests.core.run.fakes import FakeGenerator, FakePreflight, FakeScraper, FakeServer, config
from tests.core.run.virtual import now, run

T = TypeVar("T")
E = TypeVar("E", bound=Event)


class Endless(httpx.AsyncByteStream):
    """A body that drips for ever."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while True:
            await asyncio.sleep(1.0)
            yield b"."


@dataclass
class Bench:
    """A session on fakes, made inside the virtual loop."""

    log: RunLog
    probe: ProbeConfig = field(default_factory=config)
    refuse: tuple[str, ...] = ()
    between: str | None = None
    found: Found | None = None
    read: tuple[Check, ...] = ()
    trace: TraceArrivals | None = None
    context: int | None = None
    replicas: Discovery | None = None
    roll: CallRoll | None = None
    lose: str | None = None

    def __post_init__(self) -> None:
        self.server = FakeServer()
        self.generator = FakeGenerator(self.server)
        self.scraper = FakeScraper(self.server)
        self.alive_path: str | None = "/health"
        self.asked: list[str] = []
        self.resets: list[httpx.Response] = []
        self.session = Session(
            self.probe,
            self.log,
            start_load=self._start,
            preflight=self._preflight,
            scraper=self._scrape,
            between=self.between,
            found=self.found,
            read=self.read,
            trace=self.trace,
            replicas=self.replicas,
            roll=self.roll,
            lose=self.lose,
            http=lambda: httpx.AsyncClient(transport=httpx.MockTransport(self._answer), trust_env=False),
            clock=now,
        )

    async def _start(self) -> FakeGenerator:
        return self.generator

    def _preflight(
        self, config: ProbeConfig, access: Access, nonce: str, http: httpx.AsyncClient, send: SendSingles
    ) -> FakePreflight:
        preflight = FakePreflight(config, access, nonce, http, send)
        preflight.refuse = self.refuse
        preflight.context = self.context
        preflight.info = msgspec.structs.replace(preflight.info, alive_path=self.alive_path)
        return preflight

    def _scrape(self, url: str, client: httpx.AsyncClient, credential: Credential, models: tuple[str, ...]) -> FakeScraper:
        return self.scraper

    async def _answer(self, request: httpx.Request) -> httpx.Response:
        if self.server.hangs or request.url.path in self.server.slow:
            await asyncio.Event().wait()
        if not self.server.healthy:
            raise httpx.ConnectError("refused")
        self.asked.append(f"{request.method} {request.url.path}")
        if request.url.path == "/reset_prefix_cache":
            return self.resets.pop(0) if self.resets else httpx.Response(404)
        return httpx.Response(200, stream=Endless())


def on_bench(
    path: Path,
    work: Callable[[Bench], Awaitable[T]],
    *,
    refuse: tuple[str, ...] = (),
    probe: ProbeConfig | None = None,
    between: str | None = None,
    set_up: Callable[[Bench], None] = lambda bench: None,
    trace: TraceArrivals | None = None,
    context: int | None = None,
    replicas: Discovery | None = None,
    roll: CallRoll | None = None,
    lose: str | None = None,
) -> tuple[Bench, T]:
    """Do `work` on a fresh bench in virtual time."""

    async def whole() -> tuple[Bench, T]:
        log = RunLog(path)
        try:
            bench = Bench(
                log, probe or config(), refuse, between, trace=trace, context=context, replicas=replicas, roll=roll, lose=lose
            )
            set_up(bench)
            return bench, await work(bench)
        finally:
            log.close()

    return run(whole())


class Scripted(Search):
    """A search that asks for what it was told, whatever it sees, and then has its answer."""

    def __init__(self, config: ProbeConfig, *actions: Action) -> None:
        super().__init__(config)
        self._script = list(actions)
        self.seen: list[tuple[StepResult, float | None]] = []

    def next(self, elapsed_s: float) -> Action:
        return self._script.pop(0) if self._script else Done(answer=self.answer_so_far("bracket", "as told"))

    def observe_step(self, result: StepResult, mean_e2e_s: float | None) -> None:
        self.seen.append((result, mean_e2e_s))


def scripted(*actions: Action) -> Callable[[Bench], None]:
    """Let a bench run these actions in place of a search."""

    def set_up(bench: Bench) -> None:
        bench.session._search = Scripted(bench.probe, *actions)

    return set_up


def to_the_end(bench: Bench) -> Awaitable[Answer]:
    return bench.session.run()


def stopped_at(t: float) -> Callable[[Bench], Awaitable[Answer]]:
    """Run, and stop (twice) at virtual time `t`."""

    async def work(bench: Bench) -> Answer:
        loop = asyncio.get_running_loop()
        loop.call_at(t, bench.session.stop)
        loop.call_at(t + 0.01, bench.session.stop)
        return await bench.session.run()

    return work


def events_of(path: Path, kind: type[E]) -> list[E]:
    return [event for event in runs.read_run(path) if isinstance(event, kind)]


def final_view(path: Path) -> RunView:
    state, last = State(), 0.0
    for event in runs.read_run(path):
        state.apply(event)
        last = time_of(event)
    return state.view(last)


def assert_ended_clean(bench: Bench, path: Path) -> None:
    """No load is left, it was off before the run said that it had ended, and no event came after that."""
    events = list(runs.read_run(path))
    assert isinstance(events[-1], RunEnded)
    assert not bench.generator.loading
    assert bench.generator.closed_at is not None
    assert bench.generator.closed_at <= events[-1].t
