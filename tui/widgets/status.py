"""The lines that are always there: what is probed, what happens now, and the last event."""

from collections.abc import Sequence
from urllib.parse import urlsplit

from textual.content import Content
from textual.widget import Widget

from core.config import Slo
from core.run.view import RepeatView, RunView, StepView
from tui.phrases import mode_name
from tui.style import LEVELS, LOADS, about, clean, clock, count, latency, limit, rate, share_limit, shorten
from tui.widgets.pieces import Piece, fit, flow, join, mark_part, styled

_SEPARATOR = " · "
_PLACE = 1  # model and address among the facts of the header


class HeaderLine(Widget):
    """What is probed, within which limits, how."""

    _pieces: tuple[Piece, ...] = ()

    def show(self, view: RunView) -> None:
        """Take a new view."""
        pieces = header(view)
        if pieces != self._pieces:
            self._pieces = pieces
            self.refresh()

    def render(self) -> Content:
        """As many of the facts as fit the width."""
        width, gap = self.size.width, len(_SEPARATOR)
        kept = fit(self._pieces, width, gap)
        if self._pieces and self._pieces[_PLACE] not in kept:  # a long name: its last part says most
            place = self._pieces[_PLACE]
            brief = place._replace(text=place.text.rpartition("/")[2])
            kept = fit([*self._pieces[:_PLACE], brief, *self._pieces[_PLACE + 1 :]], width, gap)
        return join(kept, _SEPARATOR)


def header(view: RunView) -> tuple[Piece, ...]:
    """The facts that stay the same for a run."""
    config, server = view.config, view.server
    if config is None:
        return (Piece("kneescope", "strong"), Piece("starting", "muted"))
    model = (server.model if server else None) or config.target.model
    place = urlsplit(config.target.url).netloc
    pieces = [Piece("kneescope", "strong", 2), Piece(clean(f"{model} @ {place}" if model else place), "plain", 1)]
    if server is not None and server.simulated:
        pieces.append(Piece("simulated", "strong", 0))
    elif server is not None and server.version:
        pieces.append(Piece(f"vLLM {clean(server.version)}", "plain", 4))
    pieces.append(Piece(limits_text(config.slo), "plain", 0))
    pieces.append(Piece(mode_name(config.method), "muted", 3))
    pieces.append(Piece(f"seed {config.method.seed}", "muted", 5))
    return tuple(pieces)


def limits_text(slo: Slo) -> str:
    """The limits in one phrase, named so when they are the default ones."""
    named = (("TTFT", slo.ttft_s), ("TPOT", slo.tpot_s), ("E2E", slo.e2e_s))
    limits = ", ".join(f"{name} ≤ {limit(value)}" for name, value in named if value is not None)
    return f"{'default limits ' if slo.default else ''}{limits} for {share_limit(slo.target)}"


class StatusStrip(Widget):
    """What happens now. The state of the load stands at the right end whatever else is dropped."""

    HELP = "step, rate, time, how late the client sends, is the load on?"

    _pieces: tuple[Piece, ...] = ()
    _load: Piece = Piece("")

    def show(self, view: RunView, paused: bool, stopping: bool) -> None:
        """Take a new view; `paused` says that the panels below stand still, `stopping` that the user asked for the end of load."""
        pieces, load = status(view, paused), load_piece(view, stopping)
        if (pieces, load) != (self._pieces, self._load):
            self._pieces, self._load = pieces, load
            self.refresh()

    def render(self) -> Content:
        """One line, or two where it is narrow."""
        width, rows = self.size.width, max(1, self.size.height)
        room = width - len(self._load.text) - 3
        gap = 3 if len(_flat(flow(self._pieces, room, rows, 3))) == len(self._pieces) else 2
        lines = flow(self._pieces, room, rows, gap)
        first = join(lines[0], " " * gap) if lines else Content()
        space = " " * max(1, width - first.cell_length - len(self._load.text) - 1)
        head = Content.assemble(first, space, styled(self._load.text, self._load.role))
        return Content("\n").join([head, *(join(line, " " * gap) for line in lines[1:])])


