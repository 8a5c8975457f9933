"""What the plot panels show of a view: pure functions from `RunView` to `PanelContent`."""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from core.units import count, duration, latency, limit, number, percent, rate_brief
from core.view import RunView, SeriesPoint
from tui.draw.plots import Curve, Plot, Shade
from tui.draw.style import NOT_AVAILABLE, Role, clean
from tui.widgets.pieces import Piece
from tui.widgets.plot_view import PanelContent

Value = Callable[[SeriesPoint], float | None]
Points = tuple[tuple[float, float | None], ...]

_ENDS_S = (*range(60, 300, 30), 300, 360, 420, 480, 600, 720, 900, 1200, 1500, 1800, 2400, 3000, 3600, 5400, 7200)
_NICE = (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.5, 10.0)
_GAP_BINS = 10
"""A curve is joined over this many empty bins: at low rates not every second has an answer."""
_MARGINS = (7, 7)
"""Room for `800 ms ` and `waiting`: the four plots stand above each other on one time axis."""
_OLD_S = 5.0
"""A value from longer ago is not the current one any more; said instead of shown."""


class Latency(NamedTuple):
    """The three percentiles of one latency in a point, its name, panel number and limit."""

    name: str
    panel: int
    limit_s: float | None
    p50: Value
    p95: Value
    p99: Value


def ttft(view: RunView) -> PanelContent:
    """Time to first token over time."""
    limit_s = view.config.slo.ttft_s if view.config else None
    return _latency(view, Latency("TTFT", 3, limit_s, lambda p: p.ttft_p50_s, lambda p: p.ttft_p95_s, lambda p: p.ttft_p99_s))


def tpot(view: RunView) -> PanelContent:
    """Time per output token over time."""
    limit_s = view.config.slo.tpot_s if view.config else None
    return _latency(view, Latency("TPOT", 4, limit_s, lambda p: p.tpot_p50_s, lambda p: p.tpot_p95_s, lambda p: p.tpot_p99_s))


def time_range(view: RunView) -> tuple[float, float]:
    """The time axis that all plots share: it grows in steps while the run goes on, and fits the run when it has ended."""
    end = max(view.now_s, view.series[-1].t_s + view.bin_s if view.series else 0.0, 1.0)
    if view.answer is not None:
        return (0.0, end)
    return (0.0, float(next((nice for nice in _ENDS_S if nice >= end), math.ceil(end / 3600) * 3600)))


def bands(series: Sequence[SeriesPoint], bin_s: float) -> tuple[tuple[float, float], ...]:
    """Every second stretch of one step, to be shaded."""
    edges = [at for at, point in enumerate(series) if at == 0 or point.step != series[at - 1].step]
    ends = [series[at].t_s for at in edges[1:]] + ([series[-1].t_s + bin_s] if series else [])
    return tuple((series[at].t_s, end) for at, end in list(zip(edges, ends, strict=True))[1::2])


def closed(view: RunView) -> tuple[SeriesPoint, ...]:
    """The bins that are over. The newest one changes with every answer; plots wait for its end, so they are drawn once a bin."""
    if view.answer is not None or not view.series or view.series[-1].t_s + view.bin_s <= view.now_s:
        return view.series
    return view.series[:-1]


def points(series: Iterable[SeriesPoint], value: Value) -> Points:
    """(time, value) of each bin."""
    return tuple((point.t_s, value(point)) for point in series)


def newest(view: RunView, value: Value) -> tuple[float, float] | None:
    """The last known value and how long ago it was seen, in seconds."""
    for point in reversed(closed(view)):
        known = value(point)
        if known is not None and math.isfinite(known):
            return known, max(0.0, view.now_s - point.t_s - view.bin_s)
    return None


def nice_ceiling(value: float) -> float:
    """The next round number, so that an axis does not move with every point."""
    if value <= 0 or not math.isfinite(value):
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in _NICE if step * power >= value * (1 - 1e-9))


def _latency(view: RunView, what: Latency) -> PanelContent:
    return PanelContent(_latency_title(view, what), _latency_body(view, what))


def _latency_title(view: RunView, what: Latency) -> tuple[Piece, ...]:
    title = [Piece(f"{what.panel} {what.name}", "strong")]
    known = newest(view, what.p95)
    if known is not None and known[1] > _OLD_S and view.load == "loading":
        title.append(Piece(f"none for {duration(round(known[1]))}", "strong", 1))
    else:
        for name, value, rank in (("p50", what.p50, 4), ("p95", what.p95, 1), ("p99", what.p99, 3)):
            last = newest(view, value)
            over = last is not None and what.limit_s is not None and last[0] > what.limit_s
            title.append(Piece(f"{name} {latency(last[0] if last else None)}", "breaks" if over else "plain", rank))
        title.append(Piece(f"in the last {duration(view.bin_s)}", "muted", 5))
    title.append(Piece(f"limit {limit(what.limit_s)}" if what.limit_s else "no limit", "muted", 2))
    return tuple(title)


