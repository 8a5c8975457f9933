"""The index of recorded runs: one small file in the user's state folder, so that a list of them reads no run file.

It is kept by whoever lists runs or has made one: what is new or has changed since is read once. Where it cannot be written, the
list is made all the same, and made again the next time.
"""

import fcntl
import os
import re
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from core.history.reading import Read, read
from core.run_files import is_going, runs_folder, state_folder

REDACTED = ".redacted.jsonl"
"""How copies end that are made to be given away; beside the run that they are of, they are no run of their own."""
_SCHEMA = 2
_UNREADABLE = (msgspec.DecodeError, ValueError, RecursionError)
_NAMED_BY_US = re.compile(r"(\d{8}T\d{6}Z-)(?:.*-)?(\d+)")


def copy_beside(path: Path) -> Path:
    """Where a copy of a run goes that is to be given away: beside it, without the model that our own names of files hold."""
    stem = path.name.removesuffix(".jsonl")
    named = _NAMED_BY_US.fullmatch(stem)
    return path.with_name((stem if named is None else named[1] + named[2]) + REDACTED)


class Run(Read, frozen=True, kw_only=True):
    """A recorded run in the list. `number` is its own for good; `size` and `mtime_ns` are those of the file when it was read, the
    second 0 where it was still being written: its last line may have been there already."""

    number: int
    path: str
    size: int = 0
    mtime_ns: int = 0

    @property
    def place(self) -> Path:
        """Its file."""
        return Path(self.path)

    @property
    def is_going(self) -> bool:
        """Whether it is still being written. One that has its answer is over, whatever is still measured beside that."""
        return self.outcome is None and self.problem != "foreign" and is_going(self.place)

    @property
    def elsewhere(self) -> bool:
        """Whether its user said where it was to be recorded."""
        return self.place.parent != runs_folder()


class _Index(msgspec.Struct, frozen=True, kw_only=True):
    schema: int = _SCHEMA
    next: int = 1
    runs: tuple[Run, ...] = ()


class _Number(msgspec.Struct, frozen=True):
    number: int
    path: str


class _Numbers(msgspec.Struct, frozen=True):
    """What is kept of an index of another version: numbers never move."""

    next: int
    runs: tuple[_Number, ...]


class _Seen(msgspec.Struct, frozen=True):
    path: str
    size: int
    mtime_ns: int


def runs() -> tuple[Run, ...]:
    """All recorded runs that are there, the newest first; empty files are those of runs that have not begun."""
    index = _load()
    seen = list(_there(index))
    if not _is_fresh(index, seen):
        with _locked():
            index = _load()
            seen = list(_there(index))
            index = _refreshed(index, seen)
            _store(index)
    there = {each.path for each in seen if each.size}
    return tuple(sorted((run for run in index.runs if run.path in there), key=_newest, reverse=True))


def remembered() -> tuple[Run, ...]:
    """What the index knows, the newest first, without a look at any file: some may be gone, or be missing here."""
    return tuple(sorted(_load().runs, key=_newest, reverse=True))


def add(path: Path) -> None:
    """Take a run into the index, wherever it is recorded: when its file is made, and again when it is over. Never fails."""
    with suppress(OSError), _locked():
        index, own = _load(), os.path.abspath(path)
        if all(run.path != own for run in index.runs):
            index = _Index(next=index.next + 1, runs=(*index.runs, Run(number=index.next, path=own)))
        _store(_refreshed(index, list(_there(index))))


def _newest(run: Run) -> tuple[str, int, int]:
    return run.started_utc or "", run.mtime_ns, run.number


def _there(index: _Index) -> Iterator[_Seen]:
    """The files of the folder, and those elsewhere that the index knows, each once."""
    folder = str(runs_folder())
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith(".jsonl") and not entry.name.endswith(REDACTED):
                with suppress(OSError):
                    status = entry.stat()
                    if stat.S_ISREG(status.st_mode):
                        yield _Seen(entry.path, status.st_size, status.st_mtime_ns)
    for run in index.runs:
        if os.path.dirname(run.path) != folder:
            with suppress(OSError, ValueError):
                status = os.stat(run.path)
                if stat.S_ISREG(status.st_mode):
                    yield _Seen(run.path, status.st_size, status.st_mtime_ns)


