"""Which run files may go, and their removal. Only those of the user's state folder: what is elsewhere is never touched."""

import fcntl
import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from core.history.index import Run, copy_beside, runs


def age_s(run: Run, now_s: float) -> float:
    """Since when it began, in seconds; of a file that does not tell, since it was last written."""
    with suppress(ValueError, OverflowError):
        return now_s - datetime.fromisoformat(run.started_utc or "").timestamp()
    return now_s - run.mtime_ns / 1e9


def prunable(keep: int | None, older_s: float | None, now_s: float) -> tuple[Run, ...]:
    """The runs that are beyond the newest `keep` and older than `older_s`, as far as each is given (None: it is not), the oldest
    first. What is no run, and what still goes on, is not among them."""
    own = [run for run in runs() if not run.elsewhere and run.problem != "foreign"]
    beyond = own if keep is None else own[keep:]
    return tuple(run for run in reversed(beyond) if (older_s is None or age_s(run, now_s) > older_s) and not run.is_going)


def remove(doomed: Iterable[Run], beside: Callable[[Path], Path]) -> tuple[list[Run], list[tuple[Run, str]]]:
    """Delete the files of these runs, with what is kept `beside` each and copies made to be given away.

    Returns those that went, and those that stayed with the reason in a few words; one that somebody else removed is neither.
    """
    gone: list[Run] = []
    stayed: list[tuple[Run, str]] = []
    for run in doomed:
        try:
            _remove(run.place)
        except FileNotFoundError:  # somebody else removed it
            continue
        except BlockingIOError:
            stayed.append((run, "it is still being written"))
        except OSError as error:
            stayed.append((run, error.strerror or str(error)))
        else:
            gone.append(run)
            for other in (beside(run.place), copy_beside(run.place)):
                with suppress(OSError):
                    other.unlink(missing_ok=True)
    runs()  # the index knows it at once
    return gone, stayed


def _remove(path: Path) -> None:
    """Under the lock that its writer would have."""
    with path.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            raise
        except OSError:  # no locks here
            pass
        os.unlink(path)
