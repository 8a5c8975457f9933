"""The hero: while a step runs its attainment floor, before that the checks, at the end the answer."""

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Static

from core.units import DASH, between, percent, plain
from core.view import RunView, StepView
from tui.draw.plots import Curve, Plot
from tui.draw.style import Mark
from tui.widgets import answer, checks
from tui.widgets.panel_content import closed, points
from tui.widgets.pieces import Piece
from tui.widgets.plot_view import PlotView, Titled, span_text
from tui.widgets.repeat_bars import LEAST_BARS, RepeatBars

_LENGTHS_S = (20.0, 30.0, 45.0, 60.0, 90.0, 120.0, 180.0, 300.0, 600.0, 1200.0)


class FloorPanel(Vertical, Titled, can_focus=True):
    """Panel 1. What it shows follows the run: checks, running floor, answer."""

    ALLOW_MAXIMIZE = True
    HELP = "share inside all limits so far, at least and at most; the target"

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._view: RunView | None = None
        self._words, self._plot, self._bars = Static(id="floor-text"), PlotView(id="floor-plot"), RepeatBars(id="floor-bars")

    def compose(self) -> ComposeResult:
        yield from (self._words, self._plot, self._bars)

    def on_resize(self) -> None:
        """Another size has room for other text."""
        super().on_resize()
        if self._view is not None:
            self.show(self._view)

    def show(self, view: RunView) -> None:
        """Take a new view."""
        self._view = view
        step = view.current if view.answer is None else None
        self._words.display = step is None
        self._plot.display = self._bars.display = step is not None
        self.set_title(title(view))
        if step is None:
            self.set_subtitle("")
            self._words.update(self._text(view))
        else:
            body = trace(view, step)
            self.set_subtitle(span_text(body))
            self._plot.show(body)
            most = max(LEAST_BARS, self.size.height // 3)
            self._bars.show(step, view.config.slo.target if view.config else None, most)

    def _text(self, view: RunView) -> Content:
        width, height = self.size
        if view.answer is not None:
            alone = self.screen.maximized is self
            return answer.content(view, view.answer, width, height, "in the report" if alone else "press 1")
        return checks.content(view, width, height)


def title(view: RunView) -> tuple[Piece, ...]:
    """What the panel says when it is collapsed to its border."""
    target = view.config.slo.target if view.config else None
    aim = () if target is None else (Piece(f"target {plain(target)}", "muted", 1),)
    if view.answer is not None:
        return (Piece("1 answer", "strong"), *aim, Piece(f"after {checks.ran_for(view)}", "muted", 2))
    if view.current is None:
        if view.steps:
            return (Piece("1 attainment floor", "strong"), Piece("between two steps", "muted", 1))
        return checks.title(view)
    pieces = [Piece("1 attainment floor", "strong")]
    floor = view.current.floor
    if floor is None:
        pieces.append(Piece("nothing judged yet", "muted", 1))
    else:
        state = _state(view.current, floor, target)
        pieces += [Piece(f"so far {between(*floor, target, DASH)}", state.role, 0), Piece(str(state), state.role, 2)]
    pieces.extend(aim)
    live = view.current.live
    if live is not None and live.bounds.sent:
        pieces.append(Piece(f"open {percent(live.bounds.open / live.bounds.sent)}", "muted", 3))
    return tuple(pieces)


def _state(step: StepView, so_far: tuple[float, float], target: float | None) -> Mark:
    """What is certain of a whole repeat; below the target in what was sent so far, it may still rise above."""
    ends = [hi for _, hi in step.finished] + ([step.live.bounds.end[1]] if step.live else [])
    if target is not None and min(ends, default=1.0) < target:
        return Mark("✘", "below target", "breaks")
    if target is not None and so_far[0] >= target:
        return Mark("✔", "above target so far", "holds")
    if target is not None and so_far[1] < target:
        return Mark("…", "below target so far", "strong")
    return Mark("…", "undecided", "strong")


def trace(view: RunView, step: StepView) -> Plot | str:
    """The running attainment of this repeat over time: its upper and lower end."""
    begin_s = _begin_s(view, step)
    series = [point for point in closed(view) if point.step == step.step and point.t_s >= begin_s]
    if not any(point.floor_hi is not None for point in series):
        part = step.live.part if step.live else "starting"
        return (
            "warm-up: requests are sent, but none of them is judged yet"
            if part == "warm-up"
            else "waiting for the first judged request"
        )
    target = view.config.slo.target if view.config else None
    high, low = points(series, lambda p: p.floor_hi), points(series, lambda p: p.floor_lo)
    bottom = _bottom(min(y for _, y in high if y is not None), target)
    start, elapsed = series[0].t_s, series[-1].t_s + view.bin_s - series[0].t_s
    length = next((nice for nice in _LENGTHS_S if nice >= elapsed), elapsed)
    beyond = any(y is not None and y < bottom for _, y in low)
    labels = [(1.0, "100 %"), (bottom, f"{'< ' if beyond else ''}{plain(bottom)}")]
    if target is not None:
        labels.insert(0, (target, plain(target)))
    return Plot(
        x_range=(start, start + length),
        y_range=(bottom, 1.0),
        curves=(
            Curve("so far at least", "middle", low, above="good"),
            Curve("so far at most", "bright", high, below="bad"),
        ),
        y_labels=tuple(labels),
        rule=target,
        max_gap=2.5 * view.bin_s,  # a warm-up between two segments has no attainment
    )


def _begin_s(view: RunView, step: StepView) -> float:
    """When the repeat that is seen began, with its warm-up; of a held rate the step, whose segments are one long repeat.

    A repeat that did not count and is done again has the same place in the step: only the time tells them apart.
    """
    if step.live is None or step.phase == "hold":
        edges = [point.t_s for point in view.series if point.step == step.step]
        return edges[1] if len(edges) > 1 else 0.0  # the first bin still holds the end of another step
    judged = [point.t_s for point in view.series if point.floor_hi is not None] if step.live.decided else []
    seen_s = judged[-1] + view.bin_s if judged else view.now_s
    return round(min(seen_s, view.now_s) - step.live.elapsed_s, 3)


def _bottom(worst: float, target: float | None) -> float:
    """The lower end of the axis: near the target while that shows the upper curve, else zero."""
    if target is None:
        return 0.0
    return next(
        (round(edge, 6) for edge in (1 - 4 * (1 - target), 1 - 10 * (1 - target)) if 0 < edge <= worst and edge < target), 0.0
    )
