"""What this machine and program are, for the record of a run; and the HTTP client for everything that is not load."""

import asyncio
import hashlib
import os
import platform

import httpx

from core import __version__
from core.access import Access
from core.net import PlainTransport
from core.results import ClientInfo

_HEALTH_S = 2.0


def client_info() -> ClientInfo:
    """This client. The transport is known once the load generator is up."""
    return ClientInfo(
        version=__version__,
        python=platform.python_version(),
        platform=platform.platform(),
        hostname_hash=hashlib.sha256(platform.node().encode()).hexdigest()[:12],
        cores=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        transport="",
    )


def http_client(access: Access, insecure: bool = False) -> httpx.AsyncClient:
    """For checks and metrics. Proxy variables are not obeyed: they are meant for the web, not for the server under test.
    Raises UserError for certificates that cannot be used."""
    return httpx.AsyncClient(transport=PlainTransport(access, insecure), trust_env=False)


async def health(http: httpx.AsyncClient, url: str, access: Access) -> int | None:
    """The status of GET /health; None without an answer. A body, which may never end, is not waited for."""
    try:
        headers = {"Accept-Encoding": "identity", **access.request_headers}
        async with (
            asyncio.timeout(_HEALTH_S),
            http.stream("GET", f"{url.rstrip('/')}/health", headers=headers, timeout=None) as reply,
        ):
            return reply.status_code
    except (TimeoutError, httpx.HTTPError):
        return None
