"""What the plot panels show of a view: pure functions from `RunView` to `PanelContent`."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import groupby
from typing import NamedTuple

from core.judge import busiest_share
from core.records import ServerSample
from core.results import Percentiles, RepeatResult
from core.units import DASH, as_set, count, duration, latency, limit, number, percent, plain, rate_brief
from core.view import Outcomes, RepeatView, RunView, SeriesPoint
from tui.draw.plots import Curve, Heads, Plot, Shade
from tui.draw.style import NOT_AVAILABLE, Role, clean
from tui.draw.ticks import nice_ceiling, steady_ceiling, time_ticks, value_ticks
from tui.phrases import hits_text
from tui.widgets.pieces import Piece
from tui.widgets.plot_view import PanelContent
from tui.widgets.replica_spread import kv_spread, share, spread
from tui.widgets.standing import Standing, ordered, population, role_over, standing

__all__ = [
    "age_text",
    "bands",
    "closed",
    "heads",
    "kv",
    "newest",
    "nice_ceiling",
    "points",
    "queue",
    "rate",
    "time_range",
    "tpot",
    "ttft",
]

Value = Callable[[SeriesPoint], float | None]
Points = tuple[tuple[float, float | None], ...]

_ENDS_S = (60, 90, 120, 180, 240, 360, 480, 600, 900, 1200, 1800, 2700, 3600, 5400, 7200)
_GAP_BINS = 10
"""A curve is joined over this many empty bins: at low rates not every second has an answer."""
_MARGINS = (7, 9)
"""Room for `800 ms ` and `in flight`: the plots stand above each other on one time axis."""
_OLD_S = 5.0
"""A value from longer ago is not the current one any more; said instead of shown."""
_TOPS = (1.25, 2.0, 4.0)
"""The axis of a latency ends at one of these times its limit: it moves twice at most."""
_SHADES: tuple[Shade, ...] = ("first", "second", "third")


class Latency(NamedTuple):
    """The percentiles of one latency in a point and in a repeat, its name, panel number and limit."""

    name: str
    panel: int
    limit_s: float | None
    percentiles: dict[str, Value]
    read: Callable[[RepeatResult], Percentiles]


def ttft(view: RunView) -> PanelContent:
    """Time to first token over time."""
    limit_s = view.config.limits.common("ttft_s") if view.config else None
    values: dict[str, Value] = {"p50": lambda p: p.ttft_p50_s, "p95": lambda p: p.ttft_p95_s, "p99": lambda p: p.ttft_p99_s}
    return _latency(view, Latency("TTFT", 3, limit_s, values, lambda repeat: repeat.ttft_s))


def tpot(view: RunView) -> PanelContent:
    """Time per output token over time."""
    limit_s = view.config.limits.common("tpot_s") if view.config else None
    values: dict[str, Value] = {"p50": lambda p: p.tpot_p50_s, "p95": lambda p: p.tpot_p95_s, "p99": lambda p: p.tpot_p99_s}
    return _latency(view, Latency("TPOT", 4, limit_s, values, lambda repeat: repeat.tpot_s))


def time_range(view: RunView) -> tuple[float, float]:
    """The time axis that all plots share: it grows in a few steps while the run goes on, and fits the run when it has ended."""
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


def heads(view: RunView) -> tuple[Heads, ...]:
    """Each rate that was sent, as (begin, end, rate); and each step, with the lowest and the highest of its rates. A pause belongs
    to what was before it."""
    bins = closed(view) or view.outcomes
    end_s = bins[-1].t_s + view.bin_s if bins else 0.0  # where the curves end, so that all is drawn once a bin
    known = [at for at in view.outcomes if at.rate_rps is not None and at.t_s < end_s]
    return (_stretches(end_s, known, lambda at: (at.step, at.rate_rps)), _stretches(end_s, known, lambda at: at.step))


def _stretches(end_s: float, known: Sequence[Outcomes], key: Callable[[Outcomes], object]) -> Heads:
    found = [list(group) for _, group in groupby(known, key)]
    ends = [group[0].t_s for group in found[1:]] + ([end_s] if found else [])
    named = []
    for group, end in zip(found, ends, strict=True):
        rates = [at.rate_rps for at in group if at.rate_rps is not None]
        low, high = number(min(rates)), number(max(rates))
        named.append((group[0].t_s, end, low if low == high else f"{low}{DASH}{high}"))
    return tuple(named)


def _over_time(view: RunView, curves: tuple[Curve, ...], top: float, text: Callable[[float], str]) -> Plot:
    """A plot of the whole run."""
    x_range = time_range(view)
    return Plot(
        x_range=x_range,
        y_range=(0.0, top),
        curves=curves,
        bands=bands(closed(view), view.bin_s),
        heads=heads(view),
        head_unit="req/s",
        x_ticks=time_ticks(x_range),
        y_ticks=value_ticks(top, text),
        y_labels=((top, text(top)), (0.0, "0")),
        max_gap=_GAP_BINS * view.bin_s,
        margins=_MARGINS,
    )


def _most(curves: Iterable[Curve]) -> float | None:
    """The greatest value of the whole run, so that an axis never goes back."""
    return max((y for curve in curves for _, y in curve.points if y is not None and math.isfinite(y)), default=None)


def _latency(view: RunView, what: Latency) -> PanelContent:
    found, target = standing(view), view.config.slo.target if view.config else None
    names = ordered(target)
    figures = _now(view, what, names) if view.answer is None else _then(found, what, names)
    aim = Piece(f"limit {limit(what.limit_s)}" if what.limit_s else "no limit", "muted", 2)
    return PanelContent((Piece(f"{what.panel} {what.name}", "strong"), *figures, aim), _latency_body(view, what, names))


def _then(found: Standing | None, what: Latency, names: Sequence[str]) -> tuple[Piece, ...]:
    """The result: at which rate, and whose latencies these are."""
    if found is None:
        return ()
    values = {name: found.percentile(what.read, name) for name in names}
    before, behind = population(found)
    first = Piece(f"{found.where} {names[0]} {latency(values[names[0]])}", role_over(values[names[0]], what.limit_s), 1)
    rest = (
        Piece(f"{name} {latency(values[name])}", role_over(values[name], what.limit_s), rank)
        for rank, name in enumerate(names[1:], 3)
    )
    return (*before, first, *behind, *rest)


def _now(view: RunView, what: Latency, names: Sequence[str]) -> tuple[Piece, ...]:
    """The newest bin, said to be that."""
    values = {name: newest(view, what.percentiles[name]) for name in names}
    judged = values[names[0]]
    if judged is None:
        return ()
    old = judged[1] > _OLD_S
    if old and view.load == "loading":
        return (Piece(f"none for {duration(round(judged[1]))}", "strong", 1),)
    when = f"{duration(round(judged[1]))} ago" if old else f"last {duration(view.bin_s)}"
    pieces = []
    for rank, name in zip((1, 3, 4), names, strict=True):
        value = known[0] if (known := values[name]) else None
        pieces.append(Piece(f"{name} {latency(value)}", role_over(value, what.limit_s), rank))
    pieces[0] = pieces[0]._replace(text=f"{when} {pieces[0].text}")
    return (*(() if old else _left_out(view, what)), *pieces)


def _left_out(view: RunView, what: Latency) -> tuple[Piece, ...]:
    """That most requests are in none of these figures yet, where it is so: the slowest are those that have not ended."""
    series = closed(view)
    last, before = series[-1], series[-2] if len(series) > 1 else None
    live = view.current.live if view.current else None
    if what.name == "TTFT":
        waiting = last.no_first_token or 0.0
        came = (before.no_first_token or 0.0) + last.offered_rps * view.bin_s - waiting if before else 0.0
        text = f"{_whole(waiting)} wait for a first token"
    else:
        waiting = max((bounds.overdue for bounds in (live.bounds, live.warmup) if bounds), default=0) if live else 0
        came, text = last.served_rps * view.bin_s, f"{_whole(waiting)} late and not ended"
    return (Piece(text, "breaks", 1),) if waiting > max(came, 3.0) else ()


def _latency_body(view: RunView, what: Latency, names: Sequence[str]) -> Plot | str:
    series = closed(view)
    shades = dict(zip(names, _SHADES, strict=True))
    named = [Curve(name, shades[name], points(series, what.percentiles[name]), above="bad") for name in names]
    curves = tuple(reversed(named))  # the one that is judged lies over the others
    most = _most(curves)
    if most is None:
        return "no answer yet"
    tops = [nice_ceiling(what.limit_s * times) for times in _TOPS] if what.limit_s else [steady_ceiling(most)]
    top = next((top for top in tops if top >= most), tops[-1])
    labels = [(top, limit(top) if most <= top else f"> {limit(top)}"), (0.0, "0")]
    if what.limit_s is not None:
        labels.insert(0, (what.limit_s, limit(what.limit_s)))
    return replace(_over_time(view, curves, top, limit), rule=what.limit_s, y_labels=tuple(labels))


def queue(view: RunView) -> PanelContent:
    """Requests that wait, seen from the client and from the server."""
    sample, series = view.sample, closed(view)
    last = series[-1] if series else None
    found, now = standing(view), tuple[Piece, ...]()
    if view.answer is not None:
        now = (
            ()
            if found is None
            else (
                Piece(f"{found.where} waiting at most {_whole(found.most(lambda repeat: repeat.waiting_max))}", "plain", 1),
                Piece(f"running at most {_whole(found.most(lambda repeat: repeat.running_max))}", "plain", 2),
                *share(found.most(lambda repeat: busiest_share(repeat.replicas)), 3),
            )
        )
    else:
        live = view.current.live if view.current else None
        held = live.at_gateway if live else None
        no_token = Piece(f"no token yet {_whole(last.no_first_token if last else None)}", "plain", 1)
        now = (
            *(() if held is None else (Piece(f"waiting at the gateway {count(held)}", "plain", 0),)),
            *(_of_replicas(sample, live, no_token) if sample and sample.by_replica else _of_server(sample, no_token)),
            Piece(f"in flight {_whole(last.in_flight if last else None)}", "plain", 5),
        )
    return PanelContent((Piece("5 queue", "strong"), *now, *_age(view, 0)), _queue_body(view))


def _of_server(sample: ServerSample | None, no_token: Piece) -> tuple[Piece, ...]:
    return (
        no_token,
        Piece(f"server waiting {_whole(sample.waiting if sample else None)}", "plain", 2),
        Piece(f"running {_whole(sample.running if sample else None)}", "plain", 3),
    )


def _of_replicas(sample: ServerSample, live: RepeatView | None, no_token: Piece) -> tuple[Piece, ...]:
    """The same of a fleet: how it is spread comes first, for that is what one does not see elsewhere."""
    waiting = spread(sample, lambda row: row.waiting, _whole, whole=True)
    return (
        no_token._replace(rank=4),
        Piece(f"waiting {_whole(sample.waiting)}{waiting}", "plain", 1),
        Piece(f"running {_whole(sample.running)}{spread(sample, lambda row: row.running, _whole)}", "plain", 2),
        *share(live.busiest_share if live else None, 3),
    )


def _queue_body(view: RunView) -> Plot | str:
    series = closed(view)
    waiting = points(series, lambda p: p.waiting)
    if any(y is not None for _, y in waiting):
        first = Curve("waiting", "first", waiting)
    else:
        first = Curve("no token", "first", points(series, lambda p: p.no_first_token))
    running = Curve("running", "second", points(series, lambda p: p.running))
    curves = (Curve("in flight", "third", points(series, lambda p: p.in_flight)), running, first)
    most = _most(curves)
    if most is None:
        return "nothing sent yet"
    return _over_time(view, curves, steady_ceiling(max(most, 10.0)), as_set)


def kv(view: RunView) -> PanelContent:
    """How full the KV cache is, and preemptions as marks."""
    found = standing(view)
    if view.answer is not None:
        return PanelContent((Piece("6 KV cache", "strong"), *(() if found is None else _kv_then(view, found))), _kv_body(view))
    usage, preemptions = newest(view, lambda p: p.kv_usage_frac), newest(view, lambda p: p.preemptions_per_s)
    role: Role = "breaks" if preemptions and preemptions[0] > 0 else "plain"
    title = (
        Piece("6 KV cache", "strong"),
        Piece(f"{percent(usage[0])}{kv_spread(view.sample)}" if usage else NOT_AVAILABLE, "plain", 1),
        Piece(f"preemptions {number(preemptions[0])}/s" if preemptions else f"preemptions {NOT_AVAILABLE}", role, 2),
        *_hits(view, view.current.live if view.current else None),
        *_age(view, 0),
    )
    return PanelContent(title, _kv_body(view))


def _kv_then(view: RunView, found: Standing) -> tuple[Piece, ...]:
    usage, preemptions = found.most(lambda repeat: repeat.kv_usage_max), found.most(lambda repeat: repeat.preemptions)
    return (
        Piece(f"{found.where} at most {percent(usage) if usage is not None else NOT_AVAILABLE}", "plain", 1),
        Piece(f"preemptions {_whole(preemptions)}", "breaks" if preemptions else "plain", 2),
        *_hits(view, max(found.repeats, key=lambda repeat: repeat.prefix_hit_frac or 0.0, default=None)),
    )


def _hits(view: RunView, of: RepeatView | RepeatResult | None) -> tuple[Piece, ...]:
    """What of the prompts the prefix cache had, where prompts share prefixes or it should have had nothing."""
    shown, planned = (None, None) if of is None else (of.prefix_hit_frac, of.planned_hit_frac)
    return (Piece(text, "plain", 3),) if (text := hits_text(view, shown, planned)) else ()


def _kv_body(view: RunView) -> Plot | str:
    series = closed(view)
    usage = points(series, lambda p: p.kv_usage_frac)
    if all(y is None for _, y in usage):
        return (
            f"server metrics {NOT_AVAILABLE}: {clean(view.metrics_error)}" if view.metrics_error else "no reading of the server yet"
        )
    marks = tuple(point.t_s for point in series if point.preemptions_per_s)
    return replace(_over_time(view, (Curve("KV", "first", usage),), 1.0, plain), marks=marks)


def rate(view: RunView) -> PanelContent:
    """Whether the server keeps up: requests due and requests that ended well, in each bin."""
    series, found = closed(view), standing(view)
    last = series[-1] if series else None
    figures: tuple[Piece, ...] = ()
    if view.answer is None and last is not None:
        figures = (
            Piece(f"last {duration(view.bin_s)} due {rate_brief(last.offered_rps)}", "plain", 1),
            Piece(f"finished {rate_brief(last.served_rps)}", "plain", 2),
        )
    elif found is not None:
        figures = (
            Piece(f"{found.where} served {rate_brief(found.most(lambda repeat: repeat.served_rps))}", "plain", 1),
            Piece(f"offered {rate_brief(found.most(lambda repeat: repeat.offered_rps))}", "plain", 2),
        )
    return PanelContent((Piece("7 rate", "strong"), *figures), _rate_body(view, series))


def _rate_body(view: RunView, series: Sequence[SeriesPoint]) -> Plot | str:
    due = Curve("due", "second", points(series, lambda p: p.offered_rps))
    curves = (due, Curve("finished", "first", points(series, lambda p: p.served_rps)))
    most = _most(curves) or 0.0
    return _over_time(view, curves, steady_ceiling(most), as_set) if most > 0 else "nothing sent yet"


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
