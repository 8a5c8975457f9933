"""The Connect screen without a server: checks that a test lets come one by one, and a list of models."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from textual.pilot import Pilot

from core.access import Access
from core.config import ProbeConfig
from core.errors import UserError
from core.facts import fact
from core.records import Check, Hello, PromptAlphabet, RequestRecord, ServerInfo, ServerSample
from core.run import Found
from core.run.events import CheckDone, RunStarted
from core.run.state import State
from core.server.probe import ServerGlance
from tests.core.judge.feed import single
from tests.tui.cli_fakes import CLIENT
from tui.cli.argv import Texts
from tui.cli.configure import CliOptions
from tui.connect.app import ConnectApp
from tui.connect.fields import RunRequest
from tui.connect.form import Form

URL = "http://127.0.0.1:8000"
PASSED = Check(check="reachable", status="pass", message="The server answers.")
WARNED = Check(check="traffic", status="warn", message=fact("server_shared", others=2, running=2, waiting=0))
SINGLES = (single(0.5),) * 3
"""Of a server with an idle latency of half a second."""
BUSY = Check(check="traffic", status="refuse", message=fact("server_busy", others=3, running=3, waiting=0))
REFUSED = Check(check="model", status="refuse", message=fact("model_not_chosen", "[red]a[/red]", "b", models=2))


def hello_for(config: ProbeConfig) -> Hello:
    """What the load would be told after checks of this."""
    alphabet = PromptAlphabet(token_ids=(1, 2))
    return Hello(target=config.target, model="tiny", workload=config.workload, alphabet=alphabet, nonce="00")


class FakeChecker:
    """Says each check that it is told to; ends when told, or when stopped."""

    def __init__(self, config: ProbeConfig, api_key: str | None) -> None:
        self.config, self.api_key = config, api_key
        self.state = State()
        self.stops = 0
        self.singles: tuple[RequestRecord, ...] = ()
        self.found: Found | None = None
        self._end: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()
        self._checks: list[Check] = []

    async def preflight(self) -> list[Check]:
        self.state.apply(RunStarted(t=0.0, started_utc="2026-01-01T00:00:00Z", config=self.config, client=CLIENT, command=""))
        failure = await self._end
        if failure is not None:
            raise failure
        return self._checks

    def stop(self) -> None:
        self.stops += 1
        if not self._end.done():
            self._end.set_result(None)

    def say(self, *checks: Check) -> None:
        """These are known now."""
        for check in checks:
            self._checks.append(check)
            self.state.apply(CheckDone(t=0.0, check=check))

    def end(self, failure: Exception | None = None, singles: tuple[RequestRecord, ...] = ()) -> None:
        """There are no more."""
        self.singles = singles
        if failure is None and all(check.status != "refuse" for check in self._checks):
            info = ServerInfo(url=self.config.target.url, model="tiny")
            self.found = Found(checks=tuple(self._checks), info=info, hello=hello_for(self.config), singles=singles, ended_t=0.0)
        self._end.set_result(failure)


class Server:
    """What the app is given in place of one; keeps what it was asked."""

    def __init__(self, *models: str) -> None:
        self.models = models
        self.problem: str | None = None
        self.lists: list[tuple[str, str | None]] = []
        self.checkers: list[FakeChecker] = []
        self.open = 0
        self.is_near = True
        self.others = 0

    async def near(self, config: ProbeConfig) -> bool:
        return self.is_near

    async def look(self, config: ProbeConfig, access: Access) -> ServerGlance:
        return ServerGlance(near=self.is_near, sample=ServerSample(t=0.0, took_s=0.0, engines=1, running=self.others, waiting=0))

    async def list_models(self, url: str, access: Access, insecure: bool) -> tuple[str, ...]:
        self.lists.append((url, access.api_key))
        if self.problem is not None:
            raise UserError(self.problem)
        return self.models

    @asynccontextmanager
    async def checking(self, config: ProbeConfig, access: Access, options: CliOptions) -> AsyncIterator[FakeChecker]:
        self.checkers.append(FakeChecker(config, access.api_key))
        self.open += 1
        try:
            yield self.checkers[-1]
        finally:
            self.open -= 1

    @property
    def hands(self) -> dict[str, Any]:
        """For the app, in place of those that reach a server."""
        return {"makes": self.checking, "lists": self.list_models, "looks": self.look, "near": self.near}

    @property
    def checker(self) -> FakeChecker:
        """The last one."""
        return self.checkers[-1]


@asynccontextmanager
async def connecting(
    server: Server,
    profile: Texts | None = None,
    *,
    size: tuple[int, int] = (120, 36),
    environ: Mapping[str, str] | None = None,
    note: str | None = None,
) -> AsyncIterator[tuple[ConnectApp, Pilot[RunRequest]]]:
    """The app and its pilot, drawn."""
    app = ConnectApp(environ or {}, profile, note=note, **server.hands)
    async with app.run_test(size=size) as pilot:
        await settle(app, pilot)
        yield app, pilot


async def settle(app: ConnectApp, pilot: Pilot[RunRequest]) -> None:
    """Let everything happen that is due, and be drawn."""
    for _ in range(3):
        await pilot.pause()
    if app.is_running:
        app.look()
        await pilot.pause()


def text_of(app: ConnectApp) -> str:
    """The screen that is on top, as shown."""
    return "\n".join("".join(segment.text for segment in strip) for strip in app.screen._compositor.render_strips())


def words_of(app: ConnectApp, part: str = "Screen") -> str:
    """What a part of the screen says, without what borders and line ends do to sentences."""
    region = app.screen.region if part == "Screen" else app.screen.query_one(part).region
    rows = text_of(app).splitlines()[region.y : region.bottom]
    text = "\n".join(row[region.x : region.right] for row in rows)
    return " ".join("".join(" " if char in "│╭╮╰╯─\n" else char for char in text).split())


def form_of(app: ConnectApp) -> Form:
    """The fields."""
    return app.screen.query_one(Form)
