"""A run's file: events appended as JSON lines the moment they happen, and read back."""

from collections.abc import Iterator
from pathlib import Path

from core.run.events import Event


class RunLog:
    """Appends events to one file (mode 0600), flushed each; `sync` forces them to disk at the end of a repeat."""

    path: Path

    def __init__(self, path: Path) -> None:
        """Create the file and refuse (UserError) when that cannot be done: before load starts, not after."""
        raise NotImplementedError

    def append(self, event: Event) -> None:
        raise NotImplementedError

    def sync(self) -> None:
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError


def default_path(model: str | None) -> Path:
    """A new path in the user's state folder, named by UTC time, model and a counter."""
    raise NotImplementedError


def resolve(run: str) -> Path:
    """The path of a RUN argument: a path, or `last` for the newest in the state folder. Raises UserError."""
    raise NotImplementedError


def read(path: Path) -> Iterator[Event]:
    """The events of a file in order; a torn last line is left out. Raises UserError for what is no run file."""
    raise NotImplementedError
