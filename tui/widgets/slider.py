"""A small slider from 1 to 100 %, with its value beside the knob: keys, click and drag."""

from dataclasses import dataclass
from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.message import Message
from textual.reactive import reactive
from textual.widget import Widget

from core.units import plain
from tui.draw.style import STYLES
from tui.widgets.pieces import styled

LEAST, MOST, STEP = 0.01, 1.0, 0.01
_ENDS = 2
_AROUND = 2
"""Blanks around the value, so that it does not run into the track."""
_KNOB, _FOCUSED, _MARK, _BINDS = "●", "◆", "┴", "▾"


class Slider(Widget, can_focus=True):
    """Holds a share in hundredths; posts `Changed` with every new value."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left", "move(-1)", "Less", show=False),
        Binding("right", "move(1)", "More", show=False),
        Binding("home", "end(0)", "Least", show=False),
        Binding("end", "end(1)", "Most", show=False),
        *(Binding(char, f"type('{char}')", show=False) for char in "0123456789"),
        Binding("full_stop", "type('.')", show=False),
    ]

    value: reactive[float] = reactive(0.7)
    marks: reactive[tuple[float, ...]] = reactive(())
    """Values to point at on the track, and the one among them that binds."""
    binding: reactive[float | None] = reactive(None)
    _typed = ""

    @dataclass
    class Changed(Message):
        """The slider stands at another value."""

        value: float

    def validate_value(self, value: float) -> float:
        """Keep to whole hundredths inside the range."""
        return round(min(MOST, max(LEAST, value)), 2)

    def watch_value(self, value: float) -> None:
        """Tell the panel around it."""
        self.post_message(self.Changed(value))

    def action_move(self, steps: int) -> None:
        """One hundredth per key."""
        self._typed = ""
        self.value += steps * STEP

    def action_type(self, char: str) -> None:
        """A number typed on the slider, as a share (0.65) or in percent (65): the value follows each figure."""
        longer = self._typed + char
        self._typed = longer if typed_share(longer) is not None else char
        if share := typed_share(self._typed):
            self.value = share

    def action_end(self, most: int) -> None:
        """To one end of the range."""
        self._typed = ""
        self.value = MOST if most else LEAST

    def on_mouse_down(self, event: events.MouseDown) -> None:
        """Jump to the place and follow the pointer until it is let go."""
        self._typed = ""
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
        """The knob shows it, and a number begins anew."""
        self._typed = ""
        self.refresh()

    def on_blur(self) -> None:
        """The knob shows it."""
        self.refresh()

    def _follow(self, x: int) -> None:
        track = self._track()
        if track > 1:
            self.value = LEAST + (MOST - LEAST) * (x - 1) / (track - 1)

    def _track(self) -> int:
        return self.size.width - _ENDS

    def render(self) -> Content:
        """Track with a knob, the value in figures at it, on the side where it hides less."""
        track, said = self._track(), plain(self.value)
        if track < 2 * (len(said) + _AROUND):
            return Content.assemble(styled(said, "strong"))
        cells = ["─"] * track
        for mark in self.marks:
            cells[self._cell(mark)] = _MARK
        if self.binding is not None:
            cells[self._cell(self.binding)] = _BINDS
        line, knob = "".join(cells), self._cell(self.value)
        before, after = _sides(line, knob, len(said) + _AROUND)
        knob_part = (_FOCUSED, f"{STYLES['strong']} reverse") if self.has_focus else styled(_KNOB, "strong")
        label = styled(f" {said} ", "strong")
        return Content.assemble(
            styled("├" + line[:before], "muted"),
            *((label, knob_part) if before < knob else (knob_part, label)),
            styled(line[after:] + "┤", "muted"),
        )

    def _cell(self, value: float) -> int:
        return round((min(MOST, max(LEAST, value)) - LEAST) / (MOST - LEAST) * (self._track() - 1))


def _sides(line: str, knob: int, width: int) -> tuple[int, int]:
    """Where knob and label together begin, and where the track goes on behind them: to the right of the knob, or to the left where
    that hides less of the marks, of which the one that binds counts most."""
    right, left = line[knob + 1 : knob + 1 + width], line[max(0, knob - width) : knob]

    def hidden(cells: str) -> tuple[bool, bool, int]:
        return len(cells) < width, _BINDS in cells, cells.count(_MARK)

    return (knob - width, knob + 1) if hidden(left) < hidden(right) else (knob, knob + 1 + width)


def typed_share(text: str) -> float | None:
    """What typed figures mean so far: a share when there is a point among them, else percent; None when they mean nothing."""
    if text.count(".") > 1 or len(text) > 4:
        return None
    value = float(f"0{text}") if "." in text else int(text) / 100
    return value if value <= MOST else None
