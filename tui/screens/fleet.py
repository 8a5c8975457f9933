"""How many replicas, and what if?"""

from collections.abc import Iterable
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.widget import Widget

from core import fleet
from tui.frame import Frame
from tui.screens.run_screen import RunScreen
from tui.widgets import curve, fleet_rows
from tui.widgets.curve import CurvePanel, knee_of
from tui.widgets.fleet_panel import CURVE, FIGURES, PANELS, SLIDES, FleetPanel

_CURVE_FROM = 33
"""Rows of a screen from which on the numbers leave room for the curve."""


class FleetScreen(RunScreen):
    """Peak, price and load at peak to set, what they make of the measured replica, and where that lies on its curve."""

    RIBBON = False
    BINDINGS: ClassVar[list[BindingType]] = [
        *(Binding(key, f"typed('{char}')", show=False) for key, char in FIGURES),
        *(Binding(key, f"slide({steps})", show=False) for key, steps in SLIDES),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._ribbon.display = self.RIBBON  # from the beginning: its rows are the results'
        self._fleet = FleetPanel(id="fleet", classes="panel")
        self._curve = CurvePanel(id=CURVE, classes="panel")

    def body(self) -> Iterable[Widget]:
        """The numbers first, then the curve."""
        yield Container(self._fleet, self._curve, id=PANELS)

    def draw(self, frame: Frame) -> None:
        """Show the view and the fleet that is asked for."""
        self._curve.display = self.size.height >= _CURVE_FROM
        self._fleet.show(frame)
        view = frame.view
        is_check = view.config is not None and view.config.method.fleet is not None
        plan = None if is_check else fleet.plan(knee_of(view), frame.fleet_ask, view.server)
        name = "load of all replicas" if is_check else "load of each replica"
        self._curve.show_content(curve.attainment(view, name, fleet_rows.marks(plan)), curve.LEGEND, view.now_s)

    def on_mount(self) -> None:
        """Begin at the peak."""
        self._fleet.begin()

    def on_screen_resume(self) -> None:
        """Who comes back begins at the peak again."""
        if self._fleet.is_mounted:
            self._fleet.begin()

    def on_screen_suspend(self) -> None:
        """What is typed elsewhere is for no field here."""
        self.set_focus(None)

    def action_slide(self, steps: int) -> None:
        """The load at peak, from wherever the focus is."""
        self._fleet.slide(steps)

    def action_typed(self, char: str) -> None:
        """A figure that no field has taken, as those do that are typed right behind the key that leads here."""
        self._fleet.typed(char)
