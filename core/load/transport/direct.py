"""Our own transport under httpx, for load: plain sockets, an HTTP parser in C, no queue and no limit anywhere.

httpx's own pool (httpcore 1.0.9) polls every idle socket on each request and collapses near 80 requests/s; its defaults, and
aiohttp's, hold the 101st stream back in silence. This one waits for nothing.
"""

import ssl
import time
from importlib.metadata import version

import httpx

from core.load.transport.connection import Connection
from core.load.transport.pool import Pool
from core.load.transport.proxy import Proxy
from core.load.transport.request import Endpoint, Ready, endpoint_of, ready
from core.load.transport.response import OnSent, Reply

STUCK_S = 0.9
"""A connection that takes longer was not taken at once: the queue of the server's socket was full, and the system asked again
after a second (RFC 6298). A client that is short of CPU is not stuck for so long without its loop showing it."""


def transport_name() -> str:
    """What carries the load, for the result."""
    return f"httpx {httpx.__version__}, own transport (httptools {version('httptools')})"


def stuck(connect_s: float) -> float:
    """What of a connect is the server's time, in seconds."""
    return connect_s if connect_s > STUCK_S else 0.0


class DirectTransport(httpx.AsyncBaseTransport):
    """HTTP/1.1 to the server, through a proxy if there is one. Make it inside the running loop. Raises only httpx's exceptions,
    with the cause chained.

    It does two things beyond httpx's contract. It calls the request extension `on_sent` with the monotonic time at which the
    request is written and the seconds for which the server kept it waiting for a connection (0 where that was no more than
    STUCK_S). And it resends, once and on a fresh connection, a request whose reused connection died before any byte of an answer:
    the server was just closing it for idleness. `on_sent` is then called again.

    Of httpx's timeouts it keeps `connect` and `read`; nothing waits for `pool`, and `write` only hands over to the kernel.
    `ask` gives the `core.load.transport.response.Reply` alone, for whoever wants each piece with its time of arrival.
    """

    def __init__(self, tls: ssl.SSLContext | None = None, proxy: Proxy | None = None, spare: int = 0) -> None:
        """`tls` is what verifies the server (None: the usual authorities); `spare` connections are kept open ahead of need."""
        self._proxy = proxy
        self._pool = Pool(tls, proxy, spare)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send one request; returns when the headers of the answer are there."""
        await request.aread()
        return (await self.ask(self.ready(request), request.extensions.get("on_sent"))).as_response()

    def ready(self, request: httpx.Request) -> Ready:
        """A request whose content has been read, written out for `ask`."""
        return ready(request) if self._proxy is None else ready(request, True, self._proxy.login)

    async def ask(self, request: Ready, on_sent: OnSent | None = None) -> Reply:
        """As `handle_async_request`, without the response that httpx makes of the reply: that costs a tenth of a short request."""
        origin = request.origin
        connection = self._pool.idle(origin)
        self._pool.open_ahead(origin)
        stuck_s = 0.0
        if connection is None:
            connection, stuck_s = await self._connect(origin, request.connect_s)
        answer = Reply(on_sent, request.read_s, stuck_s)
        try:
            await _ask(connection, answer, request)
        except (httpx.ReadError, httpx.RemoteProtocolError):
            if not connection.was_idle or answer.heard:
                raise
            connection, stuck_s = await self._connect(origin, request.connect_s)
            answer = Reply(on_sent, request.read_s, stuck_s)
            await _ask(connection, answer, request)
        return answer

    async def _connect(self, origin: Endpoint, timeout_s: float | None) -> tuple[Connection, float]:
        """A new connection, and for how long the server kept it waiting."""
        began = time.monotonic()
        connection = await self._pool.connect(origin, timeout_s)
        return connection, stuck(time.monotonic() - began)

    def open_ahead(self, url: str) -> None:
        """Open the spare connections to this server, before the first request needs one."""
        self._pool.open_ahead(endpoint_of(httpx.Request("POST", url)))

    async def aclose(self) -> None:
        """Close every connection, those in use too."""
        await self._pool.aclose()


async def _ask(connection: Connection, answer: Reply, request: Ready) -> None:
    try:
        connection.send(answer, request.data, request.method)
        await answer.head()
    except BaseException:
        answer.stop()
        raise
