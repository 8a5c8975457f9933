"""A gateway before several simulated replicas in one event loop: what it hands on, whom it names, and replicas that get lost."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, MutableMapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from core.engine import BLOCK_TOKENS
from core.errors import UserError
from core.replica.catalog import Replica
from core.replica.engine import Clock
from core.replica.metrics import CONTENT_TYPE
from core.replica.prefix import prefix_hashes
from core.replica.requests import ApiError, ChatBody, CompletionBody, chat_ask, completion_ask, parse
from core.replica.routers import PrefixAware, Router, RouterName, router_of
from core.replica.server import create_app, refusal

BACKEND_HEADER = "x-backend-server"
"""Names the replica that answered, by its address; the load generator keeps it with each request."""
_LOOPBACK = ("127.0.0.1", "::1", "::ffff:127.0.0.1")

OpenPort = Callable[[Starlette], AbstractAsyncContextManager[None]]


class Member:
    """One replica of the fleet, at an address of its own; while it is lost, `app` is None. It comes back as a new process would:
    with an empty cache and counters at zero."""

    def __init__(self, number: int, url: str, create: Callable[[], Starlette], open_port: OpenPort) -> None:
        self.number = number
        self.url = url
        self.app: Starlette | None = None
        self.handed: set[asyncio.Task[Any]] = set()
        self._create = create
        self._open_port = open_port
        self._open = AsyncExitStack()
        self._changing = asyncio.Lock()

    async def start(self) -> None:
        """Serve, if it does not yet. Raises UserError when its port is taken."""
        async with self._changing:
            if self.app is not None:
                return
            app = self._create()
            async with AsyncExitStack() as opened:
                await opened.enter_async_context(app.router.lifespan_context(app))
                await opened.enter_async_context(self._open_port(app))
                self._open = opened.pop_all()
            self.app = app

    async def stop(self) -> None:
        """Be lost: open requests are cut off where they are, and nobody listens at its address."""
        async with self._changing:
            self.app = None
            for task in self.handed:
                task.cancel()
            await asyncio.sleep(0)  # before the engine ends them in order
            await self._open.aclose()

    def abort_all(self) -> None:
        """End its open requests in order, and refuse others."""
        if self.app is not None:
            self.app.state.engine.stop()


class _Handed(Response):
    """The answer of a replica, which the application of that replica sends by itself, under its name."""

    def __init__(self, member: Member, app: Starlette, body: bytes | None, on_lost: Callable[[], None] | None) -> None:
        super().__init__()
        self._member = member
        self._app = app
        self._read = body
        self._on_lost = on_lost

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = False

        async def named(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                message["headers"] = [*message["headers"], (BACKEND_HEADER.encode(), self._member.url.encode())]
            await send(message)

        inner: MutableMapping[str, Any] = dict(scope)
        if self._on_lost is None:  # a question about the model: no load
            await self._app(inner, receive, named)
            return
        task = asyncio.current_task()
        assert task is not None
        self._member.handed.add(task)
        try:
            await self._app(inner, self._received(receive), named)
        except asyncio.CancelledError:
            if self._member.app is self._app:  # the server ends the request, and not the loss of the replica
                raise
            task.uncancel()
            self._on_lost()
            if not started:
                lost = refusal(502, f"The replica {self._member.url} was lost before it answered.", "BadGatewayError")
                await lost(scope, receive, named)
            # An answer that has begun stays without an end: the HTTP server closes its connection, as for a server that died.
        finally:
            self._member.handed.discard(task)

    def _received(self, receive: Receive) -> Receive:
        """What the client sends, with a body again that was read already."""
        if self._read is None:
            return receive
        first: list[Message] = [{"type": "http.request", "body": self._read, "more_body": False}]

        async def again() -> Message:
            return first.pop() if first else await receive()

        return again


class Gateway:
    """The endpoints before the replicas: a router chooses who generates, any replica answers questions about the model."""

    def __init__(self, replica: Replica, members: list[Member], router: Router) -> None:
        self.members = {member.number: member for member in members}
        self._max_model_len = replica.max_model_len
        self._router = router
        self._registry = CollectorRegistry()
        self._requests = self._of_server(Counter, "requests", "Generating requests handed to the replica.")
        self._lost = self._of_server(Counter, "lost_requests", "Requests that were open at the replica when it was lost.")
        self._open = self._of_server(Gauge, "open_requests", "Requests open at the replica through this gateway.")
        self._up = self._of_server(Gauge, "server_up", "1 while the replica is there, 0 while it is lost.")

    def _of_server(self, kind: Callable[..., Any], name: str, text: str) -> dict[int, Any]:
        """A family of our own names: a gateway that used the engine's would be taken for an engine."""
        family = kind(f"kneescope_gateway_{name}", text, ["server"], registry=self._registry)
        return {number: family.labels(server=member.url) for number, member in self.members.items()}

    def routes(self) -> list[Route]:
        """Every path it answers."""
        return [
            Route("/v1/completions", self.generate, methods=["POST"]),
            Route("/v1/chat/completions", self.generate, methods=["POST"]),
            *(Route(path, self.any_of_them) for path in ("/v1/models", "/version", "/health")),
            Route("/tokenize", self.any_of_them, methods=["POST"]),
            Route("/metrics", self.metrics),
            Route("/replicas", self.replicas),
            Route("/replicas/{number:int}/{wish}", self.change, methods=["POST"]),
        ]

    async def generate(self, request: Request) -> Response:
        """Hand a request to the replica that the router chooses."""
        body = await request.body() if self._router.reads_prompts else None
        hashes = () if body is None else self._hashes(request.url.path, body)
        busy = {number: len(member.handed) for number, member in self.members.items() if member.app is not None}
        if not busy:
            return _nobody()
        number = self._router.choose(busy, hashes)
        member = self.members[number]
        assert member.app is not None
        self._requests[number].inc()
        return _Handed(member, member.app, body, self._lost[number].inc)

    def _hashes(self, path: str, body: bytes) -> tuple[int, ...]:
        """Of the prompt's full blocks; none of a body that the replica will refuse."""
        try:
            if path.endswith("/chat/completions"):
                ask = chat_ask(parse(body, ChatBody), self._max_model_len)
            else:
                ask = completion_ask(parse(body, CompletionBody), self._max_model_len)
        except ApiError:
            return ()
        return prefix_hashes(ask.prompt_ids, ask.salt, BLOCK_TOKENS)

    async def any_of_them(self, request: Request) -> Response:
        """What every replica answers alike, by the first that is there."""
        for member in self.members.values():
            if member.app is not None:
                return _Handed(member, member.app, None, None)
        return _nobody()

    async def metrics(self, request: Request) -> Response:
        """The gateway's own exposition; each replica has its own at its address."""
        for number, member in self.members.items():
            self._open[number].set(len(member.handed))
            self._up[number].set(member.app is not None)
        return Response(generate_latest(self._registry), headers={"content-type": CONTENT_TYPE})

    async def replicas(self, request: Request) -> Response:
        """Each replica: its number, address, whether it is there, and its open requests."""
        return JSONResponse([self._shown(member) for member in self.members.values()])

    async def change(self, request: Request) -> Response:
        """POST /replicas/N/stop loses a replica, /replicas/N/start brings a new one back; answers once it is so."""
        member, wish = self.members.get(request.path_params["number"]), request.path_params["wish"]
        if member is None or wish not in ("stop", "start"):
            known = ", ".join(map(str, self.members))
            return refusal(404, f"Ask for /replicas/N/stop or /replicas/N/start, with N of {known}.", "NotFoundError")
        if request.client is None or request.client.host not in _LOOPBACK:
            return refusal(403, "Replicas are stopped and started from this machine alone.", "ForbiddenError")
        if wish == "stop":
            await member.stop()
        elif member.app is None:
            try:
                await member.start()
            except UserError as error:
                return refusal(503, str(error), "ServiceUnavailableError")
            if isinstance(self._router, PrefixAware):
                self._router.forget(member.number)
        return JSONResponse(self._shown(member))

    def _shown(self, member: Member) -> dict[str, Any]:
        return {"replica": member.number, "url": member.url, "up": member.app is not None, "open_requests": len(member.handed)}


