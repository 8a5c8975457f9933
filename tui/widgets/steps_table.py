"""Every rate tried so far, highest first: what held, what failed, and why."""

import math
import textwrap
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from textual.content import Content

from core import prose
from core.results import MOST_STEADY, RepeatResult, RepeatVerdict, StepResult
from core.units import DASH, beside, between, change, number, percent
from core.view import RampSegment, RunView, StepView
from tui.draw.style import VERDICTS, Mark, Role, clean, shorten
from tui.widgets import client_panel, deciding
from tui.widgets.pieces import Part, Piece, fit, join, styled
from tui.widgets.plot_view import Titled

_LEAST_REASON = 14
_REASON_BESIDE = 24
"""What the client says of itself has room only where so much is left for the reasons."""
_ALARMS: dict[Role, str] = {"strong": "▲ ", "breaks": "✘ "}
_TABLE_FROM = 5
"""Rows from which on a table that cannot hold all rates says more than a line that can."""
_FEW_GLYPHS, _MOST_GLYPHS = 4, 12
"""As many repeats as the longest mode has; only a held rate gathers more."""


class StepRow(NamedTuple):
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
    client: tuple[str, ...] = ()
    """What the client said of itself, under `client.HEADS`: the worst of the repeats."""
    client_role: Role = "plain"
    """How near that came to its limits."""


class StepsTable(Titled):
    """Panel 8: a table where there is room, with the reasons of what failed in full below it; else rates and glyphs."""

    ALLOW_MAXIMIZE = True
    HELP = "rates tried: a glyph per repeat, lowest attainment, verdict; why a step failed"

    _rows: tuple[StepRow, ...] = ()
    _hints: tuple[StepRow, ...] = ()
    _now: StepRow | None = None

    def show(self, view: RunView) -> None:
        """Take a new view."""
        now = running(view.current, view) if view.current and view.answer is None else None
        ttft_s = view.config.limits.shortest_ttft_s if view.config else None
        shared = view.config is not None and not view.config.workload.prefix.cold
        rows = tuple(
            judged(step, _target(view), shared=shared)._replace(
                client_role=client_panel.role_of(client_panel.finished(step.repeats, ttft_s))
            )
            for step in view.steps
        )
        if now is not None and view.current is not None and view.current.live is not None:
            now = now._replace(client_role=client_panel.role_of(client_panel.live(view.current.live, ttft_s)))
        known = {row.rate_rps for row in (*rows, *([now] if now else []))}
        hints = tuple(hint(segment, _target(view)) for segment in view.ramp if segment.rate_rps not in known)
        if (rows, hints, now) != (self._rows, self._hints, self._now):
            self._rows, self._hints, self._now = rows, hints, now
            self.refresh()
        self.set_title(self._facts())

    def on_resize(self) -> None:
        """A border has room only beside a line."""
        super().on_resize()
        self.set_class(self.outer_size.height < 3, "-bare")

    def render(self) -> Content:
        """The table or the line."""
        rows = _highest_first([*self._rows, *([self._now] if self._now else [])])
        width, height = self.size
        if not rows:
            return Content.assemble(styled("no rate tried yet", "muted"))
        if height < 2:
            return _line(rows, self._now or self._rows[-1], width)
        if height < 3 or (height < _TABLE_FROM and len(rows) > height - 1):  # no rate is left out
            return _two_lines(rows, _highest_first(self._hints), width)
        spare = max(0, height - 1 - len(rows))  # the ramp only says where to look: it pushes nothing out that was judged
        shown = _highest_first([*_nearest(rows, self._now, height - 1), *_highest_first(self._hints)[:spare]])
        told = table(shown, self._now, width)
        left = height - len(shown) - 1
        return Content("\n").join([told, *_reasons(self._rows, told.plain, width, left)])

    def _facts(self) -> tuple[Piece, ...]:
        latest = self._now or (self._rows[-1] if self._rows else None)
        pieces = [Piece("8 steps", "strong")]
        if latest is not None:
            pieces.append(Piece(f"{latest.rate} req/s", "plain", 1))
            pieces.append(Piece(str(latest.mark), latest.mark.role, 0))
        return tuple(pieces)


def _target(view: RunView) -> float | None:
    return view.config.slo.target if view.config else None


