"""The lines that are always there: what is probed, what happens now, and the last event."""

import math
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Literal
from urllib.parse import urlsplit

from textual.content import Content
from textual.widget import Widget

from core import prose
from core.config import FleetPlan, ProbeConfig, Slo, Workload
from core.units import DASH, as_set, clock, count, duration, long_duration, plain, progress, rate_brief
from core.view import RepeatView, RunView, StepView
from tui.draw.style import LEVELS, LOADS, clean, shorten
from tui.frame import Frame, Playback
from tui.phrases import limit_words, mode_name
from tui.widgets import client_panel
from tui.widgets.pieces import Piece, fit, flow, join, keep_end, mark_part, styled

_SEPARATOR = " · "
_MATTERS = 3
"""Facts of the header up to this rank are worth fewer words: address, workload, limits, model, simulated."""
_NAME_WIDTHS = (32, 24, 18, 14, 10)
_FILE_WIDTH = 16
"""A name of a model that has no room is cut to one of these, at its beginning."""
_DONE, _TO_COME, _BAR_CELLS = "▰", "▱", 10
_CHANGE_SHOWN_S = 10.0
"""Why the expected end changed is told for so long."""


class HeaderLine(Widget):
    """What is probed, within which limits, how."""

    _facts: tuple[tuple[Piece, ...], ...] = ()

    def show(self, view: RunView) -> None:
        """Take a new view."""
        facts = header(view)
        if facts != self._facts:
            self._facts = facts
            self.refresh()

    def render(self) -> Content:
        """The longest wording that keeps what matters; of that as many facts as fit. The address is cut rather than dropped."""
        width, gap = self.size.width, len(_SEPARATOR)
        kept: tuple[Piece, ...] = ()
        for pieces in self._facts:
            kept = fit([pieces[0]._replace(text=shorten(pieces[0].text, width)), *pieces[1:]], width, gap)
            if all(piece in kept for piece in pieces if piece.rank <= _MATTERS):
                break
        return join(kept, _SEPARATOR)


def header(view: RunView) -> tuple[tuple[Piece, ...], ...]:
    """The facts that stay the same for a run, the address first; in full words, and in fewer and fewer."""
    config, server = view.config, view.server
    if config is None:
        return ((Piece("kneescope", "strong"), Piece("starting", "muted")),)
    model = clean((server.model if server else None) or config.target.model or "")
    address = Piece(clean(urlsplit(config.target.url).netloc), "strong", 0)
    simulated = server is not None and server.simulated
    of_fleet = config.method.fleet is not None  # or all its figures are taken for those of one replica
    rest = [
        Piece(mode_name(config.method), *(("plain", _MATTERS) if of_fleet else ("muted", 6))),
        Piece(prose.seeds(config.method), "muted", 7),
    ]
    if not simulated and server is not None and server.version:
        rest.insert(0, Piece(f"vLLM {clean(server.version)}", "plain", 5))
    rest.append(Piece("kneescope", "muted", 8))
    return tuple(
        (address, *_who(name, simulated), Piece(work, "plain", 1), Piece(limits, "plain", 2), *rest)
        for name, work, limits in _wordings(config, model)
    )


def _who(name: str, simulated: bool) -> list[Piece]:
    """The model; that it is simulated stands beside it, and needs no word where the name says it."""
    said = "simulated" in name
    pieces = [Piece(name, "strong" if simulated and said else "plain", 3)] if name else []
    return [*pieces, *([Piece("simulated", "strong", 4 if said else 1)] if simulated else [])]


def _wordings(config: ProbeConfig, model: str) -> Iterator[tuple[str, str, str]]:
    """Model, workload and limits, in fewer and fewer words; of a long name the last part says most."""
    full, short, least = (limits_text(config.limits, words) for words in ("full", "short", "least"))
    work, brief_work = workload_text(config.workload), workload_text(config.workload, short=True)
    brief = model.rpartition("/")[2]
    yield from ((model, work, full), (brief, work, full), (model, work, short), (model, brief_work, short))
    yield from ((brief, work, short), (brief, brief_work, short))
    cut = [keep_end(brief, width) for width in _NAME_WIDTHS if width < len(brief)]
    yield from ((name, brief_work, short) for name in cut)
    yield from ((name, brief_work, least) for name in (brief, *cut))
    yield from (("", brief_work, short), ("", brief_work, least))
    if config.workload.mix or config.workload.from_file:
        yield ("", _least_of_file(config.workload), least)


