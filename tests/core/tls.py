"""A TLS server on 127.0.0.1 for tests, with certificates of an authority that only they know."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.core.load.server import Handler, Server

TLS = Path(__file__).parents[1] / "data" / "tls"
CA = str(TLS / "ca.pem")


@asynccontextmanager
async def serving_tls(handler: Handler, certificate: str = "server", *, wants_client: bool = False) -> AsyncIterator[Server]:
    """`certificate`: server, expired, or elsewhere (for another name). `wants_client`: a client without its own is refused."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(TLS / f"{certificate}.pem")
    if wants_client:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(CA)
    server = Server(handler)
    listener = await asyncio.start_server(server.connected, "127.0.0.1", 0, ssl=context)
    server.url = f"https://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
    try:
        yield server
    finally:
        listener.close()
