"""A run from its first check to its answer: the session that drives it, its log, its replay, and the state that all of it makes.

Others import these names, and nothing else of the room.
"""

from core.run.again import RepeatAgain, RunAgain, StepAgain, judged_again
from core.run.ends import NoAnswer
from core.run.found import Found
from core.run.limits import others_rps
from core.run.log import Reread, RunLog, default_path, read_run, whole_file
from core.run.material import Recording, read_recording, recording
from core.run.replay import Replay
from core.run.requests import RequestRow, request_rows
from core.run.session import Session
from core.run.state import State, step_told
from core.run_files import is_going

__all__ = [
    "Found",
    "NoAnswer",
    "Recording",
    "RepeatAgain",
    "Replay",
    "RequestRow",
    "Reread",
    "RunAgain",
    "RunLog",
    "Session",
    "State",
    "StepAgain",
    "default_path",
    "is_going",
    "judged_again",
    "others_rps",
    "read_recording",
    "read_run",
    "recording",
    "request_rows",
    "step_told",
    "whole_file",
]
