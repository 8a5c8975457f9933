"""The measured curve: attainment against rate, and what was served of what was offered. Pure functions of a view."""

import math
from collections.abc import Iterable, Sequence

from textual.content import Content

from core.judge import Bracket
from core.results import Knee, RepeatResult, StepResult
from core.units import DASH, number, plain, rate_brief
from core.view import RunView
from tui.draw.plots import Curve, Dot, Ink, Plot, Upright, Zone
from tui.draw.style import VERDICTS
from tui.widgets.answer import step_floor
from tui.widgets.panel_content import nice_ceiling
from tui.widgets.pieces import Piece
from tui.widgets.plot_view import PanelContent, PlotView, Titled
from tui.widgets.steps_table import floor_text, verdicts

RAMP_GLYPH, RUNNING_GLYPH, SERVED_GLYPH, GOOD_GLYPH = "✗", "○", "○", "●"
_LEAST_SPAN = math.log10(1.6)
_FURTHEST = 1.0
"""Marks are shown up to a factor of ten from the rates that were measured: farther away they would press these together."""
_BOTTOMS = (2, 4, 10)
"""The lower end of the axis lies this many times as far below 100 % as the target."""
_LABELS = 9
_ROUNDING = 0.05
"""Of the axis: points that are closer are one, for the rows of a small plot would tear them apart."""
_SPREAD = 6
"""Cells to either side: twelve repeats of one rate and one attainment are all seen."""


class CurvePanel(PlotView, Titled, can_focus=True):
    """A plot over rates with a border and a title that carries its current values; can be maximised."""

    ALLOW_MAXIMIZE = True

    def show_content(self, content: PanelContent, legend: str) -> None:
        """Take a new title, new data, and what its characters mean."""
        self.set_title(content.title)
        self.show(content.body)
        legend = "" if isinstance(content.body, str) else legend
        if legend != self._subtitle:
            self._subtitle = legend
            self.border_subtitle = Content(legend)


LEGEND = (
    f"{VERDICTS['pass'].glyph} repeat passed  {VERDICTS['fail'].glyph} failed  {RAMP_GLYPH} ramp failed  "
    f"{VERDICTS['void'].glyph} void"
)
SERVED_LEGEND = f"{GOOD_GLYPH} good  {SERVED_GLYPH} served and not all good  ⠤ all offered"


def knee_of(view: RunView) -> Knee:
    """The bracket of the answer; while the search is on, as far as it is known."""
    if view.answer is not None:
        return view.answer.knee
    return Bracket.of(view.config.method, view.steps).knee() if view.config else Knee()


def attainment(view: RunView, name: str, marks: Sequence[Upright] = ()) -> PanelContent:
    """Attainment against rate: each repeat a point, the floors a line, the target a rule, the zones shaded.

    `marks` are rates to point at, in requests/s.
    """
    knee, target = knee_of(view), view.config.slo.target if view.config else None
    title = [Piece(name, "strong"), *_zone_pieces(knee)]
    if target is not None:
        title.append(Piece(f"target {plain(target)}", "muted", 3))
    floors = _floors(view.steps)
    running = _running(view, target)
    rates = [*floors, *(10**dot.x for dot in running)]
    if not rates:
        return PanelContent(tuple(title), "no rate is judged yet: the points come with the first step")
    low, high = _axis(rates, marks)
    full = {step.rate_rps for step in view.steps if step.phase != "ramp" and not step.set_aside}
    ends = [floors[at] for at in (knee.pass_rps, knee.first_fail_rps, knee.fail_rps) if at in floors and at in full]
    bottom = _bottom([*(ends or floors.values()), *(dot.y for dot in running)], target)
    clipped = any(floor < bottom for floor in floors.values())
    labels = [(1.0, "100 %"), (bottom, f"{'≤ ' if clipped else ''}{plain(bottom)}")]
    if target is not None:
        labels.insert(0, (target, plain(target)))
    line = tuple((math.log10(at), floor) for at, floor in sorted(floors.items()))
    return PanelContent(
        tuple(title),
        Plot(
            x_range=(low, high),
            y_range=(bottom, 1.0),
            curves=(Curve("", "faint", line),),
            y_labels=tuple(labels),
            x_labels=_rate_labels(knee, floors),
            rule=target,
            dots=(*_dots(view.steps, bottom), *running),
            spread=_SPREAD,
            zones=_zones(knee, low, high),
            uprights=tuple(Upright(math.log10(at.x), at.name, at.ink) for at in (*marks, *_now(view), *_truth(view))),
            margins=(7, 0),
        ),
    )


