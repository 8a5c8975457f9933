"""On a machine that sends: our sending process (`core.load.child`), what it is told, and what it says, in batches.

Nothing here knows how words come to this machine. The process hears of the controller only by what is passed on: nothing makes a
heartbeat here, so that a controller that is gone or frozen leaves no load behind. It is not put into a session of its own: whoever
ends this process ends it, too.
"""

import contextlib
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Iterator
from subprocess import PIPE, Popen, TimeoutExpired

from core.load import Heartbeat, child_command, encode

BATCH_S = 0.1
"""Lines wait so long for others: one by one, records cost Ray ten times as much."""

CLOSE_S = 1.0
PARENT_S = 1.0
"""How often it is looked whether the process that started this one is still there."""

_READ_BYTES = 256 * 1024
_HEARTBEAT = encode(Heartbeat())


class Host:
    """Starts the process. Its methods may be called from several threads.

    `ends_with_parent`: this process is there for the sending one alone, and ends with the process that started it. Where only the
    part of Ray that keeps a machine's workers dies, nobody else ends them for a quarter of a minute, and one stays for good.
    """

    def __init__(self, *, ends_with_parent: bool = False) -> None:
        self._said = 0
        self._telling = threading.Lock()
        self._news = threading.Condition()
        self._read: list[bytes] = []
        self._over = False
        self._last_words: deque[str] = deque(maxlen=1)
        self._process: Popen[bytes] | None = None
        self._problem: OSError | None = None
        started = threading.Event()
        threading.Thread(target=self._run, args=(started,), daemon=True).start()
        started.wait()
        if self._problem is not None:
            raise self._problem
        if ends_with_parent:
            threading.Thread(target=self._end_with, args=(os.getppid(),), daemon=True).start()

    def say(self, number: int, lines: bytes) -> None:
        """Pass commands on, in the order of their numbers, each once."""
        with self._telling:
            if number > self._said:
                self._said = number
                self._write(lines)

    def beat(self) -> float:
        """Pass on that the controller is there; returns this machine's monotonic clock."""
        now = time.monotonic()
        with self._telling:
            self._write(_HEARTBEAT)
        return now

    def now(self) -> float:
        """This machine's monotonic clock, which is that of its sending process."""
        return time.monotonic()

    def batches(self) -> Iterator[bytes]:
        """Whole lines of the process, a batch each BATCH_S at most, until it ends."""
        rest, sent_at = b"", 0.0
        while True:
            with self._news:
                self._news.wait_for(lambda: self._read or self._over)
            time.sleep(max(0.0, sent_at + BATCH_S - time.monotonic()))
            with self._news:
                data, self._read, over = b"".join((rest, *self._read)), [], self._over
            lines, newline, rest = data.rpartition(b"\n")
            if newline:
                sent_at = time.monotonic()
                yield lines + newline
            if over:
                return

    def last_words(self) -> str:
        """How the process ended, when it has."""
        assert self._process is not None
        code = self._process.wait()
        how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        return f"its sending process ended ({how}): {self._last_words[0] if self._last_words else 'it said nothing'}"

    @property
    def pid(self) -> int:
        """Of the sending process."""
        assert self._process is not None
        return self._process.pid

    def close(self) -> None:
        """End the process; whatever it was sending stops."""
        process = self._process
        assert process is not None
        assert process.stdin is not None
        with contextlib.suppress(OSError):
            process.stdin.close()
        try:
            process.wait(CLOSE_S)
        except TimeoutExpired:
            process.kill()
            process.wait()

    def _end_with(self, parent: int) -> None:
        while os.getppid() == parent:
            time.sleep(PARENT_S)
        self.close()
        os._exit(0)

    def _write(self, lines: bytes) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError, ValueError):  # it has ended, which is told where its lines end
            self._process.stdin.write(lines)
            self._process.stdin.flush()

    def _run(self, started: threading.Event) -> None:
        """Start it and read it to its end, in one thread: Linux ends the process when the thread that started it ends."""
        try:
            process = self._process = Popen(child_command(), stdin=PIPE, stdout=PIPE, stderr=PIPE)
            _bring_forward(process.pid)
        except OSError as problem:
            self._problem = problem
            return
        finally:
            started.set()
        errors = threading.Thread(target=self._read_errors, args=(process,), daemon=True)
        errors.start()
        assert process.stdout is not None
        with process.stdout as stdout:
            while data := os.read(stdout.fileno(), _READ_BYTES):
                with self._news:
                    self._read.append(data)
                    self._news.notify_all()
        errors.join()
        with self._news:
            self._over = True
            self._news.notify_all()
        process.wait()

    def _read_errors(self, process: Popen[bytes]) -> None:
        assert process.stderr is not None
        with process.stderr as stderr:
            self._last_words.extend(text for line in stderr if (text := line.decode("utf-8", "replace").strip()))


def _bring_forward(pid: int) -> None:
    """To where what started us stands. Ray puts its workers behind all else on a machine (nice 15): sends were late by 50 ms where
    others kept it busy, in place of 1 ms. Only root may undo that; for others a cluster is started with RAY_worker_niceness=0."""
    with contextlib.suppress(OSError):
        niceness = os.getpriority(os.PRIO_PROCESS, os.getppid())
        if os.getpriority(os.PRIO_PROCESS, pid) > niceness:
            os.setpriority(os.PRIO_PROCESS, pid, niceness)
