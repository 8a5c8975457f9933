"""What the panel that is looked at shows, and what the keys do."""

import textwrap
from collections.abc import Iterable
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from tui.explain import OF_REPLICAS, PANELS, RIBBON, TOP_LINE, Explained
from tui.frame import Frame
from tui.keys import in_help
from tui.widgets.pieces import styled
from tui.widgets.plot_view import Titled
from tui.widgets.status import StatusStrip

_INDENT = 16


class HelpScreen(ModalScreen[None]):
    """One page under the state of the load, which scrolls; any of its keys closes it."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,question_mark,enter", "dismiss", "Close")]

    def __init__(self, looked_at: Titled | None, panels: int) -> None:
        """`looked_at`: the panel to be explained first, None for all of them in a line each. `panels`: how many digits lead to."""
        super().__init__()
        self._panels = panels
        self._about = "" if looked_at is None else looked_at.id or ""
        self._status, self._page, self._close = StatusStrip(), Static(), Static(id="help-close")
        self._box = VerticalScroll(self._page, id="help")

    def compose(self) -> ComposeResult:
        yield self._status
        yield self._box
        yield self._close

    def show(self, frame: Frame) -> None:
        """Take a new frame for the top line, and the room there is for the page."""
        self._status.show(frame)
        sample, panel = frame.view.sample, PANELS.get(self._about)
        if panel is not None and sample is not None and sample.by_replica:
            panel = panel._replace(rows=(*panel.rows, *OF_REPLICAS.get(self._about, ())))
        text = page(panel, self._panels, self._box.size.width - 4)
        if str(self._page.content) != str(text):
            self._page.update(text)
        more = "  ↑ ↓ for more" if self._box.max_scroll_y > 0 else ""
        self._close.update(Content.assemble(styled(f"esc closes{more}", "strong")))


def page(panel: Explained | None, panels: int, width: int) -> Content:
    """The panel in full, then the keys, the top line and the ribbon; without one the keys, these, then each panel in a line."""
    key_rows = rows("Keys", in_help(panels), width)
    top = [*_explained(TOP_LINE, width), Content(), *_explained(RIBBON, width)]
    if panel is not None:
        return Content("\n").join([*_explained(panel, width), Content(), *key_rows, Content(), *top])
    questions = [(each.name, each.question) for each in PANELS.values()]
    hint = Content.assemble(styled("Zoom into a panel or go to it with tab, then ? explains every number in it.", "muted"))
    return Content("\n").join([*key_rows, Content(), *top, Content(), *rows("Panels", questions, width), hint])


def _explained(panel: Explained, width: int) -> list[Content]:
    return rows(f"{panel.name}: {panel.question}", panel.rows, width)


def rows(title: str, told: Iterable[tuple[str, str]], width: int) -> list[Content]:
    """A heading, and below it what stands there and what it is, in two columns."""
    lines, told = [Content.assemble(styled(title, "muted"))], list(told)
    indent = max(_INDENT, *(len(name) for name, _ in told)) + 1
    for name, text in told:
        first, *rest = textwrap.wrap(text, max(20, width - indent))
        lines.append(Content.assemble(styled(f"{name:<{indent}}", "strong"), styled(first, "plain")))
        lines += [Content.assemble(styled(" " * indent + line, "plain")) for line in rest]
    return lines
