"""A run's file: events appended as JSON lines the moment they happen, and read back."""

import contextlib
import errno
import fcntl
import os
import re
import stat
import weakref
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path

import msgspec

from core.errors import UserError
from core.run.events import SCHEMA, Event, RunStarted, decode, decode_in_short, encode
from core.run_files import runs_folder

_FIRST_LINE_MAX = 1 << 26
"""It holds the kinds of request that a run mixes: 200,000 pairs of lengths from a trace are 16 MB."""
_TOGETHER_BYTES = 1 << 16
"""So much is decoded together: what is decoded and taken in stays in the processor's cache."""
_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


class RunLog:
    """Appends events to one file (mode 0600), each with one unbuffered write; `sync` forces them to disk.

    While it is open the file is locked, which ends with the process however that ends: so a reader knows
    (`core.run_files.is_going`).

    After the first failed write it stays silent: the run is ended by that error, and a line after a torn one would
    make the file unreadable.
    """

    path: Path

    def __init__(self, path: Path) -> None:
        """Create the file and refuse (UserError) when that cannot be done: before load starts, not after."""
        self.path = path
        self._fd = _open(path)
        self._size = 0
        self._failed = False

    def append(self, event: Event) -> None:
        """Write one event. Raises UserError (exit code 3) once, when the file cannot grow."""
        if self._failed or self._fd < 0:
            return
        line = encode(event)
        try:
            _write_all(self._fd, line)
        except OSError as error:
            self._give_up(error)
        self._size += len(line)

    def sync(self) -> None:
        """Return when everything appended so far is on the disk. Raises UserError like `append`."""
        if self._failed or self._fd < 0:
            return
        try:
            os.fsync(self._fd)
        except OSError as error:
            self._give_up(error)

    def close(self) -> None:
        """Close the file; safe to call twice."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _give_up(self, error: OSError) -> None:
        self._failed = True
        with contextlib.suppress(OSError):  # half a line would only be left out when read
            os.ftruncate(self._fd, self._size)
        what = "the disk is full" if error.errno in _NO_ROOM else (error.strerror or str(error))
        raise UserError(
            f"The run could not be written to {self.path} any more: {what}. What was written so far is kept; "
            "make room, or give another file with --out, and run again.",
            exit_code=3,
        ) from error


def default_path(model: str | None) -> Path:
    """A new path in the user's state folder, named by UTC time, model and a counter.

    The empty file is made here, so that two runs started in the same second never get the same one.
    """
    folder = runs_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        stem = f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{_safe(model)}"
        for counter in range(1, 10_000):
            path = folder / f"{stem}-{counter}.jsonl"
            try:
                os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
            except FileExistsError:
                continue
            return path
    except OSError as error:
        raise UserError(f"No run file can be made in {folder}: {error.strerror}. Give a file elsewhere with --out.") from error
    raise UserError(f"{folder} already holds too many runs of this second; give a file with --out.")


def read_run(path: Path) -> Iterator[Event]:
    """The events of a file in order; a torn last line is left out.

    Raises UserError at once for what is no run file, and while reading for a broken line that is not the last.
    """
    _check_is_run(path)
    return _read(path)


class Reread:
    """The events of a file in order, as often as somebody goes through them: each time they are read anew, and nothing is kept. The
    ends of requests are in short (`EndedInShort`). The file may be removed meanwhile."""

    def __init__(self, path: Path) -> None:
        """Raises UserError for what is no run file."""
        _check_is_run(path)
        self._path, self._fd = path, os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        weakref.finalize(self, os.close, self._fd)

    def __iter__(self) -> Iterator[Event]:
        """One iteration at a time. Raises UserError while reading for a broken line that is not the last."""
        with os.fdopen(os.dup(self._fd), "rb") as file:
            file.seek(0)
            done = 0
            while lines := file.readlines(_TOGETHER_BYTES):
                try:
                    events = decode_in_short(lines)
                except (msgspec.DecodeError, UserError, RecursionError):  # one is broken, which may be the last
                    yield from _events(chain(lines, file), self._path, done + 1)
                    return
                yield from events
                done += len(lines)


def _safe(model: str | None) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "_", model or "").strip("._-")[:60] or "run"


def _open(path: Path) -> int:
    if not os.path.isdir(path.parent):  # unlike Path.is_dir, False also for what may not be looked into
        raise UserError(f"{path}: the folder {path.parent} does not exist; make it first, or give another file with --out.")
    try:
        # without O_NONBLOCK a FIFO given by mistake would hang here for ever
        fd = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
    except IsADirectoryError:
        raise UserError(f"{path} is a folder; give the name of a file with --out.") from None
    except OSError as error:
        raise UserError(f"{path} cannot be written: {error.strerror}. Give a file elsewhere with --out.") from error
    status = os.fstat(fd)
    if stat.S_ISREG(status.st_mode) and status.st_size == 0:
        if _locked(fd):
            return fd
        os.close(fd)
        raise UserError(f"{path} is being written by another run; give a file of its own with --out.")
    os.close(fd)
    if not stat.S_ISREG(status.st_mode):
        raise UserError(f"{path} is not an ordinary file; give one with --out.")
    raise UserError(f"{path} already holds something and is never overwritten; give a new file with --out.")


def _locked(fd: int) -> bool:
    """False when somebody else has the lock; a file system without locks is no reason not to write."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


def _write_all(fd: int, data: bytes) -> None:
    while data:
        data = data[os.write(fd, data) :]


@contextlib.contextmanager
def whole_file(path: Path) -> Iterator[None]:
    """Lines that are whole and cannot be true are a sentence (UserError), whatever they break."""
    try:
        yield
    except (ArithmeticError, LookupError, MemoryError, ValueError) as error:
        raise UserError(f"{path} is not what kneescope wrote ({error}): the file was changed or damaged.") from error


def _check_is_run(path: Path) -> None:
    try:
        with path.open("rb") as file:
            line = file.readline(_FIRST_LINE_MAX)
    except OSError as error:
        raise UserError(
            f"{path} cannot be read: {error.strerror}. Give the path of a run file, last, a label, or a number of `kneescope runs`."
        ) from error
    if (schema := _schema(line)) > SCHEMA:
        raise UserError(f"{path} was written by a newer kneescope (format {schema}, here {SCHEMA}); update to read it.")
    try:
        first = decode(line)
    except (msgspec.DecodeError, UserError, RecursionError):
        first = None
    if not isinstance(first, RunStarted):
        raise UserError(f"{path} is not a run file: it does not begin with the start of a run. Give the .jsonl file of a run.")


class _Head(msgspec.Struct):
    type: str
    schema: int


def _schema(line: bytes) -> int:
    """The version that a first line says; 0 where it is none. The rest of a newer one may be anything."""
    try:
        head = msgspec.json.decode(line, type=_Head)
    except (msgspec.DecodeError, RecursionError):
        return 0
    return head.schema if head.type == RunStarted.__struct_config__.tag else 0


def _read(path: Path) -> Iterator[Event]:
    with path.open("rb") as file:
        yield from _events(file, path)


def _events(lines: Iterable[bytes], path: Path, first: int = 1) -> Iterator[Event]:
    """`first`: the number of the first line."""
    broken: tuple[int, str] | None = None
    for number, line in enumerate(lines, start=first):
        if broken is not None:
            number, why = broken
            raise UserError(f"{path}: line {number} is broken ({why}) and more follows: the file was changed or damaged.")
        try:
            event = decode(line)
        except (msgspec.DecodeError, UserError, RecursionError) as error:
            broken = number, str(error)
            continue
        yield event
