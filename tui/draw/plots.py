"""Line plots as text: `draw` turns a frozen `Plot` into rows of styled runs, and is the only user of plotext.

plotext draws the curves in braille; axis labels, the limit as a rule, bands, zones, single points and names are set around
them here, because they must sit in whole cells and take the theme's colours.
"""

import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, NamedTuple

import plotext
from rich.cells import cell_len

Shade = Literal["first", "second", "third", "bright", "middle", "faint"]
"""Which line it is: the first is solid, the second dashed, the third dotted, each in a hue of its own. The others are the same in
greys, for what only stands behind something else."""
Ink = Literal["first", "second", "third", "bright", "middle", "faint", "good", "bad", "rule", "label"]
Labels = tuple[tuple[float, str], ...]
"""Values and what stands at them."""
Heads = tuple[tuple[float, float, str], ...]
Ground = Literal["passes", "unknown", "mixed", "fails"]

# plotext colours a curve by palette index and gives that back as an escape code; the index stands for the shade.
_PALETTE: dict[Shade, int] = {"faint": 1, "middle": 2, "bright": 3, "third": 4, "second": 5, "first": 6}
_INKS: dict[str, Ink] = {str(index): shade for shade, index in _PALETTE.items()}
_DASHED: tuple[Ink, ...] = ("second", "middle")
_DOTTED: tuple[Ink, ...] = ("third", "faint")
_SGR = re.compile(r"\x1b\[([0-9;]*)m")
_RULE = "╌"
_MARK = "▾"
_UPRIGHT = "┊"
_EDGE, _END = "▏", "▕"
_ASIDE = 1
"""Cells of what lies behind to either side of its own."""
_STEM, _HEAD, _FOOT = "│", "┬", "┴"
_BRAILLE, _LEFT_DOTS, _DASH = 0x2800, 0b01000111, 3
_APART_ROWS, _APART_ROWS_TALL, _TALL, _APART_COLUMNS = 2, 3, 16, 3
"""Ticks are at least so far from each other: rows from one to the next, more in a tall plot; blanks between two."""
_HEADED_ROWS = 8
"""From this height on the heads have a row of their own; lower, they stand in the plot's top row where that is free."""


@dataclass(frozen=True, slots=True)
class Curve:
    """One line. `points` are (time, value) in order of time; a value that is None or not finite is left out.

    `above` and `below` are the inks that it takes beyond the plot's rule; curves of one shade share them.
    """

    name: str
    shade: Shade
    points: tuple[tuple[float, float | None], ...]
    above: Ink | None = None
    below: Ink | None = None


@dataclass(frozen=True, slots=True)
class Dot:
    """One point as a character of its own. Beside the rule it stands on its own side; a later one lies over an earlier one."""

    x: float
    y: float
    glyph: str
    ink: Ink


@dataclass(frozen=True, slots=True)
class Bar:
    """An interval from `low` to `high` at one x. `glyph` stands at the end that is `known`, a cap at the other one where that lies
    inside the axis. Beside the rule the glyph stands on its own side."""

    x: float
    low: float
    high: float
    glyph: str
    ink: Ink
    known: Literal["low", "high", "both"]


@dataclass(frozen=True, slots=True)
class Zone:
    """A stretch of x that means something; of `names` the first that fits stands above it. Later zones lie over earlier ones."""

    start: float
    end: float
    names: tuple[str, ...]
    ground: Ground


@dataclass(frozen=True, slots=True)
class Upright:
    """A line from top to bottom at one x, with a name beside it."""

    x: float
    name: str
    ink: Ink = "bright"
    glyph: str = _UPRIGHT


