"""Why it breaks there, in words, below the curve: as much as there is room for, and all of it when it is maximised."""

from textual.content import Content

from core.view import RunView
from tui.widgets import knee_words
from tui.widgets.pieces import Piece
from tui.widgets.plot_view import Titled


class WhyPanel(Titled):
    """Panel 4 of the knee; without a border unless it is maximised."""

    ALLOW_MAXIMIZE = True

    _view: RunView | None = None
    _room = (80, 2)

    def show(self, view: RunView, width: int, rows: int) -> None:
        """Take a view, and how wide and how high the text may be."""
        before = self._text()
        self._view, self._room = view, (width, rows)
        self.set_title((Piece("4 why it breaks there", "strong"),))
        if not self._text().is_same(before):
            self.refresh(layout=True)

    def render(self) -> Content:
        """The conclusion first; what has no room is counted."""
        return self._text()

    def _text(self) -> Content:
        if self._view is None:
            return Content()
        if self.has_class("-maximized"):
            return knee_words.below(self._view, self.size.width, self.size.height, "c copies all")
        return knee_words.below(self._view, *self._room, "press 4")
