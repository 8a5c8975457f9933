"""Connections of both transports, and of our own under both event loops: limits, reuse, spare ones, TLS, IPv6."""

import asyncio
import socket
from typing import Any

import aiohappyeyeballs
import httpx
import pytest

from tests.core.load.asking import HEAD, asking, echo, saying, speaking_tls, trusting
from tests.core.load.calling import TRANSPORTS
from tests.core.load.server import END, WAIT_S, Received, chunk, serving

# --- limits ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "said", [b"", b"HTTP/1.1 200", HEAD, HEAD + chunk(b"some")], ids=["nothing", "half a head", "head", "body"]
)
async def test_silence_longer_than_the_read_timeout(own: str, said: bytes) -> None:
    async def handle(request: Received) -> None:
        await request.write(said)
        await request.gone.wait()

    async with asking(own, handle) as (client, server):
        with pytest.raises(httpx.ReadTimeout, match=r"Nothing came from the server for 50 ms"):
            await client.get("/", timeout=httpx.Timeout(None, read=0.05))
        await server.until(lambda s: s.closed == 1)


async def test_a_body_that_is_not_read_is_not_received_without_end(own: str) -> None:
    """The server is held back; read on, and it comes whole; and the time it was held is not the server's silence."""
    size = 30_000_000
    written = 0

    async def handle(request: Received) -> None:
        nonlocal written
        await request.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size)
        for _ in range(size // 100_000):
            await request.write(b"x" * 100_000)
            written += 100_000

    async with asking(own, handle) as (client, server):
        async with client.stream("GET", "/", timeout=httpx.Timeout(None, read=1.0)) as answer:
            before = -1
            while written != before:
                before = written
                await asyncio.sleep(0.02)
            assert written < size
            assert sum([len(data) async for data in answer.aiter_raw()]) == size
        assert (await client.get("/")).status_code == 200
        assert server.connections == 1


async def test_leaving_a_body_closes_its_connection(transport: str) -> None:
    async def handle(request: Received) -> None:
        await request.write(HEAD + chunk(b"some"))
        await request.gone.wait()

    async with asking(transport, handle) as (client, server):
        async with client.stream("GET", "/") as answer:
            async for _ in answer.aiter_raw():
                break
        await server.until(lambda s: s.closed == 1)


async def test_closing_the_client_closes_every_connection_and_ends_who_waits(own: str) -> None:
    async def handle(request: Received) -> None:
        if request.path == "/idle":
            await echo(request)
        else:
            await request.gone.wait()

    async with asking(own, handle) as (client, server):
        waiting = asyncio.create_task(client.get("/waits"))
        await client.get("/idle")
        await server.until(lambda s: len(s.received) == 2)
        await client.aclose()
        with pytest.raises(httpx.ReadError, match="closed on our side"):
            await waiting
        await server.until(lambda s: s.closed == s.connections == 2)


# --- the pool -------------------------------------------------------------------------------------------------------


async def test_the_connection_used_last_is_used_first(own: str) -> None:
    async with asking(own, echo) as (client, server):
        await asyncio.gather(*(client.post("/", content=b"x") for _ in range(3)))
        last = server.received[-1].connection
        for _ in range(3):
            await client.post("/", content=b"x")
        assert server.connections == 3
        assert len({r.connection for r in server.received[3:]}) == 1
        assert server.received[3].connection == last


async def test_idle_connections_are_given_up(own: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from core.load.transport import pool

    monkeypatch.setattr(pool, "KEEPALIVE_S", 0.02)
    monkeypatch.setattr(pool, "_SWEEP_S", 0.01)
    async with asking(own, echo) as (client, server):
        await asyncio.gather(*(client.post("/", content=b"x") for _ in range(3)))
        await server.until(lambda s: s.closed == s.connections == 3)
        await client.post("/", content=b"x")
        assert server.connections == 4


async def test_spare_connections_are_there_before_they_are_needed(own: str) -> None:
    from core.load.transport.direct import DirectTransport

    async def handle(request: Received) -> None:
        await release.wait()
        await echo(request)

    release = asyncio.Event()
    async with serving(handle) as server, asyncio.timeout(WAIT_S):
        transport = DirectTransport(spare=2)
        async with httpx.AsyncClient(transport=transport, base_url=server.url, timeout=None) as client:
            transport.open_ahead(server.url)
            transport.open_ahead(server.url)
            await server.until(lambda s: s.connections == 2)
            asked = [asyncio.create_task(client.get("/")) for _ in range(2)]
            await server.until(lambda s: len(s.received) == 2)
            assert {r.connection for r in server.received} == {1, 2}, "they went by the spare ones"
            await server.until(lambda s: s.connections == 4)
            release.set()
            await asyncio.gather(*asked)
            assert server.connections == 4


async def test_no_spare_connections_are_tried_where_none_can_be_had(own: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from core.load.transport.direct import DirectTransport

    tried = 0
    start_connection = aiohappyeyeballs.start_connection

    async def counted(*given: Any, **options: Any) -> Any:
        nonlocal tried
        tried += 1
        return await start_connection(*given, **options)

    monkeypatch.setattr(aiohappyeyeballs, "start_connection", counted)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
        async with httpx.AsyncClient(transport=DirectTransport(spare=4)) as client:
            for _ in range(5):
                with pytest.raises(httpx.ConnectError):
                    await client.get(url)
    assert tried <= 5 + 4


@pytest.mark.parametrize("host", ["a" * 70 + ".invalid", ".invalid"])
async def test_a_name_that_cannot_be_one_is_a_connect_error(own: str, host: str) -> None:
    async with httpx.AsyncClient(transport=TRANSPORTS[own]()) as client:
        with pytest.raises(httpx.ConnectError):
            await client.get(f"http://{host}/")


# --- TLS and addresses ----------------------------------------------------------------------------------------------


async def test_tls_with_an_authority_of_ones_own(transport: str) -> None:
    async with asking(transport, echo, tls=speaking_tls(), trust=trusting()) as (client, server):
        body = b"x" * 900_000
        for _ in range(2):
            assert (await client.post("/", content=body)).content == body
        assert server.connections == 1
        by_name = server.url.replace("127.0.0.1", "localhost")
        assert (await client.post(by_name, content=b"x")).content == b"x"


async def test_tls_cut_at_every_offset(own: str) -> None:
    data, body = HEAD + chunk(b"hello") + chunk(b" world") + END, b"hello world"
    cuts = iter(range(1, len(data)))

    async def handle(request: Received) -> None:
        cut = next(cuts)
        await saying(data[:cut], data[cut:])(request)

    async with asking(own, handle, tls=speaking_tls(), trust=trusting()) as (client, server):
        for _ in range(len(data) - 1):
            assert (await client.get("/")).content == body
        assert server.connections == 1


@pytest.mark.parametrize("wrong", ["authority", "name"])
async def test_a_server_that_cannot_prove_itself_is_not_asked(transport: str, wrong: str) -> None:
    trust = None if wrong == "authority" else trusting()
    async with asking(transport, echo, tls=speaking_tls(), trust=trust) as (client, server):
        url = server.url if wrong == "authority" else server.url.replace("127.0.0.1", "127.0.0.2")
        with pytest.raises(httpx.ConnectError) as caught:
            await client.get(url)
        if wrong == "authority":
            assert "CERTIFICATE_VERIFY_FAILED" in str(caught.value)
        assert server.received == []


async def test_plain_http_where_tls_was_asked_is_a_connect_error(transport: str) -> None:
    async def plain(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    listener = await asyncio.start_server(plain, "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]
    async with httpx.AsyncClient(transport=TRANSPORTS[transport](trusting())) as client:
        with pytest.raises(httpx.ConnectError):
            await client.get(f"https://127.0.0.1:{port}/")
    listener.close()


def has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


@pytest.mark.skipif(not has_ipv6(), reason="no IPv6 loopback on this machine")
async def test_ipv6(transport: str) -> None:
    async with asking(transport, echo, host="::1") as (client, server):
        assert (await client.post("/", content=b"six")).content == b"six"
        assert server.received[0].headers["host"] == server.url.removeprefix("http://")


# --- stamps ---------------------------------------------------------------------------------------------------------


async def test_the_send_is_told_when_it_is_written(transport: str) -> None:
    sent: list[tuple[float, float]] = []

    async def handle(request: Received) -> None:
        assert len(sent) == 1
        await echo(request)

    async with asking(transport, handle) as (client, _):
        request = client.build_request("POST", "/", content=b"x", extensions={"on_sent": lambda *told: sent.append(told)})
        assert (await client.send(request)).status_code == 200
        assert [connect_s for _, connect_s in sent] == [0.0]