@dataclass(frozen=True, slots=True)
class Plot:
    """All that a plot shows. Values beyond `y_range` are drawn at its edge; curves break where points are over `max_gap` apart.

    `rule` is a limit, drawn across. `bands` are stretches of x to shade, `marks` places on x to point at. `y_labels` and `x_labels`
    are (value, text); of those that meet the earlier one is kept. `y_ticks` and `x_ticks` are sets of labels, the finest first: the
    first that has room is taken. `heads` are sets of names for stretches of x, (start, end, text), in `head_unit`: the first whose
    texts all fit is taken, else the last without those that do not. Dots and bars move aside for each other, if need be by `spread`
    cells. `behind` and `behind_lines` are of something else and are drawn where nothing of the plot lies, each bar three cells
    wide in its glyph, each line in every second row. `margins` are the least widths of labels and names, so that plots above each
    other share their columns.
    """

    x_range: tuple[float, float]
    y_range: tuple[float, float]
    curves: tuple[Curve, ...]
    y_labels: Labels = ()
    rule: float | None = None
    bands: tuple[tuple[float, float], ...] = ()
    marks: tuple[float, ...] = ()
    max_gap: float = math.inf
    margins: tuple[int, int] = (0, 0)
    dots: tuple[Dot, ...] = ()
    bars: tuple[Bar, ...] = ()
    spread: int = 0
    zones: tuple[Zone, ...] = ()
    uprights: tuple[Upright, ...] = ()
    behind: tuple[Bar, ...] = ()
    behind_lines: tuple[Upright, ...] = ()
    x_labels: Labels = ()
    x_ticks: tuple[Labels, ...] = ()
    y_ticks: tuple[Labels, ...] = ()
    heads: tuple[Heads, ...] = ()
    head_unit: str = ""


class Run(NamedTuple):
    """Neighbouring cells that look the same; `ink` None is empty space."""

    text: str
    ink: Ink | None
    band: bool
    ground: Ground | None = None


class _Cell(NamedTuple):
    text: str
    ink: Ink | None


_EMPTY = _Cell(" ", None)


def draw(plot: Plot, width: int, height: int) -> tuple[tuple[Run, ...], ...]:
    """`height` rows, each `width` cells wide. Call it from one thread only: plotext has one figure for all."""
    texts = [text for labels in (plot.y_labels, *plot.y_ticks) for _, text in labels]
    left = max(plot.margins[0], max((cell_len(text) for text in texts), default=-1) + 1)
    right = max(plot.margins[1], max((len(curve.name) for curve in plot.curves), default=0))
    if width - left - right < 8:
        left = right = 0
    columns = width - left - right
    if columns < 1 or height < 1:
        return tuple(() for _ in range(max(height, 0)))
    heading, footing = _margins(plot, height)
    height -= heading + footing
    bands = _band_columns(plot, columns) + [False] * right
    grounds = _ground_columns(plot, columns) + [None] * right
    cells = _cells_of(plot, columns, height)
    if not heading:
        _set_heads(plot, cells[0], tuple(cells[0]))
    cells = [row + [_EMPTY] * right for row in cells]
    _set_names(plot, cells, columns)
    labels = _left_labels(plot, left, height)
    rows = [_runs(_Cell(label, "label"), row, bands, grounds) for label, row in zip(labels, cells, strict=True)]
    if heading:
        unit = plot.head_unit if cell_len(plot.head_unit) < left else ""
        rows.insert(
            0, _runs(_Cell(f"{unit:>{left - 1}} " if left else "", "label"), _heading(plot, grounds, columns), bands, grounds)
        )
    if footing:
        plain = [False] * (columns + right), [None] * (columns + right)
        rows.append(_runs(_Cell(" " * left, None), _x_labels(plot, columns) + [_EMPTY] * right, *plain))
    return tuple(rows)


def has_footing(plot: Plot, height: int) -> bool:
    """Whether the labels of x are drawn at that height."""
    return bool(_margins(plot, height)[1])


def _margins(plot: Plot, height: int) -> tuple[int, int]:
    """Rows for the names of zones or heads and the labels of x, where three are left for the plot itself."""
    heading = int((bool(plot.zones) and height >= 4) or (bool(plot.heads) and height >= _HEADED_ROWS))
    return heading, int(bool(plot.x_labels or plot.x_ticks) and height - heading >= 4)


def _cells_of(plot: Plot, columns: int, height: int) -> list[list[_Cell]]:
    """All that lies inside the axes, the later over the earlier."""
    cells = _curves(plot, columns, height)
    _recolour(plot, cells)
    _set_rule(plot, cells)
    _set_uprights(plot, cells)
    for row in cells:
        _set_edges(plot, row)
    _set_behind(plot, cells)
    _set_points(plot, cells)
    _set_upright_names(plot, cells)
    _set_marks(plot, cells)
    return cells


