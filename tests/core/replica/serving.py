"""A replica in the test's own event loop: on a real socket, or called directly where the wire does not matter."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import uvicorn

from core.replica.catalog import Replica, TokenLengths
from core.replica.server import create_app
from tests.core.replica.timeline import spec

FAST = Replica(
    name="fast",
    description="a replica for tests: a millisecond a step",
    engine=spec(step_s=0.001, per_sequence_s=0.0, per_prefill_token_s=0.0),
    input_tokens=TokenLengths(median=64),
    output_tokens=TokenLengths(median=16),
)
MODEL = FAST.model_name


@asynccontextmanager
async def serving(replica: Replica = FAST) -> AsyncIterator[httpx.AsyncClient]:
    """A client whose base URL is the replica's."""
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(create_app(replica), log_config=None, access_log=False, timeout_graceful_shutdown=0))
    task = asyncio.create_task(server.serve(sockets=[listener]))
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{listener.getsockname()[1]}", trust_env=False) as client:
        yield client
    server.should_exit = True
    await task


@asynccontextmanager
async def calling(replica: Replica = FAST) -> AsyncIterator[httpx.AsyncClient]:
    """A client that calls the application without a network; answers arrive whole."""
    app = create_app(replica)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://replica") as client,
    ):
        yield client
