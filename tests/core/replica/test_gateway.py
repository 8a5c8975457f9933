"""A fleet behind its gateway: whose answer it is, whose metrics, clients that go away, and a replica that is lost."""

import asyncio
import json
import os
import re
import signal
import socket
import threading
import urllib.request
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import msgspec
import pytest
import uvicorn
from starlette.applications import Starlette

from core.errors import UserError
from core.replica.catalog import Replica
from core.replica.gateway import BACKEND_HEADER, create_gateway
from core.replica.metrics import CONTENT_TYPE
from core.replica.process import Fleet, serve, start
from core.replica.routers import RouterName
from core.server.metrics import ScrapeError, parse
from tests.core.replica.serving import FAST, MODEL
from tests.core.replica.timeline import spec

URLS = ["http://one", "http://two", "http://three"]
SLOW = msgspec.structs.replace(FAST, engine=spec(step_s=0.05))
PATIENCE_S = 20.0
LONG = 1900
"""Tokens that take SLOW 95 s: what asks for them is still open when a test is done with it."""


@asynccontextmanager
async def calling(router: RouterName = "round-robin", replica: Replica = FAST) -> AsyncIterator[httpx.AsyncClient]:
    """A client that calls the gateway without a network; answers arrive whole."""
    app = create_gateway(replica, router, URLS)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://gateway") as client,
    ):
        yield client


@asynccontextmanager
async def serving(app: Starlette) -> AsyncIterator[httpx.AsyncClient]:
    """A client of the gateway on a real socket."""
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, access_log=False, timeout_graceful_shutdown=0))
    task = asyncio.create_task(server.serve(sockets=[listener]))
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{listener.getsockname()[1]}", trust_env=False) as client:
        yield client
    server.should_exit = True
    await task


async def complete(client: httpx.AsyncClient, **fields: Any) -> httpx.Response:
    body = {"model": MODEL, "prompt": [11, 12, 13], "max_tokens": 4, "ignore_eos": True, **fields}
    return await client.post("/v1/completions", json=body)


async def open_requests(client: httpx.AsyncClient) -> list[int]:
    return [each["open_requests"] for each in (await client.get("/replicas")).json()]


