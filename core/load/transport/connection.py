"""One connection: a request out, and what comes back stamped, in the callback that the event loop makes for each read.

A read is handed on, and does not come back: to what reads its HTTP (`core.load.transport.parsing`), at once or, where many answers
are read side by side, by way of the queue of `core.load.transport.batching`.
"""

import asyncio
import time
from collections.abc import Callable
from typing import cast

import httpx

from core.load.transport.parsing import Answers
from core.load.transport.response import Later, Reply


class Connection(asyncio.Protocol):
    """One connection, open or lost, with at most one request on its way. `on_free` is called when it may carry the next,
    `on_lost` when it is closed."""

    def __init__(self, on_free: Callable[["Connection"], None], on_lost: Callable[["Connection"], None]) -> None:
        self.was_idle = False
        """Whether it ever waited for a request: then the server may have been closing it when the next one came."""
        self.free_since = 0.0
        self.held = False
        self.later: Later | None = None
        """Where reads go until they are taken in; None: that is done at once."""
        self._on_free, self._on_lost = on_free, on_lost
        self._transport: asyncio.Transport | None = None
        self._eof = False
        self._answers = Answers(self._over)

    @property
    def is_open(self) -> bool:
        """Whether a request can be sent on it, as far as is known."""
        return self._transport is not None and not self._transport.is_closing()

    def send(self, reply: Reply, data: bytes, method: str) -> None:
        """Write one whole request; what comes is its reply."""
        assert self._transport is not None
        reply.line = self
        self._answers.expect(reply, method)
        t = time.monotonic()
        self._transport.write(data)
        reply.sent(t)

    def abort(self) -> None:
        """Close at once, whatever is on its way."""
        self._answers.forget()
        self.later = None
        if self._transport is not None:
            self._transport.abort()

    def close(self) -> None:
        """Close at once; who waits for an answer is told."""
        self._answers.fail(httpx.ReadError("The connection was closed on our side."), time.monotonic())

    def give_up(self) -> None:
        """It could not be opened."""
        self._answers.let_go()

    def hold(self) -> None:
        """Receive nothing for now."""
        if not self.held and self._transport is not None and not self._transport.is_closing():
            self.held = True
            self._transport.pause_reading()

    def go_on(self) -> None:
        """Receive again."""
        if self.held and self._transport is not None and not self._transport.is_closing():
            self.held = False
            self._transport.resume_reading()

    # --- what the event loop calls ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        t = time.monotonic()
        if (later := self.later) is not None:
            later((self._answers, data, t))
        else:
            self._answers.take_in(data, t)

    def eof_received(self) -> None:
        self._eof = True
        self.data_received(b"")

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._answers.lose(None if self._eof else exc)  # after the end of all that comes, what broke it says nothing
        self.data_received(b"")
        self._on_lost(self)

    # --- inside ---

    def _over(self, reusable: bool) -> None:
        """Nothing that comes is waited for any more."""
        self.later = None
        transport = self._transport
        if transport is None:
            return
        if reusable and not transport.is_closing() and not transport.get_write_buffer_size():
            self.go_on()
            self._on_free(self)
        else:
            transport.abort()
