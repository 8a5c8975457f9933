"""The screen of `kneescope watch`: a table of replicas and a page for each. Only its source talks to servers."""

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from pathlib import PurePath
from typing import Any, ClassVar, Protocol

from textual.app import App, ComposeResult, SystemCommand
from textual.binding import BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.driver import Driver
from textual.screen import ModalScreen, Screen
from textual.widgets import Footer, Input, Static

from core import prose
from core.errors import UserError
from core.report import COLUMNS, imbalance_lines, knee_line, note_text, read_of, sums
from core.units import duration
from core.watch import Figures, ReplicaKnee, Table, stuck_fact
from tui import keys
from tui.draw.style import THEME_16, clean, set_up_themes
from tui.screens.help import rows as told_rows
from tui.terminal.signals import NO_ANSWER
from tui.watch.page import ReplicaPage
from tui.watch.rows import Order
from tui.watch.table import ReplicaTable
from tui.widgets.pieces import Piece, fit, join, styled

DRAW_S = 1.0
"""The screen is drawn as often as the usual reading comes; a slower watch still shows how old its figures are."""


WIDTHS: list[tuple[int, str]] = [(0, "-slim"), (120, "-wide")]


class Source(Protocol):
    """What is watched: the one part that does anything."""

    def table(self) -> Table:
        """Everything now."""

    def points(self, url: str) -> tuple[Figures, ...]:
        """The figures of one replica over time."""

    async def run(self) -> None:
        """Read until it is cancelled."""


class WatchHelp(ModalScreen[None]):
    """The keys, and what each column is; any of its keys closes it."""

    BINDINGS: ClassVar[list[BindingType]] = [("escape,question_mark,enter,f1", "dismiss", "Close")]

    def __init__(self, table: Table, knee: ReplicaKnee | None) -> None:
        super().__init__()
        self._table, self._knee, self._page = table, knee, Static()

    def compose(self) -> ComposeResult:
        yield VerticalScroll(self._page, id="help")

    def on_resize(self) -> None:
        """As wide as there is room."""
        width = min(110, self.size.width) - 6
        columns = [(column.head, column.told) for column in COLUMNS]
        signs = (
            ("✔ ✘ ⊘ …", "read; not read, with the reason; gone: no source lists it any more; not read yet"),
            ("▲", "load of 100 % or more"),
            (
                "over 10 s",
                "a percentile is interpolated within a bucket of the server's histogram; this one is above its last finite one",
            ),
        )
        window = f"Rates and percentiles are of the last {duration(self._table.window_s)}; run, wait and KV are of this moment."
        parts = [
            *told_rows("Keys", keys.watch_help(), width),
            Content(),
            *told_rows("Columns", columns, width),
            Content.assemble(styled(window, "muted")),
            *([Content.assemble(styled(knee_line(self._knee), "muted"))] if self._knee else []),
            Content(),
            *told_rows("Signs", signs, width),
        ]
        self._page.update(Content("\n").join(parts))


class TableScreen(Screen[None]):
    """The table, and below it the sums, what there is to say of the chosen row, and the field of the filter."""

    AUTO_FOCUS = "ReplicaTable"

    def __init__(self) -> None:
        super().__init__()
        self.table = ReplicaTable(id="table")
        self.filter = Input(placeholder="part of an address or of a note; enter keeps it, esc clears it", id="filter", compact=True)
        self.head, self.total, self.note = Static(id="heading"), Static(id="total"), Static(id="note")

    def compose(self) -> ComposeResult:
        yield self.head
        yield self.table
        yield self.total
        yield self.note
        yield self.filter
        yield Vertical(Footer(compact=True), id="foot")


