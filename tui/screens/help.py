"""What the keys do and what each panel answers."""

import textwrap
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from tui.frame import Frame
from tui.keys import KEYS
from tui.widgets.fleet_panel import FleetPanel
from tui.widgets.floor import FloorPanel
from tui.widgets.ladder import Ladder
from tui.widgets.pieces import styled
from tui.widgets.status import StatusStrip

_PANELS = (
    ("top line", StatusStrip.HELP),
    ("1 floor", FloorPanel.HELP),
    ("2 steps", Ladder.HELP),
    ("3 TTFT", "time to first token of each second; the dashed line: limit"),
    ("4 TPOT", "time per output token after the first; shaded: every 2nd step"),
    ("5 queue", "without a first token, in flight; the server's own counts"),
    ("6 KV cache", "share in use; ▾ preemption: it was full, work is done again"),
    ("f fleet", FleetPanel.HELP),
)
_INDENT = 12


class HelpScreen(ModalScreen[None]):
    """One page under the state of the load; any of its keys closes it."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,question_mark,enter", "dismiss", "Close")]

    def __init__(self) -> None:
        super().__init__()
        self._status, self._page, self._box = StatusStrip(), Static(), Vertical(id="help")

    def compose(self) -> ComposeResult:
        yield self._status
        with self._box:
            yield self._page

    def show(self, frame: Frame) -> None:
        """Take a new frame for the top line, and the room there is for the page."""
        self._status.show(frame)
        text = page(self._box.size.width, self.size.height - self._status.size.height)
        if str(self._page.content) != str(text):
            self._page.update(text)


def page(width: int, height: int) -> Content:
    """Keys and panels, as far as there is room, and always how to close it."""
    lines = [*_rows("Keys", tuple((key.shown_as, key.help) for key in KEYS), width), Content(), *_rows("Panels", _PANELS, width)]
    if len(lines) + 1 > height > 0:
        lines = [*lines[: height - 2], Content.assemble(styled("… resize for more", "strong"))]
    return Content("\n").join([*lines, Content.assemble(styled("esc closes", "strong"))])


def _rows(title: str, rows: tuple[tuple[str, str], ...], width: int) -> list[Content]:
    lines = [Content.assemble(styled(title, "muted"))]
    for name, text in rows:
        first, *rest = textwrap.wrap(text, max(20, width - _INDENT))
        lines.append(Content.assemble(styled(f"{name:<{_INDENT}}", "strong"), styled(first, "plain")))
        lines += [Content.assemble(styled(" " * _INDENT + line, "plain")) for line in rest]
    return lines
