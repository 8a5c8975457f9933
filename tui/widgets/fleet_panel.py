"""How many replicas a peak needs, moving with what the user sets; the arithmetic is `core.fleet`'s."""

import math
from dataclasses import dataclass
from typing import ClassVar

from msgspec.structs import replace
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.message import Message
from textual.widgets import Input, Label, Static

from core import fleet, prose
from core.config import FleetAsk
from core.errors import UserError
from core.report import evidence_of
from core.units import rate_brief, typed
from core.view import RunView
from tui.frame import Frame
from tui.widgets import fleet_rows
from tui.widgets.curve import knee_of
from tui.widgets.pieces import Piece, styled
from tui.widgets.plot_view import Titled
from tui.widgets.slider import Slider

FIGURES = (*((char, char) for char in "0123456789"), ("full_stop", "."))
"""Keys of numbers, as textual names them, and what they write."""
SLIDES = (("left", -1), ("right", 1))
"""Keys that move the load at peak from every field: a number of a few figures needs no cursor in its middle."""
PANELS, CURVE = "fleet-panels", "fleet-curve"
_OWN, _CURVE = 5, 9
"""Rows of the panel beside words and results, and those that the curve keeps, borders included."""


class NumberInput(Input):
    """A field for a number above zero, which takes no key by itself: figures come back to it by way of the app, where all keys keep
    their order, also those that were typed before the field had the focus. Every other key is the app's: `x` must stop the load."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *(Binding(key, f"typed('{char}')", show=False) for key, char in FIGURES),
        *(Binding(key, f"screen.slide({steps})", show=False) for key, steps in SLIDES),
    ]

    def __init__(self, placeholder: str, id: str) -> None:
        super().__init__(
            placeholder=placeholder, restrict=r"[0-9]*\.?[0-9]*", max_length=9, compact=True, select_on_focus=False, id=id
        )
        self._begun = False

    def check_consume_key(self, key: str, character: str | None) -> bool:
        """None."""
        return False

    async def _on_key(self, event: events.Key) -> None:
        event.prevent_default()

    def _on_focus(self, event: events.Focus) -> None:
        super()._on_focus(event)
        if not self._begun:
            self.select_all()
        self._begun = False

    def begin(self) -> None:
        """Take the focus at once; what is typed next replaces what stands here."""
        self._begun = self.screen.focused is not self
        self.select_all()
        self.screen.set_focus(self, scroll_visible=False)

    def action_typed(self, char: str) -> None:
        """A figure more, in place of what is selected."""
        start, end = self.selection
        self.replace(char, min(start, end), max(start, end))

    def put(self, value: float | None) -> None:
        """Show a number that was set elsewhere."""
        self.value = "" if value is None else typed(value)
        if self.is_attached and self.screen.focused is self:
            self.select_all()

    @property
    def number(self) -> float | None:
        """The number, or None while there is none above zero in the field."""
        try:
            value = float(self.value)
        except ValueError:
            return None
        return value if math.isfinite(value) and value > 0 else None


class FleetPanel(Vertical, Titled):
    """Peak, price and load at peak to set; replicas, GPUs and cost at both ends of the bracket, and what if some are lost."""

    ALLOW_MAXIMIZE = True

    @dataclass
    class Asked(Message):
        """The user has set another fleet."""

        ask: FleetAsk

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._view: RunView | None = None
        self._ask = FleetAsk()
        self._seen: FleetAsk | None = None
        self._sent: list[FleetAsk] = []
        self._early = ""
        self._replica, self._words, self._result = Static(id="fleet-replica"), Static(id="fleet-words"), Static(id="fleet-result")
        self._peak, self._price = NumberInput("type it", "peak"), NumberInput("none", "price")
        self._load = Slider(id="load-at-peak")
        self._refusal = ""

    def compose(self) -> ComposeResult:
        yield self._replica
        yield Horizontal(
            Label("peak   "),
            self._peak,
            Label(" requests/s   "),
            Label("cost "),
            self._price,
            Label(" $/GPU h"),
            classes="fleet-row",
        )
        yield Horizontal(Label("load ← safer "), self._load, Label(" fewer replicas →"), classes="fleet-row")
        yield self._words
        yield self._result

    def show(self, frame: Frame) -> None:
        """Take a frame."""
        self._view = frame.view
        if frame.view.config is not None:
            self._follow(frame.fleet_ask)
        self._redraw()

    def on_resize(self) -> None:
        """Another width has room for more or fewer facts."""
        super().on_resize()
        self._redraw()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Another peak or price: every number moves at once."""
        event.stop()
        self._set(peak_rps=self._peak.number, cost_per_gpu_h=self._price.number)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Enter: on to the load at peak."""
        event.stop()
        self._load.focus()

    def on_slider_changed(self, event: Slider.Changed) -> None:
        """Another load at peak: every number moves at once."""
        event.stop()
        if event.value != round(self._ask.headroom, 2):  # the slider stands at hundredths only
            self._set(headroom=event.value)

    def slide(self, steps: int) -> None:
        """The load at peak, one hundredth a step, whatever has the focus."""
        if self._seen is not None:
            self._load.action_move(steps)

    def typed(self, char: str) -> None:
        """A figure typed where nothing takes it is the peak's; before there is anything to change it is kept until there is."""
        if self._seen is None:
            self._early += char
            return
        if self.screen.focused is not self._peak:
            self._peak.begin()
        self._peak.action_typed(char)

    def begin(self) -> None:
        """To the peak."""
        self._peak.begin()

    def _follow(self, ask: FleetAsk) -> None:
        """Take over what is asked for elsewhere; what comes back of this panel's own asking is older than what stands here."""
        if ask == self._seen:
            return
        early, self._early = (self._peak.value if self._seen is None else "") + self._early, ""  # typed before the first frame
        self._seen = ask
        if ask in self._sent:
            del self._sent[: self._sent.index(ask) + 1]
            return
        self._ask, self._sent = ask, []
        self._load.value = ask.headroom
        self._peak.put(ask.peak_rps)
        self._price.put(ask.cost_per_gpu_h)
        for char in early:
            self.typed(char)

    def _set(self, **asked: float | None) -> None:
        if self._is_check:
            return
        try:
            ask, refusal = replace(self._ask, **asked), ""
        except UserError as error:
            ask, refusal = self._ask, str(error)
        if refusal != self._refusal:
            self._refusal = refusal
            self._redraw()
        if ask != self._ask and self._seen is not None:
            self._ask = ask
            self._sent.append(ask)
            self.post_message(self.Asked(ask))
            self._redraw()

    @property
    def _is_check(self) -> bool:
        """Whether the run checked a fleet: there is nothing to size by it."""
        return self._view is not None and self._view.config is not None and self._view.config.method.fleet is not None

    def _redraw(self) -> None:
        if self._view is None:
            return
        for part in (self._replica, self._words, *self.query(".fleet-row")):
            part.display = not self._is_check
        if self._is_check:
            self._result.update(fleet_rows.checked(self._view, self.content_size.width, self._room(0)))
            self.set_title((Piece("fleet check", "strong"),))
            return
        view, knee, ask, width = self._view, knee_of(self._view), self._ask, self.content_size.width
        evidence, unit = evidence_of(view), fleet.unit_of(ask, view.server)
        plan = fleet.plan(knee, ask, view.server, evidence)
        gates = fleet.gates(ask, unit, view.server, evidence)
        marks = [mark for mark in plan.marks if mark.rho is not None] if plan else []
        self._load.marks = tuple(mark.rho for mark in marks if mark.rho is not None)
        self._load.binding = next((mark.rho for mark in marks if mark.binds), None)
        self._replica.update(fleet_rows.replica(view, knee, unit.gpus, unit.known, width))
        words = [*fleet_rows.load_words(ask, plan, width), *fleet_rows.verdict(plan, width)]
        if self._refusal:
            words = [Content.assemble(styled(f"✘ {self._refusal}", "breaks"))]
        self._words.update(Content("\n").join(words))
        self._result.update(fleet_rows.result(view, knee, plan, gates, ask, width, self._room(len(words))))
        pieces = [Piece("fleet", "strong")]
        if plan and plan.at_pass:
            pieces += [
                Piece(fleet_rows.sizes(plan.at_pass, ask.cost_per_gpu_h), "strong", 0),
                Piece(f"for {rate_brief(plan.peak_rps)}", "muted", 1),
            ]
            pieces.append(Piece(prose.load_brief(plan.headroom), "muted", 2))
        self.set_title(tuple(pieces))

    def _room(self, words: int) -> int:
        """Rows that are left for the results: the curve below, where there is one, keeps enough to be read."""
        panels = self.screen.query_one(f"#{PANELS}")
        rows, curve = panels.size.height, _CURVE if panels.query(f"#{CURVE}").first().display else 0
        own = _OWN if self.screen.has_class("-short") else _OWN + 1  # there is air above the results
        return max(1, rows - curve - own - words)
