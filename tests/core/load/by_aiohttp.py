"""aiohttp under httpx, told to wait for nothing: the cross-check of our own transport, in tests and benchmarks."""

import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import aiohttp
import httpx
from httpx_aiohttp import AiohttpTransport

from core.access import Access
from core.load.transport.direct import stuck
from core.load.transport.pool import KEEPALIVE_S
from core.net import tls_context


class _Exchange:
    """What aiohttp's traces tell about the request that the current task sends."""

    __slots__ = ("began", "connect_s", "on_sent", "reused")

    def __init__(self, on_sent: Callable[[float, float], None] | None) -> None:
        self.on_sent = on_sent
        self.reused = False
        self.began = self.connect_s = 0.0


_current: ContextVar[_Exchange] = ContextVar("exchange")


class AiohttpLoadTransport(httpx.AsyncBaseTransport):
    """aiohttp under httpx. Make it inside the running loop. Raises only httpx's exceptions, with the cause chained.

    Known limit: after a chunk that is malformed in the middle of a body, aiohttp 3.14.5 waits for ever.
    """

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        tls = tls or tls_context(Access())
        options: dict[str, Any] = {"limit": 0, "limit_per_host": 0, "ttl_dns_cache": None, "ssl": tls}
        self._pooled = _carrier(aiohttp.TCPConnector(keepalive_timeout=KEEPALIVE_S, **options), tls)
        self._fresh = _carrier(aiohttp.TCPConnector(force_close=True, **options), tls)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send one request; returns when the headers of the answer are there."""
        exchange = _Exchange(request.extensions.get("on_sent"))
        _current.set(exchange)
        try:
            response = await _translated(self._pooled.handle_async_request(request))
        except (httpx.ReadError, httpx.RemoteProtocolError) as problem:
            if not (exchange.reused and _died_before_answering(problem)):
                raise
            response = await _translated(self._fresh.handle_async_request(request))
        assert isinstance(response.stream, httpx.AsyncByteStream)
        response.stream = _Body(response.stream)
        return response

    async def aclose(self) -> None:
        """Close every connection, those in use too."""
        await self._pooled.aclose()
        await self._fresh.aclose()


class _Body(httpx.AsyncByteStream):
    def __init__(self, body: httpx.AsyncByteStream) -> None:
        self._body = body

    async def __aiter__(self) -> AsyncIterator[bytes]:
        with _translating():
            async for data in self._body:
                yield data

    async def aclose(self) -> None:
        with _translating():
            await self._body.aclose()


def _carrier(connector: aiohttp.TCPConnector, tls: ssl.SSLContext) -> AiohttpTransport:
    session = aiohttp.ClientSession(
        connector=connector,
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=None),
        trace_configs=[_trace()],
        auto_decompress=False,
        trust_env=False,
    )
    return AiohttpTransport(client=session, verify=tls, trust_env=False)


def _trace() -> aiohttp.TraceConfig:
    async def sent(session: object, context: object, params: object) -> None:
        exchange = _current.get()
        if exchange.on_sent is not None:
            exchange.on_sent(time.monotonic(), stuck(exchange.connect_s))

    async def connecting(session: object, context: object, params: object) -> None:
        _current.get().began = time.monotonic()

    async def connected(session: object, context: object, params: object) -> None:
        exchange = _current.get()
        exchange.connect_s = time.monotonic() - exchange.began

    async def reused(session: object, context: object, params: object) -> None:
        _current.get().reused = True

    trace = aiohttp.TraceConfig()
    # aiohttp writes headers and body together; its event for the headers alone comes before that, by 0.1 ms and at times 1 ms.
    trace.on_request_chunk_sent.append(sent)
    trace.on_connection_reuseconn.append(reused)
    trace.on_connection_create_start.append(connecting)
    trace.on_connection_create_end.append(connected)
    return trace


async def _translated(response: Awaitable[httpx.Response]) -> httpx.Response:
    with _translating():
        return await response


@contextmanager
def _translating() -> Iterator[None]:
    """aiohttp's exceptions as httpx's. httpx-aiohttp 0.2.0 calls a lost connection ConnectTimeout and lets some through as they
    are, so the original (its `__cause__`) decides. A ValueError is the server's: bytes in its headers that no text has."""
    try:
        yield
    except (httpx.HTTPError, aiohttp.ClientError, OSError, RuntimeError, ValueError) as problem:
        cause = problem.__cause__ if isinstance(problem, httpx.HTTPError) and problem.__cause__ else problem
        raise _as_httpx(cause)(str(cause) or type(cause).__name__) from cause


def _as_httpx(cause: BaseException) -> type[httpx.TransportError]:
    match cause:
        case httpx.TransportError():
            return type(cause)
        case aiohttp.ConnectionTimeoutError():
            return httpx.ConnectTimeout
        case aiohttp.ServerTimeoutError():
            return httpx.ReadTimeout
        case aiohttp.ClientConnectorError():
            return httpx.ConnectError
        case aiohttp.ServerDisconnectedError() | aiohttp.ClientResponseError() | aiohttp.ClientPayloadError():
            return httpx.RemoteProtocolError
        case _:
            return httpx.ReadError


def _died_before_answering(problem: Exception) -> bool:
    cause = problem.__cause__
    if isinstance(cause, aiohttp.ServerDisconnectedError):
        return isinstance(cause.message, str)  # else it holds the part of an answer that had come
    return isinstance(cause, aiohttp.ClientOSError | ConnectionError)
