"""Virtual time over real sockets: sleeping costs nothing, so a stream of eleven minutes takes a blink and has its true times.

Client and server must live in the one loop. `time.monotonic` is the loop's own clock meanwhile, so that what stamps with it and
what sleeps agree; real time is waited for only until the kernel has carried what was written, and until a thread is done.
"""

import asyncio
import selectors
import socket
import time
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Executor
from contextlib import ExitStack, contextmanager
from typing import Any, TypeVar, TypeVarTuple
from unittest import mock

from core.load import timer

T = TypeVar("T")
Ts = TypeVarTuple("Ts")
CARRIED_S = 0.0003
"""The loopback carries a write within microseconds; who waits for a timer after a write waits this long for bytes first."""
NOBODY_S = 10.0
_CARRIES = ("send", "sendall", "sendmsg", "connect", "connect_ex", "shutdown", "close")
"""What one side does to a socket and the other side sees."""


class _Selector(selectors.SelectSelector):
    """Instead of waiting for the next timer, moves the clock to it, unless bytes come first.

    Nine timers of ten follow no write (`under_way`), and then nothing can come: waiting for it took most of the time of a run.
    `threads`: calls in threads that are not over; they take real time, in which no virtual time passes.
    """

    def __init__(self) -> None:
        super().__init__()
        self.now = 1000.0
        self.under_way = False
        self.threads = 0

    def time(self) -> float:
        return self.now

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if ready or (timeout is not None and timeout <= 0):
            return ready
        if timeout is None or self.threads:
            ready = super().select(NOBODY_S)
            if not ready:
                raise RuntimeError("everybody waits and nobody will come")
            return ready
        if self.under_way:
            ready = super().select(CARRIED_S)
            if ready:
                return ready
            self.under_way = False
        self.now += timeout
        return ready

    @contextmanager
    def told_of_writes(self) -> Iterator[None]:
        """Meanwhile every socket says when it has something carried."""
        with ExitStack() as stack:
            for name in _CARRIES:
                stack.enter_context(mock.patch.object(socket.socket, name, self._telling(getattr(socket.socket, name))))
            yield

    def _telling(self, carry: Callable[..., Any]) -> Callable[..., Any]:
        def tell(of: socket.socket, *args: Any) -> Any:
            self.under_way = True
            return carry(of, *args)

        return tell


class _Loop(asyncio.SelectorEventLoop):
    def __init__(self, selector: _Selector) -> None:
        self._virtual = selector
        super().__init__(selector)

    def time(self) -> float:
        """The virtual time."""
        return self._virtual.now

    def run_in_executor(self, executor: Executor | None, func: Callable[[*Ts], T], *args: *Ts) -> asyncio.Future[T]:
        """As ever, and counted as long as it takes."""
        future = super().run_in_executor(executor, func, *args)
        self._virtual.threads += 1
        future.add_done_callback(self._is_back)
        return future

    def _is_back(self, future: asyncio.Future[Any]) -> None:
        self._virtual.threads -= 1


def virtually(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run to the end in virtual time."""
    selector = _Selector()
    with (
        selector.told_of_writes(),
        mock.patch.object(time, "monotonic", selector.time),
        mock.patch.object(timer, "_timerfd", return_value=None),  # the kernel's timers know of no virtual time
        mock.patch.object(timer, "_sleep_and_spin", _until),
        asyncio.Runner(loop_factory=lambda: _Loop(selector)) as runner,
    ):
        return runner.run(_and_tidy(work))


def virtual_loop() -> asyncio.AbstractEventLoop:
    """For what has no sockets and reads no clock but the loop's; it goes on from now."""
    selector = _Selector()
    selector.now = time.monotonic()
    return _Loop(selector)


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
