"""Line plots as text: `draw` turns a frozen `Plot` into rows of styled runs, and is the only user of plotext.

plotext draws the curves in braille; axis labels, the limit as a rule, step bands and curve names are set around them
here, because they must sit in whole cells and take the theme's colours.
"""

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import plotext
from rich.cells import cell_len

Shade = Literal["bright", "middle", "faint"]
Ink = Literal["bright", "middle", "faint", "good", "bad", "rule", "label"]

# plotext colours a curve by palette index and gives that back as an escape code; the index stands for the shade.
_PALETTE: dict[Shade, int] = {"faint": 1, "middle": 2, "bright": 3}
_INKS: dict[str, Ink] = {"1": "faint", "2": "middle", "3": "bright"}
_SGR = re.compile(r"\x1b\[([0-9;]*)m")
_RULE = "╌"
_MARK = "▾"


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
class Plot:
    """All that a plot shows. Values beyond `y_range` are drawn at its edge; curves break where points are over `max_gap` apart.

    `rule` is a limit, drawn across. `bands` are stretches of x to shade, `marks` places on x to point at. `y_labels` are
    (value, text). `margins` are the least widths of labels and names, so that plots above each other share their columns.
    """

    x_range: tuple[float, float]
    y_range: tuple[float, float]
    curves: tuple[Curve, ...]
    y_labels: tuple[tuple[float, str], ...] = ()
    rule: float | None = None
    bands: tuple[tuple[float, float], ...] = ()
    marks: tuple[float, ...] = ()
    max_gap: float = math.inf
    margins: tuple[int, int] = (0, 0)


class Run(NamedTuple):
    """Neighbouring cells that look the same; `ink` None is empty space."""

    text: str
    ink: Ink | None
    band: bool


class _Cell(NamedTuple):
    text: str
    ink: Ink | None


_EMPTY = _Cell(" ", None)


def draw(plot: Plot, width: int, height: int) -> tuple[tuple[Run, ...], ...]:
    """`height` rows, each `width` cells wide. Call it from one thread only: plotext has one figure for all."""
    left = max(plot.margins[0], max((cell_len(text) for _, text in plot.y_labels), default=-1) + 1)
    right = max(plot.margins[1], max((len(curve.name) for curve in plot.curves), default=0))
    if width - left - right < 8:
        left = right = 0
    columns = width - left - right
    if columns < 1 or height < 1:
        return tuple(() for _ in range(max(height, 0)))
    cells = _curves(plot, columns, height)
    _recolour(plot, cells)
    _set_rule(plot, cells)
    _set_marks(plot, cells)
    bands = _band_columns(plot, columns) + [False] * right
    cells = [row + [_EMPTY] * right for row in cells]
    _set_names(plot, cells, columns)
    labels = _left_labels(plot, left, height)
    return tuple(_runs([(_Cell(labels[y], "label"), False), *zip(row, bands, strict=True)]) for y, row in enumerate(cells))


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
    return [_cells(line, columns) for line in text.split("\n")[:height]]


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
    """Labels beside their rows; an earlier label keeps its row when two meet."""
    rows = [" " * left] * height
    for value, text in plot.y_labels if left else ():
        y = _row(value, plot, height)
        if not rows[y].strip():
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
        room = range(_column(x, plot, columns) + 1, _column(x, plot, columns) + 1 + len(curve.name))
        if y >= 0 and all(cells[y][at].ink in (None, "rule") for at in room):
            for at, char in zip(room, curve.name, strict=True):
                cells[y][at] = _Cell(char, curve.shade)


def _last(curve: Curve) -> tuple[float, float] | None:
    return next(((x, y) for x, y in reversed(curve.points) if y is not None and math.isfinite(y)), None)


def _runs(cells: Sequence[tuple[_Cell, bool]]) -> tuple[Run, ...]:
    runs: list[Run] = []
    for cell, band in cells:
        if not cell.text:
            continue
        if runs and runs[-1].ink == cell.ink and runs[-1].band == band:
            runs[-1] = Run(runs[-1].text + cell.text, cell.ink, band)
        else:
            runs.append(Run(cell.text, cell.ink, band))
    return tuple(runs)


_BLOCKS = " ▁▂▃▄▅▆▇█"


def blocks(values: Sequence[float | None], top: float, width: int) -> str:
    """One row of blocks, newest at the right, each the greatest of its share of `values`; 0..`top` is the full height."""
    if width < 1 or not values:
        return " " * max(0, width)
    text = ""
    for column in range(width):
        part = values[len(values) * column // width : max(len(values) * (column + 1) // width, len(values) * column // width + 1)]
        known = [value for value in part if value is not None and math.isfinite(value)]
        if not known:
            text += " "
            continue
        level = min(1.0, max(0.0, max(known) / top)) if top > 0 else 0.0
        text += _BLOCKS[max(1, round(level * 8))]
    return text
