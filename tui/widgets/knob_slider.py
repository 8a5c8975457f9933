"""A slider over a list of values, with the one of the run marked on its track: keys, click and drag."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from rich.cells import cell_len
from textual import events
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.message import Message
from textual.reactive import reactive
from textual.widget import Widget

from tui.draw.style import STYLES
from tui.widgets.pieces import styled

_NAME, _VALUE = 14, 24
"""Cells of the name before the track, and of the value behind it."""
_ENDS = 2
_KNOB, _FOCUSED, _OWN = "●", "◆", "┴"


class KnobSlider(Widget, can_focus=True):
    """Stands at one of `values`, at first at the one of the run (`own`, an index); posts `Changed` with every new one."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left", "move(-1)", "Less", show=False),
        Binding("right", "move(1)", "More", show=False),
        Binding("home", "end(0)", "Least", show=False),
        Binding("end", "end(1)", "Most", show=False),
        Binding("backspace,delete", "reset", "As in the run", show=False),
    ]

    at: reactive[int] = reactive(0)

    @dataclass
    class Changed(Message):
        """The slider stands at another value."""

        name: str

    def __init__(self, name: str, label: str, values: tuple[float, ...], own: int, say: Callable[[float], str]) -> None:
        super().__init__(id=f"knob-{name.replace('_', '-')}", classes="knob")
        self.knob, self._label, self._values, self._own, self._say = name, label, values, own, say
        self.set_reactive(KnobSlider.at, own)

    @property
    def asked(self) -> float | None:
        """The value; None while it is the run's own."""
        return None if self.at == self._own else self._values[self.at]

    def validate_at(self, at: int) -> int:
        """Keep to the list."""
        return min(max(at, 0), len(self._values) - 1)

    def watch_at(self) -> None:
        """Tell the panel around it."""
        self.post_message(self.Changed(self.knob))

    def action_move(self, steps: int) -> None:
        """One value further."""
        self.at += steps

    def action_end(self, most: int) -> None:
        """To one end."""
        self.at = len(self._values) - 1 if most else 0

    def action_reset(self) -> None:
        """Back to the run's own."""
        self.at = self._own

    def on_mouse_down(self, event: events.MouseDown) -> None:
        """Jump to the place and follow the pointer until it is let go."""
        self.capture_mouse()
        self._follow(event.x)

    def on_mouse_move(self, event: events.MouseMove) -> None:
        """Drag."""
        if self.app.mouse_captured is self:
            self._follow(event.x)

    def on_mouse_up(self) -> None:
        """End of a drag."""
        self.release_mouse()

    def on_focus(self) -> None:
        """The knob shows it."""
        self.refresh()

    def on_blur(self) -> None:
        """The knob shows it."""
        self.refresh()

    def _follow(self, x: int) -> None:
        track = self._track()
        if track > 1:
            self.at = round((x - _NAME - 1) / (track - 1) * (len(self._values) - 1))

    def _track(self) -> int:
        return self.size.width - _NAME - _VALUE - _ENDS

    def _cell(self, at: int) -> int:
        return round(at / max(len(self._values) - 1, 1) * (self._track() - 1))

    def render(self) -> Content:
        """Name, track with a knob, value; the run's own value is marked on the track."""
        said = self._say(self._values[self.at])
        name = styled(self._label.ljust(_NAME), "strong" if self.has_focus else "plain")
        track = self._track()
        if track < 5:
            return Content.assemble(name, styled(said, "strong"))
        cells = ["─"] * track
        cells[self._cell(self._own)] = _OWN
        knob = self._cell(self.at)
        mark = (_FOCUSED, f"{STYLES['strong']} reverse") if self.has_focus else styled(_KNOB, "strong")
        value = f" {said}"[:_VALUE]
        return Content.assemble(
            name,
            styled("├" + "".join(cells[:knob]), "muted"),
            mark,
            styled("".join(cells[knob + 1 :]) + "┤", "muted"),
            styled(value + " " * (_VALUE - cell_len(value)), "muted" if self.asked is None else "strong"),
        )
