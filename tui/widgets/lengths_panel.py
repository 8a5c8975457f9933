"""Requests by their lengths: how those of the chosen step fared, and which lengths were really sent and came back."""

from collections import Counter

from rich.cells import cell_len
from textual.content import Content

from core.judge import pooled, windows
from core.length_classes import size_span
from core.report import HEADS, bucket_cells
from core.results import Bucket, StepResult
from core.units import count, plain, rate_brief
from core.view import RunView
from tui.draw.style import Role
from tui.widgets.knee_step import fitted_table
from tui.widgets.pieces import Part, Piece, fit, join, styled
from tui.widgets.plot_view import Titled

_GIVE_WAY = tuple(map(HEADS.index, ("TPOT p50", "TTFT p50", "errors", "E2E p95", "requests", "TPOT p95", "TTFT p95")))
_INSIDE = HEADS.index("inside")
_SHADES = "░▒▓█"
"""Of a cell of the picture, by its share of the fullest one: each is for a quarter."""
_AXES = "in ↓ out →"
_BETWEEN = 3
_LEAST_ROWS = 5
"""A picture or a table of fewer rows says nothing."""
_WIDEST_BIN = 8


class LengthsPanel(Titled):
    """Panel 6 of the knee, where requests differ in their lengths: one step, chosen by the screen around it, and the whole run."""

    ALLOW_MAXIMIZE = True

    _of: tuple[object, ...] = ()
    _view: RunView | None = None
    _step: StepResult | None = None

    def show(self, view: RunView, step: StepResult | None) -> None:
        """Take the step that is chosen, or None while there is none."""
        of = (step, view.config, view.steps)
        if of != self._of:
            self._of, self._view, self._step = of, view, step
            self.set_title(title(view, step))
            self.refresh()

    def render(self) -> Content:
        """The table, and the picture where there is room for it."""
        return Content() if self._view is None else content(self._view, self._step, *self.size)


def tells_lengths(view: RunView) -> bool:
    """Whether any window of the run had requests of more than one kind."""
    return any(len(pooled([repeat])) > 1 for repeat in windows(view.steps))


def title(view: RunView, step: StepResult | None) -> tuple[Piece, ...]:
    """What the panel says when it is collapsed to its border: how many kinds of request are below the target."""
    head, buckets = Piece("6 lengths", "strong"), _buckets(step)
    if step is None or not buckets or view.config is None:
        return (head,)
    target = view.config.slo.target
    under = sum(bucket.attainment_interval[1] < target for bucket in buckets)
    told = Piece(f"{under} of {len(buckets)} below {plain(target)}", "breaks" if under else "plain", 1)
    return (head, Piece(rate_brief(step.rate_rps), "strong", 0), told)


def content(view: RunView, step: StepResult | None, width: int, height: int) -> Content:
    """The picture below the table, or beside it where that is too high; the table alone, with the worst of its rows, in a small
    panel."""
    table = _table(view, step, width, None)
    below = _picture(view, width, height - len(table) - 1)
    if below:
        return Content("\n").join([*table, Content(), *below])
    room = max(line.cell_length for line in table) + _BETWEEN
    beside = _picture(view, width - room, height)
    if beside:
        return _side_by_side(_table(view, step, room, height), beside, room)
    below = _picture(view, width, height - 2 * _LEAST_ROWS)
    table = _table(view, step, width, height - len(below) - 1 if below else height)
    return Content("\n").join([*table, Content(), *below] if below else table)


def _side_by_side(left: list[Content], right: list[Content], room: int) -> Content:
    rows = []
    for at in range(max(len(left), len(right))):
        first = left[at] if at < len(left) else Content()
        rows.append(Content.assemble(first.pad_right(room - first.cell_length), right[at] if at < len(right) else Content()))
    return Content("\n").join(rows)


# --- how the chosen step fared ------------------------------------------------------------------------------------


def _buckets(step: StepResult | None) -> tuple[Bucket, ...]:
    return () if step is None else pooled(windows([step]))