def workload_text(workload: Workload, short: bool = False) -> str:
    """Tokens in and out of a request, whether answers stop by themselves, what prompts share (cold: nothing is in the server's
    cache), how requests come where not as Poisson, and a gateway's limit."""
    gaps = _arrivals(workload, short)
    if workload.mix or workload.from_file:
        kinds = clean(prose.mix(workload, 1 if short else 3))
        if workload.natural:
            kinds += ", natural" if short else ", natural stop"
        return f"{kinds}, {_prefix_short(workload) if short else prose.prefix_brief(workload.prefix)}{gaps}"
    lengths = [
        f"{'~' if not tokens.fixed else ''}{as_set(tokens.median)}" for tokens in (workload.input_tokens, workload.output_tokens)
    ]
    if workload.natural:
        prompt, answer = lengths
        asked = f"{prompt}→≤ {answer}, natural," if short else f"{prompt} in, ≤ {answer} out, natural stop"
    else:
        asked = "→".join(lengths) if short else f"{' → '.join(lengths)} tokens"
    return f"{asked} {workload.prefix}{gaps}" if short else f"{asked}, {prose.prefix_brief(workload.prefix)}{gaps}"


def _prefix_short(workload: Workload) -> str:
    """As the option has it; of turns that alone would not tell what of them."""
    return "turns cached" if workload.prefix.kind == "turns" else str(workload.prefix)


def _least_of_file(workload: Workload) -> str:
    """The requests of a mix or a file in the fewest words: which these are, and what of them is not as usual."""
    source = workload.source
    named = source.file if source is not None and source.file is not None else f"mix of {count(len(workload.mix))}"
    natural, prefix = ", natural" if workload.natural else "", "" if workload.prefix.cold else f", {_prefix_short(workload)}"
    return f"{keep_end(clean(named), _FILE_WIDTH)}{natural}{prefix}{_arrivals(workload, True)}"


def _arrivals(workload: Workload, short: bool) -> str:
    """How requests come where not as Poisson, and the gateway's limit."""
    gaps = "" if workload.poisson else f"{', ' if short else ', gaps of '}CV {as_set(workload.arrival_cv)}"
    if workload.trace is not None:
        gaps = ", recorded" if short else ", arrivals as recorded"
    if workload.gateway is not None:
        gaps += f", gateway {'' if short else 'limit '}{count(workload.gateway.limit)}"
    return gaps


def limits_text(slo: Slo, words: Literal["full", "short", "least"] = "full") -> str:
    """The limits in one phrase, named so when they are the default ones; in the least words without the share that must meet
    them, which stands in the panel that decides."""
    if words != "full":
        limits = ", ".join(limit_words(slo))
        return f"{'default ' if slo.default else ''}{limits}{f', {plain(slo.target)}' if words == 'short' else ''}"
    return f"{'default limits ' if slo.default else ''}{', '.join(limit_words(slo, ' ≤ '))} for {plain(slo.target)}"


class StatusStrip(Widget):
    """What happens now. The state of the load stands at the right end whatever else is dropped."""

    HELP = "step, rate, time, how busy and how late the client is, is the load on?"

    _pieces: tuple[Piece, ...] = ()
    _expected: tuple[str, ...] = ()
    _client_at = 0
    _load: Piece = Piece("")

    def show(self, frame: Frame) -> None:
        """Take a frame: what is said is live, also while the panels below stand still."""
        self.set_class(_brief(frame), "-brief")
        pieces, expected = status(frame), progress_texts(frame.live, past=frame.recorded)
        load = RECORDED if frame.recorded else load_piece(frame.live, frame.stopping)
        if (pieces, expected, load) != (self._pieces, self._expected, self._load):
            self._pieces, self._expected, self._load = pieces, expected, load
            self._client_at = next((at for at, piece in enumerate(pieces) if piece in _of_client(frame)), 0)
            self.refresh()

    def render(self) -> Content:
        """One line, or two where it is narrow."""
        width, rows = self.size.width, max(1, self.size.height)
        lines, gap = self._lines(width, rows)
        first = join(lines[0], " " * gap) if lines else Content()
        space = " " * max(1, width - first.cell_length - len(self._load.text) - 1)
        head = Content.assemble(first, space, styled(self._load.text, self._load.role))
        return Content("\n").join([head, *(join(line, " " * gap) for line in lines[1:])])

    def _lines(self, width: int, rows: int) -> tuple[Sequence[Sequence[Piece]], int]:
        """The longest wording of the expected end for which nothing else gives way; without room for any, none."""
        room = width - len(self._load.text) - 3
        bare = _laid(self._pieces, self._client_at, (room, width - 1), rows)
        for text in self._expected:
            pieces = (*self._pieces, Piece(text, "plain", 5))
            lines, gap = _laid(pieces, self._client_at, (room, width - 1), rows)
            if len(_flat(lines)) == len(_flat(bare[0])) + 1 and pieces[-1] in lines[-1]:
                return lines, gap
        return bare