class WatchApp(App[None]):
    """Draws what a source knows until the user leaves. `told`: takes each table that is drawn from a new reading, and says whether
    anybody still wants them."""

    TITLE = "kneescope watch"
    CSS_PATH: ClassVar[list[str | PurePath]] = ["watch.tcss", "../plots.tcss"]
    HORIZONTAL_BREAKPOINTS = WIDTHS
    BINDINGS: ClassVar[list[BindingType]] = [*keys.watch_bindings()]

    def __init__(
        self,
        source: Source,
        knee: ReplicaKnee | None = None,
        every_s: float = DRAW_S,
        told: Callable[[Table], bool] | None = None,
        *,
        driver_class: type[Driver] | None = None,
    ) -> None:
        super().__init__(driver_class=driver_class)
        set_up_themes(self)
        self._source = source
        self._knee = knee
        self._every_s = every_s
        self._told = told
        self._table: Table | None = None
        self._order = Order()
        self._screen = TableScreen()
        self._work: asyncio.Task[None] | None = None

    def get_default_screen(self) -> TableScreen:
        """The table."""
        return self._screen

    def on_mount(self) -> None:
        """Reading begins."""
        if self.console.color_system == "standard" and not self.is_headless:
            self.theme = THEME_16.name
        self._work = asyncio.create_task(self._source.run())
        self.set_interval(min(DRAW_S, self._every_s), self.look)
        if self._told is not None:
            self.set_interval(self._every_s, self._tell)
        self.call_after_refresh(self.look)

    def on_resize(self) -> None:
        """Another width holds other columns."""
        self.call_after_refresh(self.look)

    async def end(self) -> None:
        """After the screen has closed: nothing is read any more. Raises what reading raised."""
        if self._work is None:
            return
        self._work.cancel()
        with suppress(asyncio.CancelledError):
            await self._work

    def look(self) -> None:
        """Show how it stands."""
        if self._work is not None and self._work.done() and not self._work.cancelled():
            self.exit()  # it never ends by itself: `end` raises why
            return
        self._table = self._source.table()
        screen = self._screen
        if screen.is_attached:
            self._draw(screen, self._table)
        if isinstance(self.screen, ReplicaPage):
            page = self.screen
            page.show(next((row for row in self._table.rows if row.url == page.url), None), self._source.points(page.url))

    # --- what the user does ---

    def action_leave(self) -> None:
        """End the watch."""
        self.exit()

    def action_close(self) -> None:
        """Close the page, else the filter."""
        if isinstance(self.screen, ReplicaPage):
            self.pop_screen()
            self.look()
        elif self.screen is self._screen and (self._order.words or self._filtering):
            self._screen.filter.value = ""
            self._set_filter("")
            self._close_filter()

    def action_move(self, step: int) -> None:
        """Another row."""
        self._screen.table.move(step)
        self.look()

    def action_page(self, step: int) -> None:
        """As many rows on as are seen."""
        self.action_move(step * self._screen.table.page)

    def action_open(self) -> None:
        """The page of the chosen row."""
        row = self._screen.table.chosen
        if row is not None:
            self._open(row.url)

    def action_sort(self, step: int) -> None:
        """By another column."""
        self._order = self._order.moved(step)
        self.look()

    def action_reverse(self) -> None:
        """The other way round."""
        order = self._order
        self._order = Order(order.at, not order.rising, order.words)
        self.look()

    def action_filter(self) -> None:
        """Type what the rows must hold."""
        self._screen.filter.display = True
        self._screen.filter.focus()

    def action_explain(self) -> None:
        """The keys and the columns."""
        self.push_screen(WatchHelp(self._table or self._source.table(), self._knee))

    def on_replica_table_opened(self, event: ReplicaTable.Opened) -> None:
        """A click on the chosen row."""
        self._open(event.url)

    def on_input_changed(self, event: Input.Changed) -> None:
        """Rows go while it is typed."""
        self._set_filter(event.value)

    def on_input_submitted(self) -> None:
        """The filter stays; keys are keys again."""
        self._close_filter()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """What means something here: the table's keys not on a page, and none but the ways out while something is typed."""
        if action in ("leave_at_once", "command_palette", "change_theme"):
            return True
        if isinstance(self.screen, WatchHelp):
            return action not in _OF_TABLE and action not in ("explain", "close")
        if action in _OF_TABLE:
            return self.screen is self._screen and not self._filtering
        if action in ("leave", "explain"):
            return not self._filtering
        if action == "close":
            return isinstance(self.screen, ReplicaPage) or bool(self._order.words) or self._filtering
        return True

    def action_leave_at_once(self) -> None:
        """Ctrl-C: whatever is open."""
        self.exit()

    async def action_quit(self) -> None:
        """Textual's own ways to quit."""
        self.exit()

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """What can be done now, and the themes."""
        for key in keys.WATCH:
            name = key.action.partition("(")[0]
            if key.rank is not None and self.check_action(name, ()):
                yield SystemCommand(key.short, key.help, partial(self.run_action, key.action))
        yield SystemCommand("Theme", "choose other colours", self.action_change_theme)

    # --- what is done about it ---

    @property
    def _filtering(self) -> bool:
        return self._screen.filter.has_focus

    def _open(self, url: str) -> None:
        self.push_screen(ReplicaPage(url, self._knee))
        self.call_after_refresh(self.look)

    def _set_filter(self, words: str) -> None:
        self._order = Order(self._order.at, self._order.rising, words.strip())
        self.look()

    def _close_filter(self) -> None:
        self._screen.filter.display = bool(self._order.words)
        self._screen.table.focus()
        self.refresh_bindings()

    def _tell(self) -> None:
        if self._told is not None and not self._told(self._source.table()):
            self._told = None

    def _draw(self, screen: TableScreen, table: Table) -> None:
        shown = self._order.of(table.rows)
        screen.table.show(shown, self._order)
        width = screen.size.width - 2
        some = [Piece(f"{len(shown)} shown", "strong", 1)] if len(shown) != len(table.rows) else []
        pieces = (
            Piece("kneescope watch", "strong"),
            Piece(read_of(table), "plain"),
            *some,
            Piece(f"every {duration(self._every_s)}", "muted", 2),
            Piece(f"rates over {duration(table.window_s)}", "muted", 3),
            Piece(self._order.told, "muted", 4),
            Piece("sends no load", "muted", 5),
        )
        screen.head.update(join(fit(pieces, width)))
        screen.total.update(_total(table, self._knee, width))
        row = screen.table.chosen
        stuck = stuck_fact(each for each in table.rows if each is not row)
        said = [clean(prose.sentence(each)) for each in (*([stuck] if stuck else []), *table.problems)]
        if row is not None and (note := clean(note_text(row))):
            said.insert(0, f"{row.url}: {note}")
        screen.note.update(Content.assemble(styled("\n".join(said), "strong")))


_OF_TABLE = ("move", "page", "open", "sort", "reverse", "filter")


def _total(table: Table, knee: ReplicaKnee | None, width: int) -> Content:
    """The sums over as many lines as they take, and what the load is a share of."""
    pieces = [Piece(text, "plain", at) for at, text in enumerate(sums(table))]
    lines = [
        join(fit(pieces, width, 3), "   "),
        *(Content.assemble(styled(clean(line), "plain")) for line in imbalance_lines(table)),
    ]
    if knee is not None:
        lines.append(Content.assemble(styled(clean(knee_line(knee)), "muted")))
    return Content("\n").join(lines)


async def show(source: Source, knee: ReplicaKnee | None, every_s: float, told: Callable[[Table], bool] | None) -> None:
    """The screen until the user leaves. Raises UserError when it failed, and what reading raised."""
    from tui.terminal.display import StderrDriver, carried

    app: WatchApp = WatchApp(source, knee, every_s, told, driver_class=StderrDriver)
    leave: Callable[[], Any] = app.action_leave_at_once
    await carried(app, leave, leave, app.end)
    if app.return_code:
        raise UserError("The screen failed with an error of its own.", NO_ANSWER)
