"""What load keeps to in its connections, and what carries it, for the result."""

from importlib.metadata import version

import httpx

STUCK_S = 0.9
"""A connection that takes longer was not taken at once: the queue of the server's socket was full, and the system asked again
after a second (RFC 6298). A client that is short of CPU is not stuck for so long without its loop showing it."""

KEEPALIVE_S = 4.0
"""Idle connections are given up before the server does it: uvicorn, and so vLLM, closes them after 5 s."""

SPARE_CONNECTIONS = 8
"""Connections kept open ahead of need: a Poisson burst of more than 8 within one handshake is rare at the rates of one replica."""


def transport_name() -> str:
    """What carries the load (`core.load.direct`), for the result."""
    return f"httpx {httpx.__version__}, own transport (httptools {version('httptools')})"


def stuck(connect_s: float) -> float:
    """What of a connect is the server's time, in seconds."""
    return connect_s if connect_s > STUCK_S else 0.0