def _laid(pieces: tuple[Piece, ...], client_at: int, widths: tuple[int, int], rows: int) -> tuple[Sequence[Sequence[Piece]], int]:
    """Pieces in lines, and the gap between them; on the first line there is less room, for the state of the load."""
    room, width = widths
    gap = 3 if len(_flat(flow(pieces, width, rows, 3, room))) == len(pieces) else 2
    lines: Sequence[Sequence[Piece]] = flow(pieces, width, rows, gap, room)
    halves = (pieces[:client_at], pieces[client_at:])
    if client_at and rows > 1 and all(fit(half, space, gap) == half for half, space in zip(halves, (room, width), strict=True)):
        return halves, gap  # what the client says of itself stays together
    return lines, gap


def _of_client(frame: Frame) -> list[Piece]:
    current, config = frame.live.current, frame.live.config
    if current is None or current.live is None:
        return []
    return client_panel.live(current.live, config.limits.shortest_ttft_s if config else None)


def _brief(frame: Frame) -> bool:
    """Whether one line is enough at any width: before the first step and after the last there is little to say."""
    view, playback = frame.live, frame.playback
    no_step = view.answer is not None or (view.current is None and not view.steps)
    return no_step and (playback is None or playback.at_end)


def _flat(lines: Sequence[Sequence[Piece]]) -> list[Piece]:
    return [piece for line in lines for piece in line]


def load_piece(view: RunView, stopping: bool) -> Piece:
    """The state of the load as glyph, word and colour."""
    mark = LOADS[view.load]
    asked = stopping and view.load in ("loading", "draining")
    return Piece(f"{mark}, stopping" if asked else str(mark), mark.role)


RECORDED = Piece("■ RECORDED", "strong")
"""In place of the state of a load that may have been on when the recording ended."""


def status(frame: Frame) -> tuple[Piece, ...]:
    """The facts of this moment, the most telling with the lowest rank."""
    view, pieces = frame.live, []
    if frame.playback is not None:
        recorded = "recorded so far, still going," if frame.playback.going else "recorded"
        pieces.append(Piece(f"{recorded} {_utc(view.started_utc)}" if view.started_utc else recorded.rstrip(","), "strong", 0))
    if frame.playback is not None and not frame.playback.at_end:
        pieces.append(playback_piece(frame.playback))
    if frame.paused:
        pieces.append(past_piece(frame))
    if view.answer is not None:
        pieces.append(Piece(f"ended after {clock(view.duration_s if view.duration_s is not None else view.now_s)}", "plain", 1))
    elif view.closed_in_flight is not None:
        pieces.append(Piece("closed loop", "plain", 1))
        pieces.append(Piece(f"{count(view.closed_in_flight)} in flight", "strong", 0))
    elif view.current is None:
        pieces.append(Piece("between two steps" if view.steps else "checking, no load yet", "plain", 1))
    else:
        ttft_s = view.config.limits.shortest_ttft_s if view.config else None
        pieces.extend(_step(view.current, ttft_s, is_over=view.load == "idle"))
        if view.config is not None and (what := _of_fleet(view.config.method.fleet, view.current)):
            pieces.append(Piece(what, "plain", 2))
        if view.config is not None and (scale := prose.scale(view.config.workload, view.current.rate_rps)):
            pieces.append(Piece(scale, "plain", 5))
    if view.left_s is not None and view.answer is None and view.progress is None:
        pieces.append(Piece(f"left ~{long_duration(round(view.left_s))}", "muted", 5))
    return tuple(pieces)


def _of_fleet(plan: FleetPlan | None, step: StepView) -> str:
    """What a rate is in the check of a fleet."""
    if plan is None:
        return ""
    if step.phase == "lost":
        return f"planned load, {count(plan.lost)} lost"
    return {plan.planned_rps: "planned load", plan.full_rps: f"{count(plan.replicas)} times one replica's"}.get(step.rate_rps, "")


def past_piece(frame: Frame) -> Piece:
    """That the panels show the past, and when that was; whatever they show, the load goes on."""
    live = frame.live
    if live.answer is not None:
        now = f" of {clock(live.now_s)}"
    else:
        now = f", now {clock(live.now_s)}" + (", the load goes on" if live.load == "loading" else "")
    return Piece(f"‖ VIEW at {clock(frame.view.now_s)}{now}", "strong", 0)


