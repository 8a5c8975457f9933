"""The screen over a run, live or recorded: signals while it is up, and a whole terminal in every way of ending."""

import asyncio
import os
import select
import signal
import threading
from collections.abc import Awaitable, Callable
from typing import Any

from textual.app import App
from textual.drivers.linux_driver import LinuxDriver
from textual.events import Resize
from textual.message import Message

from core.config import FleetAsk
from core.errors import UserError
from core.results import Answer
from tui.again import Left
from tui.app import Beside, KneescopeApp, Name, Player, RunControls, Source
from tui.draw import symbols
from tui.terminal import theme
from tui.terminal.changed import Shown
from tui.terminal.signals import NO_ANSWER, TwoStage, leave_now, timer
from tui.terminal.whole import Guard, guarded

LEAVE_S = 0.9
"""A second signal leaves within a second; stopping the load takes up to half of one."""
END_S = 3.0
"""How long SIGTERM and SIGHUP wait for the end of the run and of the screen, of which a dead terminal lets neither happen."""


async def show(
    source: Source,
    *,
    run: Callable[[], Awaitable[Answer]] | None = None,
    controls: RunControls | None = None,
    end: Callable[[], Awaitable[None]] | None = None,
    player: Player | None = None,
    path: str = "",
    ask: FleetAsk | None = None,
    on: Name = "ramp",
    repeats: bool = False,
    beside: Beside | None = None,
) -> Left:
    """Show `source` until the user leaves, then await `end`. Raises what `end` raises, and UserError when the screen itself failed.

    `player`: the run is recorded. `path`: of the run file. `ask`: the fleet that was set for this run before, `on`: the screen to
    begin with. `repeats`: the caller does another run where one is wished for. `beside`: the run that is drawn behind.
    SIGINT is the key Ctrl-C. SIGTERM and SIGHUP stop the load and leave. A second signal leaves whatever happens.
    """
    app = KneescopeApp(source, run=run, controls=controls, player=player, path=path, beside=beside, driver_class=StderrDriver)
    app.begin_with(on, ask, repeats=repeats)
    await carried(app, app.action_leave, lambda: app.request_stop(leave=True), end)
    if app.return_code:
        raise UserError("The screen failed with an error of its own; what was measured is kept, and no load is running.", NO_ANSWER)
    return Left(ask=app.fleet_ask, wish=app.wish)


async def carried(
    app: App[Any], interrupt: Callable[[], None], close: Callable[[], None], end: Callable[[], Awaitable[None]] | None = None
) -> None:
    """Run an app until it ends, then await `end`: SIGINT calls `interrupt`, SIGTERM and SIGHUP `close`, a second signal leaves."""
    with guarded() as guard, theme.remembered(app):
        leaving = _Leaving(close, guard)

        def first(number: int) -> None:
            if number == signal.SIGINT:
                interrupt()
            else:
                leaving.begin(END_S)

        with TwoStage(first, leaving.begin, leaving.now) as signals:
            over = _watch_terminal(signals)
            try:
                await app.run_async()
                if end is not None:
                    await end()
            finally:
                over.set()
            leaving.done()


class StderrDriver(LinuxDriver):
    """Takes the size from the terminal that is drawn to: textual 8.2.8 asks stdout, which may be a pipe or a file.

    All that is written goes through a table that puts other characters in the place of those that a terminal lacks; what the
    terminal shows already is left out.
    """

    def __init__(self, *args: Any, **keywords: Any) -> None:
        super().__init__(*args, **keywords)
        self._symbols = symbols.in_use()
        self._shown = Shown()

    def write(self, data: str) -> None:
        """Hand on what changed, in the symbols that were asked for."""
        super().write(self._shown.changes(symbols.written(data, self._symbols)))

    def process_message(self, message: Message) -> None:
        """Some terminals tell of a new size in what they send."""
        if isinstance(message, Resize):
            self._shown.resize(*message.size)
        super().process_message(message)

    def _get_terminal_size(self) -> tuple[int, int]:
        try:
            width, height = os.get_terminal_size(2)
        except OSError:
            width = height = 0
        size = (width, height) if width and height else super()._get_terminal_size()
        self._shown.resize(*size)
        return size


def _watch_terminal(signals: TwoStage) -> threading.Event:
    """Make a terminal that goes away a SIGHUP also where the system sends none: writes to it would block the loop for good.

    The event that is returned ends the watch; another screen may follow, with one of its own.
    """
    over = threading.Event()
    poller = select.poll()
    poller.register(2, 0)  # no event asked for: only hang-up and error are reported

    def wait() -> None:
        poller.poll()
        if not signals.seen and not over.is_set():
            os.kill(os.getpid(), signal.SIGHUP)

    threading.Thread(target=wait, daemon=True).start()
    return over


class _Leaving:
    """Closes the screen in the ordinary way and, when that is not done in time, ends the process with the terminal restored."""

    def __init__(self, close: Callable[[], None], guard: Guard) -> None:
        self._close = close
        self._guard = guard
        self._loop = asyncio.get_running_loop()
        self._last_resort: threading.Timer | None = None

    def begin(self, within_s: float = LEAVE_S) -> None:
        """Ask the screen to close and give it that long. Fit for a signal handler."""
        self.done()
        self._last_resort = timer(within_s, self.now)
        self._loop.call_soon_threadsafe(self._close)

    def done(self) -> None:
        """The screen has closed and the run has ended."""
        if self._last_resort is not None:
            self._last_resort.cancel()

    def now(self) -> None:
        """End the process."""
        self._guard.restore()
        leave_now()
