"""The table of replicas: only the rows that are seen are drawn, so that a thousand cost what forty do."""

from textual import events
from textual.content import Content
from textual.message import Message
from textual.widget import Widget

from core.watch import Row
from tui.watch.rows import Layout, Order


class ReplicaTable(Widget, can_focus=True):
    """Rows in an order, one of them chosen. It stays with its replica when the order changes."""

    class Opened(Message):
        """A row was asked for."""

        def __init__(self, url: str) -> None:
            super().__init__()
            self.url = url

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._rows: tuple[Row, ...] = ()
        self._order = Order()
        self._chosen: str | None = None
        self._top = 0

    @property
    def chosen(self) -> Row | None:
        """The row under the cursor."""
        return next((row for row in self._rows if row.url == self._chosen), self._rows[0] if self._rows else None)

    def show(self, rows: tuple[Row, ...], order: Order) -> None:
        """Take the rows that are shown, in order."""
        at = self._at
        self._rows, self._order = rows, order
        if rows and all(row.url != self._chosen for row in rows):  # it was filtered out, or is gone: the next one in its place
            self._chosen = rows[min(at, len(rows) - 1)].url
        self._keep_in_sight()
        self.refresh()

    def move(self, step: int) -> None:
        """The cursor, by so many rows; beyond the ends is at them."""
        if self._rows:
            self._chosen = self._rows[min(max(self._at + step, 0), len(self._rows) - 1)].url
            self._keep_in_sight()
            self.refresh()

    @property
    def page(self) -> int:
        """Rows that are seen at once."""
        return max(1, self.size.height - 1)

    def on_click(self, event: events.Click) -> None:
        """Choose the row, or open it where it is chosen already."""
        at = self._top + event.y - 1
        if event.y >= 1 and at < len(self._rows):
            if self._rows[at].url == self._chosen:
                self.post_message(self.Opened(self._rows[at].url))
            else:
                self.move(at - self._at)

    def on_mouse_scroll_down(self) -> None:
        """On."""
        self.move(1)

    def on_mouse_scroll_up(self) -> None:
        """Back."""
        self.move(-1)

    def on_resize(self) -> None:
        """The cursor stays in sight."""
        self._keep_in_sight()

    def render(self) -> Content:
        """The head, and the rows from the top one on."""
        width = self.size.width
        layout = Layout.of(self._rows, width)
        chosen = self.chosen
        lines = [layout.head(self._order)]
        for row in self._rows[self._top : self._top + self.page]:
            line = layout.line(row, chosen=row is chosen, width=width)
            lines.append(line.stylize("reverse") if row is chosen else line)
        return Content("\n").join(lines)

    @property
    def _at(self) -> int:
        return next((at for at, row in enumerate(self._rows) if row.url == self._chosen), 0)

    def _keep_in_sight(self) -> None:
        at, last = self._at, max(0, len(self._rows) - self.page)
        self._top = min(max(min(self._top, at), at - self.page + 1), last)
