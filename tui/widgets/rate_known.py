"""What is known of a rate: intervals of its attainment, and what the requests say that were sent there. Pure functions of a view.

A repeat that ended early has no attainment but an interval of it. Where that interval leaves everything open, all the requests of
the rate are asked, those of its warm-up and of the ramp too; they are another population, and so they are named.
"""

import itertools
import math
from collections.abc import Iterable
from typing import NamedTuple

from core import prose
from core.facts import says
from core.margins import AT_LIMIT, BINS, lower_edge
from core.percentiles import rank
from core.results import RepeatResult, StepResult
from core.units import DASH, count, percent
from core.view import RateMargins, RunView
from tui.draw.style import clean
from tui.widgets.pieces import Piece

Interval = tuple[float, float]


class Quantile(NamedTuple):
    """A quantile of margins: the bin that holds it, and whether it may as well lie higher, because requests had not ended."""

    at: int
    at_least: bool


def margins_at(view: RunView, rate_rps: float) -> RateMargins | None:
    """All requests that were sent at this rate; None where none was."""
    return next((each for each in view.margins if each.rate_rps == rate_rps and each.sent), None)


def window_over(repeat: RepeatResult) -> bool:
    """Whether all of its window had passed when it ended, so that its rates are those of the window."""
    if repeat.measure_s <= 0:  # an older record
        return not repeat.curtailed
    return repeat.duration_s >= repeat.warmup_s + repeat.measure_s


def planned_rps(repeat: RepeatResult) -> float:
    """Requests that its plan has in the window, a second, however much of it was sent; older records do not tell its length."""
    return repeat.planned / repeat.measure_s if repeat.measure_s > 0 else repeat.offered_rps


def undecided(margins: RateMargins) -> int:
    """Those of which it is not known yet whether they are good."""
    return margins.sent - margins.good - margins.missed


def account(margins: RateMargins) -> str:
    """What became of them, and of how many: "3 good, 19 missed, 92 open of 114 sent"."""
    missed = f"{count(margins.missed)} missed"
    open_ = f", {count(undecided(margins))} open" if undecided(margins) else ""
    return f"{count(margins.good)} good, {missed}{open_} of {count(margins.sent)} sent"


def failing(view: RunView, step: StepResult) -> list[Piece]:
    """What is known of a rate that failed, where its floor says nothing: how its requests stand, and why it was given up."""
    margins = margins_at(view, step.rate_rps)
    reason = clean(prose.text(step.reason))
    if margins is None:
        return [Piece(reason, "plain", 0)]
    good = "none was good" if not margins.good else f"{count(margins.good)} good"
    overloaded = "overloaded in the warm-up" if says(step.reason, "overloaded_in_warmup") else ""
    return [
        Piece(f"{count(margins.missed)} of {count(margins.sent)} sent missed a limit", "plain", 0),
        Piece(good, "plain", 1),
        Piece(_uncounted(view, margins), "plain", 2),
        Piece(overloaded, "plain", 3),
        Piece(reason, "plain", 4),
    ]


def _uncounted(view: RunView, margins: RateMargins) -> str:
    """How many of them no window counts."""
    n = margins.sent - margins.judged
    ramped = any(segment.rate_rps == margins.rate_rps for segment in view.ramp)
    which = "all" if n == margins.sent else f"{count(n)} of the {count(margins.sent)}"
    return f"{which} in {'ramp and warm-up' if ramped else 'the warm-up'}" if n else ""


def quantile(margins: RateMargins, q: float) -> Quantile | None:
    """The nearest rank of the sent requests by their margin; those that did not end count with the least that they can have had."""
    if not margins.sent:
        return None
    wanted = rank(q, margins.sent)
    both = (ended + open_ for ended, open_ in zip(margins.ended, margins.open, strict=True))
    at = _bin_of_rank(itertools.accumulate(both), wanted)
    highest = _bin_of_rank(itertools.accumulate(margins.ended), wanted)
    return Quantile(at, at != highest or at >= BINS - 1)


def _bin_of_rank(counts: Iterable[int], wanted: int) -> int:
    """The bin in which so many are reached; BINS where they are not."""
    return next((at for at, n in enumerate(counts) if n >= wanted), BINS)


def share_text(found: Quantile | None) -> str:
    """A share of the limit: bins are 9 % wide, so two digits; of a bound its lower end."""
    if found is None:
        return DASH
    if found.at >= BINS:
        return "beyond every limit"
    low, high = lower_edge(found.at), lower_edge(found.at + 1)
    if found.at_least:
        return f"≥ {percent(low, 2, math.floor)}"
    return f"< {percent(high, 2, math.ceil)}" if found.at == 0 else percent(math.sqrt(low * high), 2)


def is_over(found: Quantile | None) -> bool:
    """Whether it lies above the limit for sure."""
    return found is not None and found.at >= AT_LIMIT
