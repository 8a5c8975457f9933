"""One HTTP/1.1 connection: a request out, its reply in, each read stamped in the callback that the event loop makes for it."""

import asyncio
import time
from collections.abc import Callable
from typing import cast

import httptools
import httpx

from core.load.transport.response import Later, Reply

MAX_HEAD_BYTES = 64 * 1024
_SWITCHING = 101
"""Nobody asked for another protocol: it is the answer, and nothing comes after it."""


class _Surplus(Exception):
    """The server sent more than one answer to one request."""


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
        self._answer: Reply | None = None
        self._method = ""
        self._t_sent = 0.0
        self._eof = False
        self._lost: Exception | None = None
        self._reason = b""
        self._headers: list[tuple[bytes, bytes]] = []
        self._parts: list[bytes] = []
        self.on_body = self._parts.append  # called by the parser: for each chunk of each stream, so no method of ours between
        self._head_bytes = 0
        self._in_body = self._complete = self._keep_alive = self._delimited = False
        self._parser: httptools.HttpResponseParser | None = httptools.HttpResponseParser(self)
        self._parser.set_dangerous_leniencies(lenient_headers=True)  # folded ones are not to be refused (RFC 9112, 5.2)

    @property
    def is_open(self) -> bool:
        """Whether a request can be sent on it, as far as is known."""
        return self._transport is not None and not self._transport.is_closing()

    def send(self, answer: Reply, data: bytes, method: str) -> None:
        """Write one whole request; what comes goes to `answer`."""
        assert self._transport is not None
        self._reset(method)
        self._answer = answer
        answer.line = self
        self._t_sent = time.monotonic()
        self._transport.write(data)
        answer.sent(self._t_sent)

    def abort(self) -> None:
        """Close at once, whatever is on its way."""
        self._answer = self.later = None
        if self._transport is not None:
            self._transport.abort()

    def close(self) -> None:
        """Close at once; who waits for an answer is told."""
        self._fail(httpx.ReadError("The connection was closed on our side."), time.monotonic())

    def give_up(self) -> None:
        """It could not be opened."""
        self._parser = None  # it holds methods of this object: no cycle may stay, collection is off

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
            later((self, data, t))
        else:
            self.take_in(data, t)

    def eof_received(self) -> None:
        self._eof = True
        self.data_received(b"")

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        if not self._eof:  # else all had come before it broke
            self._lost = exc
        self.data_received(b"")
        self._on_lost(self)

    # --- what was read ---

    def take_in(self, data: bytes, t: float) -> None:
        """What came in the read at `t`; no bytes are the end of all that comes."""
        if not data:
            self._at_end(t)
            return
        answer, parser = self._answer, self._parser
        if answer is None or parser is None:  # unasked: a server that says why it closes, or that breaks the rules
            self.abort()
            return
        if t < self._t_sent:  # unasked, too, and taken in only after the next request went out
            self._fail(httpx.ReadError("The server sent more than one answer to one request."), t)
            return
        answer.heard = True
        answer.t_heard = t
        problem: Exception | None = None
        try:
            parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as found:
            problem = found.with_traceback(None)  # which would hold this frame, which holds it; so would what it came from
            problem.__context__ = problem.__cause__ = None
        parts = self._parts
        if parts:
            part = parts.pop() if len(parts) == 1 else b"".join(parts)
            parts.clear()
            if (sink := answer.sink) is not None:
                sink(part, t)
            else:
                answer.keep(part, t)
        if self._complete:
            self._finish(t, reusable=problem is None and self._keep_alive)
        elif problem is not None:
            self._fail(httpx.RemoteProtocolError(f"The server's answer is not valid HTTP: {problem}."), t, problem)
        elif not self._in_body:
            self._head_bytes += len(data)
            if self._head_bytes > MAX_HEAD_BYTES:
                self._fail(httpx.RemoteProtocolError(f"The head of the answer is longer than {MAX_HEAD_BYTES} bytes."), t)

    def _at_end(self, t: float) -> None:
        if self._answer is None:
            pass
        elif self._lost is not None:
            self._fail(httpx.ReadError(str(self._lost) or type(self._lost).__name__), t, self._lost)
        elif self._in_body and not self._delimited:
            self._finish(t, reusable=False)
        elif self._in_body:
            self._fail(httpx.RemoteProtocolError("The server closed the connection before the end of the body."), t)
        else:
            self._fail(httpx.RemoteProtocolError("The server closed the connection without an answer."), t)
        if self._transport is None:
            self._parser = self._lost = None  # it holds methods of this object: no cycle may stay, collection is off

    # --- what the parser calls ---

    def on_message_begin(self) -> None:
        if self._complete:
            raise _Surplus

    def on_status(self, reason: bytes) -> None:
        self._reason += reason

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._in_body:  # a trailer
            return
        self._headers.append((name, value))
        match name.lower():
            case b"content-length":
                self._delimited = True
            case b"transfer-encoding":
                self._delimited = value.lower().rpartition(b",")[2].strip() == b"chunked"

    def on_headers_complete(self) -> None:
        parser, answer = self._parser, self._answer
        assert parser is not None
        status = parser.get_status_code()
        if answer is None or (100 <= status < 200 and status != _SWITCHING):
            return
        answer.status, answer.reason, answer.headers = status, self._reason, self._headers
        answer.http_version = b"HTTP/" + parser.get_http_version().encode()
        self._in_body = True
        answer.begin()
        if self._method == "HEAD":  # its headers speak of a body that does not come
            self._complete, self._keep_alive = True, False

    def on_message_complete(self) -> None:
        if self._in_body:
            assert self._parser is not None
            self._complete = True
            self._keep_alive = self._parser.should_keep_alive() and self._parser.get_status_code() != _SWITCHING
        else:  # 1xx: the answer itself is yet to come
            self._reason, self._headers, self._delimited = b"", [], False

    # --- inside ---

    def _reset(self, method: str) -> None:
        self._method = method
        self._reason = b""
        self._headers = []
        self._head_bytes = 0
        self._in_body = self._complete = self._keep_alive = self._delimited = False

    def _finish(self, t: float, reusable: bool) -> None:
        answer, self._answer, self.later = self._answer, None, None
        transport = self._transport
        if answer is not None:
            answer.end(t)
        if transport is None:
            return
        if reusable and not transport.is_closing() and not transport.get_write_buffer_size():
            self.go_on()
            self._on_free(self)
        else:
            transport.abort()

    def _fail(self, problem: httpx.TransportError, t: float, cause: Exception | None = None) -> None:
        answer, self._answer, self.later = self._answer, None, None
        problem.__cause__ = cause
        if answer is not None:
            answer.end(t, problem)
        if self._transport is not None:
            self._transport.abort()