def reduce(
    points: Iterable[tuple[float, float | None]], x_range: tuple[float, float], columns: int, max_gap: float = math.inf
) -> list[list[tuple[float, float]]]:
    """Finite points as unbroken stretches with at most two points (least and greatest) for each column of the plot.

    Non-finite values must not reach plotext: one NaN in a line ends the whole process.
    """
    start, end = x_range
    scale = (columns - 1) / (end - start) if end > start else 0.0
    stretches: list[list[tuple[float, float]]] = []
    column, last_x = -1, -math.inf
    bucket: list[tuple[float, float]] = []
    for x, y in points:
        if y is None or not (math.isfinite(x) and math.isfinite(y) and start <= x <= end):
            continue
        here = round((x - start) * scale)
        gap = x - last_x > max_gap or not stretches
        if bucket and (gap or here != column):
            stretches[-1].extend(_extremes(bucket))
            bucket = []
        if gap:
            stretches.append([])
        bucket.append((x, y))
        column, last_x = here, x
    if bucket:
        stretches[-1].extend(_extremes(bucket))
    return stretches


def _extremes(bucket: list[tuple[float, float]]) -> list[tuple[float, float]]:
    low, high = min(bucket, key=lambda point: point[1]), max(bucket, key=lambda point: point[1])
    return [low] if low == high else sorted((low, high))


def _curves(plot: Plot, columns: int, height: int) -> list[list[_Cell]]:
    figure = plotext.figure
    figure.clear.all()
    plotext.terminal.limit(False, False)
    figure.plot_size(columns, height)
    figure.theme("colorless")
    figure.axes(False)
    figure.legend(False)
    figure.ruler("both", "both").frequency(0)
    figure.ruler("x").lim(*plot.x_range)
    figure.ruler("y").lim(*plot.y_range)
    low, high = plot.y_range
    for curve in plot.curves:
        for stretch in reduce(curve.points, plot.x_range, columns, plot.max_gap):
            xs = [x for x, _ in stretch]
            ys = [min(max(y, low), high) for _, y in stretch]
            marker = plotext.marker("braille", _PALETTE[curve.shade])
            figure.draw(figure.signal(xs, ys, marker=marker).lines())
    text: str = figure.build().string()
    return [_shaped(_cells(line, columns)) for line in text.split("\n")[:height]]


def _shaped(row: list[_Cell]) -> list[_Cell]:
    """Lines told apart without colour: solid, dashed, dotted. What is steep keeps all its cells."""
    shaped = row.copy()
    for at, cell in enumerate(row):
        if cell.ink in _DOTTED:
            bits = ord(cell.text) - _BRAILLE
            shaped[at] = _Cell(chr(_BRAILLE + (bits & _LEFT_DOTS or bits)), cell.ink)
        elif cell.ink in _DASHED and at % _DASH == 0 and all(next.ink == cell.ink for next in row[max(0, at - 1) : at + 2]):
            shaped[at] = _EMPTY
    return shaped


def _cells(line: str, columns: int) -> list[_Cell]:
    cells: list[_Cell] = []
    ink: Ink | None = None
    position = 0
    for match in [*_SGR.finditer(line), None]:
        piece = line[position : match.start()] if match else line[position:]
        cells.extend(_EMPTY if char == " " else _Cell(char, ink) for char in piece)
        if match:
            ink = _INKS.get(match[1].rpartition(";")[2]) if match[1].startswith("38;5;") else None
            position = match.end()
    return (cells + [_EMPTY] * columns)[:columns]


def _row(value: float, plot: Plot, height: int) -> int:
    """The row that plotext puts a value in: the limits lie in the middle of the outermost rows."""
    low, high = plot.y_range
    inside = min(max(value, low), high)
    return math.ceil((high - inside) / (high - low) * (height - 1) - 0.5) if high > low else 0


def _column(x: float, plot: Plot, columns: int) -> int:
    start, end = plot.x_range
    return round((min(max(x, start), end) - start) / (end - start) * (columns - 1)) if end > start else 0


def _recolour(plot: Plot, cells: list[list[_Cell]]) -> None:
    if plot.rule is None:
        return
    edge = _row(plot.rule, plot, len(cells))
    above: dict[Ink | None, Ink] = {curve.shade: curve.above for curve in plot.curves if curve.above}
    below: dict[Ink | None, Ink] = {curve.shade: curve.below for curve in plot.curves if curve.below}
    for y, row in enumerate(cells):
        inks = above if y < edge else below if y > edge else {}
        if inks:
            cells[y] = [_Cell(cell.text, inks[cell.ink]) if cell.ink in inks else cell for cell in row]


