"""The cliff as text: `draw` turns a frozen `Cliff` into rows of styled runs. Each rate is a column, as wide at each height as the
share of its requests that stand there against their limits; the limit is the horizon. Pure.

What ended is solid. What has not ended is dotted and stands at the least that it can still reach. The mark beside a column is the
target's quantile of all its requests: a bar, where it is only known between two ends.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import accumulate, groupby, pairwise
from typing import Literal, NamedTuple

from rich.cells import cell_len

from core.margins import AT_LIMIT, BINS, PER_DOUBLING
from core.units import count
from tui.draw.symbols import Symbols

Ink = Literal["good", "bad", "good-pale", "bad-pale", "open", "over", "over-pale", "holds", "fails", "strong", "label", "rule"]
Kind = Literal["holds", "unknown", "mixed", "fails"]

NOW, QUANTILE, BETWEEN, ABOVE, FAILED, HORIZON = "▾", "◂", "┃", "↑", "✘", "─"
ENDED: dict[Symbols, str] = {"braille": "█", "block": "█", "ascii": "#"}
OPEN: dict[Symbols, str] = {"braille": "⣿", "block": "▒", "ascii": "="}
_DOTS: dict[Symbols, tuple[int, int]] = {"braille": (2, 4), "block": (1, 2), "ascii": (1, 1)}
"""Across and down in a cell. In ASCII a sign cannot say where in its cell the ink is."""
_LINES: dict[Kind, str] = {"holds": "━", "unknown": "·", "mixed": "╌", "fails": "━"}
GHOST_LINES: dict[Kind, str] = {"holds": "░", "unknown": " ", "mixed": " ", "fails": "░"}
"""Of another run: what holds and what fails, in its own sign."""
_ASCII_LINES: dict[Kind, str] = {"holds": "-", "unknown": ".", "mixed": ":", "fails": "-"}
"""What holds and what fails are lines as the horizon is, in a row of their own, with their names in them."""
_INKS: dict[Kind, Ink] = {"holds": "holds", "unknown": "label", "mixed": "strong", "fails": "fails"}

_PALE: dict[Ink, Ink] = {"good": "good-pale", "bad": "bad-pale", "over": "over-pale"}
_LEFT, _LEAST_PLOT = 7, 12
"""Cells of the labels at the left, and how many must be left for the columns beside them."""
_PITCH = 9
"""Cells from one column to the next where rates are close, as long as there is room: its name can stand below each."""
_WIDEST = 8
"""A column is at most this part of the width: wider ones would be seen as areas."""
_ROOM, _FROM_ROOM = (9, 14), 60
"""Cells before the middle of the first column and behind that of the last, so that the words of the bracket have a place there;
only in a picture of so many cells."""
_FROM_GHOST = 8
_FROM_HEAD, _FROM_FAILED, _FROM_NAMES, _FROM_ZONES, _FROM_DATA = 10, 7, 5, 4, 3
"""The rows from which on there is room for each part."""
_DUST = 1e-9


@dataclass(frozen=True, slots=True)
class Column:
    """The requests of one rate, by the bins of `core.margins`; `open` at the least that they can still reach.

    `counted`: some of them belong to the window of a repeat. `now`: this rate is being sent. Of `names` the first that fits
    stands below it.
    """

    rate_rps: float
    names: tuple[str, ...]
    ended: tuple[int, ...]
    open: tuple[int, ...]
    failed: int = 0
    counted: bool = False
    now: bool = False


@dataclass(frozen=True, slots=True)
class Stretch:
    """A stretch of rates that is known to hold, or to fail, or not known; None: to the end of the picture. The first of `names`
    that fits stands in it."""

    start_rps: float | None
    end_rps: float | None
    names: tuple[str, ...]
    kind: Kind


@dataclass(frozen=True, slots=True)
class Cliff:
    """All that the picture shows. `columns` by rate, the lowest first; `x_range` in requests/s; `up` and `down`: how many doublings
    above and below the limit there must be room for; `first`: the rates whose names come first. `note` stands where no stretch is
    known, `limits` at the horizon. `going`: a rate is sent now, or will be. `ghost`: the stretches of another run, in a row
    of their own."""

    columns: tuple[Column, ...]
    x_range: tuple[float, float]
    up: int
    down: int
    target: float
    stretches: tuple[Stretch, ...] = ()
    first: tuple[float, ...] = ()
    going: bool = True
    note: str = ""
    limits: str = ""
    ghost: tuple[Stretch, ...] = ()


class Run(NamedTuple):
    """Neighbouring cells that look the same; `ink` None is empty space. `lane`: above and below the rate that is sent."""

    text: str
    ink: Ink | None
    lane: bool = False


class _Cell(NamedTuple):
    text: str
    ink: Ink | None
    lane: bool = False


class _Slot(NamedTuple):
    """Where a column lies, in cells: from `start` on, `width` of them, and one for the mark behind it."""

    start: int
    width: int

    @property
    def middle(self) -> float:
        return self.start + self.width / 2

    @property
    def end(self) -> int:
        return self.start + self.width


class _Rows(NamedTuple):
    """Which row is what; None where there is no room for it. The data are in `top`..`horizon` and below it up to `bottom`."""

    head: int | None
    failed: int | None
    top: int
    horizon: int
    bottom: int
    names: int | None
    zones: int | None
    ghost: int | None = None


_Grid = list[list[_Cell]]
_EMPTY = _Cell(" ", None)


def draw(cliff: Cliff, width: int, height: int, symbols: Symbols = "braille") -> tuple[tuple[Run, ...], ...]:
    """`height` rows, each `width` cells wide."""
    if width < 1 or height < 1:
        return tuple(() for _ in range(max(height, 0)))
    left = _LEFT if width - _LEFT >= _LEAST_PLOT else 0
    columns = width - left
    grid: _Grid = [[_EMPTY] * columns for _ in range(height)]
    labels: dict[int, tuple[str, Ink]] = {}
    all_rates = len(cliff.columns)
    cliff = _with_room(cliff, columns)
    rows = _rows(cliff, height)
    slots = slots_of(cliff, columns)
    if height >= _FROM_DATA:
        scale = _Scale.of(cliff, rows, _DOTS[symbols][1])
        _set_horizon(grid, rows)
        for column, slot in zip(cliff.columns, slots, strict=True):
            _set_lane(grid, rows, column, slot)
            _set_mass(grid, rows, column, slot, scale, symbols)
            _set_quantile(grid, rows, column, slot, scale, cliff.target)
            _set_failed(grid, rows, column, slot)
        _set_limits(grid[rows.horizon], cliff.limits)
        labels = _labels(cliff, rows, scale)
        if rows.names is not None:
            shown = len(cliff.columns)
            labels[rows.names] = ("req/s" if shown == all_rates else f"{shown}/{all_rates}", "label")
    _set_head(grid, rows, cliff.columns, slots)
    _set_names(grid, rows, cliff, slots)
    _set_zones(grid, rows, cliff, slots, _ASCII_LINES if symbols == "ascii" else _LINES)
    if rows.ghost is not None:
        labels[rows.ghost] = ("ghost", "label")
        for stretch in cliff.ghost:
            start, end = (None if at is None else _between(cliff, slots, at) for at in (stretch.start_rps, stretch.end_rps))
            _set_stretch(grid[rows.ghost], stretch, start, end, GHOST_LINES[stretch.kind], "label")
    return tuple(_row(labels.get(y, ("", "label")), left, cells) for y, cells in enumerate(grid))


# --- where things lie ---------------------------------------------------------------------------------------------


def _rows(cliff: Cliff, height: int) -> _Rows:
    if height < _FROM_DATA:
        return _Rows(None, None, 0, 0, 0, 1 if height > 1 else None, 0)
    zones, names = height >= _FROM_ZONES, height >= _FROM_NAMES
    failed = height >= _FROM_FAILED and any(column.failed for column in cliff.columns)
    head = height >= _FROM_HEAD and cliff.going
    top = head + failed
    ghost = height >= _FROM_GHOST and bool(cliff.ghost)
    data = height - top - names - zones - ghost - 1
    up = min(max(1, round(data * cliff.up / (cliff.up + cliff.down))), data - 1)
    bottom = top + data + 1
    return _Rows(
        0 if head else None,
        int(head) if failed else None,
        top,
        top + up,
        bottom,
        bottom if names else None,
        height - 1 - ghost if zones else None,
        height - 1 if ghost else None,
    )


def _with_room(cliff: Cliff, width: int) -> Cliff:
    """The columns that have room for themselves and their mark: those whose names come first."""
    most = max(1, width // 2)
    if len(cliff.columns) <= most:
        return cliff
    kept = sorted(cliff.columns, key=lambda column: _rank(cliff, column))[:most]
    return replace(cliff, columns=tuple(sorted(kept, key=lambda column: column.rate_rps)))


def _rank(cliff: Cliff, column: Column) -> tuple[bool, bool, float]:
    """The rate that is sent, those of the bracket, then the others from the highest down."""
    return not column.now, column.rate_rps not in cliff.first, -column.rate_rps


def slots_of(cliff: Cliff, width: int) -> tuple[_Slot, ...]:
    """Where each column lies: at the logarithm of its rate, moved aside where others are too close."""
    n = len(cliff.columns)
    if not n:
        return ()
    pitch = min(float(_PITCH), width / n)
    before, behind = _ROOM if width >= _FROM_ROOM else (pitch / 2 + 1, pitch / 2 + 1)
    low, high = (math.log(rate) for rate in cliff.x_range)
    per = max(0.0, width - before - behind) / (high - low) if high > low else 0.0
    wished = [before + (math.log(column.rate_rps) - low) * per if per else width / 2 for column in cliff.columns]
    at = apart(wished, pitch, width)
    edges = [0.0, *((a + b) / 2 for a, b in pairwise(at)), float(width)]
    slots = []
    for middle, start, end in zip(at, edges, edges[1:], strict=False):
        first, last = math.floor(start + 0.5), math.floor(end + 0.5)
        room = min(middle - first, last - middle) * 2
        wide = max(1, min(max(3, width // _WIDEST), round(room) - 1, last - first - (last - first > 1)))
        slots.append(_Slot(min(max(round(middle - (wide + 1) / 2), first), last - wide), wide))
    return tuple(slots)


def apart(wished: Sequence[float], pitch: float, width: float) -> list[float]:
    """The places nearest to those wished (ascending) that are `pitch` apart and half of it from the ends of `width`."""
    blocks: list[tuple[float, int]] = []
    for at, place in enumerate(wished):
        mean, n = place - at * pitch, 1
        while blocks and blocks[-1][0] > mean:
            other, more = blocks.pop()
            mean, n = (mean * n + other * more) / (n + more), n + more
        blocks.append((mean, n))
    most = max(pitch / 2, width - pitch * (len(wished) - 0.5))
    free = [min(max(mean, pitch / 2), most) for mean, n in blocks for _ in range(n)]
    return [place + at * pitch for at, place in enumerate(free)]


@dataclass(frozen=True, slots=True)
class _Scale:
    """Bins of `core.margins` and heights: `per` bins are a dot, `dots` of them a row, the same above and below the horizon."""

    per: float
    dots: int
    rows: _Rows

    @staticmethod
    def of(cliff: Cliff, rows: _Rows, dots: int) -> "_Scale":
        above, below = rows.horizon - rows.top, rows.bottom - rows.horizon - 1
        per_row = max(cliff.up / above, cliff.down / below) * PER_DOUBLING
        return _Scale(per_row / dots, dots, rows)

    def row(self, bins: float) -> int:
        """The row of a place so many bins above the limit; what is beyond the picture is in its last row."""
        away = int(abs(bins) / (self.per * self.dots))
        return (
            max(self.rows.top, self.rows.horizon - 1 - away)
            if bins > 0
            else min(self.rows.bottom - 1, self.rows.horizon + 1 + away)
        )

    def shares(self, counts: Sequence[int]) -> tuple[list[float], list[float]]:
        """Requests in each row of dots, from the horizon upwards and downwards; the last of each has all beyond it, too.
        A bin that lies in two of them is shared out."""
        sums = list(accumulate(counts, initial=0))

        def until(bins: float) -> float:
            at = min(max(AT_LIMIT + bins, 0.0), len(counts) - _DUST)
            return sums[int(at)] + (at - int(at)) * counts[int(at)]

        n_up, n_down = ((self.rows.horizon - self.rows.top) * self.dots, (self.rows.bottom - self.rows.horizon - 1) * self.dots)
        up = [until(at * self.per) for at in range(n_up)] + [float(sums[-1])]
        down = [until(-at * self.per) for at in range(n_down)] + [0.0]
        return [b - a for a, b in pairwise(up)], [a - b for a, b in pairwise(down)]


# --- the data -----------------------------------------------------------------------------------------------------


def _set_lane(grid: _Grid, rows: _Rows, column: Column, slot: _Slot) -> None:
    if column.now:
        for y in range(rows.bottom):
            for x in range(slot.start, slot.end):
                grid[y][x] = grid[y][x]._replace(lane=True)


def _set_mass(grid: _Grid, rows: _Rows, column: Column, slot: _Slot, scale: _Scale, symbols: Symbols) -> None:
    for y, x, text, solid in _mass(column.ended, column.open, scale, slot.width, symbols):
        ink = _ink(solid, y < rows.horizon, column.counted)
        grid[y][slot.start + x] = grid[y][slot.start + x]._replace(text=text, ink=ink)


@lru_cache(maxsize=128)
def _mass(
    ended_at: tuple[int, ...], open_at: tuple[int, ...], scale: "_Scale", width: int, symbols: Symbols
) -> tuple[tuple[int, int, str, bool], ...]:
    """The density: the widest row of dots is as wide as the column, and whatever is there has a dot at least. As (row, cell,
    character, whether most of it has ended); kept, for most columns of a picture are those of the picture before."""
    ended, open_ = scale.shares(ended_at), scale.shares(open_at)
    peak = max((e + o for side in (0, 1) for e, o in zip(ended[side], open_[side], strict=True)), default=0.0)
    if peak <= _DUST:
        return ()
    across, down = _DOTS[symbols]
    found = []
    for side in (0, 1):
        dots = [_dots(e, o, peak, width * across) for e, o in zip(ended[side], open_[side], strict=True)]
        for at in range(len(dots) // down):
            y = scale.rows.horizon - 1 - at if side == 0 else scale.rows.horizon + 1 + at
            band = dots[at * down : (at + 1) * down]
            for x in range(width):
                cell = [row[x * across : (x + 1) * across] for row in (band[::-1] if side == 0 else band)]
                if any(any(row) for row in cell):
                    found.append((y, x, *_glyph(cell, symbols)))
    return tuple(found)


def _dots(ended: float, open_: float, peak: float, width: int) -> list[int]:
    """A row of dots around its middle: 1 ended, 2 open, 0 nothing; the open ones are outside."""
    inner = max(1, round(width * ended / peak)) if ended > _DUST else 0
    whole = max(inner, round(width * (ended + open_) / peak))
    if open_ > _DUST:
        whole = min(width, max(whole, inner + 1))
    row = [0] * width
    for length, what in ((whole, 2), (inner, 1)):
        start = (width - length) // 2
        row[start : start + length] = [what] * length
    return row


def _ink(solid: bool, over: bool, counted: bool) -> Ink:
    """What is open below the horizon is nothing yet; past it, it has missed for sure."""
    if not solid and not over:
        return "open"
    ink: Ink = "over" if not solid else "bad" if over else "good"
    return ink if counted else _PALE[ink]


_QUARTERS = " ▘▝▀▖▌▞▛▗▚▐▜▄▙▟█"
"""By the quarters of the cell that are filled: upper left 1, upper right 2, lower left 4, lower right 8."""
_BITS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))


def _glyph(cell: Sequence[Sequence[int]], symbols: Symbols) -> tuple[str, bool]:
    """The character of a cell's dots, and whether most of what is there has ended."""
    flat = [dot for row in cell for dot in row]
    solid = flat.count(1) >= flat.count(2)
    if symbols == "ascii" or (symbols == "block" and not solid):
        return (ENDED if solid else OPEN)[symbols], solid
    if symbols == "block":
        return " ▀▄█"[(cell[0][0] == 1) + 2 * (cell[1][0] == 1)], solid
    if solid:
        return _QUARTERS[sum(1 << at for at in range(4) if 1 in (cell[at // 2 * 2][at % 2], cell[at // 2 * 2 + 1][at % 2]))], True
    return chr(0x2800 + sum(_BITS[y][x] for y, row in enumerate(cell) for x, dot in enumerate(row) if dot)), False


def quantile(column: Column, target: float) -> tuple[float, float] | None:
    """The bins between which the target's quantile of all requests lies: what failed is beyond all, what is open somewhere from
    its least on. None of no request."""
    sent = sum(column.ended) + sum(column.open) + column.failed
    if not sent:
        return None
    nth = max(1, math.ceil(target * sent - _DUST))
    least = [e + o for e, o in zip(column.ended, column.open, strict=True)]
    return _bin_of_nth(least, nth), _bin_of_nth(column.ended, nth)


def _bin_of_nth(counts: Iterable[int], nth: int) -> float:
    return next((float(at) for at, total in enumerate(accumulate(counts)) if total >= nth), math.inf)


def _set_quantile(grid: _Grid, rows: _Rows, column: Column, slot: _Slot, scale: _Scale, target: float) -> None:
    ends = quantile(column, target)
    if ends is None or slot.end >= len(grid[0]):
        return
    low, high = ends
    beyond = rows.top if rows.failed is None else rows.failed
    lowest, highest = (beyond if at == math.inf else scale.row(at + 0.5 - AT_LIMIT) for at in (low, high))
    ink: Ink = "fails" if low >= AT_LIMIT else "holds" if high < AT_LIMIT else "strong"
    if lowest == highest:
        grid[lowest][slot.end] = _Cell(QUANTILE if low == high or high < math.inf else ABOVE, ink)
        return
    for y in range(highest, lowest + 1):
        grid[y][slot.end] = _Cell(BETWEEN, ink)
    if high == math.inf:
        grid[highest][slot.end] = _Cell(ABOVE, ink)


def _set_failed(grid: _Grid, rows: _Rows, column: Column, slot: _Slot) -> None:
    if not column.failed:
        return
    row = grid[rows.top if rows.failed is None else rows.failed]
    text = next(
        (text for text in (f"{FAILED} {count(column.failed)}", f"{FAILED}{column.failed}") if len(text) <= slot.width), FAILED
    )
    start = max(slot.start, round(slot.middle - len(text) / 2))
    _write(row, start, text, "fails")


# --- the lines around them ----------------------------------------------------------------------------------------


def _set_horizon(grid: _Grid, rows: _Rows) -> None:
    grid[rows.horizon] = [_Cell(HORIZON, "rule")] * len(grid[rows.horizon])


def _set_limits(row: list[_Cell], text: str) -> None:
    """What the limit is, in the first stretch of the horizon that is long enough."""
    wide = cell_len(text) + 4
    for start in range(len(row) - wide + 1) if text else ():
        if all(cell.text == HORIZON for cell in row[start : start + wide]):
            _write(row, start + 1, f" {text} ", "label")
            return


def _labels(cliff: Cliff, rows: _Rows, scale: _Scale) -> dict[int, tuple[str, Ink]]:
    """Beside the rows: the limit, and its multiples by steps that leave each of them a row."""
    per_row = scale.per * scale.dots / PER_DOUBLING
    step = next((step for step in (1, 2, 4) if step >= per_row), 8)
    labels: dict[int, tuple[str, Ink]] = {rows.horizon: ("limit", "strong")}
    for at in range(step, 9, step):
        up, down = at * PER_DOUBLING - _DUST, -at * PER_DOUBLING + _DUST
        if at <= (rows.horizon - rows.top) * per_row + _DUST:
            labels[scale.row(up)] = (f"{2**at}x", "label")
        if at <= (rows.bottom - rows.horizon - 1) * per_row + _DUST:
            labels[scale.row(down)] = (f"1/{2**at}", "label")
    reach = (rows.horizon - rows.top) * per_row * PER_DOUBLING, (rows.bottom - rows.horizon - 1) * per_row * PER_DOUBLING
    below, beyond = max(1, math.ceil(AT_LIMIT - reach[1] - 1)), min(math.ceil(AT_LIMIT + reach[0]), BINS - 1)
    counts = [each for column in cliff.columns for each in (column.ended, column.open)]
    if any(any(each[:below]) for each in counts):
        labels[rows.bottom - 1] = ("less", "label")
    if any(any(each[beyond:]) for each in counts):
        labels[rows.top] = ("more", "label")
    if rows.failed is not None:
        labels[rows.failed] = ("failed", "label")
    return labels


def _set_head(grid: _Grid, rows: _Rows, columns: Sequence[Column], slots: Sequence[_Slot]) -> None:
    for column, slot in zip(columns, slots, strict=True) if rows.head is not None else ():
        if column.now:
            text = f"{NOW} now"
            _write(grid[rows.head or 0], _start(text, slot.middle, len(grid[0])), text, "strong")


def _set_names(grid: _Grid, rows: _Rows, cliff: Cliff, slots: Sequence[_Slot]) -> None:
    """As many as have room."""
    if rows.names is None:
        return
    row = grid[rows.names]
    for column, slot in sorted(zip(cliff.columns, slots, strict=True), key=lambda pair: _rank(cliff, pair[0])):
        names = [f"now {name}" if column.now and rows.head is None else name for name in column.names]
        ink: Ink = "strong" if column.now or column.rate_rps in cliff.first else "label"
        for text in names:
            start = _start(text, slot.middle, len(row))
            around = row[max(0, start - 1) : start + cell_len(text) + 1]
            if cell_len(text) <= len(row) and all(cell.ink is None for cell in around):
                _write(row, start, text, ink)
                break


def _set_zones(grid: _Grid, rows: _Rows, cliff: Cliff, slots: Sequence[_Slot], lines: dict[Kind, str]) -> None:
    if rows.zones is None:
        return
    row = grid[rows.zones]
    if not cliff.stretches:
        _write(row, 0, cliff.note[: len(row)], "label")
    for stretch in cliff.stretches:
        start, end = (None if at is None else _edge(cliff, slots, at, len(row)) for at in (stretch.start_rps, stretch.end_rps))
        _set_stretch(row, stretch, start, end, lines[stretch.kind], _INKS[stretch.kind])


def _set_stretch(row: list[_Cell], stretch: Stretch, start: int | None, end: int | None, line: str, ink: Ink) -> None:
    """From one cell to another; None: from or to the end of the row."""
    begin = 0 if start is None else start
    _write(row, begin, _bar(stretch.names, line, (len(row) if end is None else end) - begin), ink)


def _between(cliff: Cliff, slots: Sequence[_Slot], rate_rps: float) -> int:
    """The cell of a rate that may have no column: between the two beside it, and right beside the outermost where it is beyond."""
    at = math.log(rate_rps)
    middles = [(math.log(column.rate_rps), slot.middle) for column, slot in zip(cliff.columns, slots, strict=True)]
    for (low, left), (high, right) in pairwise(middles):
        if low <= at <= high:
            return round(left + (at - low) / (high - low) * (right - left)) if high > low else round(left)
    if not slots:
        return 0
    if at == middles[0][0]:
        return round(middles[0][1])
    return slots[-1].end + 1 if at > middles[-1][0] else max(0, slots[0].start - 1)


def _edge(cliff: Cliff, slots: Sequence[_Slot], rate_rps: float, width: int) -> int:
    """The cell at which a stretch ends at this rate: the middle of its column."""
    for column, slot in zip(cliff.columns, slots, strict=True):
        if column.rate_rps >= rate_rps:
            return round(slot.middle) if column.rate_rps == rate_rps else slot.start
    return width


def _bar(names: Sequence[str], line: str, width: int) -> str:
    name = next((name for name in names if cell_len(name) <= width), "")
    if name and cell_len(name) + 2 <= width:
        name = f" {name} "
    return name.center(width, line) if width > 0 else ""


def _start(text: str, middle: float, width: int) -> int:
    return max(0, min(round(middle - cell_len(text) / 2), width - cell_len(text)))


def _write(row: list[_Cell], start: int, text: str, ink: Ink) -> None:
    for x, char in enumerate(text, start):
        if 0 <= x < len(row):
            row[x] = row[x]._replace(text=char, ink=ink)


def _row(label: tuple[str, Ink], left: int, cells: Iterable[_Cell]) -> tuple[Run, ...]:
    return tuple(_runs([_Cell(f"{label[0]:>{left - 1}} ", label[1]), *cells] if left else cells))


def _runs(cells: Iterable[_Cell]) -> Iterator[Run]:
    for (ink, lane), group in groupby(cells, key=lambda cell: (cell.ink, cell.lane)):
        yield Run("".join(cell.text for cell in group), ink, lane)
