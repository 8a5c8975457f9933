"""The chosen step in numbers: its percentiles beside their limits, its repeats, its worst stretch."""

import math
import textwrap
from collections.abc import Callable, Iterable, Sequence

from rich.cells import cell_len
from textual.content import Content

from core import prose
from core.config import Slo
from core.percentiles import rank
from core.report import FEW, largest
from core.results import Percentiles, RepeatResult, StepResult, TwinReading
from core.slo import tells_nothing
from core.units import DASH, as_set, beside, between, change, count, duration, latency, limit, number, rate_brief
from core.view import RunView
from tui.draw.style import VERDICTS, Role, clean, shorten
from tui.phrases import hits_text
from tui.widgets import client_panel, curve, step_time
from tui.widgets.pieces import Part, Piece, fit, join, styled
from tui.widgets.plot_view import Titled
from tui.widgets.rate_known import (
    account,
    is_over,
    margins_at,
    planned_rps,
    quantile,
    share_text,
    window_over,
)
from tui.widgets.standing import of_whom
from tui.widgets.steps_table import drifted, floor_text

_SHARES = {"p50": 0.50, "p95": 0.95, "p99": 0.99}
_NAMES = tuple(_SHARES)
_COLUMN, _LEAST_COLUMN = 11, 9
_REPEAT_HEADS = ("repeat", "verdict", "inside", "of", "offered", "served", "good", "queue", *client_panel.HEADS)
_SEGMENT_HEADS = ("verdict", "sent", "good", "missed", "open", "planned")
_WORDS = ("tokens in", "out", "repeat", "verdict", "queue")
"""The columns of these tables that begin on the left; numbers end on the right."""
_REPEATS_GIVE_WAY = (8, 9, 10, 3, 5, 7, 6, 4)
"""Those that are left out first."""

Read = Callable[[RepeatResult], Percentiles]
_LATENCIES: tuple[tuple[str, Read], ...] = (
    ("TTFT", lambda repeat: repeat.ttft_s),
    ("TPOT", lambda repeat: repeat.tpot_s),
    ("E2E", lambda repeat: repeat.e2e_s),
    ("ITL", lambda repeat: repeat.itl_s),
)


class StepPanel(Titled):
    """Panel 3 of the knee: one step, chosen by the screen around it."""

    ALLOW_MAXIMIZE = True

    _step: StepResult | None = None
    _of: tuple[object, ...] = ()
    _view: RunView | None = None

    def show(self, view: RunView, step: StepResult | None) -> None:
        """Take the step that is chosen, or None while there is none."""
        slo = view.config.limits if view.config else None
        of = (step, slo, margins_at(view, step.rate_rps), view.ramp if step.phase == "ramp" else (), view.steps) if step else ()
        if of != self._of or not self._title:
            self._step, self._of, self._view = step, of, view
            self.set_title(title(step, slo))
            self.set_subtitle("↑ ↓ another step" if len(view.steps) > 1 else "")
            self.refresh()

    def render(self) -> Content:
        """What the step is judged by, then what else fits whole."""
        if self._step is None or self._view is None:
            return Content.assemble(styled("no step is judged yet", "muted"))
        shown: list[Content] = []
        for block in blocks(self._view, self._step, self.size.width):
            if not shown or len(shown) + len(block) <= self.size.height:
                shown += block
        return Content("\n").join(shown)


def title(step: StepResult | None, slo: Slo | None) -> tuple[Piece, ...]:
    """What the panel says when it is collapsed to its border."""
    if step is None:
        return (Piece("3 chosen step", "strong"),)
    mark = VERDICTS[step.verdict]
    where = "ramp" if step.phase == "ramp" else f"step {step.step}"
    target = slo.target if slo else None
    known = step.floor is not None and not (step.verdict == "fail" and tells_nothing(step.floor, target))
    return (
        Piece(f"3 {where}", "strong"),
        Piece(rate_brief(step.rate_rps), "strong", 0),
        Piece(str(mark), mark.role, 0),
        Piece(f"floor {floor_text(step, target)}" if known else "floor not known", "plain", 2),
    )