def _set_rule(plot: Plot, cells: list[list[_Cell]]) -> None:
    if plot.rule is not None and plot.y_range[0] <= plot.rule <= plot.y_range[1]:
        y = _row(plot.rule, plot, len(cells))
        cells[y] = [_Cell(_RULE, "rule") if cell is _EMPTY else cell for cell in cells[y]]


def _set_uprights(plot: Plot, cells: list[list[_Cell]]) -> None:
    for upright in plot.uprights:
        if plot.x_range[0] <= upright.x <= plot.x_range[1]:
            at = _column(upright.x, plot, len(cells[0]))
            for row in cells:
                if row[at].ink in (None, "rule"):
                    row[at] = _Cell(upright.glyph, upright.ink)


def _set_behind(plot: Plot, cells: list[list[_Cell]]) -> None:
    """Wide enough to be seen on both sides of a bar that lies over it."""
    height, columns = len(cells), len(cells[0])
    for bar in plot.behind:
        if all(math.isfinite(value) for value in (bar.x, bar.low, bar.high)) and plot.x_range[0] <= bar.x <= plot.x_range[1]:
            at = _column(bar.x, plot, columns)
            for y in _bar_cells(bar, plot, height):
                for x in range(max(0, at - _ASIDE), min(columns, at + _ASIDE + 1)):
                    if cells[y][x].ink in (None, "rule"):
                        cells[y][x] = _Cell(bar.glyph, bar.ink)
    for line in plot.behind_lines:
        if plot.x_range[0] <= line.x <= plot.x_range[1]:
            near = [at for at in (_column(line.x, plot, columns) + aside for aside in (0, 1, -1)) if 0 <= at < columns]
            at = max(near, key=lambda at: sum(row[at].ink is None for row in cells))
            for y in range(height - 1, -1, -2):
                if cells[y][at] is _EMPTY:
                    cells[y][at] = _Cell(line.glyph, line.ink)


def _set_upright_names(plot: Plot, cells: list[list[_Cell]]) -> None:
    """Each beside its line, in the first row from the top where nothing is in the way; none where there is no such row."""
    for upright in (*plot.uprights, *plot.behind_lines):
        if not plot.x_range[0] <= upright.x <= plot.x_range[1]:
            continue
        at, width = _column(upright.x, plot, len(cells[0])), cell_len(upright.name)
        for y, start in ((y, start) for y in range(len(cells)) for start in (at + 1, at - width)):
            room = range(start, start + width)
            if start >= 0 and start + width <= len(cells[0]) and all(cells[y][x] is _EMPTY for x in room):
                for x, char in zip(room, upright.name, strict=True):
                    cells[y][x] = _Cell(char, upright.ink)
                break


def _set_points(plot: Plot, cells: list[list[_Cell]]) -> None:
    """Bars first: what one of them has in a row no dot takes from it while there is room aside."""
    taken: set[tuple[int, int]] = set()
    for bar in plot.bars:
        if all(math.isfinite(value) for value in (bar.x, bar.low, bar.high)) and plot.x_range[0] <= bar.x <= plot.x_range[1]:
            _set_point(plot, cells, bar.x, _bar_cells(bar, plot, len(cells)), taken)
    for dot in plot.dots:
        if math.isfinite(dot.x) and math.isfinite(dot.y) and plot.x_range[0] <= dot.x <= plot.x_range[1]:
            row = _own_row(dot.y, plot, len(cells))
            _set_point(plot, cells, dot.x, {row: _Cell(dot.glyph, dot.ink)}, taken)


def _set_point(plot: Plot, cells: list[list[_Cell]], x: float, rows: dict[int, _Cell], taken: set[tuple[int, int]]) -> None:
    """Put these cells, by row, into the column of x or the nearest one where all of them are free."""
    column, last = _column(x, plot, len(cells[0])), len(cells[0]) - 1
    steps = sorted(range(-plot.spread, plot.spread + 1), key=lambda step: (abs(step), -step))
    places = [column + step for step in steps if 0 <= column + step <= last]
    at = next((place for place in places if not any((y, place) in taken for y in rows)), column)
    for y, cell in rows.items():
        taken.add((y, at))
        cells[y][at] = cell