async def until_open(client: httpx.AsyncClient, wanted: list[int]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while await open_requests(client) != wanted:
            pass


async def test_each_answer_names_its_replica_streamed_whole_or_refused() -> None:
    async with calling() as client:
        whole = await complete(client)
        streamed = await complete(client, stream=True)
        refused = await complete(client, model="another")
        said = [{"role": "user", "content": "hello"}]
        chat = await client.post("/v1/chat/completions", json={"messages": said, "max_tokens": 2})
    assert [each.headers[BACKEND_HEADER] for each in (whole, streamed, refused, chat)] == [*URLS, URLS[0]]
    assert whole.json()["usage"]["completion_tokens"] == 4
    assert streamed.text.endswith("data: [DONE]\n\n")
    assert (refused.status_code, refused.json()["error"]["type"]) == (404, "NotFoundError")
    assert chat.json()["object"] == "chat.completion"


async def test_questions_about_the_model_are_answered_and_are_no_load() -> None:
    async with calling() as client:
        models, version, health = [await client.get(path) for path in ("/v1/models", "/version", "/health")]
        tokens = await client.post("/tokenize", json={"prompt": "a b c"})
        metrics = (await client.get("/metrics")).text
    assert models.json()["data"][0]["id"] == MODEL
    assert version.json()["version"].endswith("+simulated")
    assert (health.status_code, tokens.json()["count"]) == (200, 4)
    assert f'kneescope_gateway_requests_total{{server="{URLS[0]}"}} 0.0' in metrics


async def test_its_metrics_have_names_of_their_own_so_that_nobody_takes_it_for_an_engine() -> None:
    async with calling() as client:
        for _ in range(4):
            await complete(client)
        response = await client.get("/metrics")
    assert "vllm" not in response.text
    for url, requests in zip(URLS, (2.0, 1.0, 1.0), strict=True):
        assert f'kneescope_gateway_requests_total{{server="{url}"}} {requests}' in response.text
    with pytest.raises(ScrapeError, match="no vLLM metrics"):
        parse(response.text, CONTENT_TYPE, 0.0, 0.0)


async def test_prompts_with_a_beginning_in_common_find_it_behind_the_prefix_router() -> None:
    """Each of three prefixes stays at one replica; cold prompts spread."""
    async with calling("prefix") as client:
        seen: dict[int, set[str]] = {}
        for turn in range(4):
            for group in (100, 200, 300):
                prompt = [*range(group, group + 64), turn]
                answer = await complete(client, prompt=prompt)
                seen.setdefault(group, set()).add(answer.headers[BACKEND_HEADER])
        cold = [(await complete(client, prompt=[7] * 64, cache_salt=str(n))).headers[BACKEND_HEADER] for n in range(6)]
    assert [len(urls) for urls in seen.values()] == [1, 1, 1]
    assert len(set.union(*seen.values())) == 3
    assert set(Counter(cold).values()) == {2}


async def test_a_body_that_the_prefix_router_cannot_read_is_refused_by_a_replica() -> None:
    async with calling("prefix") as client:
        response = await client.post("/v1/completions", content=b"{")
    assert response.status_code == 400
    assert response.headers[BACKEND_HEADER] in URLS


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("router", ["least-load", "prefix"])
async def test_a_client_that_goes_away_frees_its_request(router: RouterName, stream: bool) -> None:
    async with serving(create_gateway(SLOW, router, URLS)) as client:
        reader, writer = await asyncio.open_connection(client.base_url.host, client.base_url.port)
        body = json.dumps({"prompt": [9] * 100, "max_tokens": LONG, "stream": stream}).encode()
        writer.write(f"POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body)
        if stream:
            await reader.readuntil(b'"text":')
        await until_open(client, [1, 0, 0])
        writer.close()
        await writer.wait_closed()
        await until_open(client, [0, 0, 0])


async def test_a_lost_replica_cuts_its_requests_and_gets_no_others_until_it_is_back() -> None:
    async with serving(create_gateway(SLOW, "round-robin", URLS)) as client:
        whole = asyncio.create_task(complete(client, max_tokens=LONG))
        await until_open(client, [1, 0, 0])
        async with client.stream("POST", "/v1/completions", json={"prompt": [1], "max_tokens": LONG, "stream": True}) as stream:
            parts = stream.aiter_bytes()
            seen = [await anext(parts)]
            assert (await client.post("/replicas/2/stop")).json()["up"] is False
            with pytest.raises(httpx.RemoteProtocolError, match="without sending complete message body"):
                seen.extend([part async for part in parts])
        assert stream.headers[BACKEND_HEADER] == URLS[1]
        assert b"abort" not in b"".join(seen)
        assert await open_requests(client) == [1, 0, 0]

        await client.post("/replicas/1/stop")
        lost = await whole
        assert (lost.status_code, lost.headers[BACKEND_HEADER]) == (502, URLS[0])
        assert "was lost" in lost.json()["error"]["message"]

        assert {(await complete(client)).headers[BACKEND_HEADER] for _ in range(3)} == {URLS[2]}
        metrics = (await client.get("/metrics")).text
        for url, up, gone in zip(URLS, (0.0, 0.0, 1.0), (1.0, 1.0, 0.0), strict=True):
            assert f'kneescope_gateway_server_up{{server="{url}"}} {up}' in metrics
            assert f'kneescope_gateway_lost_requests_total{{server="{url}"}} {gone}' in metrics
        assert (await client.post("/replicas/2/start")).json()["up"] is True
        assert {(await complete(client)).headers[BACKEND_HEADER] for _ in range(3)} == {URLS[1], URLS[2]}


async def test_without_a_replica_there_is_no_answer() -> None:
    async with calling() as client:
        for number in (1, 2, 3, 3):
            assert (await client.post(f"/replicas/{number}/stop")).status_code == 200
        for response in (await complete(client), await client.get("/health"), await client.get("/v1/models")):
            assert response.status_code == 503
            assert response.json()["error"]["message"] == "All replicas behind this gateway are stopped."


@pytest.mark.parametrize("path", ["/replicas/4/stop", "/replicas/0/start", "/replicas/1/restart"])
async def test_what_cannot_be_wished_is_said(path: str) -> None:
    async with calling() as client:
        response = await client.post(path)
    assert response.status_code == 404
    assert response.json()["error"]["message"] == "Ask for /replicas/N/stop or /replicas/N/start, with N of 1, 2, 3."


async def test_others_machines_stop_nothing() -> None:
    app = create_gateway(FAST, "random", URLS)
    transport = httpx.ASGITransport(app, client=("192.0.2.7", 1))
    async with app.router.lifespan_context(app), httpx.AsyncClient(transport=transport, base_url="http://gateway") as client:
        assert (await client.post("/replicas/1/stop")).status_code == 403
        assert (await client.get("/replicas")).json()[0]["up"] is True


async def test_a_fleet_in_a_process_has_metrics_at_each_address_and_a_lost_one_does_not_answer() -> None:
    fleet = await start("slot", replicas=3, router="round-robin")
    assert len({fleet.url, *fleet.replica_urls}) == 4

    async def generated(client: httpx.AsyncClient, url: str) -> float:
        row = re.search(r"^vllm:generation_tokens_total\S* (\S+)$", (await client.get(f"{url}/metrics")).text, re.M)
        assert row is not None
        return float(row[1])

    async with httpx.AsyncClient(trust_env=False, timeout=PATIENCE_S) as client:
        for tokens in (1, 2, 3):
            body = {"prompt": [5], "max_tokens": tokens, "ignore_eos": True}
            answer = await client.post(f"{fleet.url}/v1/completions", json=body)
            assert answer.headers[BACKEND_HEADER] == fleet.replica_urls[tokens - 1]
        assert [await generated(client, url) for url in fleet.replica_urls] == [1, 2, 3]
        await client.post(f"{fleet.url}/replicas/2/stop")
        with pytest.raises(httpx.ConnectError):
            await client.get(f"{fleet.replica_urls[1]}/metrics")
        await client.post(f"{fleet.url}/replicas/2/start")
        assert [await generated(client, url) for url in fleet.replica_urls] == [1, 0, 3], "a new one has counted nothing"
    await fleet.stop()
    assert fleet.process.returncode == 0


async def test_open_streams_are_ended_in_order_when_the_whole_fleet_ends() -> None:
    fleet = await start("demo", replicas=2, router="least-load")
    assert fleet.process.stdin is not None
    body = {"prompt": [9] * 10, "max_tokens": 1500, "ignore_eos": True, "stream": True}
    url = f"{fleet.url}/v1/completions"
    async with httpx.AsyncClient(trust_env=False) as client, client.stream("POST", url, json=body) as stream:
        lines = stream.aiter_lines()
        await anext(lines)
        fleet.process.stdin.close()
        rest = [line async for line in lines if line]
    assert '"finish_reason":"abort"' in rest[-2]
    assert rest[-1] == "data: [DONE]"
    async with asyncio.timeout(PATIENCE_S):
        assert await fleet.process.wait() == 0


def test_serve_says_where_the_gateway_and_its_replicas_are_and_ends_with_ctrl_c() -> None:
    said: list[str] = []
    versions: list[bytes] = []

    def look_and_interrupt(urls: list[str]) -> None:
        for url in urls:
            with urllib.request.urlopen(f"{url}/version", timeout=PATIENCE_S) as answer:
                versions.append(answer.read())
        os.kill(os.getpid(), signal.SIGINT)

    def say(line: str) -> None:
        said.append(line)
        threading.Thread(target=look_and_interrupt, args=(re.findall(r"http://[\d.]+:\d+", line),)).start()

    serve("demo", "127.0.0.1", 0, say, Fleet(replicas=2, router="random"))
    assert len(versions) == 3
    assert said[0].startswith("Gateway (random) over 2 simulated replicas demo (")
    assert ". Behind it: http://127.0.0.1:" in said[0]


async def test_the_replicas_ports_follow_the_gateways_and_one_in_use_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(UserError, match=f"Port ({port}|{port - 1}) on 127.0.0.1 cannot be used"):  # the latter by chance
            await start("demo", port - 1, replicas=1)
