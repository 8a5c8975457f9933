"""The way through an HTTP proxy: a tunnel (CONNECT) for https, requests with whole addresses for http.

A tunnel for http would be one way for both, but proxies commonly open tunnels to port 443 alone.
"""

import asyncio
import re
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.parse import urlsplit

import httpx

from core.access import Access, proxy_login, public_address
from core.load.transport.connection import Connection
from core.load.transport.parsing import MAX_HEAD_BYTES
from core.load.transport.request import Endpoint
from core.net import PORTS, proxy_for, proxy_tls_context, refusal_words

FAULTS = (OSError, RuntimeError, ValueError)
"""What connecting raises: uvloop RuntimeError for some, and a name that no DNS can hold is a UnicodeError."""

_BEGINNING = b"HTTP/1."
_STATUS_LINE = re.compile(rb"HTTP/1\.[01] ([1-9]\d\d)(?: ([^\r\n]*))?\r?\n")
_END_OF_HEAD = re.compile(rb"\n\r?\n")
_SWITCHING = 101


def let_go(problem: BaseException) -> None:
    """Take the traceback from what connecting raised: frames of libraries in it hold the exception, and ours with them, and while
    load is sent nothing is collected."""
    if isinstance(problem, FAULTS):
        problem.__traceback__ = None


@dataclass(frozen=True, slots=True, repr=False)
class Proxy:
    """A proxy on the way to a server; no repr shows its `login` (the value of Proxy-Authorization). `place.server_name` and `tls`
    are set where TLS is spoken with the proxy itself."""

    place: Endpoint
    name: str
    tls: ssl.SSLContext | None
    login: str | None

    @contextmanager
    def reaching(self) -> Iterator[None]:
        """What fails inside is the way to the proxy. Raises httpx.ProxyError, with the cause chained; a timeout stays one."""
        try:
            yield
        except TimeoutError:
            raise
        except FAULTS as problem:
            let_go(problem)
            said = str(problem) or type(problem).__name__
            raise httpx.ProxyError(f"No connection to the proxy {self.name}: {said}") from problem

    async def open_tunnel(self, sock: socket.socket, origin: Endpoint, tls: ssl.SSLContext, connection: Connection) -> None:
        """Open `connection` to a server, with TLS, through a socket that is connected to this proxy. Closes the socket if it fails.

        Raises httpx.ProxyError where the proxy does not let it through, and what TLS raises."""
        loop = asyncio.get_running_loop()
        try:
            with self.reaching():
                name = self.place.server_name
                outer, asking = await loop.create_connection(_Asking, sock=sock, ssl=self.tls, server_hostname=name)
        except BaseException:
            sock.close()
            raise
        try:
            outer.write(self._asked_for(origin))
            answer = await asking.answer
            if isinstance(answer, _NoAnswer):
                raise httpx.ProxyError(answer.words) from answer.cause
            status, reason = answer
            if not 200 <= status < 300:
                raise httpx.ProxyError(f"No way through the proxy to {_authority(origin)}: {refusal_words(status, reason)}.")
            if asking.surplus:
                raise httpx.ProxyError("The proxy opened a tunnel and went on speaking, before the server could have.")
            if outer.is_closing():
                raise httpx.ProxyError("The proxy opened a tunnel and closed it at once.")
            connection.connection_made(outer)  # so that what is lost, or said unasked, before TLS is there is noticed
            inner = await loop.start_tls(outer, connection, tls, server_hostname=origin.server_name)
            if inner is None or not connection.is_open:
                raise ConnectionResetError("The connection through the proxy broke as soon as it was there.")
            connection.connection_made(inner)
        except BaseException as problem:
            outer.abort()
            let_go(problem)
            raise

    def _asked_for(self, origin: Endpoint) -> bytes:
        authority = _authority(origin)
        login = "" if self.login is None else f"Proxy-Authorization: {self.login}\r\n"
        return f"CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n{login}\r\n".encode("ascii")


def proxy_on_the_way(access: Access, url: str) -> Proxy | None:
    """The proxy through which an address is reached, if it is. Raises UserError for a `ca_file` that cannot be used."""
    if (proxy := proxy_for(access, url)) is None:
        return None
    parts = urlsplit(proxy)
    host = parts.hostname or ""
    tls = proxy_tls_context(access) if parts.scheme == "https" else None
    place = Endpoint(host, parts.port or PORTS[parts.scheme], None if tls is None else host)
    return Proxy(place, public_address(proxy), tls, proxy_login(proxy))


def _authority(origin: Endpoint) -> str:
    return f"[{origin.host}]:{origin.port}" if ":" in origin.host else f"{origin.host}:{origin.port}"


@dataclass(frozen=True, slots=True)
class _NoAnswer:
    """What became of the answer instead. No exception: its traceback would hold who waits for it, which holds it, and while load
    is sent nothing is collected."""

    words: str
    cause: Exception | None


class _Asking(asyncio.Protocol):
    """The proxy's answer to CONNECT, as it comes. Of its head the status counts alone: a tunnel has no body, whatever a head says
    (RFC 9110, 9.3.6), and with a refusal the connection is given up."""

    def __init__(self) -> None:
        self.answer: asyncio.Future[tuple[int, str] | _NoAnswer] = asyncio.get_running_loop().create_future()
        """Status and reason."""
        self.surplus = False
        """Whether there was more behind a head that opens the tunnel: in TLS the client speaks first."""
        self._data = bytearray()
        self._looked_at = self._dropped = 0

    def data_received(self, data: bytes) -> None:
        self._data += data
        if self.answer.done():
            self.surplus = True
            return
        self._look()

    def connection_lost(self, exc: Exception | None) -> None:
        if exc is None:
            self._fail("The proxy closed the connection without an answer.")
        else:
            self._fail(f"The proxy broke the connection: {str(exc) or type(exc).__name__}", exc)

    def _look(self) -> None:
        while (end := _END_OF_HEAD.search(self._data, max(0, self._looked_at - 2))) is not None:
            line = _STATUS_LINE.match(self._data)
            if line is None:
                self._fail("The proxy's answer is not valid HTTP.")
                return
            status, reason = int(line[1]), (line[2] or b"").decode("latin-1")
            if self._dropped + end.end() > MAX_HEAD_BYTES:
                break
            if status >= 200 or status == _SWITCHING:
                self.surplus = len(self._data) > end.end()
                self.answer.set_result((status, reason))
                return
            self._dropped += end.end()  # 1xx: the answer itself is yet to come
            del self._data[: end.end()]
            self._looked_at = 0
        self._looked_at = len(self._data)
        if not self._data.startswith(_BEGINNING[: len(self._data)]):
            self._fail("The proxy's answer is not valid HTTP.")
        elif self._dropped + len(self._data) > MAX_HEAD_BYTES:
            self._fail(f"The head of the proxy's answer is longer than {MAX_HEAD_BYTES} bytes.")

    def _fail(self, words: str, cause: Exception | None = None) -> None:
        if not self.answer.done():
            self.answer.set_result(_NoAnswer(words, cause))
