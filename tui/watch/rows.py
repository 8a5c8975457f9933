"""Which rows the table shows, in which order, and as what text: no widget, so that it can be read without one."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from textual.content import Content

from core.report import COLUMNS, OVER_FROM, Column, clip, columns_for, glyph, name_of, name_width, note_text
from core.watch import Row
from tui.draw.style import Role, clean, shorten
from tui.widgets.pieces import Part, styled

_NOTE_FROM = 24
"""Cells beside the columns from which on there is a note at the end of a row."""

_ROLES: dict[str, Role] = {"ok": "holds", "failing": "breaks", "gone": "muted", "unread": "muted"}


@dataclass(frozen=True, slots=True)
class Order:
    """How rows are sorted and which are shown. `at`: 0 as listed, n by the nth column. `words`: what address or note must hold."""

    at: int = 0
    rising: bool = False
    words: str = ""

    def moved(self, step: int) -> "Order":
        """By the next column, highest first."""
        return replace(self, at=(self.at + step) % (len(COLUMNS) + 1), rising=False)

    @property
    def column(self) -> Column | None:
        """What it is sorted by."""
        return COLUMNS[self.at - 1] if self.at else None

    @property
    def told(self) -> str:
        """The same in words."""
        if self.column is None:
            return "as listed" if not self.rising else "last listed first"
        return f"by {self.column.head}, {'lowest' if self.rising else 'highest'} first"

    def of(self, rows: Sequence[Row]) -> tuple[Row, ...]:
        """Those that are shown, in order; rows without a figure come last."""
        words = self.words.casefold()
        shown = [row for row in rows if words in f"{row.url} {row.state} {note_text(row)}".casefold()]
        column = self.column
        if column is None:
            return tuple(reversed(shown)) if self.rising else tuple(shown)
        known = [(value, row) for row in shown if (value := column.value(row)) is not None]
        known.sort(key=lambda each: each[0], reverse=not self.rising)
        return (*(row for _, row in known), *(row for row in shown if column.value(row) is None))


@dataclass(frozen=True, slots=True)
class Layout:
    """Which columns there are and how wide the first and the last are, for a width and these rows."""

    name: int
    columns: tuple[Column, ...]
    note: int

    @classmethod
    def of(cls, rows: Sequence[Row], width: int) -> "Layout":
        """The columns that fit; what is left is for notes."""
        name = name_width(rows, width)
        columns = columns_for(width, name)
        left = width - name - 2 - sum(column.width + 2 for column in columns)
        return cls(name, columns, left - 2 if left >= _NOTE_FROM else 0)

    def head(self, order: Order) -> Content:
        """The names of the columns, the sorted one marked."""
        parts: list[Part] = [styled(f"  {'replica':<{self.name}}", "muted")]
        for column in self.columns:
            here = order.column is column
            mark = ("↑" if order.rising else "↓") if here else ""
            parts.append(styled(f"  {column.head + mark:>{column.width}}"[: column.width + 2], "strong" if here else "muted"))
        return Content.assemble(*parts)

    def line(self, row: Row, *, chosen: bool, width: int) -> Content:
        """One row; of one that could not be read its note in place of the figures."""
        role = _ROLES[row.state]
        parts: list[Part] = [
            styled(f"{glyph(row)} ", role),
            styled(f"{clip(clean(name_of(row.url)), self.name):<{self.name}}", "strong" if chosen else "plain"),
        ]
        note = clean(note_text(row))
        if row.figures is None:
            room = max(0, width - self.name - 4)
            parts.append(styled(f"  {shorten(note, room)}", role))
        else:
            full = row.load is not None and row.load.above(OVER_FROM)
            for column in self.columns:
                figure_role: Role = "breaks" if full and column.key == "load" else "strong" if chosen else "plain"
                parts.append(styled(f"  {column.text(row):>{column.width}}", figure_role))
            if self.note and note:
                parts.append(styled(f"  {shorten(note, self.note)}", "strong"))
        line = Content.assemble(*parts)
        return line.pad_right(max(0, width - line.cell_length))
