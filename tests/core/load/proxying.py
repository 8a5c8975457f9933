"""An HTTP proxy on 127.0.0.1 for tests, as real ones are: tunnels by CONNECT, requests with whole addresses, and a login."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from urllib.parse import quote, urlsplit

from core.access import Access, proxy_login
from core.load.transport.proxy import Proxy, proxy_on_the_way
from tests.core.load.server import WAIT_S

USER, PASSWORD = "user", "p-SECRET/of:proxy"
LOGIN = f"{quote(USER, safe='')}:{quote(PASSWORD, safe='')}@"

Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Answering = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
"""Answers one head in place of the proxy, and then closes the connection."""


class ForwardProxy:
    """What it was asked for, and how often it was connected to. `leads_to`: every address leads to this server. `opening`: its
    word on a tunnel that it opens, in pieces."""

    def __init__(
        self, leads_to: str | None, login: str, answering: Answering | None, opening: tuple[bytes, ...], scheme: str
    ) -> None:
        self.heads: list[str] = []
        self.connections = self.closed = 0
        self.url = ""
        self.close: Callable[[], None]
        self.changed = asyncio.Condition()
        self.leads_to, self._login, self._scheme = leads_to, login, scheme
        self._answering, self._opening = answering, opening

    def listens(self, port: int) -> None:
        self.url = f"{self._scheme}://{self._login}127.0.0.1:{port}"

    @property
    def asked(self) -> list[list[str]]:
        """Method and target of each head."""
        return [head.split(" ")[:2] for head in self.heads]

    def on_the_way(self, access: Access | None = None) -> Proxy:
        """As load knows it."""
        given = access or Access()
        found = proxy_on_the_way(Access(proxy=self.url, ca_file=given.ca_file), "http://far.invalid")
        assert found is not None
        return found

    async def until(self, condition: Callable[["ForwardProxy"], bool]) -> None:
        async with asyncio.timeout(WAIT_S), self.changed:
            await self.changed.wait_for(lambda: condition(self))

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        await self._notify()
        there: Stream | None = None
        back: asyncio.Task[None] | None = None
        try:
            while head := await _head(reader):
                self.heads.append(head)
                await self._notify()
                if self._answering is not None:
                    await self._answering(reader, writer)
                    return
                if self._login and f"Proxy-Authorization: {proxy_login(self.url)}" not in head.split("\r\n"):
                    writer.write(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
                    return
                method, target, _ = head.split(" ", 2)
                if there is None:
                    there = await self._open(target if method == "CONNECT" else urlsplit(target).netloc)
                    if method == "CONNECT":
                        for piece in self._opening:
                            writer.write(piece)
                            await asyncio.sleep(0)  # the client, in the same event loop, reads it by itself
                            await asyncio.sleep(0)
                    back = asyncio.create_task(_copy(there[0], writer))
                if method == "CONNECT":
                    await _copy(reader, there[1])
                    return
                there[1].write(_passed_on(head) + await _body(reader, head))
        except (ConnectionError, asyncio.IncompleteReadError):
            writer.transport.abort()
        finally:
            writer.close()
            if there is not None:
                there[1].transport.abort()
            if back is not None:
                back.cancel()
            self.closed += 1
            await self._notify()

    async def _open(self, authority: str) -> Stream:
        place = urlsplit(self.leads_to or f"//{authority}")
        return await asyncio.open_connection(place.hostname, place.port or 80, limit=2**24)

    async def _notify(self) -> None:
        async with self.changed:
            self.changed.notify_all()


async def _head(reader: asyncio.StreamReader) -> str:
    with suppress(asyncio.IncompleteReadError):
        return (await reader.readuntil(b"\r\n\r\n")).decode()
    return ""


async def _body(reader: asyncio.StreamReader, head: str) -> bytes:
    lengths = [line.partition(":")[2] for line in head.split("\r\n") if line.lower().startswith("content-length:")]
    return await reader.readexactly(int(lengths[0])) if lengths else b""


def _passed_on(head: str) -> bytes:
    """With the path alone, and without what was for the proxy."""
    first, *fields = head.removesuffix("\r\n\r\n").split("\r\n")
    method, target, version = first.split(" ")
    parts = urlsplit(target)
    assert parts.scheme == "http", "a proxy is asked with whole addresses"
    path = target[target.index(parts.netloc) + len(parts.netloc) :]
    kept = [field for field in fields if not field.lower().startswith("proxy-")]
    return ("\r\n".join([f"{method} {path} {version}", *kept]) + "\r\n\r\n").encode()


async def _copy(source: asyncio.StreamReader, to: asyncio.StreamWriter) -> None:
    """All that comes, as it comes; the end of one side is the end of the other."""
    try:
        while data := await source.read(65536):
            to.write(data)
            await to.drain()
        to.close()
    except ConnectionError:
        to.transport.abort()


@asynccontextmanager
async def proxying(
    *,
    leads_to: str | None = None,
    login: str = LOGIN,
    answering: Answering | None = None,
    opening: tuple[bytes, ...] = (b"HTTP/1.1 200 Connection established\r\n\r\n",),
    tls: ssl.SSLContext | None = None,
) -> AsyncIterator[ForwardProxy]:
    """A proxy for the length of the block; `login` as it stands in its address, empty where it wants none."""
    proxy = ForwardProxy(leads_to, login, answering, opening, "http" if tls is None else "https")
    tasks: set[asyncio.Task[None]] = set()

    def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(proxy.connected(reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    listener = await asyncio.start_server(take, "127.0.0.1", 0, limit=2**24, backlog=1024, ssl=tls)
    proxy.close = listener.close
    proxy.listens(listener.sockets[0].getsockname()[1])
    try:
        yield proxy
    finally:
        listener.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
