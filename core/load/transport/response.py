"""The answer to one request while it comes: an httpx stream, or, for whoever wants the times, pieces with the times of their reads.

A stamp taken in a coroutine carries the wake-ups of every stream before it: with 256 streams that answer in one step, 2.5 ms at
the median against 0.2 here (`python -m tests.benchmarks.transport`). So nothing is woken for a chunk: an answer has one future for
its head and one for its end, and what comes between goes to a plain function.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from typing import Protocol

import httpx

from core.units import duration

MAX_UNREAD_BYTES = 1024 * 1024
"""A body that is not read further than this is no longer received. With a reader nothing is unread, and so nothing held."""

OnSent = Callable[[float, float], None]
"""Is told when the request was written, and for how many seconds the server had kept it waiting for a connection."""


class Reader(Protocol):
    """Who reads one answer: the bytes of its body that one read brought, and the monotonic time of that read. `read` returns False
    when it wants no more of it."""

    def read(self, data: bytes, t: float) -> bool: ...


class Intake(Protocol):
    """What takes in, in order, what a connection has read (`core.load.transport.parsing`); true where that ended an answer."""

    def take_in(self, data: bytes, t: float) -> bool: ...


Stamped = tuple[Intake, bytes, float]
"""What one read brought, its time, and what is to take it in."""

Later = Callable[[Stamped], object]
"""Keeps what was read, to have it taken in later."""


class Line(Protocol):
    """What a reply may ask of the connection that it comes by."""

    held: bool
    later: Later | None

    def abort(self) -> None: ...
    def hold(self) -> None: ...
    def go_on(self) -> None: ...


class Reply(httpx.AsyncByteStream):
    """`read_timeout_s`: so many seconds in which not a byte is taken in end it with httpx.ReadTimeout."""

    def __init__(
        self,
        on_sent: OnSent | None = None,
        read_timeout_s: float | None = None,
        connect_s: float = 0.0,
    ) -> None:
        self.status = 0
        self.reason = b""
        self.http_version = b"HTTP/1.1"
        self.headers: list[tuple[bytes, bytes]] = []
        self.heard = False
        """Whether any byte of it was taken in."""
        self._on_sent, self._connect_s = on_sent, connect_s
        self._read_timeout_s = read_timeout_s
        self.t_heard = 0.0
        """When the last byte of it came that was taken in, or else its request went."""
        self.t_end: float | None = None
        """When its end was seen, orderly or not."""
        self.line: Line | None = None
        """The connection that it comes by, until its end."""
        self.is_over = False
        """Whether nothing more comes of it, or is wanted."""
        self._has_head = False
        self._problem: httpx.TransportError | None = None
        self._fault: Exception | None = None
        """What its reader raised."""
        self._reader: Reader | None = None
        """Who takes the pieces of the body; without one they are kept."""
        self._pieces: list[tuple[bytes, float]] = []
        self._unread = 0
        self._waiter: asyncio.Future[None] | None = None
        self._watcher: asyncio.TimerHandle | None = None

    # --- for the one who asked ---

    async def head(self) -> None:
        """Wait for status and headers. Raises httpx's ReadError, ReadTimeout or RemoteProtocolError."""
        await self._until(lambda: self._has_head)

    @property
    def is_plain_success(self) -> bool:
        """Whether the status is one of success and the body is as it was written, not compressed."""
        return 200 <= self.status < 300 and all(
            name.lower() != b"content-encoding" or value.lower() == b"identity" for name, value in self.headers
        )

    def as_response(self) -> httpx.Response:
        """The answer as httpx hands it on; its head must be there."""
        extensions = {"http_version": self.http_version, "reason_phrase": self.reason}
        return httpx.Response(self.status, headers=self.headers, stream=self, extensions=extensions)

    def deliver(self, reader: Reader, later: Later) -> None:
        """Give the body to `reader`, piece by piece, until it wants no more. From now on a read is no more than stamped, and handed
        to `later`."""
        while self._pieces:
            self._read(reader, *self._take())
        if not self.is_over:
            self._reader = reader
            if self.line is not None:
                self.line.later = later

    async def end(self) -> None:
        """Wait for the end of a body that is delivered, or for `stop`. Raises what ended it before its time, if anything did: what
        its reader raised, or httpx's ReadError, ReadTimeout or RemoteProtocolError."""
        await self._until(lambda: self.is_over)
        self._raise_problem()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while True:
            await self._until(lambda: bool(self._pieces) or self.is_over)
            if not self._pieces:
                break
            yield self._take()[0]
        self._raise_problem()

    def stop(self, t: float | None = None) -> None:
        """Nothing more is wanted, since `t` or now: a body that has not come to its end closes its connection."""
        self._pieces.clear()
        self._end(time.monotonic() if t is None else t, None)
        line, self.line = self.line, None
        if line is not None:
            line.abort()

    async def aclose(self) -> None:
        """As `stop`."""
        self.stop()

    # --- for what brings it ---

    def sent(self, t: float) -> None:
        """The request was written at `t`."""
        self.t_heard = t
        if self._on_sent is not None:
            self._on_sent(t, self._connect_s)
        if self._read_timeout_s is not None:
            self._watch(self._read_timeout_s)

    def begin(self) -> None:
        """Status and headers are there."""
        self._has_head = True
        self._wake()

    def take(self, data: bytes, t: float) -> None:
        """A piece of the body came at `t`."""
        if (reader := self._reader) is not None:
            self._read(reader, data, t)
        elif not self.is_over:
            self._pieces.append((data, t))
            self._unread += len(data)
            if self._unread > MAX_UNREAD_BYTES and self.line is not None:
                self.line.hold()
            self._wake()

    def ended(self, t: float, problem: httpx.TransportError | None = None) -> None:
        """The last thing that is told of a reply: it was over at `t`."""
        self.line = None
        self._end(t, problem)

    # --- inside ---

    def _read(self, reader: Reader, data: bytes, t: float) -> None:
        """A fault of the reader's is for its own task to raise."""
        try:
            goes_on = reader.read(data, t)
        except Exception as fault:
            self._fault, goes_on = fault.with_traceback(None), False  # which would hold this frame, which holds it
        if not goes_on:
            self.stop(t)

    def _take(self) -> tuple[bytes, float]:
        data, t = self._pieces.pop(0)
        self._unread -= len(data)
        if self.line is not None and self._unread <= MAX_UNREAD_BYTES:
            self.line.go_on()
        return data, t

    def _end(self, t: float, problem: httpx.TransportError | None) -> None:
        if self.is_over:
            return
        self.is_over, self._problem, self.t_end = True, problem, t
        if self._watcher is not None:
            self._watcher.cancel()
        self._reader = None
        self._wake()

    def _raise_problem(self) -> None:
        """A new one each time, or taken out: with its traceback it would hold itself, and collection is off."""
        if self._fault is not None:
            fault, self._fault = self._fault, None
            try:
                raise fault
            finally:
                del fault
        if self._problem is not None:
            raise type(self._problem)(str(self._problem)) from self._problem.__cause__

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def _until(self, there: Callable[[], bool]) -> None:
        while not there():
            if self.is_over:
                self._raise_problem()
                raise httpx.ReadError("The answer was closed before it was read.")
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter

    def _watch(self, limit_s: float) -> None:
        """Runs from time to time. While nothing is received by our own will, the silence is not the server's."""
        held = self.line is not None and self.line.held
        left_s = limit_s if held else self.t_heard + limit_s - time.monotonic()
        if left_s > 0:
            self._watcher = asyncio.get_running_loop().call_later(left_s, self._watch, limit_s)
            return
        self._end(time.monotonic(), httpx.ReadTimeout(f"Nothing came from the server for {duration(limit_s)}."))
        line, self.line = self.line, None
        if line is not None:
            line.abort()
