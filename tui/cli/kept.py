"""What was typed on the fleet screen, kept in a small file beside a run's (RUN.fleet.json): the run's own file holds only what
happened and what was asked for when it began."""

import os
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Literal

import msgspec

from core.config import FleetAsk
from core.errors import UserError
from core.view import RunView
from tui.cli.output import say_if_heard
from tui.terminal.whole import plain

_MOST_BYTES = 65536


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """The file. `started_utc` is when its run began: another run may have got the same name since."""

    kind: Literal["kneescope fleet"]
    started_utc: str
    fleet: FleetAsk


def path_beside(run: Path) -> Path:
    """Where the settings of a run are kept: run.jsonl -> run.fleet.json."""
    return run.with_name(f"{run.name.removesuffix('.jsonl')}.fleet.json")


def read(run: Path, view: RunView) -> FleetAsk | None:
    """The fleet that was set for this run, None where none was; a file that is damaged or not ours is ignored with a word."""
    path = path_beside(run)
    if not os.path.lexists(path):
        return None
    try:
        kept = _read(path)
    except (OSError, ValueError, UserError) as error:
        why = (error.strerror if isinstance(error, OSError) else None) or "it does not hold what kneescope writes there"
        say_if_heard(plain(f"{path} is ignored: {why}."))
        return None
    if kept.started_utc != view.started_utc:
        say_if_heard(plain(f"{path} is ignored: it belongs to another run."))
        return None
    say_if_heard(plain(f"The fleet is as it was set on the screen ({path})."))
    return kept.fleet


def write(run: Path, view: RunView, ask: FleetAsk | None) -> None:
    """Keep what was set on the screen; where that is not possible, it is said and nothing else is lost. None: nothing was set."""
    path = path_beside(run)
    if ask is None or view.started_utc is None or view.config is None or not run.is_file():
        return
    if ask == view.config.fleet and not path.exists():
        return
    kept = Kept(kind="kneescope fleet", started_utc=view.started_utc, fleet=ask)
    try:
        if os.path.lexists(path):
            _read(path)  # somebody else's file is not replaced
        _replace(path, msgspec.json.format(msgspec.json.encode(kept)) + b"\n")
    except (OSError, ValueError, UserError) as error:
        why = (error.strerror if isinstance(error, OSError) else None) or "a file that kneescope did not write is there"
        say_if_heard(plain(f"The fleet that was set is not kept in {path}: {why}."))


def _read(path: Path) -> Kept:
    if not path.is_file():  # a FIFO would hang here for ever
        raise ValueError("not a regular file")
    with path.open("rb") as source:
        content = source.read(_MOST_BYTES + 1)
    if len(content) > _MOST_BYTES:
        raise ValueError("too long")
    return msgspec.json.decode(content, type=Kept)


def _replace(path: Path, content: bytes) -> None:
    """Whole or not at all."""
    number, name = tempfile.mkstemp(prefix=".kneescope-", dir=path.parent)  # of mode 0600
    try:
        with open(number, "wb") as file:
            file.write(content)
        os.replace(name, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(name)
        raise
