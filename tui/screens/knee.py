"""Where does it break, how sure are we, and why?"""

from collections.abc import Iterable
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from core.results import StepResult
from core.view import RunView
from tui.frame import Frame
from tui.screens.run_screen import RunScreen
from tui.widgets import curve, knee_words
from tui.widgets.cliff import CliffPanel
from tui.widgets.curve import CurvePanel
from tui.widgets.knee_step import StepPanel
from tui.widgets.lengths_panel import LengthsPanel, tells_lengths
from tui.widgets.why_panel import WhyPanel

_MARGIN = 2
_FOOT = 2
_BY_LENGTH = "-by-length"
"""Class of the screen where requests differ in their lengths."""
_BELOW_CLIFF, _MIDDLE, _WIDE = 9, 28, 160
"""Rows of the panels below the cliff; from so many rows of the screen on they are there, from so many columns on beside it."""


class KneeScreen(RunScreen):
    """The answer, drawn: the cliff, what is known of each rate, what the chosen step was like, the reason."""

    PANELS: ClassVar[tuple[str, ...]] = ("knee-cliff", "knee-curve", "knee-step", "knee-why", "knee-served", "knee-lengths")
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,shift+tab", "choose(-1)", "Higher rate", show=False),
        Binding("down,tab", "choose(1)", "Lower rate", show=False),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._chosen: int | None = None
        self._told = ""
        self._head, self._why = Static(id="knee-head"), WhyPanel(id="knee-why", classes="panel")
        self._cliff = CliffPanel(id="knee-cliff", classes="panel")
        self._curve = CurvePanel(id="knee-curve", classes="panel")
        self._served = CurvePanel(id="knee-served", classes="panel")
        self._step = StepPanel(id="knee-step", classes="panel")
        self._lengths = LengthsPanel(id="knee-lengths", classes="panel")

    @property
    def panels(self) -> tuple[str, ...]:
        """Without the lengths where all requests are of one kind."""
        return self.PANELS if self.has_class(_BY_LENGTH) else self.PANELS[:-1]

    def body(self) -> Iterable[Widget]:
        """The answer above, the cliff, what goes with it, the reason below."""
        yield self._head
        yield Container(self._cliff, self._curve, self._step, self._lengths, self._served, id="knee-panels")
        yield self._why

    def draw(self, frame: Frame) -> None:
        """Show the view."""
        view, width = frame.view, self.size.width - _MARGIN
        head = knee_words.headlines(view, width)
        if (beside := frame.beside_ghost) is not None:
            head = Content("\n").join([head, *knee_words.ghost_lines(beside, width)])
        if head.markup != self._told:  # an update lays out the whole screen again
            self._told = head.markup
            self._head.update(head)
        self._why.show(view, width, self._rows_for_words(len(head.split("\n"))))
        self._cliff.show_view(view, frame.ghost)
        self._curve.show_content(curve.attainment(view, "2 attainment", ghost=frame.ghost), curve.legend(frame.ghost), view.now_s)
        self._served.show_content(curve.served(view, "5 goodput"), curve.SERVED_LEGEND, view.now_s)
        if self.has_class(_BY_LENGTH) != tells_lengths(view):
            self.toggle_class(_BY_LENGTH)
            self.refresh_bindings()
        self._show_step(view)

    def _show_step(self, view: RunView) -> None:
        choice = self._choice(view)
        self._step.show(view, choice)
        self._lengths.show(view, choice)

    def _rows_for_words(self, head: int) -> int:
        """Of what the lines at both ends and the panels below the cliff leave less than half: the cliff has more."""
        panels = _BELOW_CLIFF if self.size.height >= _MIDDLE and self.size.width < _WIDE else 0
        return max(2, (self.size.height - self._top.size.height - head - _FOOT - panels) * 2 // 5)

    def action_choose(self, steps: int) -> None:
        """The step with the next higher or lower rate, round and round."""
        if self._frame is None or not self._frame.view.steps:
            return
        view = self._frame.view
        ordered = knee_words.ordered(view.steps)
        now = self._choice(view)
        at = next((at for at, step in enumerate(ordered) if now is not None and step.step == now.step), 0)
        self._chosen = ordered[(at + steps) % len(ordered)].step
        self._show_step(view)

    def _choice(self, view: RunView) -> StepResult | None:
        """The user's choice while the view has it (a recorded run can be moved back), else the first one."""
        chosen = [step for step in view.steps if step.step == self._chosen]
        return chosen[-1] if chosen else knee_words.chosen_first(view)
