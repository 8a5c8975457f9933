"""The twin's own process: what a run has seen in by stdin, readings out by stdout, as JSON lines; nothing else.

It goes behind everything else on the machine, and while requests are sent it takes no more than a share of one core. It lives no
longer than its parent: the end of stdin ends it at once, whatever it was computing.
"""

import contextlib
import ctypes
import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Iterator
from types import FrameType

import msgspec

from core.records import RequestRecord
from core.results import TwinReading
from core.twin.reading import Reader, TwinTask

BESIDE_FRAC = 0.1
"""Of one core, while a step runs (`python -m tests.benchmarks.twin_lateness`: how late sends are with and without it)."""
SLICE_S = 0.005
"""After so much processor time it waits, and looks whether it has used up its budget."""
LEEWAY = 1.5
"""Of its budget: a reading leaves out what it has no time for, one that is far over it ends."""
_PR_SET_PDEATHSIG = 1


class Seen(msgspec.Struct, frozen=True, tag="seen"):
    """What became of requests that were not told before. `whole`: these, with those said before, are all of their orders."""

    records: tuple[RequestRecord, ...]
    whole: bool


class Share(msgspec.Struct, frozen=True, tag="share"):
    """How much of one core the process may take from now on."""

    of_core: float


class Asked(msgspec.Struct, frozen=True, tag="asked"):
    """A reading is wanted; one that was asked for before and has not begun is not wanted any more."""

    number: int
    task: TwinTask


class Told(msgspec.Struct, frozen=True):
    """The answer to an Asked; None where there is no such twin, or its time was over."""

    number: int
    reading: TwinReading | None


ToWorker = Seen | Share | Asked


class _OverBudget(Exception):
    """The reading took far more processor time than it may."""


class Throttle:
    """Keeps the process to its share of a core, by waiting after each slice of processor time, and to the budget of a reading."""

    def __init__(self) -> None:
        self.of_core = 1.0
        self._until_s: float | None = None

    def install(self) -> None:
        """From now on; to be called in the main thread."""
        signal.signal(signal.SIGPROF, self._slice_over)
        signal.setitimer(signal.ITIMER_PROF, SLICE_S, SLICE_S)

    @contextlib.contextmanager
    def budget(self, cpu_s: float) -> Iterator[None]:
        """Raise _OverBudget within, as soon as it has taken so much."""
        self._until_s = time.process_time() + cpu_s
        try:
            yield
        finally:
            self._until_s = None

    def _slice_over(self, signum: int, frame: FrameType | None) -> None:
        if self._until_s is not None and time.process_time() > self._until_s:
            self._until_s = None
            raise _OverBudget
        if self.of_core < 1:
            time.sleep(SLICE_S * (1 / self.of_core - 1))


def main() -> None:
    """Run until stdin ends. `core.twin.process` starts this with Ctrl-C ignored, because the parent decides."""
    _go_last()
    throttle, inbox = Throttle(), queue.SimpleQueue[Seen | Asked]()
    throttle.install()
    threading.Thread(target=_hear, args=(inbox, throttle), daemon=True).start()
    answer(inbox, throttle, Reader())


def answer(inbox: "queue.SimpleQueue[Seen | Asked]", throttle: Throttle, reader: Reader) -> None:
    """Take in what was seen, and answer the newest question; for ever."""
    records: list[RequestRecord] = []
    while True:
        heard, asked = [inbox.get()], None
        while not inbox.empty():
            heard.append(inbox.get())
        for each in heard:
            if isinstance(each, Asked):
                asked = each
                continue
            records += each.records
            if each.whole:
                reader.seen(records)
                records.clear()
        if asked is not None:
            reading = None
            with contextlib.suppress(_OverBudget), throttle.budget(LEEWAY * asked.task.cpu_s):
                reading = reader.read(asked.task)
            os.write(1, msgspec.json.encode(Told(asked.number, reading)) + b"\n")


def _hear(inbox: "queue.SimpleQueue[Seen | Asked]", throttle: Throttle) -> None:
    """In a thread of its own, so that a share counts and the end of stdin is seen while a reading goes on."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGPROF})
    decoder = msgspec.json.Decoder(ToWorker)
    for line in sys.stdin.buffer:
        message = decoder.decode(line)
        if isinstance(message, Share):
            throttle.of_core = message.of_core
        else:
            inbox.put(message)
    os._exit(0)


def _go_last() -> None:
    """Behind everything else on the machine; and not to outlive the parent, where the kernel sees to that."""
    with contextlib.suppress(OSError):
        os.nice(19)
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
        parent = os.getppid()
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(0)
