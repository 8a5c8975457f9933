"""A list over the form to choose one of: recent servers, usual limits."""

from collections.abc import Sequence
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import OptionList, Static

from tui.draw.style import clean
from tui.widgets.pieces import styled


class Choose(ModalScreen[int | None]):
    """Ends with the place of what was chosen, or None."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss(None)", "Close")]
    AUTO_FOCUS = "OptionList"

    def __init__(self, title: str, rows: Sequence[tuple[str, str]]) -> None:
        """`rows`: a name, and what is said beside it."""
        super().__init__()
        self._title = title
        width = max((len(name) for name, _ in rows), default=0)
        self._list = OptionList(*(Text(f"{clean(name):<{width}}  {clean(told)}".rstrip()) for name, told in rows), compact=True)

    def compose(self) -> ComposeResult:
        with Vertical(id="choose"):
            yield Static(Content.assemble(styled(self._title, "strong")))
            yield self._list
            yield Static(Content.assemble(styled("enter takes it, esc closes", "muted")))

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Chosen."""
        event.stop()
        self.dismiss(event.option_index)
