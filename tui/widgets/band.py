"""What a repeat can still reach, over time: good rises from below, missed comes down from above, and what lies between is open."""

import math
from collections.abc import Sequence
from typing import NamedTuple

from textual.content import Content

from core.results import Bounds
from core.units import plain
from core.view import Outcomes
from tui.widgets.pieces import styled
from tui.widgets.repeat_bars import GOOD, MISSED, OPEN, UNSENT, parts

_RULE = "╌"
_LABELS = 6
_HIGH = 12
"""Lower, and what must be good has more of the rows than what may be missed."""
_EIGHTHS = "▁▂▃▄▅▆▇"
LEAST_ROWS = 4


class Moment(NamedTuple):
    """Of a plan the shares that were due until `t_s` and are good, open, missed by now."""

    t_s: float
    good: float
    open: float
    missed: float


def moments(outcomes: Sequence[Outcomes], bounds: Bounds) -> tuple[Moment, ...]:
    """One for each bin of the window, the newest as the account has it: a bin at the edge of the window is counted as a whole,
    and nothing is shown that the account does not have."""
    told, good, open_, missed, plan = [], 0, 0, 0, max(bounds.planned, 1)
    for one in outcomes:
        good, open_, missed = good + one.good, open_ + one.open, missed + one.missed
        known = min(good, bounds.good), min(open_, bounds.open), min(missed, bounds.bad)
        told.append(Moment(one.t_s, *(n / plan for n in known)))
    if told:
        told[-1] = Moment(told[-1].t_s, bounds.good / plan, bounds.open / plan, bounds.bad / plan)
    return tuple(told)


def content(told: Sequence[Moment], span: tuple[float, float], target: float | None, width: int, height: int) -> Content:
    """The area, with the target as a rule between two scales: above it what may be missed, below it what must be good."""
    columns = width - _LABELS
    above, below = _halves(target, height)
    drawn = [_column(_at(told, span, column, columns), target, above, below) for column in range(columns)]
    labels = {0: "100 %", height - 1: "0 %"} | ({} if target is None else {above: plain(target)})
    lines = [
        Content.assemble(styled(f"{labels.get(y, ''):>{_LABELS - 1}} ", "muted"), *parts("".join(column[y] for column in drawn)))
        for y in range(height)
    ]
    return Content("\n").join(lines)


def _halves(target: float | None, height: int) -> tuple[int, int]:
    """Rows above and below the rule; a target of all leaves nothing to miss."""
    if target is None:
        return 0, height
    above = 0 if target >= 1 else (height - 1) // 3 if height < _HIGH else (height - 1) // 2
    return above, height - above - 1


def _at(told: Sequence[Moment], span: tuple[float, float], column: int, columns: int) -> Moment | None:
    """The newest moment that a column covers; None before the first and after the last."""
    start, end = span
    at_s = start + (column + 1) / columns * (end - start)
    if not told or at_s - (end - start) / columns > told[-1].t_s:
        return None
    return next((one for one in reversed(told) if one.t_s < at_s), None)


def _column(at: Moment | None, target: float | None, above: int, below: int) -> str:
    """The cells of one column from the top. Good is rounded down and missed up, and neither reaches the rule before its time."""
    height = above + below + (target is not None)
    if at is None:
        rule = "" if target is None else _RULE
        return " " * above + rule + " " * below
    high = _from_top(at.missed, target, above, below)
    low = _from_bottom(at.good, target, above, below)
    good = GOOD * math.floor(low) + (_EIGHTHS[math.floor(low % 1 * 8) - 1] if low % 1 >= 1 / 8 and low < below else "")
    open_ = max(math.floor(_from_bottom(at.good + at.open, target, above, below)) - len(good), int(at.open > 0))
    line = (good + OPEN * open_)[: height - high].ljust(height - high, UNSENT)[::-1]
    line = MISSED * high + line
    if target is not None and line[above] in (UNSENT, OPEN):
        line = line[:above] + _RULE + line[above + 1 :]
    return line


def _from_bottom(share: float, target: float | None, above: int, below: int) -> float:
    """Rows that a share fills, in parts of one below the rule."""
    if target is None:
        return share * below
    if share < target - 1e-9:
        return share / target * below
    rest = (share - target) / (1 - target) if target < 1 else 1.0
    return below + 1 + math.floor(rest * above + 1e-9)


def _from_top(share: float, target: float | None, above: int, below: int) -> int:
    if share <= 0:
        return 0
    if target is None:
        return math.ceil(share * below)
    if share <= 1 - target + 1e-9:
        return min(math.ceil(share / (1 - target) * above), above) if above else 0
    return above + 1 + math.ceil((share - 1 + target) / target * below - 1e-9)