def _is_fresh(index: _Index, seen: Iterable[_Seen]) -> bool:
    """Whether the index says of each file what it is now; of those that are gone it may still speak where they can come back."""
    known = {run.path: run for run in index.runs}
    for each in seen:
        run = known.pop(each.path, None)
        if run is None:
            if each.size:
                return False
        elif not _is_known(run, each):
            return False
    return all(_may_return(run) for run in known.values())


def _is_known(run: Run, seen: _Seen) -> bool:
    """Whether the file is what it was; one of a newer format is looked at again, for this kneescope may be newer than that one."""
    return (run.size, run.mtime_ns) == (seen.size, seen.mtime_ns) and run.problem != "newer"


def _may_return(run: Run) -> bool:
    """A folder that is not there may be a disk that is not; a file that is gone from its folder was removed."""
    return run.elsewhere and not run.place.parent.is_dir()


def _refreshed(index: _Index, seen: list[_Seen]) -> _Index:
    """The index as the files are now. What is new gets the next numbers, the oldest first."""
    known, number = {run.path: run for run in index.runs}, index.next
    kept = []
    for each in sorted(seen, key=lambda each: (each.mtime_ns, each.path)):
        old = known.pop(each.path, None)
        if old is not None and _is_known(old, each):
            kept.append(old)
            continue
        if old is None and not each.size:
            continue
        place = Path(each.path)
        going = is_going(place)
        try:
            found = read(place, going=going)
        except OSError:
            found = Read(label=place.name, problem="foreign")
        other = old is not None and old.started_utc not in (None, found.started_utc)  # another run has the same name now
        if old is None or other:
            number, own = number + 1, number
        else:
            own = old.number
        facts = {name: getattr(found, name) for name in Read.__struct_fields__}
        kept.append(Run(number=own, path=each.path, size=each.size, mtime_ns=0 if going else each.mtime_ns, **facts))
    kept += [run for run in known.values() if _may_return(run)]
    return _Index(next=number, runs=tuple(sorted(kept, key=lambda run: run.number)))


def _path() -> Path:
    return state_folder() / "runs.json"


def _load() -> _Index:
    """The index; of one that another version wrote only the numbers, and of one that is damaged nothing: it is made anew."""
    content = b""
    with suppress(OSError, *_UNREADABLE):
        content = _path().read_bytes()
        index = msgspec.json.decode(content, type=_Index)
        if index.schema == _SCHEMA:
            return index
    with suppress(*_UNREADABLE):
        kept = msgspec.json.decode(content, type=_Numbers)
        return _Index(next=kept.next, runs=tuple(Run(number=run.number, path=run.path) for run in kept.runs))
    return _Index()


def _store(index: _Index) -> None:
    """Whole or not at all; readers need no lock."""
    import tempfile  # what it brings along takes longer to import than an index to read

    path = _path()
    with suppress(OSError):
        number, name = tempfile.mkstemp(prefix=".kneescope-", dir=path.parent)  # of mode 0600
        try:
            with open(number, "wb") as file:
                file.write(msgspec.json.encode(index))
            os.replace(name, path)
        except BaseException:
            with suppress(OSError):
                os.unlink(name)
            raise


@contextmanager
def _locked() -> Iterator[None]:
    """One writer at a time, where the file system has locks. The lock is a file of its own, for the index is replaced."""
    fd = -1
    with suppress(OSError):
        state_folder().mkdir(parents=True, exist_ok=True, mode=0o700)
        fd = os.open(state_folder() / "runs.lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        fcntl.flock(fd, fcntl.LOCK_EX)
    try:
        yield
    finally:
        if fd >= 0:
            os.close(fd)
