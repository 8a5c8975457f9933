"""What the load generator says of itself: its processor, the longest stall of its loop, how late it sent. Was it slow itself?"""

import math
from collections.abc import Iterable

from core.judge import lateness_limit_s, lateness_status
from core.report import largest
from core.results import Percentiles, RepeatResult
from core.units import data_size, duration, latency, latency_brief, percent
from core.view import RepeatView
from tui.draw.style import Role
from tui.widgets.pieces import Piece

HEADS = ("CPU", "lag", "late")
FULL_FRAC = 0.9
"""Share of a core from which on the client has nearly nothing left, and is soon the one that is slow."""


def live(repeat: RepeatView, ttft_limit_s: float | None) -> list[Piece]:
    """Of the repeat that runs, judged as it will be if it goes on as it is: what would make it void is an alarm."""
    return [
        *_own(repeat.client_cpu_frac, repeat.loop_lag_max_s, ttft_limit_s, stalled=repeat.stalled),
        late_piece(repeat.lateness_p99_s, ttft_limit_s),
    ]


def late_piece(p99_s: float | None, ttft_limit_s: float | None, max_s: float | None = None) -> Piece:
    """How late the client sends, and when that is too late for the repeat to count; `max_s`: its latest send, where known."""
    text = f"late p99 {latency(p99_s)}"
    status = lateness_status(Percentiles(p99=p99_s, max=p99_s if max_s is None else max_s), ttft_limit_s)
    if status == "ok":
        return Piece(text, "plain", 2)
    allowed = duration(lateness_limit_s(ttft_limit_s))
    if status == "void":
        return Piece(f"✘ {text}, limit {allowed} → void", "breaks", 0)
    return Piece(f"▲ {text}, limit {allowed}", "strong", 1)


def _own(cpu_frac: float | None, lag_s: float | None, ttft_limit_s: float | None, *, stalled: bool = False) -> list[Piece]:
    """A single long stall is forgiven, several are not; for the processor there is no limit, but nothing is left at its end."""
    pieces: list[Piece] = []
    if cpu_frac is not None:
        text = f"client CPU {cpu(cpu_frac)}"
        pieces.append(Piece(f"▲ {text}", "strong", 1) if cpu_frac >= FULL_FRAC else Piece(text, "plain", 2))
    if lag_s is not None:
        text, allowed_s = f"lag {latency(lag_s)}", lateness_limit_s(ttft_limit_s)
        if stalled:
            pieces.append(Piece(f"✘ {text} and again, limit {duration(allowed_s)} → void if it goes on", "breaks", 0))
        elif lag_s > allowed_s:
            pieces.append(Piece(f"▲ {text}, limit {duration(allowed_s)}", "strong", 1))
        else:
            pieces.append(Piece(text, "plain", 2))
    return pieces


def cpu(frac: float | None) -> str:
    """A highest share of one core, never rounded down."""
    return percent(frac, 2, math.ceil)


def finished(repeats: Iterable[RepeatResult], ttft_limit_s: float | None) -> list[Piece]:
    """The worst of repeats that ended, with the peak of memory; nothing where none of it is known."""
    told = list(repeats)
    pieces = _own(largest(r.client_cpu_frac for r in told), largest(r.loop_lag_max_s for r in told), ttft_limit_s)
    if (late_s := largest(r.lateness_s.p99 for r in told)) is not None:
        pieces.append(late_piece(late_s, ttft_limit_s, largest(r.lateness_s.max for r in told)))
    if (peak := largest(r.client_memory_peak_bytes for r in told)) is not None:
        pieces.append(Piece(f"memory {data_size(peak)}", "plain", 3))
    return pieces


def cells(repeats: Iterable[RepeatResult]) -> tuple[str, str, str]:
    """The same for a table, under HEADS."""
    told = list(repeats)
    lag_s, late_s = largest(r.loop_lag_max_s for r in told), largest(r.lateness_s.p99 for r in told)
    return cpu(largest(r.client_cpu_frac for r in told)), latency_brief(lag_s), latency_brief(late_s)


def cells_now(repeat: RepeatView) -> tuple[str, str, str]:
    """Those of the repeat that runs."""
    return cpu(repeat.client_cpu_frac), latency_brief(repeat.loop_lag_max_s), latency_brief(repeat.lateness_p99_s)


def role_of(pieces: Iterable[Piece]) -> Role:
    """What the worst of them is told in."""
    return min(pieces, key=lambda piece: piece.rank).role if (pieces := list(pieces)) else "plain"
