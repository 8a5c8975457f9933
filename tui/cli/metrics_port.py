"""The figures of a live run on a port of this machine, for Prometheus to read: `--metrics-port`."""

import asyncio
import errno
import socket
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

from core.errors import UserError
from core.report import live_exposition
from core.view import RunView
from tui.cli.output import say_if_heard

HOST = "127.0.0.1"
"""This machine alone: whoever else is to read it gets there by a tunnel or a proxy, which can ask for a password."""
FRESH_S = 0.5
"""The loop draws the screen and hears the client, so figures are made at most twice a second, however often they are asked for."""
MOST_OPEN, PACE_S = 8, 0.02
"""Connections at once, and the least time between two: further ones wait in the system's queue, and cost the loop nothing."""
LONGEST_S = 2.0
"""A connection that has not asked and taken its answer by then is closed."""
_MOST_ASKED, _BACKLOG = 8192, 16
_TEXT = "text/plain; version=1.0.0; charset=utf-8"


class MetricsPort:
    """A port that answers `GET /metrics`, from the moment it is given a run until it is closed. One connection, one answer."""

    def __init__(self, port: int, clock: Callable[[], float] = time.monotonic) -> None:
        """Take the port; 0 takes a free one. Raises UserError where it cannot be taken."""
        try:
            self._socket = socket.create_server((HOST, port), backlog=_BACKLOG)
        except OSError as error:
            why = "is in use" if error.errno == errno.EADDRINUSE else f"cannot be opened ({error.strerror})"
            raise UserError(f"--metrics-port: port {port} of {HOST} {why}; give another one, or 0 for a free one.") from None
        self._socket.setblocking(False)
        self._clock = clock
        self._view: Callable[[], RunView] | None = None
        self._made: tuple[float, bytes] | None = None
        self._accepting: asyncio.Task[None] | None = None
        self._answering: set[asyncio.Task[None]] = set()

    @property
    def address(self) -> str:
        """Where it is read."""
        return f"http://{HOST}:{self._socket.getsockname()[1]}/metrics"

    def show(self, view: Callable[[], RunView]) -> None:
        """Answer with that run from now on, in this event loop; who connected before has waited until now."""
        self._view = view
        self._accepting = asyncio.get_running_loop().create_task(self._accept())

    async def close(self) -> None:
        """Give the port back at once, whatever is still being read."""
        tasks = [task for task in (self._accepting, *self._answering) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._socket.close()

    async def _accept(self) -> None:
        loop, free = asyncio.get_running_loop(), asyncio.Semaphore(MOST_OPEN)
        while True:
            await free.acquire()
            try:
                connection, _ = await loop.sock_accept(self._socket)
            except OSError:  # it has gone again, or there is no file descriptor left for it
                free.release()
            else:
                task = loop.create_task(self._answer(connection))
                self._answering.add(task)
                task.add_done_callback(self._answering.discard)
                task.add_done_callback(lambda _: free.release())
            await asyncio.sleep(PACE_S)

    async def _answer(self, connection: socket.socket) -> None:
        loop, asked = asyncio.get_running_loop(), b""
        with connection, suppress(TimeoutError, OSError):  # it is slow, or has gone: nobody else is to know
            async with asyncio.timeout(LONGEST_S):
                while b"\r\n\r\n" not in asked:
                    more = await loop.sock_recv(connection, _MOST_ASKED)
                    asked += more
                    if not more or len(asked) > _MOST_ASKED:
                        return
                await loop.sock_sendall(connection, self._response(asked.split(b"\r\n", 1)[0]))

    def _response(self, line: bytes) -> bytes:
        words = line.split()
        if len(words) != 3 or words[0] != b"GET":
            return _written("405 Method Not Allowed", b"Only GET is answered.\n", "Allow: GET\r\n")
        if words[1].partition(b"?")[0] != b"/metrics":
            return _written("404 Not Found", b"The figures are at /metrics.\n")
        try:
            return _written("200 OK", self._figures())
        except Exception as error:  # a fault of ours is told to who asked: it must not be printed into the screen, nor end the run
            return _written("500 Internal Server Error", f"The figures could not be made ({type(error).__name__}).\n".encode())

    def _figures(self) -> bytes:
        now = self._clock()
        if self._made is None or now - self._made[0] >= FRESH_S:
            assert self._view is not None
            self._made = now, live_exposition(self._view()).encode()
        return self._made[1]


def _written(status: str, body: bytes, more: str = "") -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Type: {_TEXT}\r\nContent-Length: {len(body)}\r\n{more}Connection: close\r\n\r\n"
    return head.encode() + body


@asynccontextmanager
async def opened(port: int | None, *, quiet: bool) -> AsyncIterator[MetricsPort | None]:
    """The port that was asked for, as long as it is needed, with a line that says where it is; None where none was.

    Raises UserError where it cannot be taken. `quiet`: only a free port that was picked is said, which nothing else tells.
    """
    if port is None:
        yield None
        return
    metrics = MetricsPort(port)
    try:
        if port == 0 or not quiet:
            say_if_heard(f"metrics   {metrics.address}")
        yield metrics
    finally:
        await metrics.close()
