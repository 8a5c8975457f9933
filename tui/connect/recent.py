"""The servers that were checked or loaded last: addresses and models in a file of the user's state folder, and nothing else."""

import json
import os
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import platformdirs

from core.errors import UserError
from tui.cli.inputs import read_server

MOST = 10
_MOST_CHARS = 65536
_NAME_CHARS = 256


class Recent(NamedTuple):
    """`model` is empty where the server's only one was asked for and its name is not known."""

    url: str
    model: str


def path() -> Path:
    """Where they are kept."""
    return Path(platformdirs.user_state_dir("kneescope", appauthor=False)) / "servers.json"


def load() -> tuple[Recent, ...]:
    """The newest first; what cannot be read, or could not be typed into the field, is left out."""
    try:
        with path().open(encoding="utf-8") as source:
            found = json.loads(source.read(_MOST_CHARS))
    except (OSError, ValueError, RecursionError):
        return ()
    servers = [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []
    kept = [_recent(each.get("url"), each.get("model")) for each in servers]
    return tuple(each for each in kept if each is not None)[:MOST]


def remember(url: str, model: str | None) -> None:
    """Put it first. An address with a user, a key or a query in it is not kept; where nothing can be written nothing is."""
    new = _recent(url, model or "")
    if new is None:
        return
    servers = [new, *(each for each in load() if each != new)][:MOST]
    with suppress(OSError):
        path().parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        number, name = tempfile.mkstemp(prefix=".kneescope-", dir=path().parent)  # of mode 0600
        try:
            with open(number, "w", encoding="utf-8") as file:
                json.dump([each._asdict() for each in servers], file, indent=1)
            os.replace(name, path())
        except BaseException:
            os.unlink(name)
            raise


def _recent(url: object, model: object) -> Recent | None:
    if not isinstance(url, str) or not isinstance(model, str) or len(model) > _NAME_CHARS:
        return None
    try:
        return Recent(read_server(url, "URL"), model)
    except UserError:
        return None
