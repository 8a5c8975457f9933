"""Virtual time over real sockets: sleeping costs nothing, so a stream of eleven minutes takes a blink and has its true times.

Client and server must live in the one loop. `time.monotonic` is the loop's own clock meanwhile, so that what stamps with it and
what sleeps agree; real time is waited for only until the kernel has carried what was written.
"""

import asyncio
import selectors
import time
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar
from unittest import mock

from core.load import alarm

T = TypeVar("T")
CARRIED_S = 0.0003
"""The loopback carries a write within microseconds; who waits for a timer waits this long for bytes first."""
NOBODY_S = 10.0


class _Selector(selectors.SelectSelector):
    """Instead of waiting for the next timer, moves the clock to it, unless bytes come first."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 1000.0

    def time(self) -> float:
        return self.now

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            ready = super().select(NOBODY_S)
            if not ready:
                raise RuntimeError("everybody waits and nobody will come")
            return ready
        ready = super().select(0)
        if not ready and timeout > 0:
            ready = super().select(CARRIED_S)
            if not ready:
                self.now += timeout
        return ready


def virtually(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run to the end in virtual time."""
    selector = _Selector()
    with (
        mock.patch.object(time, "monotonic", selector.time),
        mock.patch.object(alarm, "_timerfd", return_value=None),  # the kernel's timers know of no virtual time
        mock.patch.object(alarm, "_sleep_and_spin", _until),
        asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(selector)) as runner,
    ):
        return runner.run(_and_tidy(work))


async def _until(due: float) -> None:
    await asyncio.sleep(due - time.monotonic())


async def _and_tidy(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    result = await work()
    for _ in range(5):  # closed connections tell their handlers, which end by themselves
        await asyncio.sleep(0)
    return result


def pass_time(seconds: float) -> None:
    """Let virtual time pass while nothing else is done, as a callback that takes too long would."""
    _selector_of_this_loop().now += seconds


def _selector_of_this_loop() -> _Selector:
    selector = getattr(asyncio.get_running_loop(), "_selector")  # noqa: B009 (not in the type)
    assert isinstance(selector, _Selector)
    return selector
