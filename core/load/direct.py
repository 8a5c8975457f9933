"""Our own transport under httpx, for load: plain sockets, an HTTP parser in C, no queue and no limit anywhere."""

import ssl
import time

import httpx

from core.load.pool import Origin, Pool
from core.load.reply import Reply
from core.load.transport import stuck
from core.load.wire import Connection

_PORTS = {"http": 80, "https": 443}


class DirectTransport(httpx.AsyncBaseTransport):
    """HTTP/1.1 straight to the server. Make it inside the running loop. Raises only httpx's exceptions, with the cause chained.

    Of httpx's timeouts it keeps `connect` and `read`; nothing waits for `pool`, and `write` only hands over to the kernel.
    `ask` gives the `core.load.reply.Reply` alone, for whoever wants each piece with its time of arrival.
    """

    def __init__(self, tls: ssl.SSLContext | None = None, spare: int = 0) -> None:
        self._pool = Pool(tls, spare)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send one request; returns when the headers of the answer are there."""
        return (await self.ask(request)).as_response()

    def make_ready(self, request: httpx.Request) -> None:
        """Write the request out, so that nothing is left to do when it is due. Its content must have been read."""
        request.extensions = {**request.extensions, "ready": (_origin(request), _written(request, request.content))}

    async def ask(self, request: httpx.Request) -> Reply:
        """As `handle_async_request`, without the response that httpx makes of it: that costs a tenth of a short request."""
        ready: tuple[Origin, bytes] | None = request.extensions.get("ready")
        origin, data = ready or (_origin(request), _written(request, await _content(request)))
        timeouts = request.extensions.get("timeout") or {}
        connect_s, read_s = timeouts.get("connect"), timeouts.get("read")
        on_sent = request.extensions.get("on_sent")
        connection = self._pool.idle(origin)
        self._pool.open_ahead(origin)
        stuck_s = 0.0
        if connection is None:
            connection, stuck_s = await self._connect(origin, connect_s)
        answer = Reply(on_sent, read_s, stuck_s)
        try:
            await _ask(connection, answer, data, request.method)
        except (httpx.ReadError, httpx.RemoteProtocolError):
            if not connection.was_idle or answer.heard:
                raise
            connection, stuck_s = await self._connect(origin, connect_s)
            answer = Reply(on_sent, read_s, stuck_s)
            await _ask(connection, answer, data, request.method)
        return answer

    async def _connect(self, origin: Origin, timeout_s: float | None) -> tuple[Connection, float]:
        """A new connection, and for how long the server kept it waiting."""
        began = time.monotonic()
        connection = await self._pool.connect(origin, timeout_s)
        return connection, stuck(time.monotonic() - began)

    def open_ahead(self, url: str) -> None:
        """Open the spare connections to this server, before the first request needs one."""
        self._pool.open_ahead(_origin(httpx.Request("POST", url)))

    async def aclose(self) -> None:
        """Close every connection, those in use too."""
        await self._pool.aclose()


async def _ask(connection: Connection, answer: Reply, data: bytes, method: str) -> None:
    try:
        connection.send(answer, data, method)
        await answer.head()
    except BaseException:
        answer.stop()
        raise


def _origin(request: httpx.Request) -> Origin:
    url = request.url
    if url.scheme not in _PORTS:
        raise httpx.UnsupportedProtocol(f"The URL must begin with http:// or https://, not {url.scheme}://.", request=request)
    host = url.raw_host.decode("ascii")
    server_name = request.extensions.get("sni_hostname", host) if url.scheme == "https" else None
    return Origin(host, url.port or _PORTS[url.scheme], server_name)


async def _content(request: httpx.Request) -> bytes:
    try:
        return request.content
    except httpx.RequestNotRead:
        return await request.aread()


def _written(request: httpx.Request, content: bytes) -> bytes:
    """The request as it is written: head and body in one, so that they leave in one write."""
    fields = [(name, value) for name, value in request.headers.raw if name.lower() != b"transfer-encoding"]
    if len(fields) != len(request.headers.raw):  # made for a body of unknown length, which is known now
        fields.append((b"Content-Length", b"%d" % len(content)))
    lines = [b"%b %b HTTP/1.1" % (request.method.encode("ascii"), request.url.raw_path)]
    lines += [b"%b: %b" % field for field in fields]
    head = b"\r\n".join(lines)
    if head.count(b"\n") != len(fields) or head.count(b"\r") != len(fields) or b"\0" in head:
        raise httpx.LocalProtocolError("A header of the request holds a line break or a zero byte.", request=request)
    return head + b"\r\n\r\n" + content
