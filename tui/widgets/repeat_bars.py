"""Repeats as bars over their whole plan: good from the left, missed from the right, the target between."""

from collections.abc import Sequence
from typing import NamedTuple

from rich.cells import cell_len
from textual.content import Content

from core.results import Bounds
from core.units import count
from tui.draw.style import Role
from tui.widgets.pieces import Part, Piece, styled

GOOD, OPEN, UNSENT, MISSED, TARGET = "█", "▒", "·", "\u2573", "┃"
INKS: dict[str, Role] = {**dict.fromkeys("▁▂▃▄▅▆▇█", "holds"), OPEN: "plain", UNSENT: "muted", MISSED: "breaks", TARGET: "strong"}
_LEAST_BAR, _DUST = 4, 1e-9


class Bar(NamedTuple):
    """One repeat: its name, the shares of its plan that are good, open and missed, and what stands behind it.

    `target` None: it is not held against one, because it does not count.
    """

    name: str
    good: float
    open: float
    missed: float
    text: str
    target: float | None = None


def bar_of(name: str, bounds: Bounds, text: str, target: float | None = None, plan: int | None = None) -> Bar:
    """A repeat that runs; `plan` in place of its own, where that says nothing."""
    whole = max(bounds.planned if plan is None else plan, 1)
    return Bar(name, bounds.good / whole, bounds.open / whole, bounds.bad / whole, text, target)


def rows(bars: Sequence[Bar], width: int) -> list[Content]:
    """A row for each, all as long."""
    names, texts = (max((cell_len(text) for text in column), default=0) for column in _columns(bars))
    return [
        Content.assemble(
            styled(f"{bar.name:<{names}} ▕", "muted"),
            *_cells_of(bar, width - names - texts - 4),
            styled("▏ ", "muted"),
            styled(f"{bar.text:>{texts}}", "strong" if bar.target is not None else "muted"),
        )
        for bar in bars
    ]


def scale(bars: Sequence[Bar], target: float, text: str, width: int) -> Content:
    """Under the rows: the target in words, as near to its mark as there is room."""
    names, texts = (max((cell_len(text) for text in column), default=0) for column in _columns(bars))
    length = width - names - texts - 4
    end = names + 2 + min(length - 1, int(target * length)) + 1
    return Content.assemble(styled(f"{text} {TARGET}".rjust(max(end, 0)), "muted"))


def _columns(bars: Sequence[Bar]) -> tuple[list[str], list[str]]:
    return [bar.name for bar in bars], [bar.text for bar in bars]


def _cells_of(bar: Bar, width: int) -> list[Part]:
    """A share above zero always takes at least one cell, so that a single miss is seen."""
    if width < _LEAST_BAR:
        return []
    n_missed = cells(bar.missed, width)
    if bar.target is not None and bar.missed > 1 - bar.target + _DUST:
        n_missed = max(n_missed, 2)  # the mark of the target takes one of them
    n_good = min(cells(bar.good, width), width - n_missed)
    n_open = min(cells(bar.open, width), width - n_missed - n_good)
    line = GOOD * n_good + OPEN * n_open + UNSENT * (width - n_good - n_open - n_missed) + MISSED * n_missed
    if bar.target is not None:
        mark = _mark(bar, bar.target, width, n_missed)
        line = line[:mark] + TARGET + line[mark + 1 :]
    return parts(line)


def _mark(bar: Bar, target: float, width: int, n_missed: int) -> int:
    """The cell of the target: what missed lies behind it as long as that is allowed, and on both sides of it from then on."""
    mark = min(width - 1, int(target * width))
    if not bar.missed:
        return mark
    if bar.missed <= 1 - target + _DUST:
        return max(min(mark, width - n_missed - 1), 0)
    return min(max(mark, width - n_missed + 1), width - 1)


def parts(line: str) -> list[Part]:
    """Cells of a bar in the colours of what they stand for."""
    found: list[Part] = []
    start = 0
    for at in range(1, len(line) + 1):
        if at == len(line) or line[at] != line[start]:
            found.append(styled(line[start:at], INKS.get(line[start], "muted")))
            start = at
    return found


def cells(share: float, width: int) -> int:
    """How many of so many cells stand for a share."""
    return max(1, round(share * width)) if share > 0 else 0


def made_of(bounds: Bounds, *, cut_off: bool = False) -> tuple[Piece, ...]:
    """What is decided, and what is open: three counts that never mix, with the signs that the bars have for them. `cut_off`:
    nothing is in flight any more, and what is not decided never will be."""
    return (
        Piece(f"{GOOD} good {count(bounds.good)}", "holds"),
        Piece(f"{MISSED} missed {count(bounds.bad)}", "breaks" if bounds.bad else "muted"),
        Piece(f"{OPEN} {'cut off' if cut_off else 'open'} {count(bounds.open)}", "plain"),
    )