def judged(step: StepResult, target: float | None, *, shared: bool = False) -> StepRow:
    """A finished step. A segment of the ramp that passed is evidence of nothing, so it takes no colour. `shared`: its prompts share
    prefixes."""
    ramp = step.phase == "ramp"
    states = [repeat.verdict for repeat in step.repeats]
    glyphs, counted = ("ramp", "ramp") if ramp else (_glyphs(states), _counted(states))
    mark = VERDICTS[step.verdict]
    if ramp and step.verdict == "pass":
        mark = mark._replace(role="plain")
    floor, told = floor_text(step, target), client_panel.cells(step.repeats)
    reason = clean(prose.text(step.reason))
    if shared and (hits := [percent(frac, 2) for repeat in step.repeats if (frac := repeat.prefix_hit_frac) is not None]):
        reason = f"hits {' '.join(dict.fromkeys(hits))}; {reason}"
    if drifts := [change(repeat.step_model.drift_frac or 0.0) for repeat in step.repeats if repeat.step_model and drifted(repeat)]:
        reason = f"step time {' '.join(dict.fromkeys(drifts))}; {reason}"
    return StepRow(step.rate_rps, number(step.rate_rps), glyphs, floor, mark, reason, counted, ramp, told)


def drifted(repeat: RepeatResult) -> bool:
    """Whether its server was faster or slower than in the run's first repeat, at the same batch, by more than any steady one."""
    drift = None if repeat.step_model is None else repeat.step_model.drift_frac
    return drift is not None and not 1 / MOST_STEADY <= 1 + drift <= MOST_STEADY


def hint(segment: RampSegment, target: float | None) -> StepRow:
    """A rate of the ramp beside the one that ended it; whatever it says, it is evidence of nothing, so it takes no colour."""
    mark, reason = (VERDICTS["pass"], "held in the ramp") if segment.held else (VERDICTS["unjudged"], "begun in the ramp")
    so_far = segment.bounds.so_far
    text = between(*so_far, target, DASH) if so_far else DASH
    role: Role = "plain" if segment.held else "muted"
    return StepRow(segment.rate_rps, number(segment.rate_rps), "ramp", text, mark._replace(role=role), reason, "ramp", True)


def floor_text(step: StepResult, target: float | None) -> str:
    """The floor of a finished step; decided early, it is known as a bound only."""
    if step.floor is None:
        return DASH
    low, high = step.floor
    if (low, high) == (0.0, 1.0):  # ended before anything was decided that counts
        return DASH
    if low < high and step.verdict == "fail":
        return f"≤ {beside(high, target, rounded=math.ceil)}"
    if low < high and step.verdict == "pass":
        return f"≥ {beside(low, target, rounded=math.floor)}"
    return between(low, high, target, DASH)


def verdicts(step: StepView, target: float | None) -> list[RepeatVerdict]:
    """Of the repeats that ended in the step that runs; where they are not told, as the attainment says."""
    told: list[RepeatVerdict] = ["pass" if target is None or lo >= target else "fail" for lo, _ in step.finished]
    return list(step.verdicts) or told


def running(step: StepView, view: RunView) -> StepRow:
    """The step that runs now; its floor is what it can still reach, as in the panel that decides."""
    target = _target(view)
    states: list[str] = [*verdicts(step, target)]
    if step.live and step.live.index >= len(states):
        states.append("running")
    states += ["unjudged"] * (step.repeats_planned - len(states))
    floor = deciding.floor(view, step)
    reason = clean(prose.text(step.live.decided)) if step.live and step.live.decided else ""
    text = between(*floor, target, DASH) if floor else DASH
    told = client_panel.cells_now(step.live) if step.live else ()
    glyphs, counted, ramp = _glyphs(states), _counted(states), step.phase == "ramp"
    return StepRow(step.rate_rps, number(step.rate_rps), glyphs, text, VERDICTS["running"], reason, counted, ramp, told)


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


def _highest_first(rows: Iterable[StepRow]) -> list[StepRow]:
    return sorted(rows, key=lambda row: row.rate_rps, reverse=True)


