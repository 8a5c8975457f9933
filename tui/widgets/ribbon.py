"""The ribbon: what became of the requests of each moment, over the whole run, on the time axis of the plots below it.

Its rows are made by pure functions of what is known of a run; the widget gives them colours, and tells where it was clicked.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple, get_args

from textual import events
from textual.content import Content
from textual.message import Message
from textual.style import Style
from textual.widget import Widget

from core.units import clock, count, rate_brief, rate_number
from core.view import Outcomes, RunView
from tui.draw import symbols
from tui.draw.style import STYLES, VERDICTS, Role
from tui.frame import Frame
from tui.widgets.calm import CALM_S, Calm
from tui.widgets.panel_content import time_range

Fate = Literal["good", "mixed", "missed", "open"]
Ink = Literal["good", "good-pale", "mixed", "mixed-pale", "missed", "missed-pale", "open", "open-pale"]

_HEIGHTS = "▁▂▃▄▅▆▇"
"""Of a slice that counts: the share of its decided requests that were good, on a ground of what missed."""
_COUNTS: dict[Fate, str] = {"good": "█", "missed": "╳", "open": "▒"}  # noqa: RUF001
_PALE: dict[Fate, str] = {"good": "━", "mixed": "╍", "missed": "×", "open": "╌"}  # noqa: RUF001
_COUNTS_ASCII: dict[Fate, str] = {"good": "#", "mixed": "%", "missed": "X", "open": "="}
_PALE_ASCII: dict[Fate, str] = {"good": "-", "mixed": "~", "missed": "x", "open": "."}
"""The usual stand-ins would make one of several of these."""
_CURSOR = "↑"
_DUST = 1e-6
_LATER = 0.35
"""How much of its ink is left to what lies behind the cursor."""


@dataclass(frozen=True, slots=True)
class Slice:
    """The requests that were due in one column. `counted`: most of them lie in the window of a repeat."""

    good: int = 0
    missed: int = 0
    open: int = 0
    counted: bool = False
    rate_rps: float | None = None

    @property
    def fate(self) -> Fate | None:
        """What became of them, the worst that is known of any; None: nothing was sent."""
        if self.missed:
            return "mixed" if self.good else "missed"
        return "open" if self.open else "good" if self.good else None


class Cell(NamedTuple):
    """One character of the upper row. `later`: behind the cursor, which the panels do not know of yet."""

    glyph: str
    ink: Ink | None
    reverse: bool = False
    later: bool = False


class Name(NamedTuple):
    """Words in the lower row, from a column on."""

    column: int
    text: str
    role: Role


class Band(NamedTuple):
    """A stretch of one rate within one step, and what it can be called, the longest first."""

    start_s: float
    names: tuple[str, ...]
    role: Role


@dataclass(frozen=True, slots=True)
class Axis:
    """A stretch of time over so many columns."""

    start_s: float
    end_s: float
    columns: int

    @property
    def column_s(self) -> float:
        """Seconds in a column."""
        return (self.end_s - self.start_s) / max(self.columns, 1)

    def holding(self, t_s: float) -> int:
        """The column in which a moment lies."""
        return self._inside(math.floor((t_s - self.start_s) / self.column_s + _DUST))

    def ending(self, t_s: float) -> int:
        """The column that is over at a moment, or will be next."""
        return self._inside(math.ceil((t_s - self.start_s) / self.column_s - _DUST) - 1)

    def end_of(self, column: int) -> float:
        """When a column is over."""
        return self.start_s + (column + 1) * self.column_s

    def _inside(self, column: int) -> int:
        return min(max(column, 0), self.columns - 1)


class Ribbon(Widget):
    """One column for each slice of time: good, open, missed; each band named by its rate and verdict. A click on it sets the
    cursor."""

    HELP = "what became of the requests that were due at each moment"
    COMPONENT_CLASSES: ClassVar[set[str]] = {f"ribbon--{ink}" for ink in get_args(Ink)}

    @dataclass
    class Picked(Message):
        """The user chose a moment, in seconds since the run began."""

        at_s: float

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._calm = Calm[Frame](self, self._take, _is_same)
        self._frame: Frame | None = None
        self._drawn: tuple[tuple[Cell, ...], tuple[Name, ...]] = ((), ())
        self.add_class("-empty")

    def show(self, frame: Frame) -> None:
        """Take a frame; it is drawn again only where that looks different, and for what becomes of more requests once a second."""
        self._frame = frame
        self._calm.offer(frame)

    def _take(self, frame: Frame) -> None:
        self.set_class(not any(at.rate_rps is not None for at in frame.whole.outcomes), "-empty")
        self._draw()

    def on_resize(self) -> None:
        """Other columns."""
        self._draw()

    def on_click(self, event: events.Click) -> None:
        """The panels shall show the run at the end of that column."""
        at = event.get_content_offset(self)
        if at is not None and self._frame is not None:
            axis = self._axis(self._frame)
            self.post_message(self.Picked(axis.end_of(axis._inside(at.x))))

    @property
    def column_s(self) -> float:
        """Seconds in a column."""
        return self._axis(self._frame).column_s if self._frame is not None else 0.0

    def render(self) -> Content:
        """The bands, and below them their names."""
        cells, names = self._drawn
        upper = Content.assemble(*((cell.glyph, self._style(cell)) for cell in cells))
        return Content("\n").join([upper, _lower(names)]) if self.size.height > 1 else upper

    def _draw(self) -> None:
        frame = self._frame
        if frame is None:
            return
        axis = self._axis(frame)
        found = slices(frame.whole, axis)
        drawn = cells(found, axis, frame.cursor_s), names(frame.whole, found, axis, frame.cursor_s)
        if drawn != self._drawn:
            self._drawn = drawn
            self.refresh()

    def _axis(self, frame: Frame) -> Axis:
        return Axis(*time_range(frame.whole), max(self.size.width, 1))

    def _style(self, cell: Cell) -> Style:
        ink = "good" if cell.ink == "mixed" and self.app.no_color else cell.ink  # a ground would be shown by reversing all
        style = self.get_visual_style(f"ribbon--{ink}") if ink else self.visual_style
        if cell.later and style.foreground is not None:
            style = Style(background=style.background, foreground=style.foreground.multiply_alpha(_LATER))
        return style + Style(reverse=True) if cell.reverse else style


def _is_same(before: Frame, now: Frame) -> bool:
    """Whether it has the same cursor and bands a moment later."""
    return 0 <= now.whole.now_s - before.whole.now_s <= CALM_S and _shape(before) == _shape(now)


def _shape(frame: Frame) -> tuple[object, ...]:
    """All that is shown but what became of the requests."""
    view = frame.whole
    rate_rps = view.current.rate_rps if view.current is not None else None
    return frame.cursor_s, time_range(view), len(view.steps), rate_rps, view.answer, len(view.ramp)


def slices(view: RunView, axis: Axis) -> tuple[Slice, ...]:
    """What became of the requests of each column: of all bins whose middle lies in it, or of the bin in which the column lies."""
    bins: list[list[Outcomes]] = [[] for _ in range(axis.columns)]
    for at in view.outcomes:
        bins[axis.holding(at.t_s + view.bin_s / 2)].append(at)
    for column in range(axis.columns):
        inside = math.floor((axis.end_of(column) - axis.column_s / 2) / view.bin_s)
        if axis.column_s < view.bin_s and not bins[column] and inside < len(view.outcomes):
            bins[column] = [view.outcomes[inside]]
    return tuple(_summed(each) for each in bins)


def _summed(bins: Sequence[Outcomes]) -> Slice:
    sent = [at.good + at.missed + at.open for at in bins]
    return Slice(
        good=sum(at.good for at in bins),
        missed=sum(at.missed for at in bins),
        open=sum(at.open for at in bins),
        counted=2 * sum(n for n, at in zip(sent, bins, strict=True) if at.counted) > sum(sent),
        rate_rps=next((at.rate_rps for at in reversed(bins) if at.rate_rps is not None), None),
    )


def cells(found: Sequence[Slice], axis: Axis, cursor_s: float | None) -> tuple[Cell, ...]:
    """The upper row."""
    at = None if cursor_s is None else axis.ending(cursor_s)
    later = axis.columns if at is None else at
    return tuple(_cell(each)._replace(reverse=column == at, later=column > later) for column, each in enumerate(found))


def _cell(each: Slice) -> Cell:
    fate = each.fate
    if fate is None:
        return Cell(" ", None)
    ascii_only = symbols.in_use() == "ascii"
    if not each.counted:
        pale: dict[Fate, Ink] = {"good": "good-pale", "mixed": "mixed-pale", "missed": "missed-pale", "open": "open-pale"}
        return Cell((_PALE_ASCII if ascii_only else _PALE)[fate], pale[fate])
    if ascii_only:
        return Cell(_COUNTS_ASCII[fate], fate)
    if fate != "mixed":
        return Cell(_COUNTS[fate], fate)
    share = each.good / (each.good + each.missed)  # of the decided; one good or missed request is always to be seen
    return Cell(_HEIGHTS[min(max(round(8 * share), 1), 7) - 1], "mixed")


def bands(view: RunView) -> tuple[Band, ...]:
    """Every stretch of one rate within one step, in order of time."""
    begun: list[Outcomes] = []
    for at in view.outcomes:
        if at.rate_rps is not None and (not begun or (at.step, at.rate_rps) != (begun[-1].step, begun[-1].rate_rps)):
            begun.append(at)
    return tuple(_band(view, at, is_last=at is begun[-1]) for at in begun)


def _band(view: RunView, at: Outcomes, *, is_last: bool) -> Band:
    rate_rps = at.rate_rps or 0.0
    number, brief = rate_number(rate_rps), rate_brief(rate_rps)
    judged = next((step for step in reversed(view.steps) if step.step == at.step), None)
    current = view.current if view.current is not None and view.current.step == at.step else None
    phase = current.phase if current is not None else judged.phase if judged is not None else None
    if phase == "ramp":  # its verdicts are hints, so what held is not called a pass
        segment = next((each for each in view.ramp if math.isclose(each.rate_rps, rate_rps)), None)
        if current is not None and is_last:
            return Band(at.t_s, _brief(number, VERDICTS["running"].glyph), "strong")
        if segment is not None and not segment.held:
            return Band(at.t_s, _brief(number, VERDICTS["fail"].glyph), "breaks")
        return Band(at.t_s, (number,), "muted")
    if current is None and judged is None:
        return Band(at.t_s, (number,), "muted")
    mark = VERDICTS["running" if judged is None else judged.verdict]
    return Band(at.t_s, (f"{brief} {mark}", f"{number} {mark}", *_brief(number, mark.glyph)), mark.role)


def _brief(number: str, glyph: str) -> tuple[str, ...]:
    return f"{number} {glyph}", f"{number}{glyph}", number


def names(view: RunView, found: Sequence[Slice], axis: Axis, cursor_s: float | None) -> tuple[Name, ...]:
    """The lower row: what stands at the cursor, the names of the bands, and the ends of the axis, each whole or not at all."""
    placed: list[Name] = [] if cursor_s is None else _at_cursor(found, axis, cursor_s)
    named = bands(view)
    columns = [axis.holding(band.start_s) for band in named]
    for band, start, end in zip(named, columns, [*columns, axis.columns + 1][1:], strict=True):
        fitting = (Name(start, text, band.role) for text in band.names if len(text) < end - start)
        placed += [next((name for name in fitting if _is_free(name, placed, axis)), Name(0, "", "muted"))]
    for at_s, at_end in ((axis.start_s, False), (axis.end_s, True)):
        label = Name(axis.columns - len(clock(at_s)) if at_end else 0, clock(at_s), "muted")
        placed += [label] if _is_free(label, placed, axis) else []
    return tuple(sorted(name for name in placed if name.text))


def _is_free(name: Name, placed: Iterable[Name], axis: Axis) -> bool:
    """Whether it is inside, with a blank between it and what is placed already."""
    end = name.column + len(name.text)
    apart = all(end < other.column or other.column + len(other.text) < name.column for other in placed if other.text)
    return name.column >= 0 and end <= axis.columns and apart


def _at_cursor(found: Sequence[Slice], axis: Axis, cursor_s: float) -> list[Name]:
    """The longest wording that fits on one side of the cursor, the left one first: what lies to the right is not yet told."""
    at = axis.ending(cursor_s)
    when, what = clock(cursor_s), told(found[at])
    for text in (*(f"{when}  {words}" for words in what), when):
        for name in (
            Name(at - len(text) - 1, f"{text} {_CURSOR}", "strong"),
            Name(at, f"{_CURSOR} {text}", "strong"),
        ):
            if _is_free(name, (), axis):
                return [name]
    return [Name(at, _CURSOR, "strong")]


def told(each: Slice) -> tuple[str, ...]:
    """The requests of a slice in words, the longest wording first."""
    numbers = ((each.good, "good"), (each.missed, "missed"), (each.open, "open"))
    counts = " ".join(f"{count(n)} {name}" for n, name in numbers if n)
    if not counts:
        return ("nothing sent",)
    at_rate = f"{rate_brief(each.rate_rps)}: {counts}"
    return (at_rate if each.counted else f"{at_rate}, not counted", counts)


def _lower(placed: Sequence[Name]) -> Content:
    parts: list[tuple[str, str]] = []
    column = 0
    for name in placed:
        parts += [(" " * (name.column - column), ""), (name.text, STYLES[name.role])]
        column = name.column + len(name.text)
    return Content.assemble(*parts)