def _table(view: RunView, step: StepResult | None, width: int, height: int | None) -> list[Content]:
    """Of whom it is, then a row for each bucket. Where `height` has no room for all of them, those with the lowest attainment, of
    equal ones those with the most requests."""
    buckets = _buckets(step)
    if step is None or not buckets:
        text = "no window of this step is judged" if step is None or step.phase != "ramp" else "segments of a ramp are no windows"
        return [Content.assemble(styled(text, "muted"))]
    repeats, target = len(windows([step])), view.config.slo.target if view.config else None
    room = len(buckets) if height is None else max(1, height - 2)
    left = 0
    if room < len(buckets):
        worst = sorted(buckets, key=lambda bucket: (*bucket.attainment_interval, -bucket.n))[: max(1, room - 1)]
        left, buckets = len(buckets) - len(worst), tuple(bucket for bucket in buckets if bucket in worst)
    rows = [bucket_cells(bucket, target, repeats) for bucket in buckets]
    roles: list[Role] = [
        "breaks" if target is not None and bucket.attainment_interval[1] < target else "plain" for bucket in buckets
    ]
    planned = sum(bucket.n for bucket in _buckets(step))
    pieces = [Piece(f"{count(planned, 'request')} planned in {count(repeats, 'window')}", "muted", 0)]
    pieces += [Piece("p50, p95: the highest of them", "muted", 2)] if repeats > 1 else []
    pieces += [Piece("* too few values", "strong", 1)] if any("*" in cell for row in rows for cell in row) else []
    rest = [Piece(f"… {left} more", "strong", 0), Piece("none with a lower share inside", "strong", 1)]
    more = [join(fit(rest, width), ", ")] if left else []
    return [join(fit(pieces, width)), *fitted_table(HEADS, rows, _GIVE_WAY, width, (_INSIDE, roles)), *more]


# --- which lengths came -------------------------------------------------------------------------------------------


def _picture(view: RunView, width: int, height: int) -> list[Content]:
    """How many requests of the run's windows had which lengths, prompts down and answers across, shorter ones first: as the server
    counted their tokens. Bins are joined until the picture has room; empty where it has none at all, and before anything came."""
    repeats = windows(view.steps)
    counts: Counter[tuple[int, int]] = Counter()
    for repeat in repeats:
        for at_in, at_out, n in repeat.sizes:
            counts[at_in, at_out] += n
    if not counts or height < _LEAST_ROWS:
        return []
    sent, ended = sum(repeat.sent for repeat in repeats), sum(counts.values())
    said = f"{'all' if sent == ended else f'{count(ended)} of'} {count(sent, 'request')} sent in judged windows ended"
    heads = [Piece(said, "muted", 0), Piece("by the tokens that came", "muted", 1)]
    down = across = 1
    while len(_bins(counts, 0, down)) > height - 2 and down <= _WIDEST_BIN:
        down *= 2
    while (grid := _grid(counts, down, across)) and cell_len(grid[0].plain) > width and across <= _WIDEST_BIN:
        across *= 2
    if max(down, across) > _WIDEST_BIN:
        return []
    return [join(fit(heads, width)), *grid]


def _bins(counts: Counter[tuple[int, int]], side: int, joined: int) -> range:
    """From the first bin to the last that has a request, so many of them joined."""
    found = [pair[side] // joined for pair in counts]
    return range(min(found), max(found) + 1)


def _grid(counts: Counter[tuple[int, int]], down: int, across: int) -> list[Content]:
    """A row of the shortest answers of each column, then a row for each length of prompts."""
    cells: Counter[tuple[int, int]] = Counter()
    for (at_in, at_out), n in counts.items():
        cells[at_in // down, at_out // across] += n
    rows, columns, most = _bins(counts, 0, down), _bins(counts, 1, across), max(cells.values())
    names = [_from(at * across) for at in columns]
    width = max(len(count(most)) + 1, *map(len, names)) + 2
    first = max(len(_AXES), len(_from(rows[-1] * down)))
    lines = [Content.assemble(styled(_AXES.ljust(first) + "".join(name.rjust(width) for name in names), "muted"))]
    for row in rows:
        parts: list[Part] = [styled(_from(row * down).rjust(first), "muted")]
        for column in columns:
            n = cells[row, column]
            text = f"{count(n)} {_SHADES[min(4 * n // most, 3)]}" if n else "·"
            parts.append(styled(text.rjust(width), "plain" if n else "muted"))
        lines.append(Content.assemble(*parts))
    return lines


def _from(at: int) -> str:
    """The fewest tokens of a bin."""
    return f"{count(size_span(at, at)[0])}+"
