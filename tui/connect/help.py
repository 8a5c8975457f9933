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
    ("leaving URL", "a question for its list of models, without your key and headers"),
    ("ctrl+r", "readings of its metrics and about five single requests, one after another: no load"),
    ("ctrl+s", "the same once more, then the load that stands under what to expect"),
)
CHECKS = (
    ("✔ pass", "as it should be"),
    ("▲ WARN", "load may start; know what it says when you read the answer"),
    ("✘ REFUSE", "no load starts before that is changed"),
    ("pgdn", "every check in whole sentences, where they have no room"),
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
        ("Fields; an empty one is what it says in grey", fields),
    )
    lines = [line for title, told in parts for line in (*rows(title, told, width), Content())]
    return Content("\n").join(lines[:-1])
