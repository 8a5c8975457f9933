"""How many replicas a peak needs, moving with what the user sets; the arithmetic is `core.fleet`'s."""

import math
from dataclasses import dataclass

from msgspec.structs import replace
from textual import events
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.message import Message
from textual.widgets import Input, Label, Static

from core import fleet
from core.config import FleetAsk
from core.judge.bracket import Bracket
from core.records import ServerInfo
from core.results import Knee
from core.run.view import RunView
from tui.style import count, percent, rate
from tui.widgets.pieces import Piece, fit, join, styled
from tui.widgets.plot_view import Titled
from tui.widgets.slider import Slider

CLOSE_FRAC = 0.85
"""From this share of the rate that holds on, the loss of one replica of six puts the others over it: 0.85 * 6/5 = 1.02."""
_ROOMY_COLUMNS = 74
_NUMERIC = frozenset("0123456789.")


class PeakInput(Input):
    """A field for a number above zero. Every other printable key goes on to the app: `x` must stop the load from here too."""

    def __init__(self) -> None:
        super().__init__(placeholder="type the peak", restrict=r"[0-9]*\.?[0-9]*", max_length=9, compact=True, id="peak")

    def check_consume_key(self, key: str, character: str | None) -> bool:
        """Only digits and the point are for the field."""
        return character is not None and character in _NUMERIC

    async def _on_key(self, event: events.Key) -> None:
        if event.character is None or event.character in _NUMERIC:
            await super()._on_key(event)
        else:
            event.prevent_default()

    @property
    def rps(self) -> float | None:
        """The peak, or None while there is no number above zero in the field."""
        try:
            value = float(self.value)
        except ValueError:
            return None
        return value if math.isfinite(value) and value > 0 else None


class FleetPanel(Vertical, Titled):
    """Peak and headroom to set; replicas and GPUs at both ends of the bracket."""

    ALLOW_MAXIMIZE = True
    HELP = "type a peak; tab: share of what holds, by figures, ← →, mouse"

    @dataclass
    class Asked(Message):
        """The user has set another fleet."""

        ask: FleetAsk

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._knee = Knee()
        self._ask = FleetAsk()
        self._server: ServerInfo | None = None
        self._filled = False
        self._replica, self._result = Static(id="fleet-replica"), Static(id="fleet-result")
        self._peak, self._headroom, self._share = PeakInput(), Slider(id="headroom"), Label(id="fleet-share")

    def compose(self) -> ComposeResult:
        yield self._replica
        yield Horizontal(Label("peak "), self._peak, Label(" rps   "), self._share, classes="fleet-row")
        yield Horizontal(Label("safer "), self._headroom, Label(" fewer replicas"), classes="fleet-row")
        yield self._result

    @property
    def available(self) -> bool:
        """Whether a rate has held, so that a peak can be divided by it."""
        return self._knee.pass_rps is not None

    def show(self, view: RunView) -> None:
        """Take a new view; peak and headroom start as configured and are the user's from then on."""
        if view.config is not None and not self._filled:
            self._filled = True
            self._ask = view.config.fleet
            self._headroom.value = self._ask.headroom
            if self._ask.peak_rps is not None:
                self._peak.value = f"{self._ask.peak_rps:g}"
        knee = view.answer.knee if view.answer else so_far(view)
        if (knee, view.server) != (self._knee, self._server) or not self._title:
            self._knee, self._server = knee, view.server
            self._redraw()

    def on_resize(self) -> None:
        """Another width has room for more or fewer facts."""
        super().on_resize()
        self._redraw()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Another peak: every number moves at once."""
        event.stop()
        self._set(replace(self._ask, peak_rps=self._peak.rps))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Enter: on to the headroom."""
        event.stop()
        self._headroom.focus()

    def on_slider_changed(self, event: Slider.Changed) -> None:
        """Another headroom: every number moves at once."""
        event.stop()
        self._set(replace(self._ask, headroom=event.value))

    def take_focus(self) -> None:
        """To the peak, which is selected so that typing replaces it; tab goes on to the slider."""
        self._peak.focus()

    def _set(self, ask: FleetAsk) -> None:
        if ask != self._ask:
            self._ask = ask
            self.post_message(self.Asked(ask))
            self._redraw()

    def _redraw(self) -> None:
        plan = fleet.plan(self._knee, self._ask, self._server)
        gpus, known = fleet.gpus_per_endpoint(self._ask, self._server)
        self._replica.update(_replica(self._knee, gpus, known, self.size.width))
        self._share.update(Content.assemble(styled(_share(self._ask.headroom, self.size.width), "plain")))
        self._result.update(_result(plan, self._knee, self.size.width))
        pieces = [Piece("f fleet", "strong")]
        if plan and plan.at_pass:
            pieces += [Piece(_sizes(plan.at_pass), "strong", 0), Piece(f"at {rate(plan.peak_rps)}", "muted", 1)]
            pieces.append(Piece(f"at most {plan.headroom:.0%} of what holds".replace("%", " %"), "muted", 2))
        self.set_title(tuple(pieces))


