"""What stands before several servers in a test: a round robin of our own, and nginx where it is installed."""

import asyncio
import itertools
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.routing import Route

from tests.real_vllm.server import free_port

READY_LIMIT_S = 30.0
_METHODS = ["GET", "POST"]
_OF_THE_HOP = ("host", "connection", "content-length", "transfer-encoding")

# One process, because each of several would have a turn of its own. Nothing is kept back of a stream, or sent again.
_NGINX = """
daemon off;
master_process off;
pid {folder}/nginx.pid;
error_log stderr;
events {{ worker_connections 1024; }}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    upstream replicas {{ {servers} keepalive 64; }}
    server {{
        listen 127.0.0.1:{port};
        location / {{
            proxy_pass http://replicas;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_buffering off;
            proxy_next_upstream off;
            proxy_read_timeout 300s;
            add_header X-Upstream-Addr $upstream_addr always;
        }}
    }}
}}
"""


def nginx() -> str | None:
    """The path of the program; None where it is not installed."""
    return shutil.which("nginx")


@asynccontextmanager
async def behind_round_robin(urls: Sequence[str]) -> AsyncIterator[str]:
    """The address of a gateway in the test's own event loop: each request goes to the next server, which the answer names."""
    port, turn = free_port(), itertools.cycle(urls)
    async with httpx.AsyncClient(trust_env=False, timeout=None, limits=httpx.Limits(max_connections=None)) as onward:

        async def hand_on(request: Request) -> StreamingResponse:
            url = next(turn)
            headers = {name: value for name, value in request.headers.items() if name not in _OF_THE_HOP}
            asked = onward.build_request(request.method, f"{url}{request.url.path}", headers=headers, content=await request.body())
            answer = await onward.send(asked, stream=True)

            async def body() -> AsyncIterator[bytes]:
                try:
                    async for piece in answer.aiter_raw():
                        yield piece
                finally:
                    await answer.aclose()

            kept = {name: value for name, value in answer.headers.items() if name not in _OF_THE_HOP}
            return StreamingResponse(body(), answer.status_code, {**kept, "x-backend-server": url})

        app = Starlette(routes=[Route("/{path:path}", hand_on, methods=_METHODS)])
        server = uvicorn.Server(
            uvicorn.Config(app, port=port, log_config=None, access_log=False, lifespan="off", timeout_graceful_shutdown=1)
        )
        serving = asyncio.create_task(server.serve())
        try:
            await _answers(f"http://127.0.0.1:{port}", serving.done)
            yield f"http://127.0.0.1:{port}"
        finally:
            server.should_exit = True
            await serving


@asynccontextmanager
async def behind_nginx(urls: Sequence[str]) -> AsyncIterator[str]:
    """The address of an nginx with its own default, round robin, which names the server in X-Upstream-Addr."""
    program, port = nginx(), free_port()
    assert program is not None, "ask nginx() first"
    servers = "".join(f"server {urlsplit(url).netloc}; " for url in urls)
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "nginx.conf"
        config.write_text(_NGINX.format(folder=folder, servers=servers, port=port))
        command = (program, "-p", folder, "-c", str(config))
        process = await asyncio.create_subprocess_exec(*command, stdin=asyncio.subprocess.DEVNULL)
        try:
            await _answers(f"http://127.0.0.1:{port}", lambda: process.returncode is not None)
            yield f"http://127.0.0.1:{port}"
        finally:
            with suppress(ProcessLookupError):
                process.terminate()
            await process.wait()


async def _answers(url: str, ended: Callable[[], bool]) -> None:
    """Wait until the servers behind it answer. Raises RuntimeError where it ended instead."""
    async with httpx.AsyncClient(trust_env=False, timeout=READY_LIMIT_S) as http, asyncio.timeout(READY_LIMIT_S):
        while not ended():
            try:
                if (await http.get(f"{url}/health")).status_code == 200:
                    return
            except httpx.TransportError:
                pass  # not listening yet
            await asyncio.sleep(0.1)
    raise RuntimeError(f"the gateway at {url} ended while starting")
