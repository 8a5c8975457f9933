"""Is there a terminal, and is it whole again afterwards?"""

import os
import termios
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, TextIO

# Everything a full-screen program switches on, switched off: alternate screen, mouse (four encodings), focus reports,
# bracketed paste, the kitty keyboard protocol; cursor and colours back.
RESTORE = (
    "".join(f"\x1b[?{mode}l" for mode in (1000, 1002, 1003, 1006, 1015, 1016, 1004, 2004, 2048, 1049)) + "\x1b[<u\x1b[?25h\x1b[0m"
)


def why_no_screen(stdin: TextIO | None, stderr: TextIO | None, environ: Mapping[str, str] = os.environ) -> str | None:
    """Why the screen cannot be shown, in a few words, or None when it can.

    Decided here because textual writes its escape codes into a pipe as readily as onto a terminal.
    """
    for name, stream in (("stdin", stdin), ("stderr", stderr)):
        if stream is None or stream.closed:
            return f"{name} is closed"
        if not stream.isatty():
            return f"{name} is not a terminal"
    term = environ.get("TERM", "")
    if not term:
        return "TERM is not set"
    return "TERM is dumb" if term == "dumb" else None


def plug_closed_streams() -> None:
    """Open the null device for each of stdin, stdout and stderr that the caller closed.

    Otherwise the next file or socket gets that number, and a run file or a child's pipe would sit where output goes.
    """
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest free number, which is this one


def _attributes() -> list[Any] | None:
    try:
        return termios.tcgetattr(0)
    except (termios.error, OSError):
        return None


class Guard:
    """Remembers how the terminal was, and puts it back."""

    def __init__(self) -> None:
        self._attributes = _attributes()

    def restore(self) -> None:
        """Switch off what a screen switched on and set the line mode as it was. Never raises: the terminal may be gone."""
        with suppress(OSError, termios.error):
            os.write(2, RESTORE.encode())
        if self._attributes is not None:
            with suppress(OSError, termios.error):
                termios.tcsetattr(0, termios.TCSANOW, self._attributes)


@contextmanager
def guarded() -> Iterator[Guard]:
    """Around the screen: on any exception the terminal is restored before the exception goes on."""
    guard = Guard()
    try:
        yield guard
    except BaseException:
        guard.restore()
        raise


def plain(text: str) -> str:
    """One printable line: what a server says may hold escape codes and line ends."""
    return "".join(c if c.isprintable() else " " for c in text)
