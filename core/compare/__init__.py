"""Runs side by side: what was asked of each, what of their servers differs, and whether one holds more than the other.

Others import these names, and nothing else of the room.
"""

from core.compare.comparison import MOST_SIDES, Against, Comparison, compare
from core.compare.decision import Verdict
from core.compare.ghost import Ghost, GhostFloor, beside, ghost_of
from core.compare.pairs import Interval, PairedRate, interval
from core.compare.reading import read_side, side_of
from core.compare.shifts import Shift
from core.compare.side import LIMITS, WORKLOAD, FleetOf, Repeat, Request, Side, Step

__all__ = [
    "LIMITS",
    "MOST_SIDES",
    "WORKLOAD",
    "Against",
    "Comparison",
    "FleetOf",
    "Ghost",
    "GhostFloor",
    "Interval",
    "PairedRate",
    "Repeat",
    "Request",
    "Shift",
    "Side",
    "Step",
    "Verdict",
    "beside",
    "compare",
    "ghost_of",
    "interval",
    "read_side",
    "side_of",
]
