"""A raw HTTP/1.1 server on 127.0.0.1 for tests: a handler writes whatever bytes it likes, in whatever pieces."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

WAIT_S = 20.0
"""Generous: a test that works never waits this long."""

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n"
END = b"0\r\n\r\n"


def chunk(data: bytes) -> bytes:
    """One HTTP chunk."""
    return b"%x\r\n%s\r\n" % (len(data), data)


def answer(status: int, body: bytes, *headers: str) -> bytes:
    """A whole answer with a Content-Length."""
    lines = [f"HTTP/1.1 {status} Reason", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def event(value: object) -> bytes:
    """One SSE event holding JSON."""
    return b"data: " + json.dumps(value).encode() + b"\n\n"


def token(text: str = " a", *, count: int | None = None, finish: str | None = None) -> bytes:
    """A completions chunk as vLLM sends it, with continuous usage when `count` is given."""
    usage = {} if count is None else {"usage": {"prompt_tokens": 8, "total_tokens": 8 + count, "completion_tokens": count}}
    return event({"object": "text_completion", "choices": [{"index": 0, "text": text, "finish_reason": finish}], **usage})


def usage(count: int) -> bytes:
    """The usage chunk at the end of a stream."""
    tokens = {"prompt_tokens": 8, "total_tokens": 8 + count, "completion_tokens": count}
    return event({"choices": [], "usage": tokens, "system_fingerprint": "vllm-0.32.0-9666ce4b"})


DONE = b"data: [DONE]\n\n"
WHOLE = token(count=1) + token(count=2, finish="length") + usage(2) + DONE


@dataclass
class Received:
    """One request as the server saw it; `gone` is set when the client closes while the handler runs."""

    connection: int
    path: str
    headers: dict[str, str]
    body: bytes
    out: asyncio.StreamWriter
    gone: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    async def write(self, *pieces: bytes) -> None:
        """Each piece in a write of its own."""
        for piece in pieces:
            self.out.write(piece)
            await self.out.drain()

    def reset(self) -> None:
        """Break the connection at once."""
        self.out.transport.abort()


Handler = Callable[[Received], Awaitable[bool | None]]
"""Answers one request; returning True closes the connection."""


class Server:
    """What has been seen so far. `changed` is notified at every request and every closing."""

    def __init__(self, handler: Handler) -> None:
        self.handler = handler
        self.received: list[Received] = []
        self.connections = 0
        self.closed = 0
        self.url = ""
        self.changed = asyncio.Condition()

    async def until(self, condition: Callable[["Server"], bool]) -> None:
        """Wait until the condition holds."""
        async with asyncio.timeout(WAIT_S), self.changed:
            await self.changed.wait_for(lambda: condition(self))

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        number = self.connections
        await self._notify()
        try:
            while request := await _read(reader, writer, number):
                self.received.append(request)
                await self._notify()
                if await _watched(self.handler(request), reader, request.gone):
                    break
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()
            self.closed += 1
            await self._notify()

    async def _notify(self) -> None:
        async with self.changed:
            self.changed.notify_all()


async def _read(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int) -> Received | None:
    head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:]) if name}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Received(number, head[0].split(" ")[1], headers, body, writer)


async def _watched(handling: Awaitable[bool | None], reader: asyncio.StreamReader, gone: asyncio.Event) -> bool | None:
    async def watch() -> None:
        with suppress(ConnectionError):
            if await reader.read(1) == b"":
                gone.set()
                return
        gone.set()

    watcher = asyncio.create_task(watch())
    try:
        return await handling or gone.is_set()
    finally:
        watcher.cancel()
        await asyncio.gather(watcher, return_exceptions=True)


@asynccontextmanager
async def serving(handler: Handler, *, host: str = "127.0.0.1", tls: ssl.SSLContext | None = None) -> AsyncIterator[Server]:
    """A server for the length of the block."""
    server = Server(handler)
    listener = await asyncio.start_server(server.connected, host, 0, limit=2**24, backlog=1024, ssl=tls)
    name = f"[{host}]" if ":" in host else host
    server.url = f"http{'s' if tls else ''}://{name}:{listener.sockets[0].getsockname()[1]}"
    try:
        yield server
    finally:
        listener.close()
        for request in server.received:
            request.out.transport.abort()


async def whole(request: Received) -> None:
    """Answers two tokens at once, in order."""
    await request.write(HEAD + chunk(WHOLE) + END)


async def endless(request: Received) -> None:
    """One token, then silence until the client goes."""
    await request.write(HEAD + chunk(token(count=1)))
    await request.gone.wait()
