"""What carries the load under httpx, behind the seam `httpx.AsyncBaseTransport`: which transport, and its name for the result.

httpx's own pool (httpcore 1.0.9) polls every idle socket on each request and collapses near 80 requests/s; its defaults, and
aiohttp's, hold the 101st stream back in silence. `core.load.direct` waits for nothing; `core.load.fallback` is aiohttp told to
wait for nothing either, at 1.7 times the CPU per chunk, where there is a proxy or the parser of the first cannot be had.

A transport for load does two things beyond httpx's contract: it calls the request extension `on_sent` with the monotonic time at
which the request is written and the seconds for which the server kept it waiting for a connection (0 where that was no more than
STUCK_S), and it resends, once and on a fresh connection, a request whose reused connection died before any byte of an answer: the
server was just closing it for idleness. `on_sent` is then called again.
"""

import ssl
from importlib.metadata import PackageNotFoundError, version

import httpx

STUCK_S = 0.9
"""A connection that takes longer was not taken at once: the queue of the server's socket was full, and the system asked again
after a second (RFC 6298). A client that is short of CPU is not stuck for so long without its loop showing it."""

KEEPALIVE_S = 4.0
"""Idle connections are given up before the server does it: uvicorn, and so vLLM, closes them after 5 s."""

SPARE_CONNECTIONS = 8
"""Connections kept open ahead of need: a Poisson burst of more than 8 within one handshake is rare at the rates of one replica."""


def make_transport(
    tls: ssl.SSLContext | None = None, proxy: str | None = None, spare: int = SPARE_CONNECTIONS
) -> httpx.AsyncBaseTransport:
    """The transport for load. `tls` is what verifies the server (None: the usual authorities). Through a proxy it is aiohttp, and
    less exact. Make it inside the running loop; `transport_name` of the same `proxy` names it."""
    if proxy is not None or _parser_version() is None:
        from core.load.fallback import AiohttpLoadTransport

        return AiohttpLoadTransport(tls, proxy)
    from core.load.direct import DirectTransport

    return DirectTransport(tls, spare)


def transport_name(proxy: str | None = None) -> str:
    """What carries the load, for the result."""
    name = f"httpx {httpx.__version__}"
    parser = _parser_version()
    if proxy is None and parser is not None:
        return f"{name}, own transport (httptools {parser})"
    name = f"{name}, aiohttp {version('aiohttp')} (httpx-aiohttp {version('httpx-aiohttp')})"
    return name if proxy is None else f"{name}, through a proxy: less exact"


def stuck(connect_s: float) -> float:
    """What of a connect is the server's time, in seconds."""
    return connect_s if connect_s > STUCK_S else 0.0


def _parser_version() -> str | None:
    try:
        return version("httptools")
    except PackageNotFoundError:
        return None
