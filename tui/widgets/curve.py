"""The measured curve: attainment against rate, and what was served of what was offered. Pure functions of a view."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from textual.content import Content

from core.compare import Ghost
from core.judge import Bracket
from core.results import Knee, RepeatResult, RepeatVerdict, StepResult
from core.slo import tells_nothing
from core.units import DASH, number, plain, rate_brief
from core.view import RunView
from tui.draw.plots import Bar, Curve, Dot, Ink, Plot, Upright, Zone
from tui.draw.style import GHOST, VERDICTS, clean, shorten
from tui.widgets.calm import CALM_S, Calm
from tui.widgets.panel_content import nice_ceiling
from tui.widgets.pieces import Piece
from tui.widgets.plot_view import PanelContent, PlotView, Titled
from tui.widgets.rate_known import Interval, margins_at, planned_rps, window_over
from tui.widgets.steps_table import floor_text, verdicts

HELD_GLYPH, BROKE_GLYPH = "✓", "✗"
"""Light marks: of requests that no window counts, those of the ramp and of a warm-up."""
RUNNING_GLYPH, SERVED_GLYPH, OPEN_GLYPH = "○", "○", "?"
_LEAST_SPAN = math.log10(1.6)
_FURTHEST = 1.0
"""Marks are shown up to a factor of ten from the rates that were measured: farther away they would press these together."""
_BOTTOMS = (2, 4, 10)
"""The lower end of the axis lies this many times as far below 100 % as the target, while nothing lies lower."""
_LABELS = 9
_ABOVE = 0.13
"""Of the axis: of five rows the target has the second."""
_QUARTERS = (0.75, 0.5, 0.25)
_ROUNDING = 0.05
"""Of the axis: points that are closer are one, for the rows of a small plot would tear them apart."""
_SPREAD = 6
"""Cells to either side: twelve repeats of one rate and one attainment are all seen."""
_LINE = 60
"""Points of the line on which all that is asked for is good."""


class Told(NamedTuple):
    """A plot, what its characters mean, and of which moment it is."""

    content: PanelContent
    legend: str
    now_s: float


class CurvePanel(PlotView, Titled, can_focus=True):
    """A plot over rates with a border and a title that carries its current values; can be maximised. Bounds that move are drawn
    once a second."""

    ALLOW_MAXIMIZE = True

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._calm = Calm[Told](self, self._take, _is_same)

    def show_content(self, content: PanelContent, legend: str, now_s: float) -> None:
        """Take a new title, new data, and what its characters mean. `now_s`: of which moment of the run."""
        self._calm.offer(Told(content, legend, now_s))

    def _take(self, told: Told) -> None:
        content, legend, _ = told
        self.set_title(content.title)
        self.show(content.body)
        legend = "" if isinstance(content.body, str) else legend
        if legend != self._subtitle:
            self._subtitle = legend
            self.border_subtitle = Content(legend)


LEGEND = (
    f"{VERDICTS['pass'].glyph} {VERDICTS['fail'].glyph} repeat  {HELD_GLYPH} {BROKE_GLYPH} ramp, warm-up  "
    f"{VERDICTS['void'].glyph} void  │ least to most"
)
SERVED_LEGEND = (
    f"{VERDICTS['pass'].glyph} {VERDICTS['fail'].glyph} good  {SERVED_GLYPH} served, not all good  ⠤ all good  │ least to most"
)


_LABEL = 24
"""Cells of the name of a ghost in a legend."""


def ghost_named(ghost: Ghost) -> str:
    """What its sign is, for a legend."""
    return f"{GHOST.glyph} {GHOST.word} {shorten(clean(ghost.label), _LABEL)}"


def legend(ghost: Ghost | None) -> str:
    """That of the attainment; the ghost comes first, because it is the news."""
    if ghost is None:
        return LEGEND
    return f"{ghost_named(ghost)}{'' if ghost.other is None else ' (other limits)'}  {LEGEND}"


def _is_same(before: Told, now: Told) -> bool:
    """Whether it has the same marks a moment later, be it elsewhere."""
    return 0 <= now.now_s - before.now_s <= CALM_S and _shape(before.content) == _shape(now.content)


def _shape(content: PanelContent) -> tuple[object, ...]:
    """All that is drawn but how high its marks stand."""
    body = content.body
    if isinstance(body, str):
        return content.title, body
    marks = [(bar.x, bar.glyph, bar.ink) for bar in body.bars]
    return content.title, marks, body.zones, body.uprights, body.x_range, body.y_range


def knee_of(view: RunView) -> Knee:
    """The bracket of the answer; while the search is on, as far as it is known."""
    if view.known_answer is not None:
        return view.known_answer.knee
    return Bracket.of(view.config.method, view.steps, target=view.config.slo.target).knee() if view.config else Knee()


def attainment(view: RunView, name: str, marks: Sequence[Upright] = (), ghost: Ghost | None = None) -> PanelContent:
    """Attainment against rate: each repeat and each segment of the ramp from the least to the most that it can be, the target a
    rule, the zones shaded. `marks` are rates to point at, in requests/s. `ghost`: a run whose floors and bracket lie behind."""
    knee, target = knee_of(view), view.config.slo.target if view.config else None
    title = [Piece(name, "strong"), *_zone_pieces(knee)]
    if target is not None:
        title.append(Piece(f"target {plain(target)}", "muted", 3))
    bars = [*_judged(view, target), *_running(view, target), *_ramp(view, target)]
    if not bars:
        return PanelContent(tuple(title), "no rate was sent yet: the ramp is the first")
    floors, ends = _ghost_floors(ghost), _ghost_ends(ghost)
    bottom = _bottom([*(bar.low for bar in bars), *(_known(bar) for bar in floors)], target)
    voids = _voids(view.steps, bottom)
    rates = sorted({10**bar.x for bar in (*bars, *voids)})
    low, high = _axis(rates, (*marks, *ends, *(Upright(10**bar.x, "") for bar in floors)))
    return PanelContent(
        tuple(title),
        Plot(
            x_range=(low, high),
            y_range=(bottom, _top(bottom, target)),
            curves=(),
            y_labels=_share_labels(bottom, target),
            x_labels=_rate_labels(knee, rates),
            rule=target,
            bars=(*bars, *voids),
            spread=_SPREAD,
            zones=_zones(knee, low, high),
            uprights=tuple(Upright(math.log10(at.x), at.name, at.ink) for at in (*marks, *_now(view), *_truth(view))),
            behind=floors,
            behind_lines=tuple(replace(end, x=math.log10(end.x)) for end in ends),
            margins=(7, 0),
        ),
    )


def _ghost_floors(ghost: Ghost | None) -> tuple[Bar, ...]:
    return tuple(
        Bar(
            math.log10(floor.rate_rps),
            floor.low,
            floor.high,
            GHOST.glyph,
            "faint",
            "low" if floor.verdict == "pass" or floor.low == floor.high else "high",
        )
        for floor in (() if ghost is None else ghost.floors)
    )


def _ghost_ends(ghost: Ghost | None) -> tuple[Upright, ...]:
    """Its bracket, by its ends that are rates."""
    ends = () if ghost is None else ((ghost.pass_rps, "holds"), (ghost.fail_rps, "fails"))
    return tuple(Upright(at, f"{GHOST.glyph} {word} {number(at)}", "faint", GHOST.glyph) for at, word in ends if at)


def _known(bar: Bar) -> float:
    return bar.high if bar.known == "high" else bar.low


def _zone_pieces(knee: Knee) -> list[Piece]:
    pieces = []
    if knee.pass_rps is not None:
        pieces.append(Piece(f"✔ holds {rate_brief(knee.pass_rps)}", "holds", 0))
    if (failing := knee.fail_rps) is not None:
        word = "clearly fails at" if knee.clearly_fails else "fails at"
        pieces.append(Piece(f"✘ {word} {rate_brief(failing)}", "breaks", 0))
    return pieces


def _judged(view: RunView, target: float | None) -> list[Bar]:
    """The repeats that count. Failing ones first: where bars crowd they keep their places."""
    bars = [
        _bar(view, step.rate_rps, repeat.verdict, repeat.attainment_interval, target)
        for step in view.steps
        if step.phase != "ramp" and not step.set_aside
        for repeat in step.repeats
        if repeat.verdict in ("pass", "fail")
    ]
    return sorted(bars, key=lambda bar: bar.ink != "bad")


def _bar(view: RunView, rate_rps: float, verdict: RepeatVerdict, interval: Interval, target: float | None) -> Bar:
    """A repeat, its mark at the end by which it was judged; if that says nothing, what all requests of its rate say."""
    x, mark = math.log10(rate_rps), VERDICTS[verdict].glyph
    if verdict == "pass":
        return Bar(x, *interval, mark, "good", "low")
    if tells_nothing(interval, target):
        return _unknown(view, rate_rps, interval, target, "bad")
    enough = target is not None and interval[0] >= target  # it failed by its queue or its errors
    return Bar(x, *interval, mark, "bad", "low" if enough else "high")


def _unknown(view: RunView, rate_rps: float, interval: Interval, target: float | None, ink: Ink) -> Bar:
    """A failure whose attainment is not known."""
    x, margins = math.log10(rate_rps), margins_at(view, rate_rps)
    sent = None if margins is None else margins.attained
    if sent is None or tells_nothing(sent, target):
        return Bar(x, *interval, OPEN_GLYPH, ink, "both")
    return Bar(x, *sent, BROKE_GLYPH, ink, "high")


def _ramp(view: RunView, target: float | None) -> list[Bar]:
    """The segments of the newest ramp, those that held too; they only say where to look."""
    failed = {step.rate_rps: step for step in view.steps if step.phase == "ramp" and not step.set_aside}
    bars = []
    for segment in view.ramp:
        x, (low, high) = math.log10(segment.rate_rps), segment.bounds.end
        if segment.held:
            bars.append(Bar(x, low, high, HELD_GLYPH, "label", "low"))
        elif segment.rate_rps not in failed and (so_far := segment.bounds.so_far) is not None:
            bars.append(Bar(x, *so_far, RUNNING_GLYPH, "label", "both"))
    sent = {segment.rate_rps for segment in view.ramp if segment.held}
    for rate_rps, step in failed.items():
        if rate_rps not in sent and step.floor is not None and step.verdict in ("pass", "fail"):
            bars.append(_segment(view, step, step.floor, target))
    return bars


def _segment(view: RunView, step: StepResult, floor: Interval, target: float | None) -> Bar:
    """The segment that a step of the ramp is judged by."""
    if step.verdict == "pass":
        return Bar(math.log10(step.rate_rps), *floor, HELD_GLYPH, "label", "low")
    if tells_nothing(floor, target):
        return _unknown(view, step.rate_rps, floor, target, "bad")
    return Bar(math.log10(step.rate_rps), *floor, BROKE_GLYPH, "bad", "high")


def _voids(steps: Iterable[StepResult], bottom: float) -> list[Bar]:
    """A repeat that does not count stands at the foot, whatever it saw."""
    rates = [step.rate_rps for step in steps if step.phase != "ramp" for repeat in step.repeats if repeat.verdict == "void"]
    return [Bar(math.log10(at), bottom, bottom, VERDICTS["void"].glyph, "label", "both") for at in rates]


def _running(view: RunView, target: float | None) -> list[Bar]:
    """The repeats of the step that runs: those that ended, and the one that is measured or, paler, warms up, so far."""
    step = view.current
    if step is None or view.answer is not None or step.phase == "ramp":
        return []
    bars = [
        _bar(view, step.rate_rps, verdict, interval, target)
        for interval, verdict in zip(step.finished, verdicts(step, target), strict=True)
    ]
    live = step.live
    if live is None or live.decided is not None:
        return bars
    warmup = live.warmup.so_far if live.warmup is not None else None
    if (so_far := live.bounds.so_far or warmup) is not None:
        ink: Ink = "bright" if live.bounds.so_far is not None else "label"
        bars.append(Bar(math.log10(step.rate_rps), *so_far, RUNNING_GLYPH, ink, "both"))
    return bars


def _axis(rates_rps: Sequence[float], marks: Sequence[Upright]) -> tuple[float, float]:
    """The ends of the axis, as logarithms: all rates that were tried, and marks that are not too far from them."""
    low, high = math.log10(min(rates_rps)), math.log10(max(rates_rps))
    for mark in marks:
        if low - _FURTHEST <= (at := math.log10(mark.x)) <= high + _FURTHEST:
            low, high = min(low, at), max(high, at)
    room = max(0.08 * (high - low), (_LEAST_SPAN - (high - low)) / 2, 0.03)
    return low - room, high + room


def _bottom(values: Sequence[float], target: float | None) -> float:
    """Near the target, where the question is; 0 where something lies far lower, so that nothing is cut off."""
    share = 1.0 if target is None else target
    edges = {round(max(0.0, 1 - times * (1 - share)), 6) for times in _BOTTOMS} | {0.9, 0.5, 0.0}
    return next(edge for edge in sorted(edges, reverse=True) if edge < share and (min(values) >= edge or not edge))


def _top(bottom: float, target: float | None) -> float:
    """100 %; where the target lies so near it that on a small plot both share a row, so much more that one is above the rule."""
    missing = None if target is None else (1 - target) / (1 - bottom)
    return 1.0 if not missing or missing >= _ABOVE else 1 + (1 - bottom) * (_ABOVE - missing) / (1 - _ABOVE)


def _share_labels(bottom: float, target: float | None) -> tuple[tuple[float, str], ...]:
    """The target and both ends first, then what is between them as far as there is room: quarters, or rounder fifths."""
    ends = [*([] if target is None else [target]), 1.0, bottom]
    quarters, fifths = ([round(bottom + (1 - bottom) * at / n, 6) for at in range(n - 1, 0, -1)] for n in (4, 5))
    between = min(quarters, fifths, key=lambda shares: max(len(plain(share)) for share in shares))
    return tuple((share, plain(share)) for share in dict.fromkeys([*ends, *between]))


def _zones(knee: Knee, low: float, high: float) -> tuple[Zone, ...]:
    """PASS, MIXED and CLEAR FAIL; what lies between the ends and was not measured is called so."""
    zones = []
    passed, first, upper = (None if at is None else math.log10(at) for at in (knee.pass_rps, knee.first_fail_rps, knee.fail_rps))
    if first is not None:
        zones.append(Zone(low if passed is None else passed, first, ("not known", "?"), "unknown"))
    if passed is not None:
        zones.append(Zone(low, passed, (f"PASS up to {number(10**passed)}", "PASS", "✔"), "passes"))
    if first is not None and (upper is None or first < upper):
        mixed = (f"MIXED from {number(10**first)}", "MIXED", "◐")
        zones.append(Zone(first, high if upper is None else upper, mixed, "mixed"))
    if upper is not None:
        word = "CLEAR FAIL" if knee.clearly_fails else "FAIL"
        zones.append(Zone(upper, high, (f"{word} from {number(10**upper)}", word, "FAIL", "✘"), "fails"))
    return tuple(zones)


def _truth(view: RunView) -> tuple[Upright, ...]:
    """The known knee of a simulated replica; only the end of a demo may show it."""
    if view.truth_rps is None or view.known_answer is None:
        return ()
    return (Upright(view.truth_rps, f"long-run knee {number(view.truth_rps)}"),)


def _now(view: RunView) -> tuple[Upright, ...]:
    """The rate that is sent."""
    if view.current is None or view.answer is not None:
        return ()
    return (Upright(view.current.rate_rps, f"now {number(view.current.rate_rps)}", "middle"),)


def _rate_labels(knee: Knee, rates_rps: Iterable[float]) -> tuple[tuple[float, str], ...]:
    """The ends of the bracket first, then the other rates as far as there is room; the lowest has the unit."""
    ends = [at for at in (knee.pass_rps, knee.fail_rps, knee.first_fail_rps) if at is not None]
    ordered = dict.fromkeys([*ends, *sorted(rates_rps)])
    labels = [(math.log10(at), rate_brief(at) if at == min(ordered) else number(at)) for at in ordered]
    return tuple(labels[:_LABELS])


def served(view: RunView, name: str) -> PanelContent:
    """What of a rate was good, from the least to the most that it can be, and what was served; over the rate that was asked for."""
    judged = [
        (step.rate_rps, repeat)
        for step in view.steps
        if step.phase != "ramp" and not step.set_aside
        for repeat in step.repeats
        if repeat.verdict in ("pass", "fail")
    ]
    target = view.config.slo.target if view.config else None
    bars = [bar for at, repeat in judged if (bar := _good(at, repeat, target)) is not None]
    title = [Piece(name, "strong")]
    if not bars:
        text = "no repeat is judged yet" if not judged else "of no repeat it is known: each was given up before its window was over"
        return PanelContent((*title, Piece("good requests/s by the rate asked for", "muted", 1)), text)
    best = max(bars, key=lambda bar: bar.low)
    bound = "" if best.low == best.high else "≥ "
    title.append(Piece(f"most {bound}{rate_brief(best.low)} good, at {rate_brief(10**best.x)}", "plain", 0))
    knee, rates = knee_of(view), sorted({at for at, _ in judged})
    if unknown := [at for at in rates if math.log10(at) not in {bar.x for bar in bars}]:
        title.append(Piece(f"not known at {', '.join(map(number, unknown))}", "muted", 1))
    seen = sorted({10**bar.x for bar in (*_judged(view, target), *_ramp(view, target))})
    low, high = _axis(seen, ())
    top = nice_ceiling(max(*(bar.high for bar in bars), *rates))
    line = [low + (min(high, math.log10(top)) - low) * at / _LINE for at in range(_LINE + 1)]
    return PanelContent(
        tuple(title),
        Plot(
            x_range=(low, high),
            y_range=(0.0, top),
            curves=(Curve("", "faint", tuple((x, 10**x) for x in line)),),
            y_labels=((top, number(top)), (0.0, "0"), *((share * top, number(share * top)) for share in _QUARTERS)),
            x_labels=_rate_labels(knee, seen),
            bars=tuple(sorted(bars, key=lambda bar: bar.ink != "bad")),
            dots=tuple(_served(judged, top)),
            spread=_SPREAD,
            zones=_zones(knee, low, high),
            margins=(7, 0),
        ),
    )


def _good(rate_rps: float, repeat: RepeatResult, target: float | None) -> Bar | None:
    """Good requests a second over the whole window: between those that were and those that still could be. None where that says
    no more than that so many were planned."""
    passed = repeat.verdict == "pass"
    if tells_nothing(repeat.attainment_interval, target):
        return None
    low, high = (share * planned_rps(repeat) for share in repeat.attainment_interval)
    return Bar(
        math.log10(rate_rps), low, high, VERDICTS[repeat.verdict].glyph, "good" if passed else "bad", "low" if passed else "high"
    )


def _served(judged: Iterable[tuple[float, RepeatResult]], top: float) -> list[Dot]:
    """What finished a second, where that is clearly more than can be good; only of windows that were over."""
    return [
        Dot(math.log10(at), repeat.served_rps, SERVED_GLYPH, "bright")
        for at, repeat in judged
        if window_over(repeat) and repeat.served_rps - repeat.attainment_interval[1] * planned_rps(repeat) > _ROUNDING * top
    ]


def floor_at(view: RunView, rate_rps: float) -> str:
    """The floor that was measured at a rate, as far as it is certain."""
    target = view.config.slo.target if view.config else None
    steps = [step for step in view.steps if step.rate_rps == rate_rps and step.phase != "ramp" and step.floor is not None]
    return floor_text(steps[-1], target) if steps else DASH
