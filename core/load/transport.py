"""What carries the load under httpx, behind the seam `httpx.AsyncBaseTransport`: which transport, and its name for the result.

httpx's own pool (httpcore 1.0.9) polls every idle socket on each request and collapses near 80 requests/s; its defaults, and
aiohttp's, hold the 101st stream back in silence. `core.load.direct` waits for nothing; `core.load.fallback` is aiohttp told to
wait for nothing either, at 1.7 times the CPU per chunk, where the parser of the first cannot be had.

A transport for load does two things beyond httpx's contract: it calls the request extension `on_sent` with the monotonic time at
which the request is written, and it resends, once and on a fresh connection, a request whose reused connection died before any
byte of an answer: the server was just closing it for idleness.
"""

import ssl
from importlib.metadata import PackageNotFoundError, version

import httpx

KEEPALIVE_S = 4.0
"""Idle connections are given up before the server does it: uvicorn, and so vLLM, closes them after 5 s."""

SPARE_CONNECTIONS = 8
"""Connections kept open ahead of need: a Poisson burst of more than 8 within one handshake is rare at the rates of one replica."""


def make_transport(
    tls: ssl.SSLContext | None = None, proxy: str | None = None, spare: int = SPARE_CONNECTIONS
) -> httpx.AsyncBaseTransport:
    """The transport for load. `tls` is what verifies the server (None: the usual authorities). Through a proxy it is httpx's own,
    and less exact. Make it inside the running loop; `transport_name` of the same `proxy` names it."""
    if proxy is not None:
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=None, keepalive_expiry=KEEPALIVE_S)
        return httpx.AsyncHTTPTransport(verify=tls or True, proxy=proxy, limits=limits, trust_env=False)
    if _parser_version() is None:
        from core.load.fallback import AiohttpLoadTransport

        return AiohttpLoadTransport(tls)
    from core.load.direct import DirectTransport

    return DirectTransport(tls, spare)


def transport_name(proxy: str | None = None) -> str:
    """What carries the load, for the result."""
    name = f"httpx {httpx.__version__}"
    if proxy is not None:
        return f"{name}, httpcore {version('httpcore')} (through a proxy: less exact)"
    if (parser := _parser_version()) is None:
        return f"{name}, aiohttp {version('aiohttp')} (httpx-aiohttp {version('httpx-aiohttp')})"
    return f"{name}, own transport (httptools {parser})"


def _parser_version() -> str | None:
    try:
        return version("httptools")
    except PackageNotFoundError:
        return None