def blocks(view: RunView, step: StepResult, width: int) -> list[list[Content]]:
    """What its requests say, as far as they had ended, then the client, the reason, each repeat, the worst stretch. Of
    a step of the ramp: what those of its rate say, and the segments."""
    slo = view.config.limits if view.config else None
    repeats = counted(step)
    if not repeats:
        return [[Content.assemble(styled("no repeat of this step counts", "muted"))]]
    sent, reason = _sent(view, step, width), _wrapped(clean(prose.text(step.reason)), width)
    if step.phase == "ramp":
        return [
            sent or reason,
            *([reason] if sent else []),
            _segments(view, step, width),
            _client(repeats, slo, width, "whole ramp"),
        ]
    table = _latencies(repeats, slo, width)
    own = [
        *_gateway(repeats, width),
        *_client(repeats, slo, width),
        *_hits(view, repeats, width),
        *_step_time(repeats, width),
        *_model(view.twin, step, width),
    ]
    first = [*table, *sent] if len(table) == 1 else table
    more = [] if len(table) == 1 else [sent]
    each, worst = _each(step, slo, width), _worst(step, repeats, slo)
    shown, line = [first, own, *more, reason, each, worst], step_time.line(view, step.step, width)
    shown.insert(2 if any(drifted(repeat) for each in view.steps for repeat in each.repeats) else len(shown), line)
    return shown


def _sent(view: RunView, step: StepResult, width: int) -> list[Content]:
    """All the requests that were sent at its rate, those that no window counts too, and how far they were from their limits."""
    margins, slo = margins_at(view, step.rate_rps), view.config.limits if view.config else None
    if margins is None or slo is None:
        return []
    low, high = margins.attained or (0.0, 1.0)
    uncounted = margins.sent - margins.judged
    pieces = [
        Piece(f"at {rate_brief(step.rate_rps)}: {account(margins)}", "strong", 0),
        Piece(f"{between(low, high, slo.target, DASH)} good", "plain", 1),
        Piece(f"{count(uncounted)} in ramp or warm-up" if uncounted else "", "muted", 2),
    ]
    shares = [("median", quantile(margins, 0.5)), (f"p{as_set(100 * slo.target, 6)}", quantile(margins, slo.target))]
    told = [Piece("share of the limit", "muted", 1)]
    told += [Piece(f"{name} {share_text(at)}", "breaks" if is_over(at) else "plain", 0) for name, at in shares]
    return [join(fit([piece for piece in pieces if piece.text], width)), join(fit(told, width))]


def _segments(view: RunView, step: StepResult, width: int) -> list[Content]:
    """The ramp that this step ended, rate by rate."""
    ramp = view.ramp
    if not any(segment.rate_rps == step.rate_rps for segment in ramp):
        return []
    head = f"ramp {number(ramp[0].rate_rps)} to {rate_brief(ramp[-1].rate_rps)}"
    rows, roles = [], []
    for segment in reversed(ramp):
        bounds = segment.bounds
        mark = VERDICTS["pass" if segment.held else step.verdict]
        word = f"{curve.HELD_GLYPH} held" if segment.held else str(mark)
        cells = (bounds.sent, bounds.good, bounds.bad, bounds.open, bounds.planned)
        rows.append((rate_brief(segment.rate_rps), word, *map(count, cells)))
        roles.append("plain" if segment.held else mark.role)
    return fitted_table((head, *_SEGMENT_HEADS), rows, (), width, (1, roles))


