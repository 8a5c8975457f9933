"""Settings of one server beside each other: the grid of them, the server of each from its start to its end, and how they stand.

Others import these names, and nothing else of the room.
"""

from core.tune.grid import MOST_SETTINGS, Served, Setting, Tried, settings_of
from core.tune.server import Ended, NotReady, Server
from core.tune.standing import Measured, Standing, best_of, headline, standings

__all__ = [
    "MOST_SETTINGS",
    "Ended",
    "Measured",
    "NotReady",
    "Served",
    "Server",
    "Setting",
    "Standing",
    "Tried",
    "best_of",
    "headline",
    "settings_of",
    "standings",
]