def so_far(view: RunView) -> Knee:
    """The bracket while the search is still on."""
    return Bracket.of(view.config.method, view.steps).knee() if view.config else Knee()


def _replica(knee: Knee, gpus: int, known: bool, width: int) -> Content:
    if knee.pass_rps is None:
        return Content.assemble(styled("no rate has held yet, so there is nothing to divide a peak by", "muted"))
    fail_rps = _fail_rps(knee)
    pieces = [Piece("one replica", "muted", 3), Piece(f"holds {rate(knee.pass_rps)}", "holds", 0)]
    if fail_rps is not None:
        pieces.append(Piece(f"fails {rate(fail_rps)}", "breaks", 1))
    pieces.append(Piece(f"{_plural(gpus, 'GPU')} each{'' if known else ' (assumed)'}", "muted", 2))
    return join(fit(pieces, width))


def _fail_rps(knee: Knee) -> float | None:
    return knee.first_fail_rps if knee.clear_fail_rps is None else knee.clear_fail_rps


def _share(headroom: float, width: int) -> str:
    """The headroom in words: a larger one leaves less room."""
    used = round(100 * headroom)
    if width < _ROOMY_COLUMNS:
        return f"at most {used} % of what holds"
    return f"use at most {used} % of what holds ({f'{100 - used} % spare' if used < 100 else 'nothing spare'})"


def _result(plan: fleet.Fleet | None, knee: Knee, width: int) -> Content:
    if plan is None:
        return Content.assemble(styled("type the peak of all users together, in requests per second", "strong"))
    names = ("if the knee is", "if it is") if width >= _ROOMY_COLUMNS else ("at", "at")
    ends = [(name, size) for name, size in zip(names, (plan.at_pass, plan.at_fail), strict=True) if size is not None]
    rows = [(f"{name} {rate(size.replica_rps)}", _sizes(size), size) for name, size in ends]
    heads, middles = max((len(row[0]) for row in rows), default=0), max((len(row[1]) for row in rows), default=0)
    lines = []
    for head, middle, size in rows:
        facts = (
            Piece(f"{head:<{heads}}", "muted", 2),
            Piece(f"{middle:<{middles}}", "strong", 0),
            Piece(f"{rate(size.per_replica_rps)} each", "plain", 4),
            _load(size, knee, width),
        )
        lines.append(join(fit(facts, width)))
    lines.append(Content.assemble(styled("assumes Poisson arrivals, an even split and this mix of lengths", "muted")))
    return Content("\n").join(lines)


def _load(size: fleet.FleetSize, knee: Knee, width: int) -> Piece:
    """How much of its rate each replica gets; near or over the rate that was seen to hold, the share of that one instead."""
    of_held = size.per_replica_rps / knee.pass_rps if knee.pass_rps else 0.0
    if of_held <= CLOSE_FRAC:
        return Piece(f"{percent(size.load_frac)} load", "plain", 3)
    of_what = " of what holds" if width >= _ROOMY_COLUMNS else ""
    return Piece(f"{'✘ over' if of_held > 1 else '▲ tight'}: {100 * of_held:.0f} %{of_what}", "breaks", 1)


def _sizes(size: fleet.FleetSize) -> str:
    return f"{_plural(size.replicas, 'replica')}  {_plural(size.gpus, 'GPU')}"


def _plural(n: int, word: str) -> str:
    return f"{count(n)} {word}{'' if n == 1 else 's'}"
