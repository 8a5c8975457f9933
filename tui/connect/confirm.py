"""A question before a run, whose answer is no until somebody says yes."""

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from tui.draw.style import clean
from tui.widgets.pieces import styled


class Confirm(ModalScreen[bool]):
    """Ends with the answer. Enter is no yes: it may have been meant for what stood here before."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "dismiss(True)", "Yes"),
        Binding("n,escape,enter", "dismiss(False)", "No"),
    ]

    def __init__(self, question: str) -> None:
        super().__init__()
        self._question = question

    def compose(self) -> ComposeResult:
        with Vertical(id="confirm"):
            yield Static(Content.assemble(styled(clean(self._question), "strong")))
            yield Static(Content.assemble(styled("y  yes, for this run      n, enter or esc  no, send no load", "muted")))