def _bar_cells(bar: Bar, plot: Plot, height: int) -> dict[int, _Cell]:
    """A bar by row: a stem, a cap at each end inside the axis, and the glyph over what is known."""
    low, high = min(bar.low, bar.high), max(bar.low, bar.high)
    foot = _own_row(low, plot, height) if bar.known != "high" else _row(low, plot, height)
    head = _own_row(high, plot, height) if bar.known != "low" else _row(high, plot, height)
    if bar.known == "low":  # what is known keeps its side of the rule, the other end gives way
        head = min(head, foot)
    else:
        foot = max(head, foot)
    rows = {y: _Cell(_STEM, bar.ink) for y in range(head, foot + 1)}
    if high <= plot.y_range[1]:
        rows[head] = _Cell(_HEAD, bar.ink)
    if low >= plot.y_range[0]:
        rows[foot] = _Cell(_FOOT, bar.ink)
    for end, y in (("high", head), ("low", foot)):
        if bar.known in (end, "both"):
            rows[y] = _Cell(bar.glyph, bar.ink)
    return rows


def _own_row(value: float, plot: Plot, height: int) -> int:
    """The row of a point; what reaches the rule lies above it and what does not below, whatever the rounding."""
    y = _row(value, plot, height)
    if plot.rule is None or y != _row(plot.rule, plot, height):
        return y
    aside = y - 1 if value >= plot.rule else y + 1
    return aside if 0 <= aside < height else y


def _ground_columns(plot: Plot, columns: int) -> list[Ground | None]:
    grounds: list[Ground | None] = [None] * columns
    for zone in plot.zones:
        if zone.end >= plot.x_range[0] and zone.start <= plot.x_range[1]:
            for column in range(_column(zone.start, plot, columns), _column(zone.end, plot, columns) + 1):
                grounds[column] = zone.ground
    return grounds


def _set_edges(plot: Plot, row: list[_Cell]) -> None:
    """Where a zone ends: a line, because there are screens that show no ground."""
    columns = len(row)
    edges: dict[int, _Cell] = {}
    for zone in plot.zones:
        if zone.ground == "passes" and plot.x_range[0] < zone.end < plot.x_range[1]:
            edges[_column(zone.end, plot, columns)] = _Cell(_END, "good")
        elif zone.ground in ("mixed", "fails") and plot.x_range[0] < zone.start < plot.x_range[1]:
            edges[_column(zone.start, plot, columns)] = _Cell(_EDGE, "bad" if zone.ground == "fails" else "label")
    for at, edge in edges.items():
        if row[at].ink in (None, "rule"):
            row[at] = edge


def _heading(plot: Plot, grounds: Sequence[Ground | None], columns: int) -> list[_Cell]:
    """The row above the plot: the names of the zones, and the heads."""
    row = _zone_names(plot, grounds)
    inside = row[:columns]
    _set_edges(plot, inside)
    _set_heads(plot, inside, [_EMPTY] * columns)
    return inside + row[columns:]


def _zone_names(plot: Plot, grounds: Sequence[Ground | None]) -> list[_Cell]:
    """The name of each zone in the middle of what is seen of it."""
    row = [_EMPTY] * len(grounds)
    for zone in plot.zones:
        seen = [at for at, ground in enumerate(grounds) if ground == zone.ground]
        name = next((name for name in zone.names if cell_len(name) <= len(seen)), "")
        if name:
            start = seen[0] + (len(seen) - cell_len(name)) // 2
            ink: Ink = "good" if zone.ground == "passes" else "bad" if zone.ground == "fails" else "label"
            for at, char in enumerate(name, start):
                row[at] = _Cell(char, ink)
    return row


def _set_heads(plot: Plot, row: list[_Cell], before: Sequence[_Cell]) -> None:
    """Each text behind a line at the begin of its stretch, where the row was empty `before`."""

    def room(head: tuple[float, float, str]) -> range:
        at = _column(head[0], plot, len(row)) + 1
        return range(at, at + cell_len(head[2]))

    def fits(head: tuple[float, float, str]) -> bool:
        return room(head).stop <= min(_column(head[1], plot, len(row)), len(row))

    seen = [tuple(head for head in heads if head[1] >= plot.x_range[0] and head[0] <= plot.x_range[1]) for heads in plot.heads]
    for head in next((heads for heads in seen if all(map(fits, heads))), seen[-1] if seen else ()):
        line = room(head).start - 1
        if before[line] is _EMPTY:
            row[line] = _Cell(_EDGE, "rule")
        if fits(head) and all(before[at] is _EMPTY for at in room(head)):
            for at, char in zip(room(head), head[2], strict=True):
                row[at] = _Cell(char, "label")


