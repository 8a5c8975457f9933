"""Every rate tried so far, highest first: what held, what failed, and why."""

from collections.abc import Sequence
from typing import NamedTuple

from textual.content import Content

from core.results import RepeatVerdict, StepResult
from core.run.view import RunView, StepView
from tui.style import DASH, VERDICTS, Mark, Role, attained, clean, number, shorten, span
from tui.widgets.pieces import Part, Piece, fit, join, styled
from tui.widgets.plot_view import Titled

_LEAST_REASON = 14
_FEW_GLYPHS, _MOST_GLYPHS = 4, 12
"""As many repeats as the longest mode has; only a held rate gathers more."""


class Rung(NamedTuple):
    """One rate as text."""

    rate_rps: float
    rate: str
    repeats: str
    floor: str
    mark: Mark
    reason: str
    counted: str = ""
    """The repeats by number, where a glyph for each has no room."""
    ramp: bool = False
    """Judged by a short segment of the ramp, which only says where to look."""


class Ladder(Titled):
    """Panel 2: a table where there is room, one line of rates and glyphs where there is not."""

    ALLOW_MAXIMIZE = True
    HELP = "rates tried: a glyph per repeat, lowest attainment, verdict"

    _rungs: tuple[Rung, ...] = ()
    _now: Rung | None = None

    def show(self, view: RunView) -> None:
        """Take a new view."""
        now = running(view.current, view) if view.current and view.answer is None else None
        rungs = tuple(judged(step, _target(view)) for step in view.steps)
        if (rungs, now) != (self._rungs, self._now):
            self._rungs, self._now = rungs, now
            self.refresh()
        self.set_title(self._facts())

    def render(self) -> Content:
        """The table or the line."""
        rungs = sorted([*self._rungs, *([self._now] if self._now else [])], key=lambda rung: rung.rate_rps, reverse=True)
        width, height = self.size
        if not rungs:
            return Content.assemble(styled("no rate tried yet", "muted"))
        if height < 3:
            return _line(rungs, self._now or self._rungs[-1], width)
        return _table(_nearest(rungs, self._now, height - 1), self._now, width)

    def _facts(self) -> tuple[Piece, ...]:
        latest = self._now or (self._rungs[-1] if self._rungs else None)
        pieces = [Piece("2 steps", "strong")]
        if latest is not None:
            pieces.append(Piece(f"{latest.rate} rps", "plain", 1))
            pieces.append(Piece(str(latest.mark), latest.mark.role, 0))
        return tuple(pieces)


def _target(view: RunView) -> float | None:
    return view.config.slo.target if view.config else None


def judged(step: StepResult, target: float | None) -> Rung:
    """A finished step. A segment of the ramp that passed is evidence of nothing, so it takes no colour."""
    ramp = step.phase == "ramp"
    states = [repeat.verdict for repeat in step.repeats]
    glyphs, counted = ("ramp", "ramp") if ramp else (_glyphs(states), _counted(states))
    mark = VERDICTS[step.verdict]
    if ramp and step.verdict == "pass":
        mark = mark._replace(role="plain")
    return Rung(step.rate_rps, number(step.rate_rps), glyphs, floor_text(step, target), mark, clean(step.reason), counted, ramp)


def floor_text(step: StepResult, target: float | None) -> str:
    """The floor of a finished step; decided early, it is known as a bound only."""
    if step.floor is None:
        return DASH
    low, high = step.floor
    if low < high and step.verdict == "fail":
        return f"≤ {attained(high, target, 'most')}"
    if low < high and step.verdict == "pass":
        return f"≥ {attained(low, target, 'least')}"
    return span(low, high, target)


def verdicts(step: StepView, target: float | None) -> list[RepeatVerdict]:
    """Of the repeats that ended in the step that runs; where they are not told, as the attainment says."""
    told: list[RepeatVerdict] = ["pass" if target is None or lo >= target else "fail" for lo, _ in step.finished]
    return list(step.verdicts) or told