def _latencies(repeats: list[RepeatResult], slo: Slo | None, width: int) -> list[Content]:
    """Of whom they are, then a row for each latency; where none ended only the line that says so. What had not ended counts as
    later than all that had: where that moves a percentile, it is a lower bound."""
    had, sent = sum(repeat.ttft_s.n for repeat in repeats), sum(repeat.sent - repeat.errors for repeat in repeats)
    ended = sum(repeat.succeeded for repeat in repeats)
    if not ended:
        return [_line(f"none of the {count(sent, 'request')} of its window ended", width, "strong")]
    rows = [_row(name, repeats, read, _limit(name, slo)) for name, read in _LATENCIES]
    column = min(_COLUMN, max(_LEAST_COLUMN, (width - 4) // 4))
    column = max(column, *(cell_len(text) + 1 for _, row, _ in rows for text, _ in row))
    names = (*_NAMES, "limit")
    shown = len(names) if 4 + column * len(names) <= width else len(_NAMES)
    table = [Content.assemble(styled(f"{'':<4}" + "".join(f"{name:>{column}}" for name in names[:shown]), "muted"))]
    for name, row, _ in rows:
        parts: list[Part] = [styled(f"{name:<4}", "strong")]
        parts += [styled(text.rjust(column), role) for text, role in row[:shown]]
        table.append(Content.assemble(*parts))
    few = any(marked for _, _, marked in rows)
    return [_of_whom(max(ended, had), sent - ended, len(repeats), few, width), *table]


def _row(name: str, repeats: Iterable[RepeatResult], read: Read, limit_s: float | None) -> tuple[str, list[tuple[str, Role]], bool]:
    """The cells of a latency, and whether any of them is of too few values."""
    cells: list[tuple[str, Role]] = []
    marked = False
    for which in _NAMES:
        value, bound, few = _highest(repeats, read, which, counts=name != "ITL")
        over = value is not None and limit_s is not None and value > limit_s
        marked |= few
        text = f"{'≥ ' if bound else ''}{latency(value)}{'*' if few else ''}{' ✘' if over else ''}"
        cells.append((text, "breaks" if over else "plain"))
    return name, [*cells, (limit(limit_s) if limit_s else DASH, "muted")], marked


def _of_whom(ended: int, open_: int, repeats: int, few: bool, width: int) -> Content:
    """The population of the table, and how those count that are missing in it."""
    highest = Piece(f"each the highest of {repeats} repeats" if repeats > 1 else "", "muted", 1)
    notes = [highest, Piece("* too few values" if few else "", "strong", 1)]
    first = of_whom(ended, ended + max(open_, 0))
    if open_ > 0:
        first = first._replace(role="strong" if first.role == "muted" else first.role)
        notes.insert(0, Piece("the others count as later", "muted", 2))
    return join(fit([piece for piece in (first, *notes) if piece.text], width))


def counted(step: StepResult) -> list[RepeatResult]:
    """The repeats that are evidence; of a ramp its only one, which is the whole ramp."""
    return [repeat for repeat in step.repeats if step.phase == "ramp" or repeat.verdict in ("pass", "fail")]


def _limit(name: str, slo: Slo | None) -> float | None:
    return {"TTFT": slo.common("ttft_s"), "TPOT": slo.common("tpot_s"), "E2E": slo.common("e2e_s")}.get(name) if slo else None


def _highest(repeats: Iterable[RepeatResult], read: Read, which: str, *, counts: bool) -> tuple[float | None, bool, bool]:
    """The highest of this percentile over the repeats, whether it is a lower bound, and whether it is of too few values to be one.
    `counts`: there is a value for each request."""
    found = [each for repeat in repeats if (each := _percentile(repeat, read(repeat), which, counts)) is not None]
    if not found:
        return None, False, False
    value, n = max((value, n) for value, _, n in found)
    return value, any(bound for _, bound, _ in found), n < FEW.get(which, 0)


def _percentile(repeat: RepeatResult, of: Percentiles, which: str, counts: bool) -> tuple[float, bool, int] | None:
    """A percentile of all that were sent, what had not ended counted as beyond the rest; the highest that ended, where it is one
    of those. With it, whether it is a lower bound, and the number of values."""
    value: float | None = getattr(of, which)
    if value is None:
        return None
    missing = max(0, repeat.sent - repeat.succeeded - repeat.errors)
    if not missing or not counts:
        return value, missing > 0, of.n
    wanted = rank(_SHARES[which], of.n + missing)
    if wanted > of.n:
        return (value if of.max is None else max(value, of.max)), True, of.n
    return value, wanted != rank(_SHARES[which], of.n), of.n


def _wrapped(text: str, width: int) -> list[Content]:
    """Two lines of it at most."""
    return [_line(line, width) for line in textwrap.wrap(text, max(20, width), max_lines=2, placeholder=" …")]


def _line(text: str, width: int, role: Role = "plain") -> Content:
    return Content.assemble(styled(shorten(text, width), role))


def _client(repeats: list[RepeatResult], slo: Slo | None, width: int, of: str = "") -> list[Content]:
    """Whether it was the client that was slow: the worst of these repeats."""
    pieces = client_panel.finished(repeats, slo.shortest_ttft_s if slo else None)
    named = [Piece(of, "muted", 0), *pieces] if of else pieces
    return [join(fit(named, width))] if pieces else []


def _gateway(repeats: list[RepeatResult], width: int) -> list[Content]:
    """What a gateway's limit did, of each figure the highest of these repeats."""
    uses = [repeat.gateway for repeat in repeats if repeat.gateway is not None]
    if not uses:
        return []
    waits = " / ".join(latency(largest(getattr(use.wait_s, which) for use in uses)) for which in ("p50", "p95", "max"))
    pieces = [
        Piece(f"at the gateway p50 / p95 / max {waits}", "plain", 0),
        Piece(f"{max(use.held for use in uses)} waited", "plain", 1),
    ]
    for word, n in (("rejected", max(use.rejected for use in uses)), ("timed out", max(use.timed_out for use in uses))):
        if n:
            pieces.append(Piece(f"{count(n)} {word}", "breaks", 0))
    return [join(fit(pieces, width))]


def _hits(view: RunView, repeats: list[RepeatResult], width: int) -> list[Content]:
    """What of the prompts the prefix cache had, repeat by repeat."""
    each = (hits_text(view, repeat.prefix_hit_frac, repeat.planned_hit_frac) for repeat in repeats)
    told = list(dict.fromkeys(text for text in each if text))
    return [_line("; ".join(told), width)] if told else []


def _step_time(repeats: list[RepeatResult], width: int) -> list[Content]:
    """How much longer the server's steps took than in the run's first repeat, repeat by repeat."""
    drifts = [None if repeat.step_model is None else repeat.step_model.drift_frac for repeat in repeats]
    if all(drift is None for drift in drifts):
        return []
    role: Role = "strong" if any(map(drifted, repeats)) else "plain"
    told = ", ".join(DASH if drift is None else change(drift) for drift in drifts)
    return [_line(f"step time at equal batch {told}", width, role)]


def _model(twin: TwinReading | None, step: StepResult, width: int) -> list[Content]:
    """How far the model that helps to choose rates is from each window of the step: by so much faster its requests could come."""
    shifts = [] if twin is None else [each for each in twin.shifts if each.step == step.step]
    if not shifts:
        return []
    bounds = ["at least " if each.cut else "at most " if each.early else "" for each in shifts]
    told = ", ".join(f"{bound}{change(math.expm1(each.shift))}" for bound, each in zip(bounds, shifts, strict=True))
    return [_line(f"model of the server: {told} faster than measured; it helps to choose rates and never answers", width, "muted")]


def _worst(step: StepResult, repeats: list[RepeatResult], slo: Slo | None) -> list[Content]:
    """Bad moments that an attainment averages away."""
    blocks = [(repeat, repeat.worst_block) for repeat in repeats if repeat.worst_block is not None]
    if not blocks or step.phase == "ramp":
        return []
    repeat, block = min(blocks, key=lambda pair: pair[1].attainment)
    target = slo.target if slo else None
    where = f" of repeat {repeat.index + 1}" if len(step.repeats) > 1 else ""
    text = f"worst stretch {beside(block.attainment, target)}, {duration(block.from_s)} to {duration(block.to_s)}{where}"
    under = target is not None and block.attainment < target
    return [Content.assemble(styled(text, "breaks" if under else "plain"))]


def _each(step: StepResult, slo: Slo | None, width: int) -> list[Content]:
    """Every repeat, with those that do not count."""
    if step.phase == "ramp":
        return []
    rows = [_repeat(repeat, slo.target if slo else None) for repeat in step.repeats]
    roles: list[Role] = [VERDICTS[repeat.verdict].role for repeat in step.repeats]
    return fitted_table(_REPEAT_HEADS, rows, _REPEATS_GIVE_WAY, width, (_REPEAT_HEADS.index("verdict"), roles))


def _repeat(repeat: RepeatResult, target: float | None) -> tuple[str, ...]:
    """The cells of a row; rates are those of the whole window, so one that was given up before its end has none."""
    rates = [DASH, DASH]
    if window_over(repeat):
        low, high = (share * planned_rps(repeat) for share in repeat.attainment_interval)
        rates = [number(repeat.served_rps), f"{'≥ ' if low < high else ''}{number(low)}"]
    inside = between(*repeat.attainment_interval, target, DASH)
    told = (number(planned_rps(repeat)), *rates, repeat.queue or DASH, *client_panel.cells([repeat]))
    return (str(repeat.index + 1), str(VERDICTS[repeat.verdict]), inside, count(repeat.planned), *told)


def fitted_table(
    heads: Sequence[str], rows: Sequence[Sequence[str]], give_way: Sequence[int], width: int, told: tuple[int, Sequence[Role]]
) -> list[Content]:
    """As many columns as there is room for; `told`: the column that has a colour, and that of each row."""
    widths = [max(cell_len(row[at]) for row in (heads, *rows)) + 2 for at in range(len(heads))]
    kept = list(range(len(heads)))
    for at in give_way:
        if sum(widths[left] for left in kept) - 2 > width:
            kept.remove(at)
    lines = []
    for row, role in zip((heads, *rows), (None, *told[1]), strict=True):
        roles: list[Role] = ["muted" if role is None else role if at == told[0] else "plain" for at in kept]
        cells = [f"{row[at]:<{widths[at]}}" if heads[at] in _WORDS else f"{row[at]:>{widths[at] - 2}}  " for at in kept]
        lines.append(Content.assemble(*map(styled, cells, roles)).rstrip())
    return lines
