"""What SIGINT, SIGTERM and SIGHUP do: the first stops the load, the second leaves."""

import os
import signal
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any

NOT_MET, NO_ANSWER, INTERRUPTED = 1, 3, 130
"""Exit codes: the required rate did not pass; no valid answer; ended by q or a signal before the answer."""

PATIENCE_S = 1.0
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def interrupt_on_terminate() -> None:
    """Until a run takes the signals over, let SIGTERM and SIGHUP end the program as Ctrl-C does: through every `finally`."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, signal.default_int_handler)


class TwoStage:
    """While entered: the first signal calls `stop` with its number on the loop, each later one calls `leave` at once.

    Set with `signal.signal` rather than on the loop, so that the second one works even when the loop is stuck. When a stuck
    loop has not called `stop` after PATIENCE_S, `now` ends the process: only that can stop the load then.
    A signal that the caller ignores stays ignored: SIGHUP under nohup, SIGINT of a script's command that ends with &.
    `seen` says whether there was a signal.
    """

    def __init__(self, stop: Callable[[int], None], leave: Callable[[], None], now: Callable[[], None]) -> None:
        self._stop = stop
        self._leave = leave
        self._now = now
        self.seen = False
        self._stuck: threading.Timer | None = None
        import asyncio  # only a run has a loop

        self._loop = asyncio.get_running_loop()
        self._before: dict[int, Any] = {}

    def __enter__(self) -> "TwoStage":
        for number in SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        if self._stuck is not None:
            self._stuck.cancel()

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.seen:
            self._leave()
        else:
            self.seen = True
            self._stuck = timer(PATIENCE_S, self._now)
            self._loop.call_soon_threadsafe(self._serve, number)

    def _serve(self, number: int) -> None:
        if self._stuck is not None:
            self._stuck.cancel()
        self._stop(number)


def timer(seconds: float, call: Callable[[], None]) -> threading.Timer:
    """A started timer that keeps no process alive."""
    started = threading.Timer(seconds, call)
    started.daemon = True
    started.start()
    return started


def leave_now() -> None:
    """End the process here. Children that send or serve end with it, because their stdin does."""
    os._exit(INTERRUPTED)
