"""How many replicas, and what if?"""

from collections.abc import Iterable
from typing import ClassVar

from textual.widget import Widget

from tui.frame import Frame
from tui.screens.run_screen import RunScreen
from tui.widgets.fleet_panel import FleetPanel


class FleetScreen(RunScreen):
    """Peak and headroom to set; what they make of the measured replica."""

    PANELS: ClassVar[tuple[str, ...]] = ("fleet",)

    def __init__(self) -> None:
        super().__init__()
        self._fleet = FleetPanel(id="fleet", classes="panel")

    def body(self) -> Iterable[Widget]:
        """The panel that is set."""
        yield self._fleet

    def draw(self, frame: Frame) -> None:
        """Show the view and the fleet that is asked for."""
        self._fleet.show(frame.view)
