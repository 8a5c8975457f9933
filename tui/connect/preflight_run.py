"""The checks before load of one run, done in the background of a screen.

How it stands on the Connect screen, and what Start needs or does.
"""

import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Literal, Protocol

from core import prose
from core.access import Access
from core.config import ProbeConfig
from core.errors import UserError
from core.facts import says
from core.records import Check, RequestRecord
from core.run import Found, NoAnswer, State
from core.units import duration
from core.view import RunView
from tui.cli.configure import CliOptions
from tui.cli.probe import checking
from tui.cli.prompts import agreed
from tui.connect import screen
from tui.connect.fields import RunRequest
from tui.draw.style import Mark

KEPT_S = 120.0
"""So long a start does not make the checks again: time enough to read them, and too short for much to change at a server; other
clients that come meanwhile are noticed by the run itself."""

Stage = Literal["checking", "ready", "refused", "stopped", "broken"]


class Checker(Protocol):
    """What `core.run.session.Session` is here."""

    state: State

    async def preflight(self) -> list[Check]: ...
    def stop(self) -> None: ...

    @property
    def singles(self) -> tuple[RequestRecord, ...]: ...
    @property
    def found(self) -> Found | None: ...


Makes = Callable[[ProbeConfig, Access, CliOptions], AbstractAsyncContextManager[Checker]]


class PreflightRun:
    """One pass through the checks, for the request it was made for. `stage` says how it stands, `failure` why it broke off."""

    def __init__(self, request: RunRequest, makes: Makes = checking, clock: Callable[[], float] = time.monotonic) -> None:
        self.request = request
        self.stage: Stage = "checking"
        self.failure: str | None = None
        self.singles: tuple[RequestRecord, ...] = ()
        self.found: Found | None = None
        self._makes = makes
        self._clock = clock
        self._checker: Checker | None = None
        self.stopping = False
        self._last = RunView(version=0, now_s=0.0, bin_s=1.0, config=request.config)
        self._done_at: float | None = None

    async def run(self) -> None:
        """Do the checks. Nothing is in flight any more when it returns; what goes wrong is in `failure`."""
        try:
            config = agreed(self.request.config, public_ok=True)  # what single requests do without; Start asks
            async with self._makes(config, self.request.access, self.request.options) as checker:
                self._checker = checker
                if self.stopping:
                    checker.stop()
                try:
                    checks = await checker.preflight()
                finally:
                    self._last, self._checker = self.view(), None
                self.singles, self.found = checker.singles, checker.found
            refused = not checks or any(check.status == "refuse" for check in checks)
            self.stage = "stopped" if self.stopping else "refused" if refused else "ready"
        except NoAnswer as error:
            self.stage, self.failure = "broken", prose.sentence(error.fact)
        except Exception as error:  # of whatever kind: the screen says so and stays
            self.stage = "broken"
            self.failure = str(error) if isinstance(error, UserError) else f"{type(error).__name__}: {error}"
        self._done_at = self._clock()

    def stop(self) -> None:
        """End it: single requests that are open are cancelled. Idempotent."""
        self.stopping = True
        if self._checker is not None:
            self._checker.stop()

    def view(self) -> RunView:
        """The checks so far."""
        return self._last if self._checker is None else self._checker.state.view(self._clock())

    @property
    def asks(self) -> bool:
        """Whether permission is all that is missing: the server has requests of others."""
        refusals = [check for check in self._last.checks if check.status == "refuse"]
        return self.stage == "refused" and len(refusals) == 1 and says(refusals[0].message, "server_busy", "server_working")

    @property
    def kept(self) -> Found | None:
        """What a start need not find out again: the checks have just passed."""
        age_s = self.age_s
        return self.found if self.stage == "ready" and age_s is not None and age_s <= KEPT_S else None

    @property
    def age_s(self) -> float | None:
        """How long ago it ended; None while it goes on."""
        return None if self._done_at is None else self._clock() - self._done_at


def connect_status(preflight: PreflightRun | None, *, stale: bool, wrong: bool, wished: bool = False) -> tuple[Mark, str]:
    """The state as a mark, and a sentence about Start. `wished`: it was pressed while the checks ran."""
    if wrong:
        return screen.WRONG, "fix what is marked ✘"
    if preflight is None:
        return screen.NOT_CHECKED, "ctrl+r checks first: about five single requests, no load"
    if preflight.stage == "checking":
        if wished:
            return screen.STARTING, "starts when the checks are done; esc takes it back"
        return screen.CHECKING, "ctrl+s starts when the checks are done; esc stops them"
    if stale:
        return screen.CHANGED, "ctrl+r checks the new settings first"
    if preflight.asks:
        return screen.ASKS, "ctrl+s asks whether to add load on top of theirs"
    if preflight.stage == "refused":
        return screen.REFUSED, "blocked by a check; fix what it says first"
    if preflight.stage == "ready":
        warned = any(check.status == "warn" for check in preflight.view().checks)
        return screen.WARNED if warned else screen.READY, _start_of(preflight)
    return (screen.STOPPED if preflight.stage == "stopped" else screen.BROKEN), "ctrl+r checks again, esc leaves"


def _start_of(preflight: PreflightRun) -> str:
    """What Start does with these checks."""
    age_s = preflight.age_s
    if preflight.kept is None or age_s is None:
        return "ctrl+s repeats the checks, then starts the load"
    return f"ctrl+s starts the load; checked {f'{duration(age_s // 1)} ago' if age_s >= 1 else 'just now'}"
