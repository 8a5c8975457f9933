"""The panel that decides: while a step runs its attainment floor, before that the checks, at the end the answer."""

import textwrap

from textual.content import Content

from core import prose
from core.units import DASH, clock, plain, rate_brief
from core.view import RunView
from tui.draw.style import VERDICTS, clean
from tui.widgets import answer, checks, deciding
from tui.widgets.pieces import Piece, styled
from tui.widgets.plot_view import Titled
from tui.widgets.steps_table import floor_text

NAME, SHORT_NAME = "2 attainment floor", "2 floor"
_SHORT_BELOW = 38
"""Narrower, and the state has no room on the border beside the whole name."""


class FloorPanel(Titled, can_focus=True):
    """Panel 2. What it shows follows the run: checks, running floor, answer."""

    ALLOW_MAXIMIZE = True
    HELP = "good, missed and open apart; the share that the repeat can still reach; the target"

    _view: RunView | None = None
    _shown: Content = Content()

    def show(self, view: RunView) -> None:
        """Take a new view."""
        before, self._view = self._view, view
        if before is None or _facts(before) != _facts(view):
            self._draw(view)
        self.set_title(title(view, self._heading))

    @property
    def _heading(self) -> str:
        return SHORT_NAME if 0 < self.outer_size.width < _SHORT_BELOW else NAME

    def on_resize(self) -> None:
        """Another size has room for other lines."""
        super().on_resize()
        if self._view is not None:
            self._draw(self._view)
            self.set_title(title(self._view, self._heading))

    def render(self) -> Content:
        """The lines that fit."""
        return self._shown

    def _draw(self, view: RunView) -> None:
        (width, height), span = self.size, None
        if (given := view.known_answer) is not None:
            alone = self.screen.maximized is self
            self._shown = answer.content(view, given, width, height, "in the report" if alone else "press 2")
        elif view.current is not None:
            self._shown, span = deciding.draw(view, view.current, width, height)
        else:
            self._shown = last_step(view, width, height) if view.steps else checks.content(view, width, height)
        self.set_subtitle(f"{clock(span[0])} {DASH} {clock(span[1])}" if span else "")
        self.refresh()


def _facts(view: RunView) -> tuple[object, ...]:
    """What the panel is drawn from: not the series, which change with every answer."""
    answered = view.known_answer, view.closed_loop
    return view.current, answered, view.steps, view.checks, view.config, view.ramp, view.outcomes


def title(view: RunView, name: str = NAME) -> tuple[Piece, ...]:
    """What the panel says when it is collapsed to its border."""
    target = view.config.slo.target if view.config else None
    aim = () if target is None else (Piece(f"target {plain(target)}", "muted", 1),)
    if view.answer is not None:
        return (Piece("2 answer", "strong"), *aim, Piece(f"after {checks.ran_for(view)}", "muted", 2))
    if view.found is not None:
        return (Piece("2 answer", "strong"), *aim)
    if view.current is None:
        return (Piece(name, "strong"), Piece("between two steps", "muted", 1)) if view.steps else checks.title(view)
    return deciding.title(view, view.current, name)


def last_step(view: RunView, width: int, height: int) -> Content:
    """Between two steps the one that ended, with its reason in full: its result stands until another runs."""
    step = view.steps[-1]
    mark = VERDICTS[step.verdict]
    target = view.config.slo.target if view.config else None
    head = f"{'ramp' if step.phase == 'ramp' else f'step {step.step}'}  {rate_brief(step.rate_rps)}  "
    lines = [Content.assemble(styled(head, "strong"), styled(str(mark), mark.role), styled(f"  floor {floor_text(step, target)}"))]
    lines += [Content.assemble(styled(line)) for line in textwrap.wrap(clean(prose.text(step.reason)), max(width, 20))]
    return Content("\n").join(lines[:height])