def _zone_pieces(knee: Knee) -> list[Piece]:
    pieces = []
    if knee.pass_rps is not None:
        pieces.append(Piece(f"✔ holds {rate_brief(knee.pass_rps)}", "holds", 0))
    if (failing := knee.fail_rps) is not None:
        word = "clearly fails" if knee.clearly_fails else "fails"
        pieces.append(Piece(f"✘ {word} {rate_brief(failing)}", "breaks", 0))
    return pieces


def _floors(steps: Iterable[StepResult]) -> dict[float, float]:
    """The lowest attainment that is certain at each rate: of what passed at least, of what failed at most. A full step counts over
    a segment of the ramp, of which only the failing one is evidence of anything."""
    floors: dict[float, float] = {}
    full: set[float] = set()
    for step in sorted(steps, key=lambda step: step.phase == "ramp"):
        value = step_floor(step)
        if value is None or (step.phase == "ramp" and (step.verdict != "fail" or step.rate_rps in full)):
            continue
        full.add(step.rate_rps)
        floors[step.rate_rps] = min(value, floors.get(step.rate_rps, 1.0))
    return floors


def _dots(steps: Iterable[StepResult], bottom: float) -> tuple[Dot, ...]:
    """Failing repeats first: where points crowd they keep their places."""
    dots = []
    for step in steps:
        x = math.log10(step.rate_rps)
        if step.phase == "ramp":
            if step.verdict == "fail" and (value := step_floor(step)) is not None:
                dots.append(Dot(x, value, RAMP_GLYPH, "bad"))
            continue
        dots += [dot for repeat in step.repeats if (dot := _dot(x, repeat, bottom)) is not None]
    return tuple(sorted(dots, key=lambda dot: dot.ink != "bad"))


def _dot(x: float, repeat: RepeatResult, bottom: float) -> Dot | None:
    """A repeat that passed at least, one that failed at most; one that does not count stands at the foot, whatever it saw."""
    mark, (low, high) = VERDICTS[repeat.verdict], repeat.attainment_interval
    if repeat.verdict == "void":
        return Dot(x, bottom, mark.glyph, "label")
    if repeat.verdict == "unjudged":
        return None
    return Dot(x, low, mark.glyph, "good") if repeat.verdict == "pass" else Dot(x, high, mark.glyph, "bad")


def _running(view: RunView, target: float | None) -> tuple[Dot, ...]:
    """The repeats of the step that runs: those that ended, and the one that is measured, where it stands."""
    step = view.current
    if step is None or view.answer is not None or step.phase == "ramp":
        return ()
    x = math.log10(step.rate_rps)
    dots = []
    for (low, high), verdict in zip(step.finished, verdicts(step, target), strict=True):
        passed = verdict == "pass"
        ink: Ink = "good" if passed else "bad"
        dots.append(Dot(x, low if passed else high, VERDICTS[verdict].glyph, ink))
    live = step.live
    if live is not None and live.decided is None and live.bounds.so_far is not None:
        dots.append(Dot(x, live.bounds.so_far[1], RUNNING_GLYPH, "bright"))
    return tuple(dots)


