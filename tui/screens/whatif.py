"""What would it have been with other limits, lengths or sizes?"""

from collections.abc import Iterable
from pathlib import Path
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.widget import Widget

from tui.frame import Frame
from tui.screens.run_screen import RunScreen
from tui.widgets.whatif_panel import WhatIfPanel


class WhatIfScreen(RunScreen):
    """Sliders over a run that is over, and what a model of it says."""

    RIBBON = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,shift+tab", "choose(-1)", "Slider above", show=False),
        Binding("down,tab", "choose(1)", "Slider below", show=False),
    ]
    DEFAULT_CSS = """
    #what-if {
        height: 1fr;
        overflow-y: auto;
        scrollbar-gutter: stable;
        scrollbar-size-vertical: 1;
    }
    #knobs, #what-if-axis, #what-if-words {
        height: auto;
    }
    #what-if-axis {
        margin: 1 0;
    }
    Screen.-short #what-if-axis {
        margin: 0;
    }
    KnobSlider {
        height: 1;
    }
    """

    def __init__(self) -> None:
        super().__init__()
        self._panel = WhatIfPanel(id="what-if", classes="panel")

    def body(self) -> Iterable[Widget]:
        """One panel."""
        yield self._panel

    def draw(self, frame: Frame) -> None:
        """Begin where the run is over; before that there is nothing that a model could be of."""
        path = getattr(self.app, "run_path", "")
        over = frame.live.answer is not None if frame.playback is None else not frame.playback.going
        if not over:
            self._panel.wait("A model is made of a run that is over; this one is still going.")
        elif not path:
            self._panel.wait("There is no file of this run to make a model of.")
        else:
            self._panel.begin(Path(path))

    def on_screen_resume(self) -> None:
        """The keys are the sliders' at once."""
        if self._panel.is_mounted:
            self._panel.focus_next(1)

    def action_choose(self, steps: int) -> None:
        """Another slider."""
        self._panel.focus_next(steps)
