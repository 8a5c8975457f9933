"""Where run files are kept by default, and whether a run still writes into one: for their writer and for who lists them."""

import contextlib
import fcntl
from pathlib import Path

import platformdirs

from core.errors import UserError


def state_folder() -> Path:
    """The folder that is the user's own for what kneescope keeps; it may not be there yet."""
    return Path(platformdirs.user_state_dir("kneescope", appauthor=False))


def runs_folder() -> Path:
    """Where runs are recorded that name no file of their own; it may not be there yet."""
    return state_folder() / "runs"


def is_going(path: Path) -> bool:
    """Whether a run is still writing into this file, on this machine."""
    with contextlib.suppress(OSError), path.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def refuse_going(path: Path, command: str) -> None:
    """Refuse (UserError, exit code 3) a file that a run is still writing into, for a command that needs the whole of it."""
    if is_going(path):
        raise UserError(f"{path} is still being written: {command} needs a run that is over.", exit_code=3)
