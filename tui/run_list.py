"""The list of recorded runs as rows of text, for the table that is printed and for the screen to choose from."""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

from core.columns import cells, cut, padded
from core.history import Limits, Problem, Run, age_s
from core.units import DASH, age, count, limit, number, plain

HEAD = ("run", "label", "model", "limits", "bracket, req/s", "age")
_GAP = 2
_LEAST_LABEL, _USUAL_LABEL = 16, 36
"""Of a label that much is always shown; that much before another column gives way: the default label of most models."""
_GIVE_WAY = (2, 3)
"""Where a line has no room for all: first the model, which is mostly part of the label, then the limits."""
_PROBLEMS: dict[Problem, str] = {"foreign": "not a run file", "damaged": "damaged file", "newer": "newer version"}
_WORDS = {"infeasible": "infeasible", "held": "held", "void": "void", "refused": "refused", "interrupted": "interrupted"}


class Row(NamedTuple):
    """The cells of one run, as `HEAD` names them."""

    number: str
    label: str
    model: str
    limits: str
    bracket: str
    age: str


def row(run: Run, now_s: float) -> Row:
    """A run as the list shows it; `now_s` is seconds since 1970."""
    limits = DASH if run.slo is None else _limits(run.slo)
    return Row(str(run.number), run.label, run.model or DASH, limits, bracket(run), age(age_s(run, now_s)))


def bracket(run: Run) -> str:
    """What is known of the knee, or why nothing is; of a fleet that was checked, with its size before it."""
    if run.problem is not None:
        return _PROBLEMS[run.problem]
    fleet = "" if run.replicas is None else f"fleet of {count(run.replicas)}"
    if run.outcome is None:
        return ", ".join(part for part in (fleet, "still going" if run.is_going else "unfinished") if part)
    low, high = run.pass_rps, run.fail_rps
    ends = f"{number(low)} to {number(high)}" if low is not None and high is not None else ""
    ends = ends or (f"at least {number(low)}" if low is not None else f"below {number(high)}" if high is not None else "")
    return ", ".join(part for part in (fleet, _WORDS.get(run.outcome, ""), ends) if part) or DASH


def table(rows: Sequence[Row], width: int | None = None, *, head: bool = True) -> list[str]:
    """The rows under their head, in columns. `width`: cells of a line, in which columns give way (None: as long as they are)."""
    lines = [HEAD, *rows]
    wide = [max(cells(each[at]) for each in lines) for at in range(len(HEAD))]
    shown = list(range(len(HEAD)))
    if width is not None:
        whole, wide[1] = wide[1], min(wide[1], _USUAL_LABEL)
        for at in _GIVE_WAY:
            if _width(wide, shown) > width:
                shown.remove(at)
        wide[1] = max(_LEAST_LABEL, min(whole, wide[1] + width - _width(wide, shown)))
    return [_line([cut(each[at], wide[at]) for at in shown], [wide[at] for at in shown]) for each in (lines if head else rows)]


def matches(line: Row, words: str) -> bool:
    """Whether each of the words stands somewhere in the row."""
    text = " ".join(line).lower()
    return all(word in text for word in words.lower().split())


def _width(wide: Sequence[int], shown: Sequence[int]) -> int:
    return sum(wide[at] for at in shown) + _GAP * (len(shown) - 1)


def _line(texts: Iterable[str], widths: Iterable[int]) -> str:
    first, *rest = (padded(text, width) for text, width in zip(texts, widths, strict=True))
    return (" " * _GAP).join((f"{first.strip():>{len(first)}}", *rest)).rstrip()


@lru_cache  # most runs of a user have the same
def _limits(slo: Limits) -> str:
    named = (("TTFT", slo.ttft_s), ("TPOT", slo.tpot_s), ("E2E", slo.e2e_s))
    return ", ".join([*(f"{name} {limit(value)}" for name, value in named if value is not None), plain(slo.target)])
