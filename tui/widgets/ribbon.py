"""The ribbon: what became of the requests of each moment, over the whole run."""

from textual.content import Content
from textual.widget import Widget

from tui.frame import Frame


class Ribbon(Widget):
    """One column for each slice of time: good, open, missed; each band named by its rate and verdict."""

    HELP = "what became of the requests that were due at each moment"

    _frame: Frame | None = None

    def show(self, frame: Frame) -> None:
        """Take a frame."""
        self._frame = frame
        self.refresh()

    def render(self) -> Content:
        """The bands, and their names."""
        return Content("")
