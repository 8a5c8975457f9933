"""Which plots a report has of a run, and what each one shows: attainment and latencies over rates, and the run over time."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import attrgetter
from typing import Literal, NamedTuple

from core.percentiles import FEW
from core.report.elements import Markup
from core.report.svg import Axis, Drawing, Shape, ceiling, even_labels, key, log_labels
from core.results import Answer, Knee, RepeatResult
from core.slo import tells_nothing
from core.units import as_set, at_least, at_most, between, clock, latency_brief, limit, number, percent, plain, rate_text
from core.view import RunView, SeriesPoint

Latency = Literal["ttft_s", "tpot_s"]

_NAMES: dict[Latency, tuple[str, str]] = {"ttft_s": ("TTFT", "Time to first token"), "tpot_s": ("TPOT", "Time per output token")}
_LEAST_SPAN = 1.6
"""A rate that stands alone has this factor around it, and so has the narrowest axis."""
_SPREAD = 7.0
"""Repeats of one rate stand so far from each other, in units of the drawing."""


class Chart(NamedTuple):
    """A plot with its heading, and the line under it that says what its marks mean."""

    heading: str
    drawing: Markup
    keys: tuple[Markup, ...]


def charts(view: RunView, answer: Answer) -> list[Chart]:
    """All that have something to show."""
    rates = _rates(view, answer.knee)
    found = [] if rates is None else [_attainment(view, answer.knee, rates)]
    found += [] if rates is None else [_over_rates(view, answer.knee, which, rates) for which in _NAMES]
    found += [_rate_over_time(view), *(_latency_over_time(view, which) for which in _NAMES), _queue(view), _kv(view)]
    return [chart for chart in found if chart is not None]


# --- over rates ---------------------------------------------------------------------------------------------------


class _Known(NamedTuple):
    """What is known of the attainment at a rate: from the least to the most, and the end that is certain, None where it may lie on
    either side of the target. `shift`: to the side, where several stand at one rate."""

    rate_rps: float
    low: float
    high: float
    certain: float | None
    shape: Shape
    kind: str
    shift: float = 0.0


def _attainment(view: RunView, knee: Knee, rates: Axis) -> Chart | None:
    target = view.config.slo.target if view.config else 1.0
    marks = [*_ramp(view, target), *_repeats(view, target)]
    voids = sorted({rate_rps for rate_rps, repeat in _all_repeats(view) if repeat.verdict == "void"})
    if not marks and not voids:
        return None
    bottom = _bottom([mark.certain for mark in marks if mark.certain is not None], target)
    drawing = Drawing(
        "attainment",
        "Attainment over the request rate",
        _told(marks, voids, target),
        rates,
        Axis(bottom, 1.0, labels=_shares(bottom, target)),
    )
    _bracket(drawing, knee)
    drawing.rule(target, f"target {plain(target)}")
    for mark in marks:
        empty = "" if mark.certain is not None else " unknown"
        if mark.low < mark.high:
            drawing.bar(mark.rate_rps, max(mark.low, bottom), mark.high, mark.kind + empty, mark.shift)
        if mark.certain is not None:
            drawing.mark(mark.rate_rps, mark.certain, mark.shape, mark.kind, mark.shift)
    for rate_rps in voids:
        drawing.mark(rate_rps, bottom, "ring", "void")
    return Chart("Attainment by rate", drawing.markup(), tuple(_keys(marks, voids)))


def _keys(marks: Sequence[_Known], voids: Sequence[float]) -> Iterator[Markup]:
    """What those marks mean that are there."""
    kinds = {mark.kind for mark in marks}
    if "pass" in kinds:
        yield key("dot", "pass", "repeat that passed")
    if "fail" in kinds:
        yield key("cross", "fail", "repeat that failed")
    if "ramp" in kinds:
        yield key("ring", "ramp", "segment of the ramp: where to look, no evidence")
    if voids:
        yield key("ring", "void", "void: does not count")
    if any(mark.low < mark.high and mark.certain is not None for mark in marks):
        yield key("bar", "some", "from the least to the most that it can be, cut off before all was decided")
    if any(mark.certain is None for mark in marks):
        yield key("bar", "some unknown", "not known on which side of the target")


def _all_repeats(view: RunView) -> Iterator[tuple[float, RepeatResult]]:
    for step in view.steps:
        if step.phase != "ramp" and not step.set_aside:
            yield from ((step.rate_rps, repeat) for repeat in step.repeats)


def _repeats(view: RunView, target: float) -> Iterator[_Known]:
    """Those that count. Of a failure that says nothing, what all the requests say that were sent at its rate."""
    counted = [(rate_rps, repeat) for rate_rps, repeat in _all_repeats(view) if repeat.verdict in ("pass", "fail")]
    together: dict[float, list[RepeatResult]] = {}
    for rate_rps, repeat in counted:
        together.setdefault(rate_rps, []).append(repeat)
    for rate_rps, repeats in together.items():
        for place, repeat in enumerate(repeats):
            shift = (place - (len(repeats) - 1) / 2) * min(_SPREAD, 36 / len(repeats))
            low, high = repeat.attainment_interval
            if repeat.verdict == "pass":
                yield _Known(rate_rps, low, high, low, "dot", "pass", shift)
            elif not tells_nothing((low, high), target):
                enough = low >= target  # it failed by its queue or its errors
                yield _Known(rate_rps, low, high, low if enough else high, "cross", "fail", shift)
            else:
                yield _of_sent(view, rate_rps, (low, high), target, shift)


def _of_sent(view: RunView, rate_rps: float, interval: tuple[float, float], target: float, shift: float = 0.0) -> _Known:
    sent = next((each.attained for each in view.margins if each.rate_rps == rate_rps), None)
    if sent is None or tells_nothing(sent, target):
        return _Known(rate_rps, *interval, None, "cross", "fail", shift)
    return _Known(rate_rps, *sent, sent[1], "cross", "fail", shift)


def _ramp(view: RunView, target: float) -> Iterator[_Known]:
    """The segments of the ramp, which only say where to look."""
    failed = {step.rate_rps: step for step in view.steps if step.phase == "ramp" and not step.set_aside}
    for segment in view.ramp:
        low, high = segment.bounds.end
        if segment.held:
            yield _Known(segment.rate_rps, low, high, low, "ring", "ramp")
    held = {segment.rate_rps for segment in view.ramp if segment.held}
    for rate_rps, step in failed.items():
        if rate_rps in held or step.floor is None or step.verdict not in ("pass", "fail"):
            continue
        low, high = step.floor
        if step.verdict == "pass":
            yield _Known(rate_rps, low, high, low, "ring", "ramp")
        else:
            found = _of_sent(view, rate_rps, (low, high), target)
            known = not tells_nothing((low, high), target)
            yield _Known(rate_rps, low, high, high, "ring", "ramp") if known else found._replace(shape="ring", kind="ramp")


def _told(marks: Sequence[_Known], voids: Sequence[float], target: float) -> str:
    """What the plot shows, for those who do not see it."""
    parts = [f"at {rate_text(mark.rate_rps)} {_known_words(mark, target)}" for mark in sorted(marks)]
    parts += [f"at {rate_text(rate_rps)} void" for rate_rps in voids]
    return f"Target {plain(target)}; {'; '.join(parts)}."


def _known_words(mark: _Known, target: float) -> str:
    if mark.certain is None:
        return "not known"
    if mark.low == mark.high:
        return between(mark.low, mark.high, target)
    return at_least(mark.low, target) if mark.certain == mark.low else at_most(mark.high, target)


def _over_rates(view: RunView, knee: Knee, which: Latency, axis: Axis) -> Chart | None:
    """p50 and p95 of each rate, of several repeats the highest."""
    name, meaning = _NAMES[which]
    rates: dict[float, list[RepeatResult]] = {}
    for rate_rps, repeat in _all_repeats(view):
        if repeat.verdict in ("pass", "fail") and getattr(repeat, which).p50 is not None:
            rates.setdefault(rate_rps, []).append(repeat)
    lines = {quantile: [(at, _highest(rates[at], which, quantile)) for at in sorted(rates)] for quantile in ("p50", "p95")}
    if not rates:
        return None
    most_s = getattr(view.config.slo, which) if view.config else None
    said = [
        f"at {rate_text(at)} p50 {latency_brief(p50)}, p95 {latency_brief(p95)}"
        for (at, p50), (_, p95) in zip(*lines.values(), strict=True)
    ]
    drawing = Drawing(
        f"{name.lower()}-rate",
        f"{name} over the request rate",
        f"{meaning}: {'; '.join(said)}.",
        axis,
        _latencies([value for line in lines.values() for _, value in line], most_s),
    )
    _bracket(drawing, knee)
    if most_s is not None:
        drawing.rule(most_s, f"limit {limit(most_s)}")
    few = False
    for quantile, line in lines.items():
        drawing.line(line, quantile)
        for rate_rps, value in line:
            sparse = min(getattr(repeat, which).n for repeat in rates[rate_rps]) < FEW.get(quantile, 0)
            few |= sparse
            drawing.mark(rate_rps, value, "ring" if sparse else "dot", quantile)
    keys = (key("dot", "p50", "p50"), key("dot", "p95", "p95"), *((key("ring", "p95", "of too few answers"),) if few else ()))
    return Chart(f"{name} by rate", drawing.markup(), keys)


def _highest(repeats: Iterable[RepeatResult], which: Latency, quantile: str) -> float:
    return max(float(getattr(getattr(repeat, which), quantile)) for repeat in repeats)


def _rates(view: RunView, knee: Knee) -> Axis | None:
    """All rates that were tried, the same for every plot over rates; None where none was."""
    sent = [segment.rate_rps for segment in view.ramp if segment.held]
    ordered = sorted({*sent, *(step.rate_rps for step in view.steps if not step.set_aside)})
    if not ordered:
        return None
    low, high = ordered[0], ordered[-1]
    room = max(_LEAST_SPAN / (high / low), 1.0) ** 0.5 * (high / low) ** 0.06
    ends = [at for at in (knee.pass_rps, knee.fail_rps) if at is not None]
    labels = tuple((at, number(at)) for at in dict.fromkeys([*(at for at in ends if low <= at <= high), *ordered]))
    return Axis(low / room, high * room, log=True, labels=labels)


def _bracket(drawing: Drawing, knee: Knee) -> None:
    axis = drawing.x
    if knee.pass_rps is not None and axis.low < knee.pass_rps < axis.high:
        drawing.zone(axis.low, knee.pass_rps, "pass")
        drawing.upright(knee.pass_rps, f"holds {number(knee.pass_rps)}", "pass", end=True)
    if knee.fail_rps is not None and axis.low < knee.fail_rps < axis.high:
        drawing.zone(knee.fail_rps, axis.high, "fail")
        drawing.upright(knee.fail_rps, f"fails {number(knee.fail_rps)}", "fail", end=False)


def _bottom(certain: Sequence[float], target: float) -> float:
    """Near the target, where the question is; lower where something lies lower."""
    lowest = min(certain, default=target)
    edges = [1 - times * (1 - target) for times in (2, 4, 10)] + [0.9, 0.8, 0.5, 0.25]
    return max((round(edge, 6) for edge in edges if 0 <= edge < target and edge <= lowest), default=0.0)


def _shares(bottom: float, target: float) -> tuple[tuple[float, str], ...]:
    between_them = [share for share in (0.25, 0.5, 0.75, 0.9) if bottom < share < target - 0.06]
    return tuple((share, plain(share)) for share in (1.0, bottom, *between_them))


def _latencies(values: Sequence[float], most_s: float | None) -> Axis:
    known = [value for value in (*values, most_s) if value is not None and value > 0] or [1.0]
    low, high = min(known) / 1.4, max(known) * 1.5
    return Axis(low, high, log=True, labels=log_labels(low, high, latency_brief))


# --- over time ----------------------------------------------------------------------------------------------------

_Value = Callable[[SeriesPoint], float | None]


def _time(view: RunView) -> Axis:
    end_s = max(view.series[-1].t_s + view.bin_s, 1.0)
    step_s = next((step for step in (10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600) if end_s / step <= 6), end_s / 5)
    return Axis(0.0, end_s, labels=tuple((at * step_s, clock(at * step_s)) for at in range(math.floor(end_s / step_s) + 1)))


def _line(view: RunView, value: _Value) -> list[tuple[float, float | None]]:
    return [(point.t_s + view.bin_s / 2, value(point)) for point in view.series]


def _most(view: RunView, *values: _Value) -> float | None:
    known = [found for value in values for point in view.series if (found := value(point)) is not None]
    return max(known, default=None)


def _rate_over_time(view: RunView) -> Chart | None:
    asked = [(each.t_s + view.bin_s / 2, each.rate_rps) for each in view.outcomes]
    top = max((rate for _, rate in asked if rate is not None), default=0.0)
    if not view.series or not top:
        return None
    top = ceiling(max(top, _most(view, lambda point: point.served_rps) or 0.0))
    about = f"Rates from 0 to {number(top)} requests/s over {clock(view.series[-1].t_s)} of the run."
    axis = Axis(0.0, top, labels=even_labels(top, as_set))
    drawing = Drawing("rate-time", "Request rate over the time of the run", about, _time(view), axis)
    drawing.line(_line(view, lambda point: point.served_rps), "served")
    drawing.line(asked, "asked")
    return Chart("Rate over time, requests/s", drawing.markup(), (key("line", "asked", "judged"), key("line", "served", "served")))


def _latency_over_time(view: RunView, which: Latency) -> Chart | None:
    name, meaning = _NAMES[which]
    stem = which.removesuffix("_s")
    lines = {quantile: _line(view, attrgetter(f"{stem}_{quantile}_s")) for quantile in ("p50", "p95")}
    known = [value for line in lines.values() for _, value in line if value is not None]
    if not known:
        return None
    most_s = getattr(view.config.slo, which) if view.config else None
    about = f"{meaning} of the answers of each moment: from {latency_brief(min(known))} to {latency_brief(max(known))}."
    axis = _latencies(known, most_s)
    drawing = Drawing(f"{stem}-time", f"{name} over the time of the run", about, _time(view), axis)
    if most_s is not None:
        drawing.rule(most_s, f"limit {limit(most_s)}")
    for quantile in ("p95", "p50"):
        drawing.line(lines[quantile], quantile)
    return Chart(f"{name} over time", drawing.markup(), (key("line", "p50", "p50"), key("line", "p95", "p95")))


def _queue(view: RunView) -> Chart | None:
    most = _most(view, lambda point: point.running, lambda point: point.waiting)
    if most is None:
        return None
    top = ceiling(most)
    about = f"Requests that run and that wait in the server: {number(most)} at most."
    axis = Axis(0.0, top, labels=even_labels(top, as_set))
    drawing = Drawing("queue-time", "Requests in the server over the time of the run", about, _time(view), axis)
    drawing.line(_line(view, lambda point: point.running), "running")
    drawing.line(_line(view, lambda point: point.waiting), "waiting")
    keys = (key("line", "running", "running"), key("line", "waiting", "waiting"))
    return Chart("Requests in the server", drawing.markup(), keys)


def _kv(view: RunView) -> Chart | None:
    most = _most(view, lambda point: point.kv_usage_frac)
    if most is None:
        return None
    axis = Axis(0.0, 1.0, labels=even_labels(1.0, plain))
    about = f"Share of the KV cache in use: {percent(most)} at most."
    drawing = Drawing("kv-time", "KV cache usage over the time of the run", about, _time(view), axis)
    drawing.line(_line(view, lambda point: point.kv_usage_frac), "running")
    return Chart("KV cache in use", drawing.markup(), (key("line", "running", "KV cache"),))
