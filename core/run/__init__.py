"""A run from its first check to its answer: the session that drives it, its log, its replay, and the state that all of it makes.

Others import these names, and nothing else of the room.
"""

from core.run.ends import NoAnswer
from core.run.found import Found
from core.run.limits import others_rps
from core.run.log import RunLog, default_path, is_going, read_run, resolve_run
from core.run.material import Recording, recording
from core.run.replay import Replay
from core.run.session import Session
from core.run.state import State, step_told

__all__ = [
    "Found",
    "NoAnswer",
    "Recording",
    "Replay",
    "RunLog",
    "Session",
    "State",
    "default_path",
    "is_going",
    "others_rps",
    "read_run",
    "recording",
    "resolve_run",
    "step_told",
]
