"""Where text goes: results to stdout or the file of `--json FILE` (checked before load), what is meant for people to stderr."""

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import click

from core.errors import UserError

if TYPE_CHECKING:  # the list of runs needs no access to a server
    from core.access import Access


RUN_AGAIN = "run the command again when there is room"
"""What to do about a result that could not be written, where making it anew costs nothing; no load was sent for it."""


class Fault(Exception):
    """An error of kneescope itself; the text is its traceback, fit to be shown."""


@contextmanager
def scrubbed(access: "Access") -> Iterator[None]:
    """What nobody foresaw comes out as a Fault, in whose traceback no secret stands."""
    try:
        yield
    except (UserError, click.exceptions.Exit, click.ClickException, click.Abort):
        raise
    except Exception:
        import traceback

        raise Fault(access.scrub(traceback.format_exc())) from None


def emit(text: str, *, instead: str = RUN_AGAIN) -> bool:
    """Write to stdout as UTF-8; False where nobody reads it. A reader that has gone away, or a closed stdout, is not an error: what
    was measured is in a run file. `instead`: what to do where it cannot be written.

    Raises UserError (exit code 3) when somebody waits for it and it cannot be written, as into a file on a full disk.
    """
    try:
        click.echo(text.encode(errors="replace"), nl=not text.endswith("\n"))
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError as error:
        silence(1)
        if error.errno not in (errno.EPIPE, errno.EBADF):
            raise UserError(f"The result could not be written to stdout ({error.strerror}); {instead}.", exit_code=3) from None
        return False
    return sys.stdout is not None


def emit_on(text: str) -> bool:
    """Write one of many results to stdout; False when nobody reads them any more. Raises UserError as `emit` does."""
    try:
        click.echo(text.encode(errors="replace"), nl=not text.endswith("\n"))
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError as error:
        silence(1)
        if error.errno in (errno.EPIPE, errno.EBADF):
            return False
        raise UserError(f"The readings could not be written to stdout ({error.strerror}).", exit_code=3) from None
    return True


def say(text: str) -> None:
    """Write to stderr. Raises OSError when nobody reads it any more; from then on it leads nowhere."""
    try:
        click.echo(text, err=True)
    except OSError:
        silence(2)
        raise


def say_if_heard(text: str) -> None:
    """Write to stderr, whether or not somebody reads it."""
    with suppress(OSError):
        say(text)


def silence(number: int) -> None:
    """Point a broken stream (1 stdout, 2 stderr) at the null device, so that its last flush at exit cannot fail again."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, number)
    os.close(null)


def flush_what_is_heard() -> None:
    """Write out what stdout and stderr still hold, where somebody reads it. Python's own flush at exit, of a terminal that went
    away with something unsaid, would make exit code 120 of every other one."""
    for number, stream in ((1, sys.stdout), (2, sys.stderr)):
        try:
            if stream is not None:
                stream.flush()
        except (OSError, ValueError):  # gone, or closed
            silence(number)


class JsonOut:
    """The place of `--json`: a file, stdout (`-`), or nowhere (None)."""

    def __init__(self, place: str | None) -> None:
        """Refuse (UserError) now what could not be written later; a file that is not there yet is made, empty."""
        self.to_stdout = place == "-"
        self._path = Path(place) if place is not None and place != "-" else None
        self._made = False
        if self._path is not None:
            try:
                self._made = not self._path.exists()
                if self._made or not self._path.is_fifo():  # opening a pipe would wait for its reader
                    with self._path.open("a"):
                        pass
            except OSError as error:
                raise _unwritable(self._path, error) from None

    def write(self, text: str, *, instead: str = RUN_AGAIN) -> None:
        """Write the result, replacing what the file held. Raises UserError (exit code 3) when that fails now; `instead`: what to do
        then."""
        if self.to_stdout:
            emit(text, instead=instead)
        elif self._path is not None:
            try:
                self._path.write_text(text if text.endswith("\n") else text + "\n", encoding="utf-8")
            except OSError as error:
                raise UserError(f"--json: {self._path} could not be written ({error.strerror}); {instead}.", exit_code=3) from None
            self._made = False

    def withdraw(self) -> None:
        """Remove the empty file again when there was nothing to write into it."""
        if self._made and self._path is not None:
            with suppress(OSError):
                self._path.unlink()


def _unwritable(place: Path, error: OSError) -> UserError:
    return UserError(f"--json: {place} cannot be written: {error.strerror}. Give another file, or - for stdout.")


class JsonLines:
    """The place of `--json` for results that go on coming: one object a line, in a file, on stdout (`-`), or nowhere (None)."""

    def __init__(self, place: str | None) -> None:
        """Refuse (UserError) now what could not be written later; what the file held is gone."""
        self.to_stdout = place == "-"
        self._file: TextIO | None = None
        if place is not None and not self.to_stdout:
            try:
                self._file = Path(place).open("w", encoding="utf-8")  # noqa: SIM115  # closed by `close`
            except OSError as error:
                raise _unwritable(Path(place), error) from None

    def write(self, line: str) -> bool:
        """Write one; False when nobody reads them any more. Raises UserError (exit code 3) when the file cannot be written."""
        if self.to_stdout:
            return emit_on(line)
        if self._file is not None:
            try:
                self._file.write(line)
                self._file.flush()
            except BrokenPipeError:
                return False
            except OSError as error:
                raise UserError(f"--json: {self._file.name} could not be written ({error.strerror}).", exit_code=3) from None
        return True

    def close(self) -> None:
        """No more come."""
        if self._file is not None:
            with suppress(OSError):
                self._file.close()
