"""What each repeat of the running step is made of, as bars."""

from rich.cells import cell_len
from textual.content import Content
from textual.widget import Widget

from core import prose
from core.results import Bounds
from core.units import DASH, between, count
from core.view import RepeatView, StepView
from tui.draw.style import Role, clean, shorten
from tui.widgets.pieces import Part, Piece, fit, join, styled

LEAST_BARS = 3
_GOOD, _OPEN, _UNSENT, _MISSED, _TARGET = "█", "▒", "·", "\u2573", "┃"


Row = tuple[str, float, float, float, str]
"""Name, shares of good, open and missed, and the attainment as text."""


class RepeatBars(Widget):
    """One bar for each repeat over its whole plan: good from the left, missed from the right, the target between."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._shown: tuple[StepView, float | None, int] | None = None

    def show(self, step: StepView, target: float | None, most: int = LEAST_BARS) -> None:
        """Take the running step; its height follows the number of repeats, up to `most` bars."""
        if (step, target, most) != self._shown:
            self._shown = (step, target, most)
            self.styles.height = min(most, len(step.finished) + (step.live is not None)) + 1
            self.refresh()

    def render(self) -> Content:
        """Bars and, below them, what the running one is made of."""
        if self._shown is None:
            return Content()
        step, target, most = self._shown
        width = self.size.width
        rows = _rows(step, target, most)
        name_width = max((cell_len(row[0]) for row in rows), default=0)
        value_width = max((cell_len(row[4]) for row in rows), default=0)
        lines = [
            Content.assemble(
                styled(f"{name:<{name_width}} ▕", "muted"),
                *_bar(good, open_, missed, target, width - name_width - value_width - 4),
                styled("▏ ", "muted"),
                styled(f"{value:>{value_width}}", "strong"),
            )
            for name, good, open_, missed, value in rows
        ]
        return Content("\n").join([*lines, join(_legend(step, width))])


def _rows(step: StepView, target: float | None, most: int) -> list[Row]:
    """The newest repeats, the running one last; where some have no room, first the lowest of the others: it sets the floor."""
    letter = "s" if step.phase == "hold" else "r"  # segments of a held rate are no repeats
    rows = [(f"{letter}{at + 1}", lo, hi - lo, 1 - hi, between(lo, hi, target, DASH)) for at, (lo, hi) in enumerate(step.finished)]
    if step.live is not None and step.live.index >= len(rows):  # once it is judged it is among the finished ones
        rows.append((f"{letter}{step.live.index + 1}", *_live_row(step, step.live, target)))
    if len(rows) <= most:
        return rows
    hidden = min(range(len(rows) - most + 1), key=lambda at: step.finished[at])
    return [rows[hidden], *rows[len(rows) - most + 1 :]]


def _plan(step: StepView, bounds: Bounds) -> int:
    """What the bar's length stands for. A ramp is planned far beyond the rates that it will reach: its plan is what was sent."""
    return bounds.sent if step.phase == "ramp" else bounds.planned


def _live_row(step: StepView, live: RepeatView, target: float | None) -> tuple[float, float, float, str]:
    bounds, so_far = live.bounds, live.bounds.so_far
    plan = max(_plan(step, bounds), 1)
    text = between(*so_far, target, DASH) if so_far else "not yet"
    return (bounds.good / plan, bounds.open / plan, bounds.bad / plan, text)


def _bar(good: float, open_: float, missed: float, target: float | None, width: int) -> list[Part]:
    """Cells of the bar; a share above zero always takes at least one cell, so that a single miss is seen."""
    if width < 4:
        return []
    n_missed = _cells(missed, width)
    n_good = min(_cells(good, width), width - n_missed)
    n_open = min(_cells(open_, width), width - n_missed - n_good)
    stretches: list[tuple[str, int, Role]] = [
        (_GOOD, n_good, "holds"),
        (_OPEN, n_open, "plain"),
        (_UNSENT, width - n_good - n_open - n_missed, "muted"),
        (_MISSED, n_missed, "breaks"),
    ]
    mark = None if target is None else min(width - 1, int(target * width))
    parts: list[Part] = []
    at = 0
    for char, n, role in stretches:
        if mark is not None and at <= mark < at + n:
            parts += [styled(char * (mark - at), role), styled(_TARGET, "strong"), styled(char * (at + n - mark - 1), role)]
        else:
            parts.append(styled(char * n, role))
        at += n
    return parts


def _cells(share: float, width: int) -> int:
    return max(1, round(share * width)) if share > 0 else 0


def _legend(step: StepView, width: int) -> tuple[Piece, ...]:
    if step.live is None:
        return ()
    bounds = step.live.bounds
    plan = _plan(step, bounds)
    parts = (
        Piece(f"{_GOOD} good {count(bounds.good)}", "holds", 0),
        Piece(f"{_OPEN} open {count(bounds.open)}", "plain", 0),
        *([Piece(f"{_UNSENT} not sent {count(plan - bounds.sent)}", "muted", 2)] if plan > bounds.sent else []),
        Piece(f"{_MISSED} missed {count(bounds.bad)}", "breaks" if bounds.bad else "muted", 0),
    )
    if step.live.decided is None:
        return fit((*parts, Piece(f"of {count(plan)} {'sent' if step.phase == 'ramp' else 'planned'}", "muted", 1)), width)
    left = tuple(part for part in parts if part.rank == 0)
    room = width - sum(cell_len(part.text) + 2 for part in left)
    return fit((*left, Piece(shorten(clean(prose.text(step.live.decided)), room), "strong", 1)), width)
