"""The recorded runs on a screen: one is chosen, looked at on its own screens, and the list is there again."""

import asyncio
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import ClassVar

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.driver import Driver
from textual.widgets import Footer, Input, OptionList, Static

from core import history
from core.errors import UserError
from core.units import count
from tui import run_list
from tui.draw.style import THEME_16, clean, set_up_themes
from tui.terminal.signals import NO_ANSWER
from tui.widgets.pieces import styled

_PAD = 2
"""Cells beside the rows: one on each side."""


class RunList(OptionList):
    """The rows; what opens one stands in the footer."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "select", "Open")]


class RunsApp(App[Path | None]):
    """Ends with the file of the run that was chosen, or None when the user left. `note`: what is to be said of the one before;
    `at`: the file of the run that the list begins with."""

    TITLE = "kneescope"
    CSS_PATH = "runs.tcss"
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "filter", "Filter", key_display="/"),
        Binding("escape", "all", "Show all"),
        Binding("q", "leave", "Quit"),
        Binding("ctrl+c", "interrupt", "Quit", show=False, priority=True),
    ]

    def __init__(
        self,
        runs: Sequence[history.Run],
        now_s: float,
        *,
        note: str = "",
        at: Path | None = None,
        driver_class: type[Driver] | None = None,
    ) -> None:
        super().__init__(driver_class=driver_class)
        set_up_themes(self)
        self._runs = runs
        self._rows = [run_list.Row(*map(clean, run_list.row(run, now_s))) for run in runs]
        self._note, self._at = note, at
        self._shown: list[int] = []
        self._list = RunList(id="runs", compact=True)
        self._filter = Input(id="filter", placeholder="words that stand in a row", compact=True, select_on_focus=False)

    def compose(self) -> ComposeResult:
        yield Static(id="heading")
        yield Static(id="head")
        yield self._list
        yield Static(id="note")
        yield self._filter
        yield Footer()

    def on_mount(self) -> None:
        """The list has the keys; the line of the filter comes when it is asked for."""
        if self.console.color_system == "standard" and not self.is_headless:
            self.theme = THEME_16.name
        self._filter.display = False
        note = self.query_one("#note", Static)
        note.update(Content.assemble(styled(clean(self._note), "breaks")))
        note.display = bool(self._note)
        self._list.focus()
        self._fill()

    def on_resize(self) -> None:
        """Columns give way to the width."""
        self._fill()

    def on_input_changed(self) -> None:
        """Each letter narrows the list."""
        self._fill()

    def on_input_submitted(self) -> None:
        """Back to what is left of the list."""
        self._list.focus()

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Chosen."""
        event.stop()
        self.exit(self._runs[self._shown[event.option_index]].place)

    def action_filter(self) -> None:
        """Type what the rows must hold."""
        self._filter.display = True
        self._filter.focus()

    def action_all(self) -> None:
        """Every run again."""
        self._filter.value = ""
        self._filter.display = False
        self._list.focus()

    def action_leave(self) -> None:
        """Without a choice."""
        self.exit(None)

    def action_interrupt(self) -> None:
        """As q, also while a filter is typed."""
        self.action_leave()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """What a key does while a filter is typed, to which letters belong, or while there is none to take back."""
        if action == "all":
            return self._filter.display
        return action not in ("filter", "leave") or not self._filter.has_focus

    def _fill(self) -> None:
        """The rows that the filter lets through, with the run under the cursor still under it."""
        highlighted = self._list.highlighted
        at = self._at if highlighted is None or highlighted >= len(self._shown) else self._runs[self._shown[highlighted]].place
        self._shown = [n for n, row in enumerate(self._rows) if run_list.matches(row, self._filter.value)]
        head, *lines = run_list.table([self._rows[n] for n in self._shown], max(self.size.width - _PAD, 1))
        self._list.clear_options()
        self._list.add_options([Text(line, no_wrap=True, overflow="ellipsis") for line in lines])
        places = [self._runs[n].place for n in self._shown]
        if places:
            self._list.highlighted = places.index(at) if at in places else 0
        self.query_one("#head", Static).update(Content.assemble(styled(head, "muted")))
        told = count(len(self._runs), "recorded run")
        if len(lines) < len(self._runs):
            told = f"{count(len(lines))} of {told}"
        self.query_one("#heading", Static).update(Content.assemble(styled("kneescope", "strong"), "  ", styled(told)))
        self.refresh_bindings()


def choose() -> int:
    """The list until the user leaves it; a run that is chosen is shown as `open` does. Raises UserError when the screen failed."""
    from tui.cli.recorded import show
    from tui.terminal.display import StderrDriver, carried

    note, at = "", None
    while True:
        app = RunsApp(history.runs(), time.time(), note=note, at=at, driver_class=StderrDriver)
        leave = partial(app.exit, None)
        asyncio.run(carried(app, leave, leave))
        if app.return_code:
            raise UserError("The screen failed with an error of its own; `kneescope runs --table` prints the list.", NO_ANSWER)
        if app.return_value is None:
            return 0
        note, at = "", app.return_value
        try:
            show(str(at))
        except UserError as error:  # no run file, or a damaged one: the others can still be opened
            note = str(error)
