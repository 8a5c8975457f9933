"""What does the screen send to the terminal for each second of a run? Bytes, of this checkout and of another one, and their ratio.

python -m tests.benchmarks.wire_bytes [--checkout PATH] [--size 120x36] [--every N]

The recorded run of the pictures is played into a terminal of that size as if it were live, against a clock that goes on by the time
between two looks after each of them: as fast as it can be drawn, with the same frames each time. Every N-th stretch of ten
seconds is played. PATH is a checkout of another commit (`git worktree add PATH COMMIT`); it needs no such program of its own.
"""

import argparse
import asyncio
import contextlib
import fcntl
import json
import os
import pty
import struct
import sys
import tempfile
import termios
import threading
from functools import partial
from pathlib import Path

HERE = Path(__file__).resolve().parents[2]
RUN = HERE / "tests" / "data" / "pictures" / "kvlim-inverted.jsonl"
STRETCH_S = 10.0


class Wire:
    """The standard error of a process, with a count of the bytes that are written to it."""

    def __init__(self) -> None:
        self.sent = 0
        self._file = sys.__stderr__
        assert self._file is not None

    def write(self, text: str) -> int:
        """Count, and hand on."""
        self.sent += len(text.encode())
        assert self._file is not None
        return self._file.write(text)

    def __getattr__(self, name: str) -> object:
        return getattr(self._file, name)


async def played(every: int) -> tuple[float, int]:
    """Seconds of the run that were played, and bytes that were sent for them."""
    from textual.pilot import Pilot

    from core.run import Replay, read_run
    from core.view import RunView
    from tui.app import POLL_S, KneescopeApp
    from tui.terminal.display import StderrDriver

    class Source:
        """The run at the moment that the clock shows."""

        replay = Replay(read_run(RUN))
        at_s = 0.0

        def view(self) -> RunView:
            """As it was then."""
            return self.replay.view(self.at_s)

    wire = Wire()
    sys.__stderr__ = wire  # type: ignore[misc, assignment]
    source = Source()
    app = KneescopeApp(source, driver_class=StderrDriver)
    ready = asyncio.Event()
    running = asyncio.create_task(app.run_async(auto_pilot=partial(started, ready)))
    await ready.wait()
    pilot = Pilot(app)
    sent, seconds = 0, 0.0
    for stretch in range(0, int(source.replay.length_s / STRETCH_S), every):
        for look in range(int(STRETCH_S / POLL_S) + 1):
            source.at_s = stretch * STRETCH_S + look * POLL_S
            before = wire.sent
            app.look()
            await pilot.pause()
            await asyncio.sleep(0.005)
            if look:  # the first one comes from elsewhere in the run
                sent += wire.sent - before
        seconds += STRETCH_S
    app.exit()
    await running
    return seconds, sent


async def started(ready: asyncio.Event, _: object) -> None:
    """The app is up."""
    ready.set()


def measured(checkout: Path, size: tuple[int, int], every: int) -> float:
    """Bytes for each second of the run, as that checkout draws it."""
    controller, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", size[1], size[0], 0, 0))
    reader = threading.Thread(target=drained, args=(controller,), daemon=True)
    reader.start()
    with tempfile.TemporaryDirectory() as folder:
        found = Path(folder) / "found"
        environment = {**os.environ, "TERM": "xterm-256color", "COLORTERM": "truecolor", "PYTHONPATH": str(checkout)}
        command = [sys.executable, str(Path(__file__).resolve()), "--into", str(found), "--every", str(every)]
        os.waitpid(spawned(command, terminal, checkout, environment), 0)
        os.close(terminal)
        seconds, sent = json.loads(found.read_text())
    return float(sent / seconds)


def spawned(command: list[str], terminal: int, folder: Path, environment: dict[str, str]) -> int:
    """A process with the terminal as all three of its standard files."""
    child = os.fork()
    if child:
        return child
    os.chdir(folder)
    for number in range(3):
        os.dup2(terminal, number)
    os.execve(command[0], command, environment)


def drained(controller: int) -> None:
    """Read what is drawn and drop it, as a terminal would."""
    with contextlib.suppress(OSError):  # the other end is closed
        while os.read(controller, 65536):
            pass


def main(checkouts: list[Path], size: tuple[int, int], every: int) -> None:
    """Print a row for each, and the ratio."""
    found = []
    for checkout in checkouts:
        found.append(measured(checkout, size, every))
        print(f"{found[-1] / 1000:8.1f} kB/s  {checkout}", flush=True)
    if len(found) > 1:
        print(f"{found[0] / found[1]:8.2f} of the other")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--checkout", type=Path)
    parser.add_argument("--size", default="120x36")
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--into", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.into is not None:
        given.into.write_text(json.dumps(asyncio.run(played(given.every))))
    else:
        width, height = map(int, given.size.split("x"))
        main([HERE, *([given.checkout.resolve()] if given.checkout else [])], (width, height), given.every)
