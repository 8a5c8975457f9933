"""`?` of the Connect screen: its keys, what is sent when, what the checks say, and what each field is for."""

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from tui import keys
from tui.connect.fields import FIELDS
from tui.screens.help import rows
from tui.widgets.pieces import styled

SENT = (
    ("typing", "sends nothing"),
    ("leaving URL, or choosing a recent server", "one request for its list of models, without your key and headers"),
    ("ctrl+r", "reads its metrics and sends about five single requests, one after another; no load"),
    ("f5", "leaves this screen and reads the server's metrics once a second, with your key and headers; no other request"),
    ("ctrl+s", "sends the load described under what to expect; checks that are older than 2 min are made again before it"),
)
CHECKS = (
    ("✔ pass", "as it should be"),
    ("▲ WARN", "load may start; keep it in mind when you read the answer"),
    ("✘ REFUSE", "no load starts until you fix it"),
    ("pgdn", "shows every check in full, if there is no room for that"),
)


class ConnectHelp(ModalScreen[None]):
    """One page, which scrolls; any of its keys closes it."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,f1,question_mark,enter", "dismiss", "Close")]

    def __init__(self) -> None:
        super().__init__()
        self._page, self._close = Static(), Static(id="help-close")
        self._box = VerticalScroll(self._page, id="help")

    def compose(self) -> ComposeResult:
        yield self._box
        yield self._close

    def on_mount(self) -> None:
        """What closes it, and whether there is more than is seen."""
        self.watch(self._box, "virtual_size", self._say_more)

    def on_resize(self) -> None:
        """As wide as there is room."""
        self.call_after_refresh(lambda: self._page.update(page(self._box.size.width - 4)))

    def _say_more(self) -> None:
        more = "  ↑ ↓ for more" if self._box.max_scroll_y > 0 else ""
        self._close.update(Content.assemble(styled(f"esc closes{more}", "strong")))


def page(width: int) -> Content:
    """All of it, as wide as that."""
    fields = [(field.label, field.help) for field in FIELDS.values()]
    parts = (
        ("Keys", keys.connect_help()),
        ("What is sent, and when", SENT),
        ("Checks before load", CHECKS),
        ("Fields; grey text is what an empty field stands for", fields),
    )
    lines = [line for title, told in parts for line in (*rows(title, told, width), Content())]
    return Content("\n").join(lines[:-1])
