"""A plain httpx client over one of the transports, against the raw server, with a proxy between where the kind says so."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path

import httpx

from tests.core.load.calling import TRANSPORTS
from tests.core.load.proxying import proxying
from tests.core.load.server import WAIT_S, Handler, Received, Server, serving

HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
TLS = Path(__file__).parent / "tls"


def speaking_tls() -> ssl.SSLContext:
    """A server's side, for 127.0.0.1 and localhost."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(TLS / "server.pem")
    return context


def trusting() -> ssl.SSLContext:
    """A client's side that knows who signed it."""
    return ssl.create_default_context(cafile=TLS / "ca.pem")


@asynccontextmanager
async def asking(
    kind: str, handler: Handler, *, host: str = "127.0.0.1", tls: ssl.SSLContext | None = None, trust: ssl.SSLContext | None = None
) -> AsyncIterator[tuple[httpx.AsyncClient, Server]]:
    """`own, through a tunnel` has TLS in any case: else there is no tunnel."""
    if kind == "own, through a tunnel" and tls is None:
        tls, trust = speaking_tls(), trusting()
    between = proxying() if "through" in kind else nullcontext()
    async with serving(handler, host=host, tls=tls) as server, between as proxy:
        transport = TRANSPORTS[kind](trust) if proxy is None else TRANSPORTS[kind](trust, proxy.on_the_way())
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
