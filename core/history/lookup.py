"""Which file a RUN on the command line means."""

from pathlib import Path

from core.errors import UserError
from core.history.index import Run, runs
from core.run_files import runs_folder

_GIVE = "give the path of a run file, last, a label, or a number of `kneescope runs`"


def resolve(run: str) -> Path:
    """The file of a run by a path, then `last`, then an exact label (the newest with it), then a number of the list.

    Raises UserError where it is none of these.
    """
    try:
        if Path(run).is_file():
            return Path(run)
        if "/" in run and Path(run).exists():
            raise UserError(f"{run} is {'a folder' if Path(run).is_dir() else 'no ordinary file'}; {_GIVE}.")
    except (OSError, ValueError) as error:  # a folder that may not be looked into, a name that is too long
        why = (error.strerror if isinstance(error, OSError) else None) or "no file has such a name"
        if "/" in run:
            raise UserError(f"{run} cannot be read: {why}; {_GIVE}.") from None
    return _named(run).place


def _named(run: str) -> Run:
    """Of the list."""
    listed = runs()
    if run == "last":
        listed = tuple(each for each in listed if each.problem != "foreign")
        if not listed:
            raise UserError(f"There is no run in {runs_folder()} yet; give the path of a run file.")
        return listed[0]
    for each in listed:
        if each.label == run:
            return each
    if run.isascii() and run.isdigit():
        for each in listed:
            if str(each.number) == run:
                return each
        raise UserError(
            f"There is no run {run}: it was removed, or never recorded here; `kneescope runs` lists those that are there."
        )
    raise UserError(f"There is no run {run!r}; {_GIVE}.")
