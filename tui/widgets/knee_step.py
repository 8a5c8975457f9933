"""The chosen step in numbers: its percentiles beside their limits, its worst stretch, its lengths."""

from collections.abc import Callable, Iterable, Sequence

from rich.cells import cell_len
from textual.content import Content

from core.config import Slo
from core.report import FEW
from core.results import Bucket, Percentiles, RepeatResult, StepResult
from core.units import DASH, beside, between, count, duration, latency, limit, number, rate_brief
from core.view import RunView
from tui.draw.style import VERDICTS, Role
from tui.widgets import client_panel
from tui.widgets.pieces import Part, Piece, fit, join, styled
from tui.widgets.plot_view import Titled
from tui.widgets.steps_table import floor_text

_NAMES = ("p50", "p95", "p99")
_COLUMN, _LEAST_COLUMN = 11, 9
_LENGTH_HEADS = ("tokens in", "out", "n", "inside", "TTFT p95", "TPOT p95")
_REPEAT_HEADS = ("repeat", "verdict", "inside", "of", "offered", "served", "good", "queue", *client_panel.HEADS)
_WORDS = ("tokens in", "out", "repeat", "verdict", "queue")
"""The columns of these tables that begin on the left; numbers end on the right."""
_LENGTHS_GIVE_WAY, _REPEATS_GIVE_WAY = (2, 5, 4), (8, 9, 10, 3, 5, 7, 6, 4)
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
    _slo: Slo | None = None

    def show(self, view: RunView, step: StepResult | None) -> None:
        """Take the step that is chosen, or None while there is none."""
        slo = view.config.slo if view.config else None
        if (step, slo) != (self._step, self._slo) or not self._title:
            self._step, self._slo = step, slo
            self.set_title(title(step, slo))
            self.set_subtitle("↑ ↓ another step" if len(view.steps) > 1 else "")
            self.refresh()

    def render(self) -> Content:
        """The percentiles, then what else fits whole."""
        if self._step is None:
            return Content.assemble(styled("no step is judged yet", "muted"))
        shown: list[Content] = []
        for block in blocks(self._step, self._slo, self.size.width):
            if not shown or len(shown) + len(block) <= self.size.height:
                shown += block
        return Content("\n").join(shown)


def title(step: StepResult | None, slo: Slo | None) -> tuple[Piece, ...]:
    """What the panel says when it is collapsed to its border."""
    if step is None:
        return (Piece("3 chosen step", "strong"),)
    mark = VERDICTS[step.verdict]
    where = "ramp" if step.phase == "ramp" else f"step {step.step}"
    return (
        Piece(f"3 {where}", "strong"),
        Piece(rate_brief(step.rate_rps), "strong", 0),
        Piece(str(mark), mark.role, 0),
        Piece(f"floor {floor_text(step, slo.target if slo else None)}", "plain", 2),
    )


def blocks(step: StepResult, slo: Slo | None, width: int) -> list[list[Content]]:
    """The table of percentiles, what it is of, the worst stretch, the lengths, and each repeat."""
    repeats = counted(step)
    if not repeats:
        return [[Content.assemble(styled("no repeat of this step counts", "muted"))]]
    table, marked = _percentiles(repeats, slo, width)
    of, own = [_of_what(step, repeats, marked)], _client(repeats, slo, width)
    return [table, of, own, _worst(step, repeats, slo), _lengths(repeats, slo, width), _each(step, slo, width)]


