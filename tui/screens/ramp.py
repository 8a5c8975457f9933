"""The default screen: does it still hold at this rate?"""

from collections.abc import Iterable
from typing import ClassVar

from textual.containers import Container
from textual.widget import Widget

from tui.frame import Frame
from tui.screens.run_screen import RunScreen
from tui.widgets import panel_content
from tui.widgets.cliff import CliffPanel
from tui.widgets.floor import FloorPanel
from tui.widgets.plot_view import PlotPanel
from tui.widgets.sparks import Sparks
from tui.widgets.steps_table import StepsTable

_PLOTS = {
    "ttft": panel_content.ttft,
    "tpot": panel_content.tpot,
    "queue": panel_content.queue,
    "kv": panel_content.kv,
    "rate": panel_content.rate,
}
_PLACES = ("ttft", "tpot", "rate", "queue", "kv")
_OF_THE_SERVER = ("queue", "kv")


class RampScreen(RunScreen):
    """All panels of a run as it goes: cliff, attainment floor, steps, latencies, queue, KV cache."""

    PANELS: ClassVar[tuple[str, ...]] = ("cliff", "floor", *_PLOTS, "steps")

    def __init__(self) -> None:
        super().__init__()
        self._cliff = CliffPanel(id="cliff", classes="panel")
        self._floor, self._steps_table = FloorPanel(id="floor", classes="panel"), StepsTable(id="steps", classes="panel")
        self._sparks = Sparks()
        self._plots = {name: PlotPanel(id=name, classes="panel plot") for name in _PLOTS}

    def body(self) -> Iterable[Widget]:
        """One grid, laid out by size."""
        plots = [self._plots[name] for name in _PLACES]
        deciding = Container(self._floor, self._steps_table, id="deciding")
        yield Container(self._cliff, deciding, *plots, self._sparks, id="panels")

    def draw(self, frame: Frame) -> None:
        """Show the view in every panel."""
        view = frame.view
        self.set_class(view.current is None and not view.steps, "-checking")
        self.set_class(view.answer is not None, "-ended")
        self._cliff.show_view(view, frame.ghost)
        self._floor.show(view)
        self._steps_table.show(view)
        self._sparks.show(view)
        for name, content_of in _PLOTS.items():
            self._plots[name].show_content(content_of(view), frame.cursor_s, panel_content.time_range(frame.whole))
        for name in _OF_THE_SERVER:
            self._plots[name].set_class(panel_content.age_text(view) is not None, "-stale")
