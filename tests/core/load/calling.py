"""A client against the raw server, with everything that it tells."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx

from core.access import Access
from core.config import Api, Target
from core.load.sender import Job, LoadClient
from core.load.transport.batching import Digest
from core.load.transport.direct import DirectTransport
from core.load.transport.proxy import Proxy
from core.load.transport.response import Reply
from core.records import RequestEnded, RequestFirst, RequestSent
from tests.core.load.by_aiohttp import AiohttpLoadTransport
from tests.core.load.server import WAIT_S, Handler, Received, Server, serving

Message = RequestSent | RequestFirst | RequestEnded
KEY = "sk-TESTSECRET"


def own(tls: ssl.SSLContext | None = None, proxy: Proxy | None = None) -> DirectTransport:
    return DirectTransport(tls, proxy)


class Afterwards(httpx.AsyncBaseTransport):
    """Our own, its bodies read as load reads them: stamped as they come, taken in afterwards by a digest."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self._own, self._digest = own(tls), Digest()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        await request.aread()
        reply = await self._own.ask(self._own.ready(request))
        answer, body = reply.as_response(), _Body(self._digest, reply)
        return httpx.Response(reply.status, headers=reply.headers, stream=body, extensions=answer.extensions)

    async def aclose(self) -> None:
        await self._own.aclose()


class _Body(httpx.AsyncByteStream):
    def __init__(self, digest: Digest, reply: Reply) -> None:
        self._digest, self._reply = digest, reply
        self._pieces: list[bytes] = []

    def read(self, data: bytes, t: float) -> bool:
        self._pieces.append(data)
        return True

    async def __aiter__(self) -> AsyncIterator[bytes]:
        await self._digest.read(self._reply, self)
        for piece in self._pieces:
            yield piece

    async def aclose(self) -> None:
        self._reply.stop()


TRANSPORTS: dict[str, Callable[..., httpx.AsyncBaseTransport]] = {
    "own": own,
    "own, read afterwards": Afterwards,
    "own, through a proxy": own,
    "own, through a tunnel": own,
    "aiohttp": AiohttpLoadTransport,
}
chosen = ["own"]
"""Which of them the clients of a test get; the fixture `transport` runs a test once for each."""


def client_of(target: Target, api_key: str | None = None) -> LoadClient:
    return LoadClient(target, Access(api_key=api_key), TRANSPORTS[chosen[0]]())


class Caller:
    """A client with everything that it told."""

    def __init__(self, client: LoadClient) -> None:
        self.client = client
        self.told: list[Message] = []
        self._changed = asyncio.Event()

    def start(self, index: int = 0) -> asyncio.Task[None]:
        request = self.client.prepare(b'{"prompt":[1,2]}')
        job = Job(order=3, index=index, t_sched=0.5, asked_input=8, asked_output=2)
        return asyncio.create_task(self.client.send(job, request, self.tell))

    def tell(self, message: Message) -> None:
        self.told.append(message)
        self._changed.set()

    async def call(self) -> RequestEnded:
        async with asyncio.timeout(WAIT_S):
            await self.start()
        return self.last

    @property
    def last(self) -> RequestEnded:
        last = self.told[-1]
        assert isinstance(last, RequestEnded)
        return last

    async def until(self, kind: type[Message]) -> None:
        async with asyncio.timeout(WAIT_S):
            while not any(isinstance(m, kind) for m in self.told):
                self._changed.clear()
                await self._changed.wait()


@asynccontextmanager
async def calling(
    handler: Handler, *, api: Api = "completions", api_key: str | None = None
) -> AsyncIterator[tuple[Caller, Server]]:
    async with serving(handler) as server:
        client = client_of(Target(url=server.url, api=api), api_key)
        try:
            yield Caller(client), server
        finally:
            await client.aclose()


def raw(*pieces: bytes, close: bool = False) -> Handler:
    async def handle(request: Received) -> bool:
        await request.write(*pieces)
        return close

    return handle


async def end_of(handler: Handler, **options: Any) -> RequestEnded:
    async with calling(handler, **options) as (caller, _):
        return await caller.call()
