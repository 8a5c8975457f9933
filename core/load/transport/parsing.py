"""HTTP/1.1 answers out of what a connection has read, whenever that is taken in: each piece keeps the time of its read."""

from collections.abc import Callable

import httptools
import httpx

from core.load.transport.response import Reply

MAX_HEAD_BYTES = 64 * 1024
_SWITCHING = 101
"""Nobody asked for another protocol: it is the answer, and nothing comes after it."""


class _Surplus(Exception):
    """The server sent more than one answer to one request."""


class Answers:
    """The answers of one connection, one after another, each to its reply. `over` is called at the end of each, and when nobody
    has asked for what came: true where the connection may carry another request, false where it is to be closed."""

    def __init__(self, over: Callable[[bool], None]) -> None:
        self._over: Callable[[bool], None] | None = over
        self._reply: Reply | None = None
        self._method = ""
        self._lost: Exception | None = None
        self._is_last = False
        self._reason = b""
        self._headers: list[tuple[bytes, bytes]] = []
        self._parts: list[bytes] = []
        self.on_body = self._parts.append  # called by the parser: for each chunk of each stream, so no method of ours between
        self._head_bytes = 0
        self._in_body = self._complete = self._keep_alive = self._delimited = False
        self._parser: httptools.HttpResponseParser | None = httptools.HttpResponseParser(self)
        self._parser.set_dangerous_leniencies(lenient_headers=True)  # folded ones are not to be refused (RFC 9112, 5.2)

    def expect(self, reply: Reply, method: str) -> None:
        """What comes from now on is the answer to this request."""
        self._reply, self._method = reply, method
        self._reason = b""
        self._headers = []
        self._head_bytes = 0
        self._in_body = self._complete = self._keep_alive = self._delimited = False

    def forget(self) -> None:
        """Nobody waits for an answer any more."""
        self._reply = None

    def lose(self, problem: Exception | None) -> None:
        """The connection is gone, broken by `problem` if by anything; no bytes, taken in after what it had read, are its end."""
        self._lost, self._is_last = problem, True

    def let_go(self) -> None:
        """Nothing is taken in any more. The parser and the connection hold this object: no cycle may stay, collection is off."""
        self._parser = self._over = self._lost = None

    def take_in(self, data: bytes, t: float) -> bool:
        """What came in the read at `t`; no bytes are the end of all that comes. True where that ended an answer."""
        reply, parser = self._reply, self._parser
        if not data:
            self._at_end(t)
            return reply is not None
        if reply is None or parser is None:  # unasked: a server that says why it closes, or that breaks the rules
            self._call_over(False)
            return False
        if t < reply.t_heard:  # unasked, too, and taken in only after the next request went out
            self.fail(httpx.ReadError("The server sent more than one answer to one request."), t)
            return True
        reply.heard = True
        reply.t_heard = t
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
            reply.take(part, t)
        if self._complete:
            self._finish(t, reusable=problem is None and self._keep_alive)
        elif problem is not None:
            self.fail(httpx.RemoteProtocolError(f"The server's answer is not valid HTTP: {problem}."), t, problem)
        elif not self._in_body:
            self._head_bytes += len(data)
            if self._head_bytes > MAX_HEAD_BYTES:
                self.fail(httpx.RemoteProtocolError(f"The head of the answer is longer than {MAX_HEAD_BYTES} bytes."), t)
        return reply.is_over

    def fail(self, problem: httpx.TransportError, t: float, cause: Exception | None = None) -> None:
        """The connection is to be closed; who waits for an answer is told why."""
        reply, self._reply = self._reply, None
        problem.__cause__ = cause
        if reply is not None:
            reply.ended(t, problem)
        self._call_over(False)

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
        parser, reply = self._parser, self._reply
        assert parser is not None
        status = parser.get_status_code()
        if reply is None or (100 <= status < 200 and status != _SWITCHING):
            return
        reply.status, reply.reason, reply.headers = status, self._reason, self._headers
        reply.http_version = b"HTTP/" + parser.get_http_version().encode()
        self._in_body = True
        reply.begin()
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

    def _at_end(self, t: float) -> None:
        if self._reply is None:
            pass
        elif self._lost is not None:
            self.fail(httpx.ReadError(str(self._lost) or type(self._lost).__name__), t, self._lost)
        elif self._in_body and not self._delimited:
            self._finish(t, reusable=False)
        elif self._in_body:
            self.fail(httpx.RemoteProtocolError("The server closed the connection before the end of the body."), t)
        else:
            self.fail(httpx.RemoteProtocolError("The server closed the connection without an answer."), t)
        if self._is_last:
            self.let_go()

    def _finish(self, t: float, reusable: bool) -> None:
        reply, self._reply = self._reply, None
        if reply is not None:
            reply.ended(t)
        self._call_over(reusable)

    def _call_over(self, reusable: bool) -> None:
        if self._over is not None:
            self._over(reusable)