def _nearest(rows: Sequence[StepRow], now: StepRow | None, room: int) -> Sequence[StepRow]:
    """The rows that fit so many lines, around the running one, else around the border between holding and failing."""
    if len(rows) <= room:
        return rows
    centre = rows.index(now) if now else sum(row.mark is not VERDICTS["pass"] for row in rows)
    start = min(max(0, centre - room // 2), len(rows) - room)
    return rows[start : start + room]


def table(rows: Sequence[StepRow], now: StepRow | None, width: int) -> Content:
    """A line for each rate, with as many columns as have room."""
    heads = ("req/s", "repeats", "floor", "verdict")
    cells = [(row.rate, row.repeats, row.floor, str(row.mark)) for row in rows]
    widths = _widths(heads, cells)
    if sum(widths) + 3 > width:
        cells = [(row.rate, row.counted, row.floor, str(row.mark)) for row in rows]
        widths = _widths(heads, cells)
    gap = "  " if sum(widths) + 6 <= width else " "
    shown = [0, 1, 2, 3] if sum(widths) + 3 * len(gap) <= width else [0, 2, 3]
    room = width - sum(widths[at] for at in shown) - len(gap) * (len(shown) - 1) - 2
    clients = _clients(rows, room - _REASON_BESIDE - 2)
    room -= len(clients[0])
    reasons = room >= _LEAST_REASON
    head = gap.join(_aligned(heads[at], at, widths[at]) for at in shown)
    lines = [Content.assemble(styled(f"{head}{clients[0]}{'  reason' if reasons else ''}", "muted"))]
    for row, texts_of_row, own in zip(rows, cells, clients[1:], strict=True):
        *texts, verdict = (_aligned(texts_of_row[at], at, widths[at]) for at in shown)
        role: Role = "strong" if row is now else "plain"
        reason = f"  {shorten(row.reason, room)}" if reasons and row.reason else ""
        told = [styled(gap.join(texts), role), styled(gap), styled(verdict, row.mark.role)]
        told += [styled(own, row.client_role), styled(reason, "muted")]
        lines.append(Content.assemble(*told).rstrip())
    return Content("\n").join(lines)


def _clients(rows: Sequence[StepRow], room: int) -> list[str]:
    """For the head and each row what the client said of itself, or nothing where that has no room."""
    cells: list[Sequence[str]] = [client_panel.HEADS]
    for row in rows:
        first, *rest = row.client or [""] * len(client_panel.HEADS)
        cells.append([f"{_ALARMS.get(row.client_role, '')}{first}", *rest])
    widths = [max(len(texts[at]) for texts in cells) for at in range(len(client_panel.HEADS))]
    if sum(widths) + len(widths) > room or not any(row.client for row in rows):
        return [""] * len(cells)
    return ["".join(f" {text:>{width}}" for text, width in zip(texts, widths, strict=True)) for texts in cells]


def _reasons(steps: Sequence[StepRow], told: str, width: int, room: int) -> list[Content]:
    """Why steps failed, in full, the newest first: those whose reason the table had to cut, as far as there is room."""
    lines: list[Content] = []
    for row in reversed(steps):
        if row.mark.role != "breaks" or not row.reason or row.reason in told:
            continue
        head = f"{row.mark.glyph} {'ramp ' if row.ramp else ''}{row.rate} req/s: "
        wrapped = textwrap.wrap(f"{head}{row.reason}", max(width, 20), subsequent_indent="  ")
        if len(lines) + len(wrapped) + (not lines) > room:
            break
        lines += [] if lines else [Content()]
        lines += [Content.assemble(styled(line, "plain")) for line in wrapped]
    return lines


def _widths(heads: Sequence[str], cells: Sequence[Sequence[str]]) -> list[int]:
    return [max(len(heads[at]), *(len(row[at]) for row in cells)) for at in range(len(heads))]


def _aligned(text: str, column: int, width: int) -> str:
    return f"{text:>{width}}" if column in (0, 2) else f"{text:<{width}}"


def _line(rows: Sequence[StepRow], latest: StepRow, width: int) -> Content:
    """Rates in rising order with their glyphs, and the state of the latest one in words."""
    verdict = f"{latest.rate} req/s {latest.mark}"
    pieces = [
        Piece(f"{'ramp ' if row.ramp else ''}{row.mark.glyph}{row.rate}", row.mark.role, 0 if row is latest else _rank(row))
        for row in reversed(rows)
    ]
    label: Part = styled("steps ", "muted")
    fits = fit(pieces, width - len(verdict) - 9)
    if len(fits) < len(pieces) and len(more := fit(pieces, width - 6)) > len(fits):  # its glyph says the verdict, too
        return Content.assemble(label, join(more))
    return Content.assemble(label, join(fits), "   ", styled(verdict, latest.mark.role))


def _rank(row: StepRow) -> int:
    """What was judged stays longest, then the rate that ended the ramp."""
    return 1 if not row.ramp else 2 if row.mark.role == "breaks" else 3


def _two_lines(rows: Sequence[StepRow], hints: Sequence[StepRow], width: int) -> Content:
    """Rates in rising order with their glyphs: those that were judged, and below them those of the ramp."""
    groups = (
        ("steps ", [row for row in rows if not row.ramp]),
        ("ramp  ", _highest_first([*(row for row in rows if row.ramp), *hints])),
    )
    lines = [
        Content.assemble(styled(name, "muted"), join(_newest(group, width - len(name)), " ")) for name, group in groups if group
    ]
    return Content("\n").join(lines)


def _newest(rows: Sequence[StepRow], width: int) -> tuple[Piece, ...]:
    """Of rows from the highest down as many as fit, in rising order."""
    running = VERDICTS["running"]
    return fit([Piece(f"{row.mark.glyph}{row.rate}", row.mark.role, row.mark != running) for row in reversed(rows)], width, 1)
