"""Which connection carries the next request: the one used last, or a new one; never one that has to be waited for."""

import asyncio
import math
import socket
import ssl
import time
from collections import deque
from typing import Any

import aiohappyeyeballs
import httpx

from core.access import Access
from core.load.transport.connection import Connection
from core.load.transport.proxy import FAULTS, Proxy, let_go
from core.load.transport.request import Endpoint
from core.net import tls_context
from core.units import duration

KEEPALIVE_S = 4.0
"""Idle connections are given up before the server does it: uvicorn, and so vLLM, closes them after 5 s."""

SPARE_CONNECTIONS = 8
"""Connections kept open ahead of need: a Poisson burst of more than 8 within one handshake is rare at the rates of one replica."""


def spare_connections(gap_cv: float) -> int:
    """The same for gaps of this coefficient of variation. Within a handshake that one arrival is expected in, 1 of 1000 Poisson
    arrivals is followed by more than 6 (simulated); with a CV of 2 it is more than 14, with 4 more than 35."""
    return math.ceil(SPARE_CONNECTIONS * max(1.0, gap_cv))


_SWEEP_S = 0.5
_EYEBALLS_S = 0.25
"""RFC 8305: how long a first address may take before the next is tried beside it."""

_AHEAD_S = 10.0
"""As long as a request would wait: a proxy that never answers would else keep every spare connection coming."""

_AddrInfo = tuple[int, int, int, str, tuple[Any, ...]]


