"""The default screen: does it still hold at this rate, and what did that amount to?"""

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, Vertical
from textual.content import Content
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Footer, Static

from core.config import FleetAsk
from core.run.view import RunView
from tui.style import STYLES
from tui.widgets import faces
from tui.widgets.fleet_panel import FleetPanel
from tui.widgets.floor import FloorPanel
from tui.widgets.ladder import Ladder
from tui.widgets.plot_view import PlotPanel
from tui.widgets.sparks import Sparks
from tui.widgets.status import EventLine, HeaderLine, StatusStrip, too_small

FLEET_BESIDE_ROWS = 22
"""Below these rows the key `f` gives the fleet the screen."""
PANELS = ("floor", "ladder", "ttft", "tpot", "queue", "kv")
_PLOTS = {"ttft": faces.ttft, "tpot": faces.tpot, "queue": faces.queue, "kv": faces.kv}


class RampScreen(Screen[None]):
    """All panels of a run. It is handed views and keeps nothing but the one that it shows."""

    AUTO_FOCUS = ""  # a focused field would take the digits that maximise panels
    ALLOW_IN_MAXIMIZED_VIEW = "#top, #bottom"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "restore", show=False),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._view: RunView | None = None
        self._header, self._status, self._banner, self._event = HeaderLine(), StatusStrip(), Static(id="banner"), EventLine()
        self._floor, self._ladder = FloorPanel(id="floor", classes="panel"), Ladder(id="ladder", classes="panel")
        self._fleet, self._sparks = FleetPanel(id="fleet", classes="panel"), Sparks()
        self._plots = {name: PlotPanel(id=name, classes="panel plot") for name in _PLOTS}
        self._too_small = Static(id="too-small")

    def compose(self) -> ComposeResult:
        yield Vertical(self._header, self._status, self._banner, id="top")
        yield Container(self._floor, self._ladder, self._fleet, *self._plots.values(), self._sparks, id="panels")
        yield Vertical(self._event, Footer(compact=True), id="bottom")
        yield self._too_small

    def show(self, view: RunView, live: RunView, *, paused: bool, stopping: bool, recorded: bool) -> None:
        """Draw `view` in the panels, and of `live` the state of the load and the last event; the two differ while paused."""
        self._header.show(live)
        self._status.show(live, paused=paused, stopping=stopping, recorded=recorded)
        self._event.show(live)
        small = "\n".join(too_small(live, *self.size))
        if str(self._too_small.content) != small:
            self._too_small.update(Content(small))
        self._make_room(view)
        if self._view is not None and (view.version, view.now_s) == (self._view.version, self._view.now_s):
            return
        self._view = view
        self._fleet.show(view)
        self._make_room(view)
        self.set_class(view.current is None and not view.steps and not self._fleet.available, "-checking")
        self._floor.show(view)
        self._ladder.show(view)
        self._sparks.show(view)
        for name, face in _PLOTS.items():
            self._plots[name].show_face(face(view))

    def _make_room(self, view: RunView) -> None:
        """The fleet stands beside the answer unless it would take the rows of the answer itself."""
        roomy = self.size.height >= FLEET_BESIDE_ROWS
        self.set_class(roomy and view.answer is not None and self._fleet.available, "-sized")

    @property
    def fleet_ask(self) -> FleetAsk | None:
        """The fleet that was asked for, as it stands on the screen."""
        return self._fleet.ask

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """A rate that is held finds no knee to size a fleet by."""
        held = self._view is not None and self._view.config is not None and self._view.config.method.hold_rps is not None
        return not (action == "fleet" and held)

    def say(self, text: str) -> None:
        """Put a sentence above the panels, to stay there; literal text."""
        self._banner.update(Content.styled(text, STYLES["breaks"]))
        self._banner.display = True

    def action_panel(self, number: int) -> None:
        """Maximise a panel, or restore when it is the one that is maximised."""
        self._toggle(self.query_one(f"#{PANELS[number - 1]}"))

    def action_fleet(self) -> None:
        """Into the fleet panel and out again; maximised where the layout has no room for it."""
        panel = self._fleet
        if panel.has_focus_within:
            self.action_restore()
        elif panel.available:
            if not panel.is_on_screen:
                self.maximize(panel, container=False)
            panel.take_focus()
        else:
            self.notify("No rate has held yet, so there is no fleet to size.", timeout=4, markup=False)

    def action_restore(self) -> None:
        """All panels again, nothing focused."""
        if self.maximized is not None:
            self.minimize()
        self.set_focus(None)

    def _toggle(self, panel: Widget) -> None:
        self.set_focus(None)  # a field that is hidden must not take what is typed
        if self.maximized is panel:
            self.minimize()
        else:
            self.maximize(panel, container=False)