def playback_piece(playback: Playback) -> Piece:
    """Where a recording stands, and how fast it goes."""
    how = f"▶ {as_set(playback.speed)}x" if playback.playing else "‖ paused at"
    return Piece(f"{how} {clock(playback.at_s)}/{clock(playback.length_s)}", "strong", 0)


def _utc(iso: str) -> str:
    """2026-03-01 14:28 UTC, from ISO 8601."""
    return f"{clean(iso)[:16].replace('T', ' ')} UTC"


def _step(step: StepView, ttft_limit_s: float | None, *, is_over: bool) -> list[Piece]:
    """`is_over`: its load is off, and it is being judged."""
    name = step.phase if step.phase in ("ramp", "hold") else f"step {step.step}"
    pieces = [Piece(name, "plain", 6)]
    live = step.live
    if step.phase == "hold" and live:
        pieces.append(Piece(f"segment {live.index + 1}", "plain", 4))
    elif step.repeats_planned > 1:
        at = live.index + 1 if live else len(step.finished)
        pieces.append(Piece(f"repeat {at}/{step.repeats_planned}", "plain", 4))
    pieces.append(Piece(rate_brief(step.rate_rps), "strong", 0))
    if live is None:
        return pieces
    pieces.append(Piece(_part(live, is_over=is_over), "plain", 1))
    pieces.append(Piece(f"sent {count(live.sent)}", "plain", 6))
    pieces.append(Piece(f"in flight {count(live.in_flight)}", "plain", 3))
    if live.at_gateway is not None:
        pieces.append(Piece(f"at the gateway {count(live.at_gateway)}", "plain", 3))
    if live.errors:
        pieces.append(Piece(f"✘ errors {count(live.errors)}", "breaks", 1))
    return [*pieces, *client_panel.live(live, ttft_limit_s)]


def _part(live: RepeatView, *, is_over: bool) -> str:
    """What the repeat is at, and for how long."""
    if is_over and live.sent and live.decided is None:
        return f"ended at {progress(live.elapsed_s, live.length_s)}"
    if live.drain_left_s is not None:
        return f"waiting, at most {duration(round(live.drain_left_s))}"
    if live.part == "waiting":  # every request is decided; an undecided queue is heard a little longer
        return f"waiting {duration(round(live.elapsed_s - live.length_s))}"
    return f"{live.part} {progress(live.elapsed_s, live.length_s)}"


def progress_texts(view: RunView, *, past: bool = False) -> tuple[str, ...]:
    """How far the run is and when it is expected to end, in fewer and fewer words; when that has just changed, why. `past`: it is a
    recording, whose time of day says nothing."""
    at = view.progress
    if at is None or view.answer is not None:
        return ()
    expected_s = max(_roughly(at.expected_s), at.elapsed_s)
    share = at.elapsed_s / expected_s if expected_s > 0 else 0.0
    done = min(int(share * _BAR_CELLS), _BAR_CELLS)
    text = f"{clock(at.elapsed_s)} of ~{clock(expected_s)}"
    barred = f"{_DONE * done}{_TO_COME * (_BAR_CELLS - done)} {text}"
    ends = "" if past else _ends(view.started_utc, expected_s)
    usual = (*((f"{barred}, ends ~{ends} UTC", f"{text}, ends ~{ends} UTC") if ends else ()), barred, text)
    if at.changed is None or at.changed_t_s is None or at.elapsed_s - at.changed_t_s > _CHANGE_SHOWN_S:
        return usual
    why = f"{'+' if at.by_s > 0 else DASH}{long_duration(abs(at.by_s))}: {clean(prose.text(at.changed))}"
    told = [f"{head}  {why}" for head in (barred, text)]
    return (*told, *(shorten(told[1], len(text) + room) for room in (60, 50, 40, 30, 24)), *usual)


def _roughly(seconds: float) -> float:
    """In the steps of what is only expected."""
    step = 10 if seconds < 595 else 60
    return float(step * math.ceil(seconds / step)) if seconds >= 59.5 else seconds


def _ends(started_utc: str | None, expected_s: float) -> str:
    """The time of day of the expected end, as 17:22; empty where the start is not known."""
    try:
        return f"{datetime.fromisoformat(started_utc or '') + timedelta(seconds=expected_s):%H:%M}"
    except (ValueError, OverflowError):
        return ""


class EventLine(Widget):
    """The last sentence that the run said."""

    _text: tuple[str, str] = ("", "info")
    _at: str = ""

    def show(self, view: RunView) -> None:
        """Take a new view."""
        last = view.lines[-1] if view.lines else None
        at, text = (clock(last.t_s), (clean(prose.text(last.text)), last.level)) if last else ("", ("", "info"))
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
