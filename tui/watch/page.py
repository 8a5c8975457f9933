"""One replica: all its figures, and small plots of the last quarter of an hour."""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from textual.app import ComposeResult
from textual.containers import Grid, Vertical
from textual.content import Content
from textual.screen import Screen
from textual.widgets import Footer, Static

from core import prose
from core.report import COLUMNS, glyph, name_of
from core.units import DASH, count, latency, latency_brief, number, percent
from core.watch import Estimate, Figures, ReplicaKnee, Row, growth_fact, load_fact, row_notes
from tui.draw.plots import Curve, Plot, Shade
from tui.draw.style import clean
from tui.draw.ticks import steady_ceiling, time_ticks, value_ticks
from tui.widgets.pieces import Piece, flow, join, styled
from tui.widgets.plot_view import PanelContent, PlotPanel

SPAN_S = 900.0
LEAST_SPAN_S = 60.0
GAP_S = 15.0
"""Points further apart than that, or than three readings, are not joined."""


class _Line(NamedTuple):
    name: str
    shade: Shade
    value: Callable[[Figures], float | None]


class _Panel(NamedTuple):
    id: str
    name: str
    lines: tuple[_Line, ...]
    text: Callable[[float], str]
    least: float
    top: float | None = None


def _seconds(of: Callable[[Figures], Estimate | None]) -> Callable[[Figures], float | None]:
    return lambda figures: None if (found := of(figures)) is None else found.value_s


PANELS: tuple[_Panel, ...] = (
    _Panel(
        "requests",
        "requests",
        (_Line("run", "first", lambda f: f.running), _Line("wait", "second", lambda f: f.waiting)),
        lambda value: count(round(value)),
        4.0,
    ),
    _Panel("kv", "KV", (_Line("KV", "first", lambda f: f.kv_usage_frac),), percent, 1.0, 1.0),
    _Panel(
        "rate",
        "req/s",
        (_Line("in", "first", lambda f: f.arriving_rps), _Line("done", "second", lambda f: f.finished_rps)),
        number,
        1.0,
    ),
    _Panel(
        "ttft",
        "TTFT",
        (_Line("p95", "first", _seconds(lambda f: f.ttft_p95)), _Line("p50", "second", _seconds(lambda f: f.ttft_p50))),
        latency,
        0.05,
    ),
    _Panel(
        "tpot",
        "TPOT",
        (_Line("p95", "first", _seconds(lambda f: f.tpot_p95)), _Line("p50", "second", _seconds(lambda f: f.tpot_p50))),
        latency,
        0.02,
    ),
    _Panel("tokens", "out tok/s", (_Line("out", "first", lambda f: f.output_tps),), number, 10.0),
)


def content(panel: _Panel, points: Sequence[Figures], knee_rps: float | None) -> PanelContent:
    """One panel: its newest values in the title, and the plot."""
    title = [Piece(panel.name, "strong")]
    for line in panel.lines:
        value = line.value(points[-1]) if points else None
        shown = DASH if value is None else panel.text(value)
        title.append(Piece(f"{line.name} {shown}" if len(panel.lines) > 1 else shown, "plain", 1))
    begin = points[0].t if points else 0.0
    curves = tuple(Curve(line.name, line.shade, tuple((p.t - begin, line.value(p)) for p in points)) for line in panel.lines)
    known = [y for curve in curves for _, y in curve.points if y is not None and math.isfinite(y)]
    if not known:
        return PanelContent(
            tuple(title), "no figures yet" if len(points) < 2 else "no request ended in this time, or the server tells none"
        )
    rule = knee_rps if panel.id == "rate" else None
    if rule is not None:
        title.append(Piece(f"knee {number(rule)}", "muted", 2))
    top = panel.top or steady_ceiling(max(panel.least, *known, 1.1 * (rule or 0.0)))
    end = max(points[-1].t - begin, LEAST_SPAN_S)
    x_range = (max(0.0, end - SPAN_S), end)
    gap = max(GAP_S, 3 * (points[-1].t - points[-2].t)) if len(points) > 1 else GAP_S
    plot = Plot(
        x_range=x_range,
        y_range=(0.0, top),
        curves=curves if len(curves) > 1 else (Curve("", curves[0].shade, curves[0].points),),
        rule=rule,
        max_gap=gap,
        x_ticks=time_ticks(x_range),
        y_ticks=value_ticks(top, lambda value: _tick(panel, value)),
    )
    return PanelContent(tuple(title), plot)


def _tick(panel: _Panel, value: float) -> str:
    return latency_brief(value) if panel.text is latency else panel.text(value)


class ReplicaPage(Screen[None]):
    """What is known of one replica. The app shows it new points as they come."""

    def __init__(self, url: str, knee: ReplicaKnee | None) -> None:
        super().__init__()
        self.url = url
        self._knee = knee
        self._head, self._figures, self._note = Static(id="heading"), Static(id="figures"), Static(id="note")
        self._panels = {panel.id: PlotPanel(id=panel.id, classes="panel") for panel in PANELS}

    def compose(self) -> ComposeResult:
        yield self._head
        yield self._figures
        yield self._note
        yield Grid(*self._panels.values(), id="plots")
        yield Vertical(Footer(compact=True), id="foot")

    def show(self, row: Row | None, points: Sequence[Figures]) -> None:
        """Take how it stands; None: it has been gone for long."""
        if not self.is_attached:
            return
        name = clean(name_of(self.url))
        state = "⊘ gone" if row is None else f"{glyph(row)} {row.state if row.state != 'failing' else 'not read'}"
        read = f"{count(row.figures.engines, 'engine')}" if row is not None and row.figures is not None else ""
        self._head.update(join((Piece(name, "strong"), Piece(state, "plain"), *((Piece(read, "muted"),) if read else ()))))
        self._figures.update(_figures(row, self.size.width - 2))
        self._note.update(Content.assemble(styled(_notes(row), "strong")))
        for panel in PANELS:
            self._panels[panel.id].show_content(content(panel, points, None if self._knee is None else self._knee.pass_rps))


def _figures(row: Row | None, width: int) -> Content:
    """Every column of the table with its name, over up to three lines."""
    if row is None or row.figures is None:
        return Content.assemble(styled("no figures", "muted"))
    pieces = [Piece(f"{column.head} {column.text(row)}", "plain", column.rank) for column in COLUMNS]
    return Content("\n").join([join(line, "   ") for line in flow(pieces, width, 3, gap=3)])


def _notes(row: Row | None) -> str:
    if row is None:
        return ""
    found = list(row_notes(row))
    if row.load is not None and row.load.by != "stalled":  # its note says that
        found.append(load_fact(row.load))
    if row.growth is not None and (growing := growth_fact(row.growth)) not in found:
        found.append(growing)
    said = [prose.sentence(each) for each in found]
    if row.failures and row.state == "ok":
        said.append(f"{count(row.failures, 'reading')} failed so far.")
    return clean("  ".join(said))
