"""The screen as a program: wiring only. It polls views, hands frames to the screens, and passes keys and signals on."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path, PurePath
from typing import ClassVar, Literal, Protocol

from textual import actions
from textual.app import App, SystemCommand
from textual.binding import BindingType
from textual.command import CommandPalette
from textual.driver import Driver
from textual.markup import escape
from textual.reactive import reactive
from textual.screen import Screen

from core.compare import Ghost
from core.config import FleetAsk
from core.errors import UserError
from core.facts import Said
from core.report import to_markdown, while_going
from core.results import Answer
from core.view import RunView
from tui import again, keys
from tui.draw.picture import png_beside
from tui.draw.style import THEME_16, VERDICTS, clean, line_hues, set_up_themes
from tui.frame import Frame, Playback, with_fleet
from tui.past import Past
from tui.screens.fleet import FleetScreen
from tui.screens.help import HelpScreen
from tui.screens.knee import KneeScreen
from tui.screens.ramp import RampScreen
from tui.screens.run_screen import RunScreen
from tui.screens.whatif import WhatIfScreen
from tui.widgets.fleet_panel import FleetPanel
from tui.widgets.ribbon import Ribbon

POLL_S = 0.25
LEAVE_S = 2.0
"""Load is off within 0.5 s of a stop; this long the app waits for the run to write its end before it leaves anyway."""
OFFER_S = 5.0
"""As long as the sentence about another run stands, a second press does it."""
RATE_STEP = 1.1
"""One press of + multiplies a held rate by this, one of - divides by it, so that each undoes the other."""
WIDTHS: list[tuple[int, str]] = [(0, "-cramped"), (60, "-narrow"), (100, "-broad"), (160, "-wide")]
HEIGHTS: list[tuple[int, str]] = [(0, "-squat"), (16, "-short"), (28, "-middle"), (44, "-tall")]
"""Classes that app.tcss lays the panels out by: from these columns and rows on."""
Name = Literal["ramp", "knee", "fleet", "what_if"]
SEEK_STEPS = 20
SCREENS: dict[Name, Callable[[], RunScreen]] = {
    "ramp": RampScreen,
    "knee": KneeScreen,
    "fleet": FleetScreen,
    "what_if": WhatIfScreen,
}


class Source(Protocol):
    """Where views come from: a live run at this moment, or a recorded one."""

    def view(self) -> RunView: ...


class Player(Source, Protocol):
    """A recorded run: a source whose moment the user chooses."""

    @property
    def playback(self) -> Playback: ...

    @property
    def whole(self) -> RunView:
        """The run as it ended."""

    def play(self) -> None:
        """Play on, or from the beginning when it stands at the end."""

    def hold(self) -> None:
        """Stand still."""

    def seek(self, at_s: float) -> None:
        """Go to a moment, in seconds since the run began; beyond its ends is at them."""

    def faster(self, factor: float) -> None:
        """Multiply the speed, within limits."""


class Beside(Protocol):
    """A recorded run that is drawn behind."""

    @property
    def ghost(self) -> Ghost:
        """What of it is drawn."""

    def headline(self, path: Path) -> Said:
        """What the finished run of that file shows beside it; it may take seconds."""


@dataclass(frozen=True, kw_only=True)
class RunControls:
    """What a user can do to a live run: `stop` ends its load at once, `rate` multiplies the rate that is held, `end_step` ends the
    step that runs, with the verdict that stands by then."""

    stop: Callable[[], None] | None = None
    rate: Callable[[float], object] | None = None
    end_step: Callable[[], object] | None = None


class KneescopeApp(App[Answer | None]):
    """Shows a run. With `run` it also carries it, as a task in the same loop, and `controls` act on it; `player`: it is recorded.
    `path`: of the run file, for the summary. `beside`: the run that is drawn behind. `driver_class` None: textual's own.

    Returns the answer, or None when there is none yet. An exception of the run is shown, kept in `run_error`, and ends nothing.
    """

    TITLE = "kneescope"
    DEFAULT_MODE = "ramp"
    CSS_PATH: ClassVar[list[str | PurePath]] = ["app.tcss", "plots.tcss", "cliff.tcss", "knee_fleet.tcss", "ribbon.tcss"]
    HORIZONTAL_BREAKPOINTS = WIDTHS
    VERTICAL_BREAKPOINTS = HEIGHTS
    BINDINGS: ClassVar[list[BindingType]] = [*keys.bindings()]

    frozen: reactive[RunView | None] = reactive(None, bindings=True)
    """The past view that the panels of a live run show, be it that they were paused or moved back, or None while they are live."""
    running: reactive[bool] = reactive(False, bindings=True)
    """Whether the run's task is alive."""
    phase: reactive[str | None] = reactive(None, bindings=True)
    """What the step that runs is for; None between steps and when the load is to stop."""
    begun: reactive[bool] = reactive(False, bindings=True)
    """Whether there is a first step, and so a past to move in."""

    def __init__(
        self,
        source: Source,
        *,
        run: Callable[[], Awaitable[Answer]] | None = None,
        controls: RunControls | None = None,
        player: Player | None = None,
        path: str = "",
        beside: Beside | None = None,
        driver_class: type[Driver] | None = None,
    ) -> None:
        super().__init__(driver_class=driver_class)
        set_up_themes(self)
        self.run_error: Exception | None = None
        self.fleet_ask: FleetAsk | None = None
        self.wish: again.Wish | None = None
        self._offered: again.Wish | None = None
        self._repeats = self._verifiable = False
        self._source = source
        self._run = run
        self._controls = controls or RunControls()
        self._player = player
        self._path = path
        self._beside = beside
        self._compared: Said | None = None
        self._comparing = False
        self._past = Past()
        self._shown: Name = "ramp"
        self._run_screens: dict[Name, RunScreen] = {name: make() for name, make in SCREENS.items()}
        for name in SCREENS:
            self.add_mode(name, partial(self._run_screens.__getitem__, name))
        self._answered = False
        self._stop_asked = False
        self._leaving = False

    @property
    def run_path(self) -> str:
        """The file of the run; empty where there is none."""
        return self._path

    def begin_with(self, name: Name, ask: FleetAsk | None, *, repeats: bool) -> None:
        """Before it runs: the screen to begin with, the fleet that was set before, and whether another run can follow."""
        self._shown, self.fleet_ask, self._repeats = name, ask, repeats

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """Colours that the themes of others do not have."""
        return line_hues(self.current_theme)

    def on_mount(self) -> None:
        """Start the run, then look at it four times a second."""
        if self.console.color_system == "standard" and not self.is_headless:
            self.theme = THEME_16.name
        if self._run is not None:
            self.running = True
            self.run_worker(self._carry(self._run), exit_on_error=False)
        if self._shown != self.current_mode:
            self.switch_mode(self._shown)
        self.set_interval(POLL_S, self.look)
        self.call_after_refresh(self.look)

    def on_resize(self) -> None:
        """Text that depends on the size follows it at once."""
        self.call_after_refresh(self.look)

    def on_fleet_panel_asked(self, event: FleetPanel.Asked) -> None:
        """The user has set another fleet: every screen sizes by it from now on."""
        self.fleet_ask = event.ask
        self.look()

    def on_ribbon_picked(self, event: Ribbon.Picked) -> None:
        """A place on the ribbon: the panels show the run as it was then."""
        if self._player is not None:
            self._player.seek(event.at_s)
        else:
            self.frozen = self._past.at(event.at_s)
        self.look()

    def request_stop(self, leave: bool) -> None:
        """For signal handlers in this loop: end the load at once, and leave when the run has ended."""
        self.action_stop_load()
        if leave:
            self._leave()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Typed text in the palette is no command; of the others those that mean something now."""
        if action in keys.TYPED and isinstance(self.screen, CommandPalette):
            return False
        return self._means_something(action, parameters)

    def _means_something(self, action: str, parameters: tuple[object, ...]) -> bool:
        match action:
            case "rate":
                return self.phase == "hold" and self._controls.rate is not None
            case "end_step":
                return self.phase not in (None, "ramp", "hold") and self._controls.end_step is not None
            case "pause":
                return self.running and self.frozen is None
            case "resume":
                return self.frozen is not None
            case "play" | "speed":
                return self._player is not None
            case "cursor":  # of the fleet these keys move the headroom
                return (self.begun or self._player is not None) and self._shown != "fleet"
            case "seek":
                return self._player is not None or (self.begun and self._shown != "fleet")
            case "newest":
                return self._player is not None or self.frozen is not None
            case "stop_load":
                return self.running
            case "repeat":
                return self._repeats and not self.running and (parameters[0] == "again" or self._verifiable)
            case "look_at":
                return parameters[0] != self._shown
            case "panel":
                return len(self._run_screens[self._shown].panels) >= int(str(parameters[0]))
            case _:
                return True

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
        if self._controls.stop is not None:
            self._controls.stop()
        self.look()

    def action_end_step(self) -> None:
        """End the step that runs: with the verdict that stands by then, else unjudged."""
        if self._controls.end_step is not None:
            self._controls.end_step()
        self.look()

    def action_rate(self, steps: int) -> None:
        """Raise the rate that is held by 10 %, or take that back."""
        if self._controls.rate is not None:
            self._controls.rate(RATE_STEP**steps)
        self.look()

    def action_play(self) -> None:
        """Play a recorded run, or hold it."""
        if self._player is not None:
            (self._player.hold if self._player.playback.playing else self._player.play)()
        self.look()

    def action_cursor(self, steps: int) -> None:
        """Through a run by columns of the ribbon."""
        self._move(steps * self._run_screens[self._shown].query_one(Ribbon).column_s)

    def action_seek(self, steps: int) -> None:
        """Through a run by twentieths of it."""
        length_s = self._source.view().now_s if self._player is None else self._player.playback.length_s
        self._move(steps * length_s / SEEK_STEPS)

    def action_newest(self) -> None:
        """Back to now, of a recorded run to its end."""
        if self._player is not None:
            self._player.seek(self._player.playback.length_s)
        self.action_resume()

    def _move(self, by_s: float) -> None:
        """Show the run as it was earlier or later; in a live run that is a pause with another moment, and later than now is now."""
        if self._player is not None:
            self._player.seek(self._player.playback.at_s + by_s)
        else:
            self.frozen = self._past.beyond((self.frozen or self._source.view()).now_s, by_s)
        self.look()

    def action_speed(self, steps: int) -> None:
        """Double or halve the speed of a recorded run."""
        if self._player is not None:
            self._player.faster(2.0**steps)
        self.look()

    def action_look_at(self, name: Name) -> None:
        """Another screen of the same run."""
        if not isinstance(self.screen, HelpScreen | CommandPalette):
            self._shown = name
            self.switch_mode(name)
            self.refresh_bindings()
            self.call_after_refresh(self.look)

    def action_panel(self, number: int) -> None:
        """One panel of this screen alone, and back."""
        self._run_screens[self._shown].panel(number)

    def action_leave(self) -> None:
        """While loading: stop the load, the second time leave. Without load: leave."""
        if self._loading() and not self._stop_asked:
            self.action_stop_load()
        else:
            self._leave()

    def action_repeat(self, wish: again.Wish) -> None:
        """Leave for another run. It sends load, so the first press only says what the second one does."""
        if self._offered == wish:
            self.wish = wish
            self._go()
            return
        self._offered = wish
        self.set_timer(OFFER_S, self._withdraw)
        self.clear_notifications()
        self.notify(f"▲ {again.offer(wish, self._source.view())}", severity="warning", timeout=OFFER_S, markup=False)

    def _withdraw(self) -> None:
        self._offered = None

    def action_interrupt(self) -> None:
        """Ctrl-C: as `q`, and never refused, whatever is open; it is no character that somebody could be typing."""
        self.action_leave()

    async def action_quit(self) -> None:
        """Textual's own ways to quit (ctrl+q, palette) mean the same as `q`."""
        self.action_leave()

    def action_explain(self) -> None:
        """The panel that is looked at, and all keys."""
        if not isinstance(self.screen, HelpScreen):
            screen = self._run_screens[self._shown]
            self.push_screen(HelpScreen(screen.looked_at, len(screen.panels)))
            self.call_after_refresh(self.look)

    def action_copy(self) -> None:
        """Put the summary of the run on the clipboard."""
        view = with_fleet(self._source.view(), self.fleet_ask)
        self.copy_to_clipboard(to_markdown(while_going(view) if self.running else view, self._path))
        self._say("Copied if the terminal allows; kneescope report RUN --format md prints it")

    def action_picture(self) -> None:
        """Save this screen as a picture."""
        name = f"kneescope-{self._shown}-{datetime.now():%Y%m%d-%H%M%S-%f}.svg"
        try:
            self.save_screenshot(name, str(Path.cwd()))
        except OSError as error:
            self._say(f"No picture can be written into the current folder: {error.strerror}.", wrong=True)
        else:
            self._say(f"Saved in the current folder: {name}")
            self.run_worker(self._draw(Path.cwd() / name), exit_on_error=False)

    async def _draw(self, picture: Path) -> None:
        """The same as dots, where that can be drawn; it takes longer."""
        if (drawn := await png_beside(picture)) is not None:
            self._say(f"Saved beside it: {drawn.name}")

    def _say(self, text: str, *, wrong: bool = False) -> None:
        """In one line over the keys for a few seconds; it takes the place of what was said before."""
        self.clear_notifications()
        glyph = VERDICTS["fail" if wrong else "pass"].glyph
        self.notify(f"{glyph} {text}", severity="error" if wrong else "information", markup=False)

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """The palette: every command that means something now, and the themes."""
        for key in keys.KEYS:
            name, parameters = actions.parse(key.action)[1:]
            if key.action != "interrupt" and self._means_something(name, parameters):
                title = key.short if name != "panel" else f"Zoom {parameters[0]}"
                yield SystemCommand(f"{title}  {escape(f'[{keys.alone(key)}]')}", key.help, partial(self.run_action, key.action))
        yield SystemCommand("Theme", "other colours", self.action_change_theme)

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
            if self._controls.stop is not None:
                self._controls.stop()
            text = str(error) if isinstance(error, UserError) else f"{type(error).__name__}: {error}"
            for screen in self._run_screens.values():
                screen.say(f"✘ The run broke off: {clean(text)} What is finished is kept.")
        finally:
            self.running = False
        self.look()
        if self._leaving:
            self._go()

    def look(self) -> None:
        """Take the view of this moment and show it."""
        if not self.is_running:  # the timer's last call, when the screens are being closed already
            return
        live = self._source.view()
        if self._player is None:
            self._past.keep(live)
        if live.known_answer is not None and not self._answered:
            self.frozen = None
        frame = Frame(
            view=self.frozen or live,
            live=live,
            paused=self.frozen is not None,
            stopping=self._stop_asked and self.running,
            playback=self._player.playback if self._player is not None else None,
            ask=self.fleet_ask,
            recording=self._player.whole if self._player is not None else None,
            ghost=self._beside.ghost if self._beside is not None else None,
            compared=self._compared,
        )
        if self._beside is not None and frame.whole.answer is not None and not self._comparing:
            self._comparing = True
            self.run_worker(self._compare(self._beside), exit_on_error=False)
        self.begun = live.current is not None or bool(live.steps)
        self._run_screens[self._shown].show(frame)
        if isinstance(self.screen, HelpScreen):
            self.screen.show(frame)
        self.phase = live.current.phase if live.current is not None and self.running and not self._stop_asked else None
        self._show_answer(live)

    async def _compare(self, beside: Beside) -> None:
        """Once the run is over, for then nothing is measured any more that reading a long file could disturb."""
        self._compared = await asyncio.to_thread(beside.headline, Path(self._path))
        self.look()

    def _show_answer(self, live: RunView) -> None:
        """The moment a knee is known, the screen about it comes up, unless the user is busy elsewhere."""
        answer = live.known_answer
        found = answer is not None and answer.knee.pass_rps is not None
        if answer is not None and not self._answered and self._player is None:
            self.bell()
        if found and not self._answered and self._shown == "ramp" and self.screen.maximized is None:
            self.action_look_at("knee")
        self._answered = answer is not None
        if found != self._verifiable:
            self._verifiable = found
            self.refresh_bindings()
