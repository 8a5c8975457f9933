"""What HTTP/1.1 asks of a client, over both transports, and our own under both event loops: framing, reuse, faults."""

import asyncio
import socket
from collections.abc import AsyncIterator

import httpx
import pytest

from tests.core.load.asking import HEAD, asking, echo, saying
from tests.core.load.server import Handler, Received, chunk

WHOLE_ANSWERS = {
    "length": (b"HTTP/1.1 200 Fine\r\nX-A: 1\r\nx-a: 2\r\nContent-Length: 11\r\n\r\nhello world", 200, b"hello world"),
    "chunked": (
        HEAD + b"5\r\nhello\r\n1;ext=1\r\n \r\n5\r\nworld\r\n0\r\nX-Trailer: t\r\n\r\n",
        200,
        b"hello world",
    ),
    "no body": (b"HTTP/1.1 204 No Content\r\nX-A: 1\r\n\r\n", 204, b""),
    "not modified": (b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", 304, b""),
    "empty body": (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 200, b""),
    "no reason": (b"HTTP/1.1 500 \r\nContent-Length: 2\r\n\r\nno", 500, b"no"),
    "after 1xx": (
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
        200,
        b"ok",
    ),
}


@pytest.mark.parametrize("name", WHOLE_ANSWERS)
async def test_an_answer_cut_at_every_offset_is_the_same_answer_and_leaves_its_connection(conforming: str, name: str) -> None:
    data, status, body = WHOLE_ANSWERS[name]
    cuts = iter([*range(1, len(data))])

    async def handle(request: Received) -> None:
        cut = next(cuts)
        await saying(data[:cut], data[cut:])(request)

    async with asking(conforming, handle) as (client, server):
        for _ in range(len(data) - 1):
            answer = await client.get("/")
            assert (answer.status_code, answer.content) == (status, body)
        assert server.connections == 1


@pytest.mark.parametrize("name", WHOLE_ANSWERS)
async def test_an_answer_that_comes_byte_by_byte(conforming: str, name: str) -> None:
    data, status, body = WHOLE_ANSWERS[name]
    async with asking(conforming, saying(*(data[i : i + 1] for i in range(len(data))))) as (client, server):
        for _ in range(2):
            answer = await client.get("/")
            assert (answer.status_code, answer.content) == (status, body)
        assert server.connections == 1


async def test_status_headers_and_version_are_the_servers(conforming: str) -> None:
    async with asking(conforming, saying(WHOLE_ANSWERS["length"][0])) as (client, _):
        answer = await client.get("/")
        assert (answer.reason_phrase, answer.http_version) == ("Fine", "HTTP/1.1")
        assert answer.headers.get_list("x-a") == ["1", "2"]


@pytest.mark.parametrize("version", [b"1.0", b"1.1"])
@pytest.mark.parametrize("body", [b"", b"until the end"])
async def test_a_body_without_a_length_ends_with_the_connection(conforming: str, version: bytes, body: bytes) -> None:
    handler = saying(b"HTTP/" + version + b" 200 OK\r\n\r\n" + body[:5], body[5:], close=True)
    async with asking(conforming, handler) as (client, server):
        for connections in (1, 2):
            assert (await client.get("/")).content == body
            assert server.connections == connections


@pytest.mark.parametrize(
    ("head", "connections"),
    [
        (b"HTTP/1.1 200 OK\r\nConnection: close\r\n", 2),
        (b"HTTP/1.0 200 OK\r\n", 2),
        (b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n", 1),
    ],
)
async def test_the_server_says_whether_a_connection_stays(conforming: str, head: bytes, connections: int) -> None:
    async with asking(conforming, saying(head + b"Content-Length: 2\r\n\r\nok")) as (client, server):
        for _ in range(2):
            assert (await client.get("/")).content == b"ok"
        assert server.connections == connections


async def test_a_head_answer_has_no_body(conforming: str) -> None:
    async with asking(conforming, saying(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n")) as (client, _):
        answer = await client.head("/")
        assert (answer.status_code, answer.headers["content-length"], answer.content) == (200, "5", b"")


# --- what is asked --------------------------------------------------------------------------------------------------


async def test_a_request_arrives_as_it_was_made(conforming: str) -> None:
    async with asking(conforming, echo) as (client, server):
        body = bytes(range(256)) * 3_000
        answer = await client.post("/a%20b/ü?q=1&r=ä", content=body, headers={b"X-B": "ü".encode()})
        assert answer.content == body
        request = server.received[0]
        assert request.path == "/a%20b/%C3%BC?q=1&r=%C3%A4"
        assert request.headers["host"] == httpx.URL(server.url).netloc.decode()


async def test_a_body_of_unknown_length_is_sent_whole(own: str) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        yield b"one "
        yield b"two"

    async with asking(own, echo) as (client, server):
        assert (await client.post("/", content=pieces())).content == b"one two"
        assert server.received[0].headers["content-length"] == "7"


@pytest.mark.parametrize("value", ["a\r\nX-Evil: 1", "a\nb", "a\rb", "a\0b"])
async def test_a_header_that_would_be_two_is_refused(own: str, value: str) -> None:
    async with asking(own, echo) as (client, server):
        with pytest.raises(httpx.LocalProtocolError):
            await client.get("/", headers={"X-A": value})
        assert server.connections == 0


async def test_a_scheme_that_is_not_http_is_refused(own: str) -> None:
    async with asking(own, echo) as (client, _):
        with pytest.raises(httpx.UnsupportedProtocol, match="ftp"):
            await client.get("ftp://127.0.0.1/")


# --- faults ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "handler",
    [
        saying(b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nshort", close=True),
        saying(HEAD + chunk(b"cut"), close=True),
        saying(HEAD + b"5\r\nhe", close=True),
        saying(b"HTTP/1.1 200 OK\r\nContent-", close=True),
        saying(close=True),
        saying(b"\x15\x03\x01\x00\x02\x02", close=True),
    ],
    ids=["length", "chunks", "in a chunk", "in the head", "nothing", "no http"],
)
async def test_an_end_before_the_end_is_a_fault_of_the_protocol(conforming: str, handler: Handler) -> None:
    async with asking(conforming, handler) as (client, _):
        with pytest.raises(httpx.RemoteProtocolError) as caught:
            await client.get("/")
        assert str(caught.value)


async def test_a_reset_is_a_read_error(conforming: str) -> None:
    async def handle(request: Received) -> bool:
        await request.write(HEAD + chunk(b"some"))
        for _ in range(3):
            await asyncio.sleep(0)
        reset(request)
        return True

    async with asking(conforming, handle) as (client, _):
        with pytest.raises((httpx.ReadError, httpx.RemoteProtocolError)):
            await client.get("/")


def reset(request: Received) -> None:
    """A close that is answered with RST."""
    sock = request.out.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    request.reset()


@pytest.mark.parametrize("bad", [b"zz\r\nno chunk\r\n", b"-5\r\nhello\r\n", b"5\r\nhelloX\r\n", b"fffffffffffffffff\r\n"])
async def test_a_chunk_that_is_none_ends_the_answer_at_once_though_the_connection_stays(own: str, bad: bytes) -> None:
    async def handle(request: Received) -> None:
        await request.write(HEAD + chunk(b"good"), bad)
        await request.gone.wait()

    async with asking(own, handle) as (client, server), client.stream("GET", "/") as answer:
        body = answer.aiter_raw()
        assert (await anext(body))[:4] == b"good"
        with pytest.raises(httpx.RemoteProtocolError, match="not valid HTTP"):
            _ = [data async for data in body]
        await server.until(lambda s: s.closed == 1)


async def test_a_head_without_end_is_refused(own: str) -> None:
    async def handle(request: Received) -> None:
        while not request.gone.is_set():
            await request.write(b"HTTP/1.1 200 OK\r\n" if not seen else b"X-More: %s\r\n" % (b"x" * 900))
            seen.append(1)
            await asyncio.sleep(0)

    seen: list[int] = []
    async with asking(own, handle) as (client, _):
        with pytest.raises(httpx.RemoteProtocolError, match="head of the answer is longer than 65536 bytes"):
            await client.get("/")


async def test_a_switch_of_protocols_is_an_answer_and_the_end_of_its_connection(own: str) -> None:
    for upgrade in (b"Upgrade: x\r\nConnection: upgrade\r\n", b""):
        handler = saying(b"HTTP/1.1 101 Switching Protocols\r\n" + upgrade + b"\r\n", b"binary")
        async with asking(own, handler) as (client, server):
            for connections in (1, 2):
                answer = await client.get("/")
                assert (answer.status_code, answer.content) == (101, b"")
                assert server.connections == connections


async def test_a_folded_header_is_read(own: str) -> None:
    head = b"HTTP/1.1 200 OK\r\nX-Fold: one\r\n two\r\nContent-Length: 2\r\n\r\nok"
    async with asking(own, saying(head)) as (client, _):
        answer = await client.get("/")
        assert answer.headers["x-fold"].split() == ["one", "two"]
        assert answer.content == b"ok"


async def test_more_than_one_answer_spoils_the_connection_not_the_answer(own: str) -> None:
    async with asking(own, saying(WHOLE_ANSWERS["length"][0] * 2)) as (client, server):
        for connections in (1, 2):
            assert (await client.get("/")).content == b"hello world"
            assert server.connections == connections


async def test_what_is_said_on_an_idle_connection_spoils_it(own: str) -> None:
    async def handle(request: Received) -> None:
        await request.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        if request.connection == 1:
            for _ in range(5):
                await asyncio.sleep(0)
            await request.write(b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")

    async with asking(own, handle) as (client, server):
        assert (await client.get("/")).status_code == 200
        await server.until(lambda s: s.closed == 1)
        assert (await client.get("/")).status_code == 200
        assert server.connections == 2