class Pool:
    """Connections by origin, without any limit, the one used last first: so that few are kept warm and the rest age out.

    `spare` connections are kept open ahead of need, per origin that is in use: a request that finds none idle pays for the
    handshake, one round trip, two with TLS, and what a tunnel takes through a proxy.
    """

    def __init__(self, tls: ssl.SSLContext | None, proxy: Proxy | None, spare: int) -> None:
        self._tls = tls
        self._proxy = proxy
        self._spare = spare
        self._idle: dict[Endpoint, deque[Connection]] = {}
        self._open: set[Connection] = set()
        self._addresses: dict[Endpoint, list[_AddrInfo]] = {}
        self._failing: set[Endpoint] = set()
        self._opening: set[asyncio.Task[None]] = set()
        self._coming: dict[Endpoint, int] = {}
        self._sweeper: asyncio.TimerHandle | None = None
        self._closed = False

    def idle(self, origin: Endpoint) -> Connection | None:
        """The connection used last, if one is free and fresh."""
        stack = self._idle.get(origin)
        while stack:
            connection = stack.pop()
            if connection.is_open:
                if time.monotonic() - connection.free_since < KEEPALIVE_S:
                    return connection
                connection.abort()
        return None

    async def connect(self, origin: Endpoint, timeout_s: float | None) -> Connection:
        """A new connection. Raises httpx's ConnectError, ProxyError or ConnectTimeout."""
        try:
            async with asyncio.timeout(timeout_s):
                connection = await self._connect(origin)
        except TimeoutError as problem:
            self._fails(origin)
            through = "" if self._proxy is None else f" through the proxy {self._proxy.name}"
            text = str(problem) or f"No connection to {origin.host}:{origin.port}{through} in {duration(timeout_s or 0.0)}."
            raise httpx.ConnectTimeout(text) from problem
        except httpx.ProxyError:
            self._fails(origin)
            raise
        except FAULTS as problem:
            self._fails(origin)
            raise httpx.ConnectError(str(problem) or type(problem).__name__) from problem
        self._failing.discard(origin)
        return connection

    def open_ahead(self, origin: Endpoint) -> None:
        """Open as many connections as are missing to the spare ones. One that cannot be opened is missed by nobody yet, and no more
        are tried before a request has found the server again: it would get several connects for each."""
        if origin in self._failing:
            return
        missing = self._spare - len(self._idle.get(origin, ())) - self._coming.get(origin, 0)
        for _ in range(missing):
            self._coming[origin] = self._coming.get(origin, 0) + 1
            task = asyncio.create_task(self._ahead(origin))
            self._opening.add(task)
            task.add_done_callback(self._opening.discard)

    async def aclose(self) -> None:
        """Close every connection, those in use too."""
        self._closed = True
        if self._sweeper is not None:
            self._sweeper.cancel()
        opening = list(self._opening)
        for task in opening:
            task.cancel()
        await asyncio.gather(*opening, return_exceptions=True)
        for connection in list(self._open):
            connection.close()
        self._idle.clear()
        self._open.clear()
        await asyncio.sleep(0)  # the event loop closes them in its next turn

    async def _ahead(self, origin: Endpoint) -> None:
        try:
            async with asyncio.timeout(_AHEAD_S):
                connection = await self._connect(origin)
            self._free(origin, connection)
        except (*FAULTS, httpx.ProxyError):
            self._fails(origin)
        finally:
            self._coming[origin] -= 1

    def _fails(self, origin: Endpoint) -> None:
        self._failing.add(origin)
        self._addresses.pop(origin if self._proxy is None else self._proxy.place, None)  # it may have moved

    async def _connect(self, origin: Endpoint) -> Connection:
        connection = Connection(lambda connection: self._free(origin, connection), self._open.discard)
        try:
            await self._open_for(origin, connection)
        except BaseException as problem:
            connection.give_up()
            let_go(problem)
            raise
        if connection.is_open:
            self._open.add(connection)
        return connection

    async def _open_for(self, origin: Endpoint, connection: Connection) -> None:
        if self._proxy is None:
            await self._open_to(origin, self._context() if origin.server_name is not None else None, connection)
        elif origin.server_name is None:
            with self._proxy.reaching():
                await self._open_to(self._proxy.place, self._proxy.tls, connection)
        else:
            with self._proxy.reaching():
                sock = await self._socket(self._proxy.place)
            await self._proxy.open_tunnel(sock, origin, self._context(), connection)

    async def _open_to(self, place: Endpoint, tls: ssl.SSLContext | None, connection: Connection) -> None:
        loop = asyncio.get_running_loop()
        sock = await self._socket(place)
        try:
            await loop.create_connection(lambda: connection, sock=sock, ssl=tls, server_hostname=place.server_name)
        except BaseException:
            sock.close()
            raise

    async def _socket(self, place: Endpoint) -> socket.socket:
        addresses = self._addresses.get(place)
        if addresses is None:
            loop = asyncio.get_running_loop()
            addresses = _numeric(place) or [*await loop.getaddrinfo(place.host, place.port, type=socket.SOCK_STREAM)]
            self._addresses[place] = addresses
        sock = await aiohappyeyeballs.start_connection(addresses, happy_eyeballs_delay=_EYEBALLS_S, interleave=1)
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except BaseException:
            sock.close()
            raise
        return sock

    def _context(self) -> ssl.SSLContext:
        if self._tls is None:
            self._tls = tls_context(Access())
        return self._tls

    def _free(self, origin: Endpoint, connection: Connection) -> None:
        if self._closed:
            connection.abort()
            return
        connection.was_idle = True
        connection.free_since = time.monotonic()
        self._idle.setdefault(origin, deque()).append(connection)
        if self._sweeper is None:
            self._sweeper = asyncio.get_running_loop().call_later(_SWEEP_S, self._sweep)

    def _sweep(self) -> None:
        """Close what is idle for too long: the longest idle stand first."""
        self._sweeper = None
        old = time.monotonic() - KEEPALIVE_S
        for stack in self._idle.values():
            while stack and (not stack[0].is_open or stack[0].free_since <= old):
                stack.popleft().abort()
        if any(self._idle.values()):
            self._sweeper = asyncio.get_running_loop().call_later(_SWEEP_S, self._sweep)


def _numeric(origin: Endpoint) -> list[_AddrInfo]:
    """The address of a host that is given as a number; the loop would ask a thread for that. Empty for a name."""
    try:
        return [*socket.getaddrinfo(origin.host, origin.port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)]
    except (socket.gaierror, UnicodeError):
        return []