def _x_labels(plot: Plot, columns: int) -> list[_Cell]:
    def place(label: tuple[float, str]) -> tuple[int, int]:
        width = cell_len(label[1])
        start = min(max(_column(label[0], plot, columns) - width // 2, 0), max(columns - width, 0))
        return start, start + width

    row = [_EMPTY] * columns
    for x, text in (*plot.x_labels, *_roomy(plot.x_ticks, place, _APART_COLUMNS)):
        start, end = place((x, text))
        if not plot.x_range[0] <= x <= plot.x_range[1] or end > columns:
            continue
        if all(cell is _EMPTY for cell in row[max(0, start - 1) : end + 1]):
            row[start:end] = [_Cell(char, "label") for char in text]
    return row


def _roomy(sets: Iterable[Labels], place: Callable[[tuple[float, str]], tuple[int, int]], apart: int) -> Labels:
    """The first of these sets whose labels are that far from each other; `place` says where one begins and ends."""
    for labels in sets:
        places = sorted(place(label) for label in labels)
        if all(start - end >= apart for (_, end), (start, _) in pairwise(places)):
            return labels
    return ()


def _set_marks(plot: Plot, cells: list[list[_Cell]]) -> None:
    start, end = plot.x_range
    for x in plot.marks:
        if start <= x <= end:
            cells[0][_column(x, plot, len(cells[0]))] = _Cell(_MARK, "bad")


def _band_columns(plot: Plot, columns: int) -> list[bool]:
    banded = [False] * columns
    for start, end in plot.bands:
        if end >= plot.x_range[0] and start <= plot.x_range[1]:
            for column in range(_column(start, plot, columns), _column(end, plot, columns) + 1):
                banded[column] = True
    return banded


def _left_labels(plot: Plot, left: int, height: int) -> list[str]:
    """Labels beside their rows; an earlier label keeps its row when two meet, and ticks keep off the others."""
    rows = [" " * left] * height
    if not left:
        return rows
    for value, text in plot.y_labels:
        y = _row(value, plot, height)
        if not rows[y].strip():
            rows[y] = " " * (left - 1 - cell_len(text)) + text + " "
    apart = _APART_ROWS_TALL if height >= _TALL else _APART_ROWS
    for value, text in _roomy(plot.y_ticks, lambda tick: (_row(tick[0], plot, height),) * 2, apart):
        y = _row(value, plot, height)
        if not any(row.strip() for row in rows[max(0, y - 1) : y + 2]):
            rows[y] = " " * (left - 1 - cell_len(text)) + text + " "
    return rows


def _set_names(plot: Plot, cells: list[list[_Cell]], columns: int) -> None:
    """Each curve's name behind its last point, in the order of the values; one below the other where they meet."""
    if len(cells[0]) == columns:
        return
    ends = [(last[1], last[0], curve) for curve in plot.curves if (last := _last(curve)) is not None and curve.name]
    ends.sort(key=lambda end: (end[0], end[2].name), reverse=True)  # of equals p99 over p95, `at most` over `at least`
    rows: list[int] = []
    for value, _, _ in ends:
        rows.append(max(_row(value, plot, len(cells)), rows[-1] + 1 if rows else 0))
    limit = len(cells)
    for at in reversed(range(len(rows))):
        rows[at] = limit = min(rows[at], limit - 1)
    for y, (_, x, curve) in zip(rows, ends, strict=True):
        for start in (_column(x, plot, columns) + 1, _column(x, plot, columns) + 2):  # a cursor may stand right behind the curve
            room = cells[y][start : start + len(curve.name)] if y >= 0 else []
            if len(room) == len(curve.name) and all(cell.ink in (None, "rule") for cell in room):
                cells[y][start : start + len(room)] = [_Cell(char, curve.shade) for char in curve.name]
                break


def _last(curve: Curve) -> tuple[float, float] | None:
    return next(((x, y) for x, y in reversed(curve.points) if y is not None and math.isfinite(y)), None)


def _runs(label: _Cell, row: Sequence[_Cell], bands: Sequence[bool], grounds: Sequence[Ground | None]) -> tuple[Run, ...]:
    runs = [Run(label.text, label.ink, False)] if label.text else []
    for cell, band, ground in zip(row, bands, grounds, strict=True):
        if runs and runs[-1][1:] == (cell.ink, band, ground):
            runs[-1] = runs[-1]._replace(text=runs[-1].text + cell.text)
        else:
            runs.append(Run(cell.text, cell.ink, band, ground))
    return tuple(runs)
