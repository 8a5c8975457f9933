"""Load from several machines: one plan, of which each sends its share by its own clock, and one stream of what became of it.

Others import these names, and nothing else of the room.
"""

from core.workers.asked import WorkersAsked
from core.workers.controller import Workers

__all__ = ["Workers", "WorkersAsked"]
