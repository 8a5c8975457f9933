"""What kind of file it is, by its first bytes, and the refusal of those that no reader takes."""

import gzip
import stat
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from core.errors import UserError

HEAD_BYTES = 65_536
BOM = b"\xef\xbb\xbf"
_GZIP = b"\x1f\x8b"

_FOREIGN: tuple[tuple[bytes, str, str], ...] = (
    (b"version https://git-lfs", "is a pointer of Git LFS, not the file itself", "run `git lfs pull` where it comes from"),
    (b"PAR1", "is Parquet", "write it out as JSONL"),
    (b"SQLite format 3", "is a SQLite database", "write it out as JSONL"),
    (b"PK\x03\x04", "is a zip archive", "unpack it first"),
    (b"\x28\xb5\x2f\xfd", "is compressed with zstd", "unpack it first"),
    (b"BZh", "is compressed with bzip2", "unpack it first"),
    (b"\xfd7zXZ", "is compressed with xz", "unpack it first"),
    (b"\xff\xfe", "is UTF-16", "save it as UTF-8"),
    (b"\xfe\xff", "is UTF-16", "save it as UTF-8"),
)


def unreadable(name: str, path: Path, error: OSError) -> UserError:
    """The refusal of a file that the system does not give."""
    return UserError(f"{name}: {path} cannot be read ({error.strerror or 'unknown reason'}); give the path of a file.")


def path_of(text: str, name: str) -> Path:
    """The path that a user wrote, `~` and all. Raises UserError, naming the option, for what no file can be called."""
    if not text.strip() or "\0" in text:
        raise UserError(f"{name}: the name is empty or holds a null byte; give the path of a file.")
    try:
        return Path(text).expanduser()
    except RuntimeError:
        raise UserError(f"{name}: {text} begins with a user whose folder is not known; give the whole path of a file.") from None


def head(path: Path, name: str, unpack: bool) -> bytes:
    """The first bytes of a text file; with `unpack` those inside gzip. Raises UserError, naming the option, for what is none."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise UserError(f"{name}: {path} is not a file; a folder or a pipe cannot be read more than once.")
        with path.open("rb") as file:
            first = file.read(HEAD_BYTES)
    except OSError as error:
        raise unreadable(name, path, error) from None
    if first.startswith(_GZIP):
        if not unpack:
            raise UserError(f"{name}: {path} is compressed with gzip, where no row can be looked up; unpack it first.")
        with streamed(path, name) as (file, _):
            first = file.read(HEAD_BYTES)
    _refuse_foreign(first, path, name)
    return first


def _refuse_foreign(first: bytes, path: Path, name: str) -> None:
    if not first.strip():
        raise UserError(f"{name}: {path} is empty.")
    for magic, what, remedy in _FOREIGN:
        if first.startswith(magic):
            raise UserError(f"{name}: {path} {what}; {remedy}.")
    if first.lstrip()[:15].lower().startswith((b"<!doctype html", b"<html")):
        raise UserError(f"{name}: {path} is a web page; the download was probably refused, fetch the file again.")
    if b"\0" in first:
        raise UserError(f"{name}: {path} is not text; give JSON, JSONL, CSV or plain lines in UTF-8.")


@contextmanager
def _gzipped(raw: BinaryIO, path: Path, name: str) -> Iterator[BinaryIO]:
    try:
        with gzip.GzipFile(fileobj=raw) as file:
            yield cast(BinaryIO, file)
    except (EOFError, gzip.BadGzipFile, zlib.error):
        raise UserError(f"{name}: {path} is damaged or cut off: its gzip data does not end as it should.") from None


@contextmanager
def streamed(path: Path, name: str) -> Iterator[tuple[BinaryIO, BinaryIO]]:
    """The bytes of a file from its beginning on, unpacked where it is gzip; beside them the file as it lies there, which tells how
    far it is. A damaged one raises UserError while it is read."""
    try:
        with path.open("rb") as raw:
            packed = raw.read(2).startswith(_GZIP)
            raw.seek(0)
            if not packed:
                yield raw, raw
                return
            with _gzipped(raw, path, name) as unpacked:
                yield unpacked, raw
    except OSError as error:
        raise unreadable(name, path, error) from None