def running(step: StepView, view: RunView) -> Rung:
    """The step that runs now."""
    target = _target(view)
    states: list[str] = [*verdicts(step, target)]
    if step.live and step.live.index >= len(states):
        states.append("running")
    states += ["unjudged"] * (step.repeats_planned - len(states))
    floor = step.floor
    reason = clean(step.live.decided) if step.live and step.live.decided else ""
    text = span(*floor, target) if floor else DASH
    ramp = step.phase == "ramp"
    return Rung(step.rate_rps, number(step.rate_rps), _glyphs(states), text, VERDICTS["running"], reason, _counted(states), ramp)


def _glyphs(states: Sequence[str]) -> str:
    """A glyph for each repeat in its order; of many only how often each occurs."""
    return "".join(VERDICTS[state].glyph for state in states) if len(states) <= _MOST_GLYPHS else _counted(states)


def _counted(states: Sequence[str]) -> str:
    """9✔1✘: how often each verdict occurs; what runs or is still to come is left out. Few repeats keep their glyphs."""
    if len(states) <= _FEW_GLYPHS:
        return "".join(VERDICTS[state].glyph for state in states)
    judged = [state for state in states if state != "running"]
    counts = [f"{n}{mark.glyph}" for state, mark in VERDICTS.items() if state != "unjudged" and (n := judged.count(state))]
    return "".join(counts) or VERDICTS["running"].glyph


def _nearest(rungs: Sequence[Rung], now: Rung | None, rows: int) -> Sequence[Rung]:
    """As many rungs as there are rows, around the running one, else around the border between holding and failing."""
    if len(rungs) <= rows:
        return rungs
    centre = rungs.index(now) if now else sum(rung.mark is not VERDICTS["pass"] for rung in rungs)
    start = min(max(0, centre - rows // 2), len(rungs) - rows)
    return rungs[start : start + rows]


def _table(rungs: Sequence[Rung], now: Rung | None, width: int) -> Content:
    heads = ("rps", "repeats", "floor", "verdict")
    cells = [(rung.rate, rung.repeats, rung.floor, str(rung.mark)) for rung in rungs]
    widths = _widths(heads, cells)
    if sum(widths) + 3 > width:
        cells = [(rung.rate, rung.counted, rung.floor, str(rung.mark)) for rung in rungs]
        widths = _widths(heads, cells)
    gap = "  " if sum(widths) + 6 <= width else " "
    shown = [0, 1, 2, 3] if sum(widths) + 3 * len(gap) <= width else [0, 2, 3]
    used = sum(widths[at] for at in shown) + len(gap) * (len(shown) - 1)
    room = width - used - 2
    lines = [_row([_aligned(heads[at], at, widths[at]) for at in shown], gap, "muted", "reason" if room >= _LEAST_REASON else "")]
    for rung, row in zip(rungs, cells, strict=True):
        role: Role = "strong" if rung is now else "plain"
        texts = [_aligned(row[at], at, widths[at]) for at in shown]
        line = _row(texts[:-1], gap, role, "")
        reason = f"  {shorten(rung.reason, room)}" if room >= _LEAST_REASON and rung.reason else ""
        lines.append(Content.assemble(line, gap, styled(texts[-1], rung.mark.role), styled(reason, "muted")))
    return Content("\n").join(lines)


def _widths(heads: Sequence[str], cells: Sequence[Sequence[str]]) -> list[int]:
    return [max(len(heads[at]), *(len(row[at]) for row in cells)) for at in range(len(heads))]


def _aligned(text: str, column: int, width: int) -> str:
    return f"{text:>{width}}" if column in (0, 2) else f"{text:<{width}}"


def _row(texts: Sequence[str], gap: str, role: Role, reason: str) -> Content:
    return Content.assemble(styled(gap.join(texts), role), styled(f"  {reason}" if reason else "", role))


def _line(rungs: Sequence[Rung], latest: Rung, width: int) -> Content:
    """Rates in rising order with their glyphs, and the state of the latest one in words."""
    verdict = f"{latest.rate} rps {latest.mark}"
    pieces = [
        Piece(f"{'ramp ' if rung.ramp else ''}{rung.mark.glyph}{rung.rate}", rung.mark.role, 1 if rung is not latest else 0)
        for rung in reversed(rungs)
    ]
    label: Part = styled("steps ", "muted")
    line = join(fit(pieces, width - len(verdict) - 9))
    return Content.assemble(label, line, "   ", styled(verdict, latest.mark.role))
