"""What running replicas are doing now, read from their metrics alone: one row each, and what is true over all of them.

Others import these names, and nothing else of the room.
"""

from core.watch.growth import Growth
from core.watch.knee import ReplicaKnee, knee_of
from core.watch.latency import Estimate, quantile
from core.watch.loop import SCRAPE_S, Watcher
from core.watch.remarks import growth_fact, imbalance_fact, load_fact, row_notes, stuck_fact
from core.watch.replica import WINDOW_S, Figures, Load, Row
from core.watch.table import Imbalance, Table, Total, Watched

__all__ = [
    "SCRAPE_S",
    "WINDOW_S",
    "Estimate",
    "Figures",
    "Growth",
    "Imbalance",
    "Load",
    "ReplicaKnee",
    "Row",
    "Table",
    "Total",
    "Watched",
    "Watcher",
    "growth_fact",
    "imbalance_fact",
    "knee_of",
    "load_fact",
    "quantile",
    "row_notes",
    "stuck_fact",
]
