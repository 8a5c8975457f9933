"""A recorded run under other limits: its stored requests judged again, and what they cannot decide.

Others import these names, and nothing else of the room.
"""

from core.rejudge.amounts import Now, Outcome, Rate, Rejudged, rejudged
from core.rejudge.limits import NO_LIMIT, Limit, Limits

__all__ = [
    "NO_LIMIT",
    "Limit",
    "Limits",
    "Now",
    "Outcome",
    "Rate",
    "Rejudged",
    "rejudged",
]
