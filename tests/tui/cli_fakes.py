"""A session without a server for tests of the command line; run as a program it is `kneescope` with that session.

The environment variable FAKE_RUN says how the run goes: an outcome, `hang` (until it is stopped), `stubborn` (does not even
stop then), `breaks` (raises UserError), or `crash` (hangs, and the screen fails while it does). With FAKE_SCREEN set, the
screen is the word SCREEN on stderr.
"""

import asyncio
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, cast

from core import report
from core.access import Access
from core.config import FleetAsk, ProbeConfig
from core.errors import UserError
from core.records import Check, RequestRecord
from core.results import Answer, ClientInfo, Knee, Outcome
from core.run import Found
from core.run.events import CheckDone, Event, Note, RunEnded, RunStarted
from core.run.log import RunLog
from core.run.state import State
from core.server import Discovery
from core.view import RunView
from tui.again import Left
from tui.cli import probe
from tui.cli.commands import main

CLIENT = ClientInfo(version="0", python="3", platform="test", hostname_hash="0", cores=1, transport="none")
REFUSAL = Check(check="reachable", status="refuse", message="Nobody answers.")
PASSED = Check(check="reachable", status="pass", message="The server answers.")


class BrokenState(State):
    """Raises at the next look at it, and from then on is what it was made of."""

    def __init__(self, whole: State) -> None:
        super().__init__()
        self._whole, self._raised = whole, False

    def apply(self, event: Event) -> None:
        self._whole.apply(event)

    def view(self, now: float) -> RunView:
        if not self._raised:
            self._raised = True
            raise RuntimeError("no view")
        return self._whole.view(now)


class FakeSession:
    """Says that it started, does one check, and ends as `how` says; keeps what it was made with."""

    how: str = os.environ.get("FAKE_RUN", "bracket")
    prints: str | None = None
    required_met: bool | None = None
    made: ClassVar[list["FakeSession"]] = []

    def __init__(
        self,
        config: ProbeConfig,
        log: RunLog,
        *,
        access: Access = Access(),  # noqa: B008 (frozen)
        between: str | None = None,
        command: str = "",
        truth_rps: float | None = None,
        label: str | None = None,
        read: Sequence[Check] = (),
        found: Found | None = None,
        dataset: Path | None = None,
        twin: object = None,
        trace: object = None,
        replicas: Discovery | None = None,
        replica_access: Access = Access(),  # noqa: B008 (frozen)
        gathering: str | None = None,
        start_load: object = None,
        lose: str | None = None,
    ) -> None:
        self.replicas, self.replica_access, self.lose, self.lose_output = replicas, replica_access, lose, None
        self.given, self.found = found, None
        self.gathering, self.start_load = gathering, start_load
        self.config, self.log, self.access, self.command, self.truth_rps = config, log, access, command, truth_rps
        self.between, self.between_output, self.label = between, self.prints, label
        self.factors: list[float] = []
        self.state = State()
        self.stopped = asyncio.Event()
        type(self).made.append(self)

    def _emit(self, event: Event) -> None:
        self.log.append(event)
        self.state.apply(event)

    def _start(self) -> None:
        self._emit(
            RunStarted(
                t=time.monotonic(),
                started_utc="2026-01-01T00:00:00Z",
                config=self.config,
                client=CLIENT,
                command=self.command,
                label=self.label,
            )
        )

    async def run(self) -> Answer:
        self._start()
        self._emit(CheckDone(t=time.monotonic(), check=REFUSAL if self.how == "refused" else PASSED))
        if self.how == "breaks":
            raise UserError("The generator could not be started.", 3)
        if self.how == "crash":
            self.state = BrokenState(self.state)
        if self.how in ("hang", "stubborn", "crash"):
            while not self.stopped.is_set() or self.how == "stubborn":
                said = "stop was asked for" if self.stopped.is_set() else "still loading"
                self._emit(Note(t=time.monotonic(), text=said))
                await asyncio.sleep(0.05)
        outcome = "interrupted" if self.stopped.is_set() else cast(Outcome, self.how)
        self._emit(Note(t=time.monotonic(), text="and that was all"))
        knee = Knee(pass_rps=8.0, pass_repeats=1) if outcome == "bracket" else Knee()
        answer = Answer(outcome=outcome, message="As told.", knee=knee, required_met=self.required_met)
        self._emit(RunEnded(t=time.monotonic(), answer=answer))
        return answer

    async def preflight(self) -> list[Check]:
        self._start()
        check = REFUSAL if self.how == "refused" else PASSED
        self._emit(CheckDone(t=time.monotonic(), check=check))
        return [check]

    @property
    def singles(self) -> tuple[RequestRecord, ...]:
        return ()

    def stop(self) -> None:
        self.stopped.set()

    def change_rate(self, factor: float) -> None:
        self.factors.append(factor)

    def end_step(self) -> bool:
        return False


def fake_text(view: RunView, run_log: str | None) -> str:
    peak_rps = view.config.fleet.peak_rps if view.config else None
    peak = f"peak {peak_rps:g}\n" if peak_rps is not None else ""
    return f"VERDICT {view.answer.outcome if view.answer else 'none'}\nlog {run_log}\n{peak}"


def fake_json(view: RunView, run_log: str | None) -> str:
    return f'{{"outcome": "{view.answer.outcome if view.answer else None}"}}'


async def fake_screen(session: FakeSession, path: Path, ask: FleetAsk | None = None, beside: object = None) -> Left:
    print("SCREEN", file=sys.stderr)
    await session.run()
    return Left()


def install() -> None:
    """Put the fakes in place of the session and the report."""
    vars(probe)["Session"] = FakeSession
    report.to_text, report.to_json = fake_text, fake_json
    if "FAKE_SCREEN" in os.environ:
        vars(probe)["_screen"] = fake_screen


if __name__ == "__main__":
    install()
    main()
