"""Where does it break, how sure are we, and why?"""

from collections.abc import Iterable
from typing import ClassVar

from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from tui.frame import Frame
from tui.screens.run_screen import RunScreen
from tui.widgets import answer


class KneeScreen(RunScreen):
    """The answer, drawn: attainment against rate, goodput, the reason, the percentiles of the chosen step."""

    PANELS: ClassVar[tuple[str, ...]] = ()

    def __init__(self) -> None:
        super().__init__()
        self._words = Static(id="knee-words")

    def body(self) -> Iterable[Widget]:
        """The answer in words."""
        yield self._words

    def draw(self, frame: Frame) -> None:
        """Show the view."""
        found = frame.view.answer
        text = answer.content(frame.view, found, *self._words.size) if found else Content("no answer yet")
        self._words.update(text)
