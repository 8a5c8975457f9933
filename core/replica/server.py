"""A simulated replica behind vLLM's HTTP interface. Version, owner, fingerprint and model name say that it is simulated."""

import asyncio
import hashlib
import secrets
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from http import HTTPStatus
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from core.engine import BLOCK_TOKENS
from core.replica.answers import Answer, ChatAnswer, CompletionAnswer
from core.replica.catalog import Replica
from core.replica.engine import Clock, Engine, Generation, MonotonicClock
from core.replica.metrics import CONTENT_TYPE, EngineMetrics
from core.replica.prefix import prefix_hashes
from core.replica.requests import ApiError, Ask, ChatBody, CompletionBody, TokenizeBody, chat_ask, completion_ask, parse
from core.replica.tokens import ANSWER_TEXT, encode

VERSION = "0.32.0+simulated"
OWNER = "kneescope (simulated)"


class _Stream(Response):
    """Server-sent events, one body part a delta; headers go out at once, before the request is scheduled."""

    media_type = "text/event-stream"

    def __init__(self, engine: Engine, generation: Generation, answer: Answer) -> None:
        super().__init__()
        del self.headers["content-length"]
        self._engine = engine
        self._generation = generation
        self._answer = answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        async with _aborted_on_disconnect(self._engine, self._generation, receive):
            finish_reason = None
            while finish_reason is None:
                delta = await self._generation.next()
                finish_reason = delta.finish_reason
                body = self._answer.event(delta)
                await send({"type": "http.response.body", "body": body, "more_body": finish_reason is None})


@asynccontextmanager
async def _aborted_on_disconnect(engine: Engine, generation: Generation, receive: Receive) -> AsyncIterator[None]:
    """Abort the request when its client goes away, and whenever its handler ends before it did."""

    async def watch() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        engine.abort(generation)

    watcher = asyncio.create_task(watch())
    try:
        yield
    finally:
        watcher.cancel()
        with suppress(asyncio.CancelledError):
            await watcher
        engine.abort(generation)


class Api:
    """The endpoints of one replica and the engine behind them."""

    def __init__(self, replica: Replica, clock: Clock) -> None:
        self._model = replica.model_name
        self._name = replica.name
        self._max_model_len = replica.max_model_len
        self._extra_s = replica.extra_s
        self._started = int(time.time())
        self._metrics = EngineMetrics(self._model, replica.engine, self._max_model_len)
        self.engine = Engine(replica.engine, self._metrics, clock)
        self._fingerprint = f"vllm-{VERSION}-{hashlib.sha256(msgspec.json.encode(replica)).hexdigest()[:8]}"

    def routes(self) -> list[Route]:
        """Every path it answers."""
        return [
            Route("/v1/completions", self.completions, methods=["POST"]),
            Route("/v1/chat/completions", self.chat, methods=["POST"]),
            Route("/v1/models", self.models),
            Route("/tokenize", self.tokenize, methods=["POST"]),
            Route("/version", self.version),
            Route("/health", self.health),
            Route("/metrics", self.metrics),
        ]

    async def completions(self, request: Request) -> Response:
        """Streamed or whole."""
        body = parse(await request.body(), CompletionBody)
        self._check_model(body.model)
        ask = completion_ask(body, self._max_model_len)
        return await self._generate(request, ask, CompletionAnswer(self._id("cmpl"), self._model, self._fingerprint, ask))

    async def chat(self, request: Request) -> Response:
        """Streamed or whole."""
        body = parse(await request.body(), ChatBody)
        self._check_model(body.model)
        ask = chat_ask(body, self._max_model_len)
        return await self._generate(request, ask, ChatAnswer(self._id("chatcmpl"), self._model, self._fingerprint, ask))

    async def _generate(self, request: Request, ask: Ask, answer: Answer) -> Response:
        n = len(ask.prompt_ids)
        hashes = prefix_hashes([*ask.prompt_ids, *encode(ANSWER_TEXT) * ask.answer_tokens], ask.salt, BLOCK_TOKENS)
        generation = self.engine.submit(n, ask.answer_tokens, hashes, self._extra_s(n), ask.finish_reason)
        if ask.stream:
            return _Stream(self.engine, generation, answer)
        tokens, finish_reason = 0, None
        async with _aborted_on_disconnect(self.engine, generation, request.receive):
            while finish_reason is None:
                delta = await generation.next()
                tokens, finish_reason = tokens + delta.tokens, delta.finish_reason
        return JSONResponse(answer.body(finish_reason, tokens))

    async def models(self, request: Request) -> Response:
        """The one model."""
        card = {
            "id": self._model,
            "object": "model",
            "created": self._started,
            "owned_by": OWNER,
            "root": f"simulated/{self._name}",
            "parent": None,
            "max_model_len": self._max_model_len,
            "permission": [],
        }
        return JSONResponse({"object": "list", "data": [card]})

    async def tokenize(self, request: Request) -> Response:
        """Token ids of a text or a conversation."""
        body = parse(await request.body(), TokenizeBody)
        self._check_model(body.model)
        ids = body.token_ids()
        return JSONResponse({"count": len(ids), "max_model_len": self._max_model_len, "tokens": ids, "token_strs": None})

    async def version(self, request: Request) -> Response:
        """The vLLM whose interface this is, marked as simulated."""
        return JSONResponse({"version": VERSION})

    async def health(self, request: Request) -> Response:
        """200, or 503 when the engine has stopped."""
        return Response(status_code=503 if self.engine.stopped else 200)

    async def metrics(self, request: Request) -> Response:
        """The Prometheus exposition."""
        return Response(self._metrics.text(), headers={"content-type": CONTENT_TYPE})

    def _check_model(self, name: str | None) -> None:
        if name and name != self._model:
            raise ApiError(404, f"The model `{name}` does not exist.", "NotFoundError", "model")

    @staticmethod
    def _id(prefix: str) -> str:
        return f"{prefix}-{secrets.token_hex(8)}"


def refusal(status: int, message: str, kind: str, param: str | None = None) -> Response:
    """An answer in the form of vLLM's error object."""
    return JSONResponse({"error": {"message": message, "type": kind, "param": param, "code": status}}, status_code=status)


async def _on_api_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, ApiError)
    return refusal(error.status, str(error), error.kind, error.param)


async def _on_http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return refusal(error.status_code, error.detail, HTTPStatus(error.status_code).phrase)


def create_app(replica: Replica, clock: Clock | None = None) -> Starlette:
    """The ASGI application of one replica; `state.engine` runs from startup to shutdown, `state.stop` aborts what is open."""
    api = Api(replica, MonotonicClock() if clock is None else clock)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        engine = asyncio.create_task(api.engine.run())
        yield
        engine.cancel()
        with suppress(asyncio.CancelledError):
            await engine

    handlers: dict[Any, Any] = {ApiError: _on_api_error, HTTPException: _on_http_error}
    app = Starlette(routes=list(api.routes()), lifespan=lifespan, exception_handlers=handlers)
    app.state.engine = api.engine
    app.state.stop = api.engine.stop
    return app
