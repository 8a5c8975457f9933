"""A plain httpx client over one of the transports, against the raw server."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx

from tests.core.load.calling import TRANSPORTS
from tests.core.load.server import WAIT_S, Handler, Received, Server, serving

HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


@asynccontextmanager
async def asking(
    kind: str, handler: Handler, *, host: str = "127.0.0.1", tls: ssl.SSLContext | None = None, trust: ssl.SSLContext | None = None
) -> AsyncIterator[tuple[httpx.AsyncClient, Server]]:
    async with serving(handler, host=host, tls=tls) as server:
        transport = TRANSPORTS[kind](trust)
        async with httpx.AsyncClient(transport=transport, base_url=server.url, timeout=None) as client, asyncio.timeout(WAIT_S):
            yield client, server


def saying(*pieces: bytes, close: bool = False) -> Handler:
    """Each piece in a read of its own, as far as one machine can do that: the client runs in the same event loop."""

    async def handle(request: Received) -> bool:
        for piece in pieces:
            await request.write(piece)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        return close

    return handle


async def echo(request: Received) -> None:
    await request.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(request.body) + request.body)