def _nobody() -> Response:
    return refusal(503, "All replicas behind this gateway are stopped.", "ServiceUnavailableError")


@asynccontextmanager
async def _no_port(app: Starlette) -> AsyncIterator[None]:
    yield


def create_gateway(
    replica: Replica,
    router: RouterName,
    urls: Sequence[str],
    *,
    seed: int = 0,
    clock: Clock | None = None,
    ports: Sequence[OpenPort] | None = None,
) -> Starlette:
    """The ASGI application of a gateway over as many replicas as there are `urls`, which run from its startup to its shutdown.
    `ports` opens each at its address; without them they are reached through the gateway alone. `seed` is that of random."""
    members = [
        Member(number, url, lambda: create_app(replica, clock), open_port)
        for number, (url, open_port) in enumerate(zip(urls, ports or [_no_port] * len(urls), strict=True), 1)
    ]
    gateway = Gateway(replica, members, router_of(router, random.Random(seed), replica.engine.kv_blocks))

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        try:
            await asyncio.gather(*(member.start() for member in members))
            yield
        finally:
            await asyncio.gather(*(member.stop() for member in members))

    def stop() -> None:
        for member in members:
            member.abort_all()

    app = Starlette(routes=list(gateway.routes()), lifespan=lifespan)
    app.state.stop = stop
    return app
