"""The machines that send, where several do: what each has sent, how late, and how busy it is. Is one of them too slow?"""

from collections.abc import Sequence
from typing import Literal

from textual.content import Content
from textual.widget import Widget

from core.judge import lateness_limit_s, lateness_status
from core.records import WorkerInfo
from core.results import Percentiles
from core.units import count, duration, latency
from core.view import RunView, WorkerLive
from tui.draw.style import clean
from tui.frame import Frame
from tui.widgets.client_panel import FULL_FRAC, cpu
from tui.widgets.pieces import Piece, flow, join, keep_end

Words = Literal["full", "brief", "columns", "least"]
Told = tuple[Piece, Sequence[Piece]]
"""The head of the line, and the machines in one wording."""

_GAP = 3
_NAME_WIDTH = 20
_FEW = 6
"""So many have room on a line of 200 cells."""


class WorkersLine(Widget):
    """A line, or two where there is room; not there where this machine alone sends, and when the run is over."""

    HELP = "each machine that sends: sent so far, late p99, CPU; the worst first where not all have room"

    _view: RunView | None = None

    def show(self, frame: Frame) -> None:
        """Take a frame: as in the line above, what is said is live."""
        view = frame.live
        self.display = bool(view.workers) and view.answer is None
        self.set_class(len(view.workers) > _FEW, "-many")
        if self.display and (self._view is None or _drawn(view) != _drawn(self._view)):
            self.refresh()
        self._view = view

    def render(self) -> Content:
        """The machines by number while all have room, which keeps each in its place; else the worst first."""
        view = self._view
        if view is None or not view.workers:
            return Content()
        lines = lines_of(view, self.size.width, max(1, self.size.height))
        return Content("\n").join([join(line, " " * _GAP) for line in lines])


def lines_of(view: RunView, width: int, rows: int) -> Sequence[Sequence[Piece]]:
    """The fullest wording in which all machines have room; else, briefly, as many of the worst as have room, and how many more
    there are."""
    live = view.current.live if view.current is not None else None
    told = _waiting(view) if live is None or not live.workers else _sending(view, live.workers)
    for head, pieces in told:
        if lines := _laid([head, *pieces], width, rows):
            return lines
    for head, pieces in told[-2:]:
        worst = sorted(pieces, key=lambda piece: piece.rank)
        for shown in range(len(worst) - 1, 0, -1):
            if lines := _laid([head, *worst[:shown], Piece(f"+{count(len(worst) - shown)} more", "muted")], width, rows):
                return lines
    return [[told[-1][0]]]


def _laid(pieces: Sequence[Piece], width: int, rows: int) -> Sequence[Sequence[Piece]]:
    """In lines; none where not all have room."""
    lines = flow(pieces, width, rows, _GAP)
    return lines if sum(map(len, lines)) == len(pieces) else ()


def _waiting(view: RunView) -> list[Told]:
    """Before they send: what each is, and how well its clock is known."""
    names = [Piece(_name(worker.name)) for worker in view.workers]
    known = [Piece(_known(worker)) for worker in view.workers]
    return [(_head(view), known), (_head(view), names)]


def _head(view: RunView, columns: str = "") -> Piece:
    return Piece(f"{count(len(view.workers), 'machine')}{columns}", "muted")


def _known(worker: WorkerInfo) -> str:
    facts = [count(worker.cores, "core")] if worker.cores is not None else []
    facts += [f"clock within {latency(worker.clock_error_s)}"] if worker.clock_error_s is not None else []
    return f"{_name(worker.name)} {', '.join(facts)}".rstrip()


def _sending(view: RunView, workers: Sequence[WorkerLive]) -> list[Told]:
    """A piece for each machine, in fewer and fewer words; its rank is its place among them by how bad it is."""
    ttft_s = view.config.limits.shortest_ttft_s if view.config else None
    order = sorted(workers, key=lambda worker: _badness(worker, ttft_s), reverse=True)
    ranks = {worker.name: rank for rank, worker in enumerate(order)}
    all_words: tuple[Words, ...] = ("full", "brief", "columns", "least")
    return [
        (
            _head(view, ": sent, late, CPU" if words == "columns" else ""),
            [_piece(worker, ttft_s, ranks[worker.name], words) for worker in workers],
        )
        for words in all_words
    ]


def _piece(worker: WorkerLive, ttft_limit_s: float | None, rank: int, words: Words) -> Piece:
    """One machine, with a mark where it is too late or stalls, and the limit where there is room for many words."""
    text, status = f"{_name(worker.name)} {_figures(worker, words)}", _status(worker, ttft_limit_s)
    limit = f", limit {duration(lateness_limit_s(ttft_limit_s))}" if words in ("full", "brief") else ""
    if worker.stalled:
        return Piece(f"✘ {text}, stalls → void", "breaks", rank)
    if status == "void":
        return Piece(f"✘ {text}{limit} → void", "breaks", rank)
    if status == "warn":
        return Piece(f"▲ {text}{limit}", "strong", rank)
    return Piece(f"▲ {text}", "strong", rank) if (worker.client_cpu_frac or 0.0) >= FULL_FRAC else Piece(text, "plain", rank)


def _figures(worker: WorkerLive, words: Words) -> str:
    sent, late, busy = count(worker.sent), latency(worker.lateness_p99_s), cpu(worker.client_cpu_frac)
    match words:
        case "full":
            return f"sent {sent}, late p99 {late}, CPU {busy}"
        case "brief":
            return f"{sent}, late {late}, CPU {busy}"
        case "columns":
            return f"{sent} {late} {busy}"
        case "least":
            return f"late {late}"


def _badness(worker: WorkerLive, ttft_limit_s: float | None) -> tuple[int, float, float]:
    """What would make the repeat void comes first, then what is near to it, then how late and how busy it is."""
    void = worker.stalled or _status(worker, ttft_limit_s) == "void"
    near = _status(worker, ttft_limit_s) == "warn" or (worker.client_cpu_frac or 0.0) >= FULL_FRAC
    return 2 * void + near, worker.lateness_p99_s or 0.0, worker.client_cpu_frac or 0.0


def _status(worker: WorkerLive, ttft_limit_s: float | None) -> str:
    return lateness_status(Percentiles(p99=worker.lateness_p99_s, max=worker.lateness_p99_s), ttft_limit_s)


def _name(name: str) -> str:
    return keep_end(clean(name), _NAME_WIDTH)


def _drawn(view: RunView) -> tuple[object, ...]:
    live = view.current.live if view.current is not None else None
    return view.workers, live.workers if live is not None else None, view.config