def _percentiles(repeats: list[RepeatResult], slo: Slo | None, width: int) -> tuple[list[Content], bool]:
    """A row for each latency; and whether any of them is of too few values."""
    column = min(_COLUMN, max(_LEAST_COLUMN, (width - 4) // 4))
    head = "".join(f"{name:>{column}}" for name in (*_NAMES, "limit"))
    table = [Content.assemble(styled(f"{'':<4}{head}", "muted"))]
    marked = False
    for name, read in _LATENCIES:
        limit_s = _limit(name, slo)
        parts: list[Part] = [styled(f"{name:<4}", "strong")]
        for which in _NAMES:
            value, few = _highest(repeats, read, which)
            over = value is not None and limit_s is not None and value > limit_s
            marked |= few
            text = f"{latency(value)}{'*' if few else ''}{' ✘' if over else ''}"
            parts.append(styled(text.rjust(column), "breaks" if over else "plain"))
        parts.append(styled((limit(limit_s) if limit_s else DASH).rjust(column), "muted"))
        table.append(Content.assemble(*parts))
    return table, marked


def counted(step: StepResult) -> list[RepeatResult]:
    """The repeats that are evidence; of a ramp its only one, which is the whole ramp."""
    return [repeat for repeat in step.repeats if step.phase == "ramp" or repeat.verdict in ("pass", "fail")]


def _limit(name: str, slo: Slo | None) -> float | None:
    return {"TTFT": slo.ttft_s, "TPOT": slo.tpot_s, "E2E": slo.e2e_s}.get(name) if slo else None


def _highest(repeats: Iterable[RepeatResult], read: Read, which: str) -> tuple[float | None, bool]:
    """The highest of this percentile over the repeats, and whether it is of too few values to be one."""
    known = [(value, read(repeat).n) for repeat in repeats if (value := getattr(read(repeat), which)) is not None]
    if not known:
        return None, False
    value, n = max(known)
    return value, n < FEW.get(which, 0)


def _of_what(step: StepResult, repeats: list[RepeatResult], marked: bool) -> Content:
    n = sum(repeat.ttft_s.n for repeat in repeats)
    text = f"of {count(n)} answers"
    if step.phase == "ramp":
        text += " over the whole ramp"
    elif len(repeats) > 1:
        text += f"; each the highest of {len(repeats)} repeats"
    open_ = sum(repeat.sent - repeat.succeeded - repeat.errors for repeat in repeats if repeat.curtailed)
    if open_ > 0:
        text += f"; {count(open_)} had not ended"
    return Content.assemble(styled(text, "muted"), styled("  * too few values" if marked else "", "strong"))


def _client(repeats: list[RepeatResult], slo: Slo | None, width: int) -> list[Content]:
    """Whether it was the client that was slow: the worst of these repeats."""
    pieces = client_panel.finished(repeats, slo.ttft_s if slo else None)
    return [join(fit(pieces, width))] if pieces else []


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


def _lengths(repeats: list[RepeatResult], slo: Slo | None, width: int) -> list[Content]:
    """Length classes of the repeat with the lowest attainment, as tokens in and out."""
    buckets = min(repeats, key=lambda repeat: repeat.attainment_interval[0]).buckets
    if len(buckets) < 2:
        return []
    target = slo.target if slo else None
    roles: list[Role] = [
        "breaks" if bucket.attainment is not None and target is not None and bucket.attainment < target else "plain"
        for bucket in buckets
    ]
    rows = [_bucket(bucket, target) for bucket in buckets]
    return _table(_LENGTH_HEADS, rows, _LENGTHS_GIVE_WAY, width, (_LENGTH_HEADS.index("inside"), roles))


def _bucket(bucket: Bucket, target: float | None) -> tuple[str, ...]:
    """The cells of a row."""
    share = DASH if bucket.attainment is None else beside(bucket.attainment, target)
    tokens = (_range(bucket.input), _range(bucket.output), count(bucket.n))
    return (*tokens, share, latency(bucket.ttft_p95_s), latency(bucket.tpot_p95_s))


def _each(step: StepResult, slo: Slo | None, width: int) -> list[Content]:
    """Every repeat, with those that do not count."""
    if step.phase == "ramp":
        return []
    rows = [_repeat(repeat, slo.target if slo else None) for repeat in step.repeats]
    roles: list[Role] = [VERDICTS[repeat.verdict].role for repeat in step.repeats]
    return _table(_REPEAT_HEADS, rows, _REPEATS_GIVE_WAY, width, (_REPEAT_HEADS.index("verdict"), roles))


def _repeat(repeat: RepeatResult, target: float | None) -> tuple[str, ...]:
    """The cells of a row."""
    rates = (number(each) for each in (repeat.offered_rps, repeat.served_rps, repeat.goodput_rps))
    inside = between(*repeat.attainment_interval, target, DASH)
    told = (*rates, repeat.queue or DASH, *client_panel.cells([repeat]))
    return (str(repeat.index + 1), str(VERDICTS[repeat.verdict]), inside, count(repeat.planned), *told)


def _table(
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


def _range(ends: tuple[int, int]) -> str:
    return f"{ends[0]}" if ends[0] == ends[1] else f"{ends[0]}{DASH}{ends[1]}"