def _latency_body(view: RunView, what: Latency) -> Plot | str:
    named: tuple[tuple[str, Shade, Value], ...] = (
        ("p99", "faint", what.p99),
        ("p50", "middle", what.p50),
        ("p95", "bright", what.p95),
    )
    series = closed(view)
    curves = tuple(Curve(name, shade, points(series, value), above="bad") for name, shade, value in named)
    most = max((y for curve in curves for _, y in curve.points if y is not None and math.isfinite(y)), default=None)
    if most is None:
        return "no answer yet"
    top = nice_ceiling(most if what.limit_s is None else min(max(most, 1.25 * what.limit_s), 4 * what.limit_s))
    labels = [(top, limit(top) if most <= top else f"> {limit(top)}"), (0.0, "0")]
    if what.limit_s is not None:
        labels.insert(0, (what.limit_s, limit(what.limit_s)))
    return Plot(
        x_range=time_range(view),
        y_range=(0.0, top),
        curves=curves,
        y_labels=tuple(labels),
        rule=what.limit_s,
        bands=bands(series, view.bin_s),
        max_gap=_GAP_BINS * view.bin_s,
        margins=_MARGINS,
    )


def queue(view: RunView) -> PanelContent:
    """Requests that wait, seen from the client and from the server."""
    sample, series = view.sample, closed(view)
    last = series[-1] if series else None
    title = [
        Piece("5 queue", "strong"),
        Piece(f"no first token {_whole(last.no_first_token if last else None)}", "plain", 1),
        Piece(f"server waiting {_whole(sample.waiting if sample else None)}", "plain", 2),
        Piece(f"running {_whole(sample.running if sample else None)}", "plain", 3),
        Piece(f"in flight {_whole(last.in_flight if last else None)}", "plain", 4),
        *_age(view, 0),
    ]
    return PanelContent(tuple(title), _queue_body(view))


def _queue_body(view: RunView) -> Plot | str:
    series = closed(view)
    waiting = points(series, lambda p: p.waiting)
    if any(y is not None for _, y in waiting):
        top_curve = Curve("waiting", "bright", waiting)
    else:
        top_curve = Curve("no token", "bright", points(series, lambda p: p.no_first_token))
    running = Curve("running", "faint", points(series, lambda p: p.running))
    curves = (running, Curve("flight", "middle", points(series, lambda p: p.in_flight)), top_curve)
    most = max((y for curve in curves for _, y in curve.points if y is not None and math.isfinite(y)), default=None)
    if most is None:
        return "nothing sent yet"
    top = nice_ceiling(max(most, 4.0))
    return Plot(
        x_range=time_range(view),
        y_range=(0.0, top),
        curves=curves,
        y_labels=((top, count(round(top))), (0.0, "0")),
        bands=bands(series, view.bin_s),
        max_gap=_GAP_BINS * view.bin_s,
        margins=_MARGINS,
    )


def kv(view: RunView) -> PanelContent:
    """How full the KV cache is, and preemptions as marks."""
    usage, preemptions = newest(view, lambda p: p.kv_usage_frac), newest(view, lambda p: p.preemptions_per_s)
    role: Role = "breaks" if preemptions and preemptions[0] > 0 else "plain"
    title = (
        Piece("6 KV cache", "strong"),
        Piece(percent(usage[0]) if usage else NOT_AVAILABLE, "plain", 1),
        Piece(f"preemptions {number(preemptions[0])}/s" if preemptions else f"preemptions {NOT_AVAILABLE}", role, 2),
        *_age(view, 0),
    )
    return PanelContent(title, _kv_body(view))


def _kv_body(view: RunView) -> Plot | str:
    series = closed(view)
    usage = points(series, lambda p: p.kv_usage_frac)
    if all(y is None for _, y in usage):
        return (
            f"server metrics {NOT_AVAILABLE}: {clean(view.metrics_error)}" if view.metrics_error else "no reading of the server yet"
        )
    return Plot(
        x_range=time_range(view),
        y_range=(0.0, 1.0),
        curves=(Curve("KV", "bright", usage),),
        y_labels=((1.0, "100 %"), (0.0, "0")),
        bands=bands(series, view.bin_s),
        marks=tuple(point.t_s for point in series if point.preemptions_per_s),
        max_gap=_GAP_BINS * view.bin_s,
        margins=_MARGINS,
    )


def rate(view: RunView) -> PanelContent:
    """Whether the server keeps up: requests due and requests that ended well, each second."""
    series = closed(view)
    last = series[-1] if series else None
    title = (
        Piece("7 rate", "strong"),
        Piece(f"offered {number(last.offered_rps)}" if last else "offered", "plain", 1),
        Piece(f"served {rate_brief(last.served_rps)}" if last else "served", "plain", 2),
    )
    return PanelContent(title, _rate_body(view, series))


def _rate_body(view: RunView, series: Sequence[SeriesPoint]) -> Plot | str:
    offered, served = points(series, lambda p: p.offered_rps), points(series, lambda p: p.served_rps)
    most = max((y for _, y in (*offered, *served) if y is not None), default=0.0)
    if most == 0:
        return "nothing sent yet"
    top = nice_ceiling(most)
    return Plot(
        x_range=time_range(view),
        y_range=(0.0, top),
        curves=(Curve("offered", "middle", offered), Curve("served", "bright", served)),
        y_labels=((top, number(top)), (0.0, "0")),
        bands=bands(series, view.bin_s),
        max_gap=_GAP_BINS * view.bin_s,
        margins=_MARGINS,
    )


def age_text(view: RunView) -> str | None:
    """How old the newest reading of the server is, when it is too old to be called current."""
    if view.sample_age_s is None or view.sample_age_s <= _OLD_S or view.answer is not None:
        return None
    return f"{duration(round(view.sample_age_s))} old"


def _age(view: RunView, rank: int) -> tuple[Piece, ...]:
    old = age_text(view)
    return () if old is None else (Piece(f"reading {old}", "breaks", rank),)


def _whole(value: float | None) -> str:
    return NOT_AVAILABLE if value is None else count(round(value))