def _flat(lines: Sequence[Sequence[Piece]]) -> list[Piece]:
    return [piece for line in lines for piece in line]


def load_piece(view: RunView, stopping: bool) -> Piece:
    """The state of the load as glyph, word and colour."""
    mark = LOADS[view.load]
    asked = stopping and view.load in ("loading", "draining")
    return Piece(f"{mark}, stopping" if asked else str(mark), mark.role)


def status(view: RunView, paused: bool) -> tuple[Piece, ...]:
    """The facts of this moment, the most telling with the lowest rank."""
    pieces = (
        [Piece("‖ VIEW PAUSED, the load goes on" if view.load == "loading" else "‖ VIEW PAUSED", "strong", 0)] if paused else []
    )
    if view.answer is not None:
        pieces.append(Piece(f"ended after {clock(view.duration_s if view.duration_s is not None else view.now_s)}", "plain", 1))
    elif view.current is None:
        pieces.append(Piece("between two steps" if view.steps else "checking, no load yet", "plain", 1))
    else:
        pieces.extend(_step(view.current))
    if view.left_s is not None and view.answer is None:
        pieces.append(Piece(f"left {about(view.left_s)}", "muted", 5))
    return tuple(pieces)


def _step(step: StepView) -> list[Piece]:
    name = step.phase if step.phase in ("ramp", "hold") else f"step {step.step}"
    pieces = [Piece(name, "plain", 6)]
    live = step.live
    if step.phase == "hold" and live:
        pieces.append(Piece(f"segment {live.index + 1}", "plain", 4))
    elif step.repeats_planned > 1:
        at = live.index + 1 if live else len(step.finished)
        pieces.append(Piece(f"repeat {at}/{step.repeats_planned}", "plain", 4))
    pieces.append(Piece(rate(step.rate_rps), "strong", 0))
    if live is None:
        return pieces
    pieces.append(Piece(_part(live), "plain", 1))
    pieces.append(Piece(f"sent {count(live.sent)}", "plain", 6))
    pieces.append(Piece(f"in flight {count(live.in_flight)}", "plain", 3))
    if live.errors:
        pieces.append(Piece(f"✘ errors {count(live.errors)}", "breaks", 1))
    pieces.append(Piece(f"late p99 {latency(live.lateness_p99_s)}", "plain", 2))
    return pieces


def _part(live: RepeatView) -> str:
    """What the repeat is at, and for how long."""
    if live.drain_left_s is not None:
        return f"waiting, at most {live.drain_left_s:.0f} s"
    if live.part == "waiting":  # every request is decided; an undecided queue is heard a little longer
        return f"waiting {live.elapsed_s - live.length_s:.0f} s"
    return f"{live.part} {live.elapsed_s:.0f}/{live.length_s:.0f} s"


class EventLine(Widget):
    """The last sentence that the run said."""

    _text: tuple[str, str] = ("", "info")
    _at: str = ""

    def show(self, view: RunView) -> None:
        """Take a new view."""
        last = view.lines[-1] if view.lines else None
        at, text = (clock(last.t_s), (clean(last.text), last.level)) if last else ("", ("", "info"))
        if (at, text) != (self._at, self._text):
            self._at, self._text = at, text
            self.refresh()

    def render(self) -> Content:
        """Time since the start, glyph, sentence."""
        text, level = self._text
        mark = LEVELS[level]
        head = f"{self._at:>7}  "
        glyph = mark_part(mark) if mark.word else styled(mark.glyph, mark.role)
        if not text:
            return Content()
        room = self.size.width - len(head) - len(glyph[0]) - 2
        return Content.assemble(styled(head, "muted"), glyph, styled("  " + shorten(text, room)))


def too_small(view: RunView, width: int, height: int) -> Sequence[str]:
    """What a terminal says that is too small for the panels: still the load, and how to stop it."""
    return (f"{LOADS[view.load]}", f"{width}x{height} is too small,", "60x16 is the least.", "x stops the load, q leaves")