def _axis(rates_rps: Sequence[float], marks: Sequence[Upright]) -> tuple[float, float]:
    """The ends of the axis, as logarithms: all rates that were tried, and marks that are not too far from them."""
    low, high = math.log10(min(rates_rps)), math.log10(max(rates_rps))
    for mark in marks:
        if low - _FURTHEST <= (at := math.log10(mark.x)) <= high + _FURTHEST:
            low, high = min(low, at), max(high, at)
    room = max(0.08 * (high - low), (_LEAST_SPAN - (high - low)) / 2, 0.03)
    return low - room, high + room


def _bottom(values: Sequence[float], target: float | None) -> float:
    """Near the target, where the question is; what lies lower is drawn at the foot."""
    if target is None or target >= 1:
        return 0.0 if min(values) < 0.5 else 0.5
    edges = [round(max(0.0, 1 - times * (1 - target)), 6) for times in _BOTTOMS]
    return next((edge for edge in edges if min(values) >= edge), edges[-1])


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
    if view.truth_rps is None or view.answer is None:
        return ()
    return (Upright(view.truth_rps, f"long-run knee {number(view.truth_rps)}"),)


def _now(view: RunView) -> tuple[Upright, ...]:
    """The rate that is sent."""
    if view.current is None or view.answer is not None:
        return ()
    return (Upright(view.current.rate_rps, f"now {number(view.current.rate_rps)}", "middle"),)


def _rate_labels(knee: Knee, rates_rps: Iterable[float]) -> tuple[tuple[float, str], ...]:
    """The ends of the bracket first, then the other rates as far as there is room."""
    ends = [at for at in (knee.pass_rps, knee.fail_rps, knee.first_fail_rps) if at is not None]
    ordered = dict.fromkeys([*ends, *sorted(rates_rps)])
    labels = [(math.log10(at), number(at)) for at in ordered]
    if labels:
        labels[0] = (labels[0][0], f"{labels[0][1]} req/s")
    return tuple(labels[:_LABELS])


def served(view: RunView, name: str) -> PanelContent:
    """What was served and what of it was good, against what was offered; each judged repeat that had a rate of its own."""
    repeats = sorted(
        (repeat for step in view.steps if step.phase != "ramp" for repeat in step.repeats if repeat.verdict in ("pass", "fail")),
        key=lambda repeat: repeat.offered_rps,
    )
    title = [Piece(name, "strong")]
    if not repeats:
        return PanelContent((*title, Piece("against offered", "muted", 1)), "no repeat is judged yet")
    best = max(repeats, key=lambda repeat: repeat.goodput_rps)
    title.append(Piece(f"most good {rate_brief(best.goodput_rps)}, of {number(best.offered_rps)} offered", "plain", 0))
    top = nice_ceiling(max(max(r.offered_rps, r.served_rps) for r in repeats))
    ends = sorted({repeats[0].offered_rps, repeats[-1].offered_rps})
    return PanelContent(
        tuple(title),
        Plot(
            x_range=(0.0, top),
            y_range=(0.0, top),
            curves=(Curve("", "faint", ((0.0, 0.0), (top, top))),),
            y_labels=((top, number(top)), (0.0, "0")),
            x_labels=((top, f"{rate_brief(top)} offered"), *((at, number(at)) for at in reversed(ends)), (0.0, "0")),
            dots=(
                *(
                    Dot(r.offered_rps, r.served_rps, SERVED_GLYPH, "bright")
                    for r in repeats
                    if r.served_rps - r.goodput_rps > _ROUNDING * top
                ),
                *(Dot(r.offered_rps, r.goodput_rps, GOOD_GLYPH, "good" if r.verdict == "pass" else "bad") for r in repeats),
            ),
            margins=(7, 0),
        ),
    )


def floor_at(view: RunView, rate_rps: float) -> str:
    """The floor that was measured at a rate, as far as it is certain."""
    target = view.config.slo.target if view.config else None
    steps = [step for step in view.steps if step.rate_rps == rate_rps and step.phase != "ramp" and step.floor is not None]
    return floor_text(steps[-1], target) if steps else DASH
