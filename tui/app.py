"""The screen as a program: wiring only. It polls views, hands them to the screen, and passes keys and signals on."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import ClassVar, Protocol

from textual.app import App
from textual.binding import Binding, BindingType
from textual.command import CommandPalette
from textual.driver import Driver
from textual.reactive import reactive

from core.config import FleetAsk
from core.errors import UserError
from core.results import Answer
from core.run.view import RunView
from tui.screens.help import HelpScreen
from tui.screens.ramp import RampScreen
from tui.style import THEME, THEME_16, clean

POLL_S = 0.25
LEAVE_S = 2.0
"""Load is off within 0.5 s of a stop; this long the app waits for the run to write its end before it leaves anyway."""
RATE_STEP = 1.1
"""One press of + multiplies a held rate by this, one of - divides by it, so that each undoes the other."""
WIDTHS: list[tuple[int, str]] = [(0, "-cramped"), (60, "-narrow"), (100, "-broad"), (160, "-wide")]
HEIGHTS: list[tuple[int, str]] = [(0, "-squat"), (16, "-short"), (28, "-middle"), (44, "-tall")]
"""Classes that app.tcss lays the panels out by: from these columns and rows on."""


class Source(Protocol):
    """Where views come from: a live run at this moment, or a recorded one."""

    def view(self) -> RunView: ...


class KneescopeApp(App[Answer | None]):
    """Shows a run. With `run` it also carries it, as a task in the same loop; `on_stop` must end its load at once, and
    `on_rate` multiply the rate that is held. `recorded`: all that `source` tells is past. `driver_class` None: textual's own.

    Returns the answer, or None when there is none yet. An exception of the run is shown, kept in `run_error`, and ends nothing.
    """

    TITLE = "kneescope"
    CSS_PATH = "app.tcss"
    HORIZONTAL_BREAKPOINTS = WIDTHS
    VERTICAL_BREAKPOINTS = HEIGHTS
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("space", "pause", "Pause view"),
        Binding("space", "resume", "Resume"),
        Binding("x", "stop_load", "Stop load", priority=True),
        Binding("plus", "rate(1)", "Rate", key_display="+ -"),
        Binding("minus", "rate(-1)", show=False),
        Binding("1", "screen.panel(1)", "Zoom", key_display="1-6"),
        *(Binding(str(n), f"screen.panel({n})", show=False) for n in range(2, 7)),
        Binding("f", "screen.fleet", "Fleet"),
        Binding("question_mark", "explain", "Help", key_display="?"),
        Binding("q", "leave", "Quit", priority=True),
        Binding("ctrl+c", "interrupt", show=False, priority=True),
    ]

    frozen: reactive[RunView | None] = reactive(None, bindings=True)
    """The view that is held still, or None while the panels are live."""
    running: reactive[bool] = reactive(False, bindings=True)
    """Whether the run's task is alive."""
    holding: reactive[bool] = reactive(False, bindings=True)
    """Whether a rate is held now, which the user may change."""

    def __init__(
        self,
        source: Source,
        *,
        run: Callable[[], Awaitable[Answer]] | None = None,
        on_stop: Callable[[], None] | None = None,
        on_rate: Callable[[float], object] | None = None,
        recorded: bool = False,
        driver_class: type[Driver] | None = None,
    ) -> None:
        super().__init__(driver_class=driver_class)
        for theme in (THEME, THEME_16):
            self.register_theme(theme)
        self.theme = THEME.name
        if self.no_color:  # textual 8.2.8 then paints its ANSI themes black on black
            for name in [theme.name for theme in self.available_themes.values() if theme.ansi]:
                self.unregister_theme(name)
        self.run_error: Exception | None = None
        self._source = source
        self._run = run
        self._on_stop = on_stop
        self._on_rate = on_rate
        self._recorded = recorded
        self._ramp = RampScreen()
        self._stop_asked = False
        self._leaving = False

    def get_default_screen(self) -> RampScreen:
        """The ramp screen."""
        return self._ramp

    @property
    def fleet_ask(self) -> FleetAsk | None:
        """The fleet that was asked for, as the user left it; None before there was a view with one."""
        return self._ramp.fleet_ask

    def on_mount(self) -> None:
        """Start the run, then look at it four times a second."""
        if self.console.color_system == "standard" and not self.is_headless:
            self.theme = THEME_16.name
        if self._run is not None:
            self.running = True
            self.run_worker(self._carry(self._run), exit_on_error=False)
        self.set_interval(POLL_S, self.look)
        self.call_after_refresh(self.look)

    def on_resize(self) -> None:
        """Text that depends on the size follows it at once."""
        self.call_after_refresh(self.look)

    def request_stop(self, leave: bool) -> None:
        """For signal handlers in this loop: end the load at once, and leave when the run has ended."""
        self.action_stop_load()
        if leave:
            self._leave()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Typed text in the palette is no command; pause or resume, whichever applies."""
        if action in ("stop_load", "leave", "pause", "resume", "explain", "rate") and isinstance(self.screen, CommandPalette):
            return False
        if action == "rate":
            return self.holding and self._on_rate is not None
        if action == "pause":
            return self.running and self.frozen is None
        if action == "resume":
            return self.frozen is not None
        return self.running if action == "stop_load" else True

    def action_pause(self) -> None:
        """Hold the panels still; the load goes on."""
        self.frozen = self._source.view()
        self.look()

    def action_resume(self) -> None:
        """Live again."""
        self.frozen = None
        self.look()

    def action_stop_load(self) -> None:
        """End the load at once and stay, with what is finished; a view that was held would hide that end."""
        self._stop_asked, self.frozen = True, None
        if self._on_stop is not None:
            self._on_stop()
        self.look()

    def action_rate(self, steps: int) -> None:
        """Raise the rate that is held by 10 %, or take that back."""
        if self._on_rate is not None:
            self._on_rate(RATE_STEP**steps)
        self.look()

    def action_interrupt(self) -> None:
        """Ctrl-C: as `q`, and never refused, whatever is open; it is no character that somebody could be typing."""
        self.action_leave()

    def action_leave(self) -> None:
        """While loading: stop the load, the second time leave. Without load: leave."""
        if self._loading() and not self._stop_asked:
            self.action_stop_load()
        else:
            self._leave()

    async def action_quit(self) -> None:
        """Textual's own ways to quit (ctrl+q, palette) mean the same as `q`."""
        self.action_leave()

    def action_explain(self) -> None:
        """Keys and panels on one page."""
        if not isinstance(self.screen, HelpScreen):
            self.push_screen(HelpScreen())
            self.call_after_refresh(self.look)

    def _loading(self) -> bool:
        view = self._source.view()
        return self.running and (view.load in ("loading", "draining") or view.current is not None)

    def _leave(self) -> None:
        again, self._leaving = self._leaving, True
        if again or not self.running:
            self._go()
            return
        self.action_stop_load()
        self.set_timer(LEAVE_S, self._go)

    def _go(self) -> None:
        self.exit(self._source.view().answer)

    async def _carry(self, run: Callable[[], Awaitable[Answer]]) -> None:
        try:
            await run()
        except asyncio.CancelledError:
            raise
        except Exception as error:  # of whatever kind: the results so far stay on the screen, and the load must end
            self.run_error = error
            if self._on_stop is not None:
                self._on_stop()
            text = str(error) if isinstance(error, UserError) else f"{type(error).__name__}: {error}"
            self._ramp.say(f"✘ The run broke off: {clean(text)} What is finished is kept.")
        finally:
            self.running = False
        self.look()
        if self._leaving:
            self._go()

    def look(self) -> None:
        """Take the view of this moment and show it."""
        live = self._source.view()
        if self.frozen is not None and self.frozen.answer is None and live.answer is not None:
            self.frozen = None
        paused, stopping = self.frozen is not None, self._stop_asked and self.running
        self._ramp.show(self.frozen or live, live, paused=paused, stopping=stopping, recorded=self._recorded)
        if isinstance(self.screen, HelpScreen):
            self.screen.show(live, paused=paused, stopping=stopping, recorded=self._recorded)
        self.holding = self.running and live.current is not None and live.current.phase == "hold" and not self._stop_asked
