"""The plots of a small terminal: current value and one row of blocks for each."""

from collections.abc import Callable
from typing import NamedTuple

from textual.content import Content
from textual.widget import Widget

from core.results import RepeatResult
from core.units import count, latency, number, percent
from core.view import RunView, SeriesPoint
from tui.draw.sparkline import blocks
from tui.draw.style import Role
from tui.widgets import panel_content
from tui.widgets.panel_content import newest, nice_ceiling
from tui.widgets.pieces import Part, styled
from tui.widgets.standing import standing

_HISTORY = 60


class Sparks(Widget):
    """TTFT, TPOT, queue and KV side by side: a value above, its last minute below."""

    _view: RunView | None = None

    def show(self, view: RunView) -> None:
        """Take a new view."""
        if self._view is None or _drawn(view) != _drawn(self._view):
            self.refresh()
        self._view = view

    def render(self) -> Content:
        """Two rows of four columns."""
        view = self._view
        if view is None:
            return Content()
        slo = view.config.limits if view.config else None
        width = self.size.width // 4
        ttft_s, tpot_s = (slo.common("ttft_s"), slo.common("tpot_s")) if slo else (None, None)
        ttft = Spark("TTFT p95", lambda p: p.ttft_p95_s, latency, ttft_s, 1.25 * (ttft_s or 0), lambda r: r.ttft_s.p95)
        tpot = Spark("TPOT p95", lambda p: p.tpot_p95_s, latency, tpot_s, 1.25 * (tpot_s or 0), lambda r: r.tpot_s.p95)
        queue = Spark("queue", lambda p: p.no_first_token, lambda value: count(round(value)), None, 4.0, lambda r: r.waiting_max)
        age, fullest = panel_content.age_text(view), _fullest(view)
        kv = Spark("KV", lambda p: p.kv_usage_frac, percent, None, 1.0, lambda r: r.kv_usage_max, age, fullest)
        columns = [_column(view, width, spark) for spark in (ttft, tpot, queue, kv)]
        return Content("\n").join([Content.assemble(*row) for row in zip(*columns, strict=True)])


class Spark(NamedTuple):
    """One column: name, value of a point and its format, limit, least height of the axis, the value of a repeat, which stands after
    the end; `age`: how old it is, when too old; `beside`: what stands behind the value while the run goes on."""

    name: str
    value: Callable[[SeriesPoint], float | None]
    text: Callable[[float], str]
    limit: float | None
    least: float
    result: Callable[[RepeatResult], float | None]
    age: str | None = None
    beside: str = ""


def _fullest(view: RunView) -> str:
    """Of several replicas the fullest KV cache, beside their mean."""
    sample = view.sample
    if view.answer is not None or sample is None or not sample.by_replica or sample.kv_usage_max_frac is None:
        return ""
    return f" most {percent(sample.kv_usage_max_frac)}"


def _drawn(view: RunView) -> tuple[object, ...]:
    return view.series, view.config, view.answer, panel_content.age_text(view), _fullest(view)


def _column(view: RunView, width: int, spark: Spark) -> tuple[Part, Part]:
    """Head and blocks, each `width` cells wide; a value over its limit also carries a glyph."""
    values = [spark.value(point) for point in view.series[-_HISTORY:]]
    brief = spark.name.partition(" ")[0]
    if view.answer is None:
        last = newest(view, spark.value)
        known, names = last[0] if last else None, [f"{spark.name} now", spark.name, brief]
    else:
        found = standing(view)
        known = found.most(spark.result) if found else None
        at = f" at {number(found.step.rate_rps)}" if found else ""
        names = [f"{spark.name}{at}", f"{brief}{at}", f"{brief}{at.replace(' at ', '@')}", brief]
    if spark.age or known is None:
        names = [spark.name, brief]
    over = known is not None and spark.limit is not None and known > spark.limit
    shown = spark.age or f"{spark.text(known) if known is not None else 'n/a'}{spark.beside}{' ✘' if over else ''}"
    name = next((name for name in names if len(name) + len(shown) + 2 <= width), names[-1])
    role: Role = "breaks" if over else "muted" if spark.age else "plain"
    top = nice_ceiling(max([spark.least, *(value for value in values if value is not None)]))
    return styled(f"{f'{name} {shown}':<{width}}", role), styled(f"{blocks(values, top, width - 2):<{width}}", role)
