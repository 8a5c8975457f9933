"""Load through a proxy, under both event loops: tunnels and requests passed on, reuse, refusals, odd answers, no secret."""

import asyncio
import errno
import socket
import ssl
from base64 import b64encode
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote

import aiohappyeyeballs
import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.access import Access
from core.config import Target
from core.load import sender as client_module
from core.load.sender import LoadClient
from core.load.transport.direct import DirectTransport
from core.load.transport.parsing import MAX_HEAD_BYTES
from core.load.transport.proxy import _Asking, _NoAnswer, proxy_on_the_way
from core.load.transport.request import Endpoint
from core.records import RequestEnded, RequestFirst, RequestSent
from tests.core.load.asking import speaking_tls, trusting
from tests.core.load.calling import Caller
from tests.core.load.proxying import LOGIN, PASSWORD, USER, ForwardProxy, proxying
from tests.core.load.server import WAIT_S, Handler, Received, Server, endless, serving, whole
from tests.core.load.test_transport import before_the_headers, dying_when_reused

ENCODED = b64encode(f"{USER}:{PASSWORD}".encode()).decode()
OPEN = b"HTTP/1.1 200 Connection established\r\n\r\n"
WAYS = {"http": "http", "https": "https", "https, TLS with the proxy too": "https"}


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest) -> str:
    kind: str = request.param
    return kind


@asynccontextmanager
async def through(
    way: str, handler: Handler, *, spare: int = 0, **options: Any
) -> AsyncIterator[tuple[Caller, Server, ForwardProxy, DirectTransport]]:
    """A client of a server behind a proxy."""
    tls = speaking_tls() if WAYS[way] == "https" else None
    own_tls = speaking_tls() if "proxy" in way else None
    async with serving(handler, tls=tls) as server, proxying(tls=own_tls, **options) as proxy, asyncio.timeout(WAIT_S):
        access = Access(api_key="sk-TESTSECRET", proxy=proxy.url)
        known = proxy.on_the_way(Access(ca_file="tests/core/load/tls/ca.pem"))
        transport = DirectTransport(trusting(), known, spare)
        client = LoadClient(Target(url=server.url), access, transport)
        caller = Caller(client)
        try:
            yield caller, server, proxy, transport
        finally:
            await client.aclose()
            told = str(caller.told)
            assert not any(secret in told for secret in ("SECRET", PASSWORD, quote(PASSWORD, safe=""), ENCODED))


async def refused(*answer: bytes, then: Callable[[asyncio.StreamWriter], object] | None = None) -> RequestEnded:
    """The end of a request for which the proxy is asked for a tunnel and says this."""

    async def answering(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for piece in answer:
            writer.write(piece)
            await asyncio.sleep(0)
        if then is not None:
            then(writer)

    async with through("https", whole, answering=answering) as (caller, server, proxy, _):
        ended = await caller.call()
        assert (ended.t_sent, ended.status, server.connections, len(proxy.heads)) == (None, None, 0, 1)
        await proxy.until(lambda p: p.closed == 1)
        return ended


# --- what is asked, and by how many connections ---------------------------------------------------------------------


async def test_a_connection_through_a_proxy_is_kept_and_used_again(way: str) -> None:
    async with through(way, whole) as (caller, server, proxy, _):
        for _ in range(5):
            assert (await caller.call()).ending == "ok"
        assert (server.connections, len(server.received), proxy.connections) == (1, 5, 1)
        place = httpx.URL(server.url)
        if WAYS[way] == "http":
            assert proxy.asked == [["POST", f"{server.url}/v1/completions"]] * 5
        else:
            assert proxy.asked == [["CONNECT", f"{place.host}:{place.port}"]]
        for head in proxy.heads:
            assert f"Host: {place.netloc.decode()}\r\n" in head
            assert f"Proxy-Authorization: Basic {ENCODED}\r\n" in head
        for request in server.received:
            assert request.path == "/v1/completions"
            assert request.headers["authorization"] == "Bearer sk-TESTSECRET"
            assert "proxy-authorization" not in request.headers


async def test_a_proxy_in_a_tunnel_sees_nothing_of_what_is_sent() -> None:
    async with through("https", whole) as (caller, _, proxy, _):
        await caller.call()
        assert "authorization: bearer" not in "".join(proxy.heads).lower()
        assert "TESTSECRET" not in "".join(proxy.heads)


async def test_a_proxy_without_a_login_is_told_none(way: str) -> None:
    async with through(way, whole, login="") as (caller, _, proxy, _):
        assert (await caller.call()).ending == "ok"
        assert "proxy-authorization" not in proxy.heads[0].lower()


async def test_spare_connections_are_there_before_they_are_needed(way: str) -> None:
    release = asyncio.Event()

    async def handle(request: Received) -> None:
        await release.wait()
        await whole(request)

    async with through(way, handler=handle, spare=2) as (caller, server, proxy, transport):
        transport.open_ahead(server.url)
        transport.open_ahead(server.url)
        await asyncio.gather(*transport._pool._opening)
        assert proxy.connections == 2
        asked = [caller.start(index) for index in range(2)]
        await server.until(lambda s: len(s.received) == 2)
        await proxy.until(lambda p: p.connections == 4)
        release.set()
        await asyncio.gather(*asked)
        assert {m.ending for m in caller.told if isinstance(m, RequestEnded)} == {"ok"}
        assert proxy.connections == 4, "the two that were asked for, and two spare ones again"


async def test_no_spare_tunnels_are_asked_for_where_none_is_opened() -> None:
    async def answering(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 403 Forbidden\r\n\r\n")

    async with through("https", whole, spare=4, answering=answering) as (caller, _, proxy, _):
        for _ in range(5):
            assert (await caller.call()).ending == "connection"
        assert proxy.connections <= 5 + 4


async def test_after_a_refusal_no_spare_tunnel_is_tried_and_addresses_are_looked_up_again() -> None:
    async def answering(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 403 Forbidden\r\n\r\n")

    for first in ("spare", "asked for"):
        async with through("https", whole, spare=2, answering=answering) as (_, server, _, transport):
            pool, url = transport._pool, httpx.URL(server.url)
            origin = Endpoint(url.host, url.port or 0, url.host)
            if first == "spare":
                pool.open_ahead(origin)
                await asyncio.gather(*pool._opening)  # raises what they raised
            else:
                with pytest.raises(httpx.ProxyError):
                    await pool.connect(origin, None)
            assert pool._addresses == {}
            pool.open_ahead(origin)
            assert not pool._opening


async def test_a_hundred_at_once_are_all_seen_at_once(way: str) -> None:
    everyone = asyncio.Event()

    async def handler(request: Received) -> None:
        await everyone.wait()
        await whole(request)

    async with through(way, handler) as (caller, server, proxy, _):
        tasks = [caller.start(i) for i in range(100)]
        await server.until(lambda s: len(s.received) == 100)
        assert (server.connections, proxy.connections) == (100, 100)
        everyone.set()
        await asyncio.gather(*tasks)
        assert [m.ending for m in caller.told if isinstance(m, RequestEnded)] == ["ok"] * 100


async def test_a_kept_connection_that_dies_is_replaced_once(way: str) -> None:
    async with through(way, dying_when_reused()) as (caller, server, proxy, _):
        await caller.call()
        ended = await caller.call()
        assert (ended.ending, ended.output_tokens, ended.resent) == ("ok", 2, True)
        assert (server.connections, len(server.received), proxy.connections) == (2, 3, 2)


@pytest.mark.parametrize(("handler", "told"), [(before_the_headers, RequestSent), (endless, RequestFirst)])
async def test_cancelling_closes_the_way_through_the_proxy(way: str, handler: Handler, told: Any) -> None:
    async with through(way, handler) as (caller, server, proxy, _):
        task = caller.start()
        await caller.until(told)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert caller.last.ending == "aborted"
        await server.until(lambda s: s.closed == 1)
        await proxy.until(lambda p: p.closed == 1)


async def test_cancelling_while_a_proxy_thinks_closes_the_connection_to_it() -> None:
    async def answering(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async with through("https", whole, answering=answering) as (caller, _, proxy, _):
        task = caller.start()
        await proxy.until(lambda p: len(p.heads) == 1)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert caller.last.ending == "aborted"
        await proxy.until(lambda p: p.closed == 1)


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_an_ipv6_address_is_asked_for_in_brackets(scheme: str) -> None:
    async with proxying() as proxy:
        proxy.leads_to = "//127.0.0.1:1"
        async with httpx.AsyncClient(transport=DirectTransport(None, proxy.on_the_way())) as client:
            with pytest.raises(httpx.TransportError):
                await client.get(f"{scheme}://[2001:db8::1]:8000/x?y=1")
        expected = {"http": ["GET", "http://[2001:db8::1]:8000/x?y=1"], "https": ["CONNECT", "[2001:db8::1]:8000"]}
        assert proxy.asked == [expected[scheme]]


# --- a proxy that does not let through ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (b"407 Proxy Authentication Required", "--proxy env:NAME"),
        (b"403 Forbidden", "does not let this client"),
        (b"502 Bad Gateway", "cannot reach the server"),
        (b"301 Moved", "301 Moved"),
        (b"101 Switching Protocols", "101 Switching Protocols"),
        (b"999", "999"),
    ],
)
async def test_a_refusal_is_no_connection_in_the_proxys_words(status: bytes, words: str) -> None:
    ended = await refused(b"HTTP/1.1 " + status + b"\r\nContent-Length: 9\r\n\r\n<html>...")
    assert ended.ending == "connection"
    assert ended.error is not None
    assert ended.error.startswith("No way through the proxy to 127.0.0.1:")
    assert words in ended.error


@pytest.mark.parametrize("secret", [PASSWORD, quote(PASSWORD, safe=""), ENCODED])
@pytest.mark.parametrize("padding", range(255, 300, 4))
async def test_a_refusal_with_the_login_in_it_shows_no_part_of_that(secret: str, padding: int) -> None:
    """Also where what is shown ends in the middle of it."""
    ended = await refused(b"HTTP/1.1 403 " + b"x" * (padding - 60) + b" " + secret.encode() + b"\r\n\r\n")
    assert ended.error is not None
    assert not any(part in ended.error for part in (secret[:6], secret[-6:]))


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ((b"SSH-2.0-OpenSSH_9.6\r\n",), "The proxy's answer is not valid HTTP."),
        ((b"\x15\x03\x01\x00\x02\x02",), "The proxy's answer is not valid HTTP."),
        ((b"HTTP/1.1 many thanks\r\n\r\n",), "The proxy's answer is not valid HTTP."),
        ((b"HTTP/2 200\r\n\r\n",), "The proxy's answer is not valid HTTP."),
        ((b"HTTP/1.1 200 OK\r\nX-Long: " + b"x" * 100_000,), "longer than 65536 bytes"),
        ((b"HTTP/1.1 200 OK\r\n", *[b"X-A: %b\r\n" % (b"x" * 990)] * 100, b"\r\n"), "longer than 65536 bytes"),
        ((b"HTTP/1.1 100 Continue\r\n\r\n" * 4000,), "longer than 65536 bytes"),
        ((OPEN + b"and a body that no tunnel has",), "went on speaking"),
        ((OPEN,), ""),
        ((), "The proxy closed the connection without an answer."),
        ((b"HTTP/1.1 200 Connection est",), "The proxy closed the connection without an answer."),
    ],
    ids=lambda given: None if isinstance(given, str) else repr(given[0][:24]) if given else "nothing",
)
async def test_an_answer_that_opens_no_tunnel_is_no_connection(answer: tuple[bytes, ...], words: str) -> None:
    ended = await refused(*answer)
    assert ended.ending == "connection"
    assert words in (ended.error or "")


async def test_a_body_that_comes_after_the_tunnel_was_opened_is_no_tls() -> None:
    async with through("https", whole, opening=(OPEN, b"<html>later</html>")) as (caller, server, _, _):
        assert (await caller.call()).ending == "connection"
        assert server.received == []


async def test_a_proxy_that_breaks_off_is_no_connection() -> None:
    ended = await refused(then=lambda writer: writer.transport.abort())
    assert ended.ending == "connection"
    assert "The proxy" in (ended.error or "")


async def test_a_proxy_that_never_answers_is_a_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    async def answering(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        await reader.read()

    monkeypatch.setattr(client_module, "CONNECT_TIMEOUT_S", 0.05)
    async with through("https", whole, answering=answering) as (caller, server, proxy, _):
        ended = await caller.call()
        shown = proxy.url.replace(LOGIN, "")
        assert ended.ending == "timeout"
        assert ended.error == f"No connection to {server.url.removeprefix('https://')} through the proxy {shown} in 50 ms."
        await proxy.until(lambda p: p.closed == 1)


async def test_a_proxy_that_is_not_there_is_no_connection_to_it(way: str) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        nowhere = f"127.0.0.1:{free.getsockname()[1]}"
        known = proxy_on_the_way(Access(proxy=f"http://{LOGIN}{nowhere}"), "http://far.invalid")
        async with httpx.AsyncClient(transport=DirectTransport(trusting(), known)) as client:
            with pytest.raises(httpx.ProxyError, match=rf"^No connection to the proxy http://{nowhere}: ") as caught:
                await client.get(f"{WAYS[way]}://far.invalid/")
            assert isinstance(caught.value.__cause__, ConnectionRefusedError)


async def test_a_proxy_that_is_not_reached_in_the_kernels_time_is_a_timeout(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def start_connection(*_: object, **__: object) -> None:
        raise TimeoutError(errno.ETIMEDOUT, "Connection timed out")

    async with through(way, whole) as (caller, _, _, _):
        with monkeypatch.context() as patch:
            patch.setattr(aiohappyeyeballs, "start_connection", start_connection)
            assert (await caller.call()).ending == "timeout"


async def test_a_proxy_whose_name_is_none_is_no_connection_to_it() -> None:
    known = proxy_on_the_way(Access(proxy="http://" + "a" * 70 + ".invalid"), "http://far.invalid")
    async with httpx.AsyncClient(transport=DirectTransport(None, known)) as client:
        with pytest.raises(httpx.ProxyError):
            await client.get("http://far.invalid/")


async def test_running_out_of_files_stays_the_clients_own_fault(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_socket(**_: object) -> None:
        raise OSError(errno.EMFILE, "no more")

    async with through(way, whole) as (caller, _, _, _):
        with monkeypatch.context() as patch:
            patch.setattr("aiohappyeyeballs.impl.socket.socket", no_socket)
            assert (await caller.call()).ending == "client"


async def test_a_server_behind_a_tunnel_that_cannot_prove_itself_is_not_asked() -> None:
    async with serving(whole, tls=speaking_tls()) as server, proxying() as proxy:
        async with httpx.AsyncClient(transport=DirectTransport(None, proxy.on_the_way())) as client:
            with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
                await client.get(server.url)
        assert server.received == []
        await proxy.until(lambda p: p.closed == 1)


# --- odd answers that open a tunnel ---------------------------------------------------------------------------------

OPENINGS = {
    "plain": OPEN,
    "1.0": b"HTTP/1.0 200 OK\r\nVia: 1.0 old\r\n\r\n",
    "no reason": b"HTTP/1.1 200\r\n\r\n",
    "empty reason": b"HTTP/1.1 200 \r\n\r\n",
    "another success": b"HTTP/1.1 204 No Content\r\n\r\n",
    "a length and chunks, which a tunnel has not": b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
    "interim answers": b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\nLink: </a>\r\n\r\n" + OPEN,
    "bare line ends": b"HTTP/1.1 200 OK\nVia: x\n\n",
    "a head as long as one may be": b"HTTP/1.1 200 OK\r\nX: %b\r\n\r\n" % (b"x" * (MAX_HEAD_BYTES - 24)),
}


@pytest.mark.parametrize("name", OPENINGS)
async def test_a_tunnel_opens_whatever_its_proxys_word_looks_like(name: str) -> None:
    word = OPENINGS[name]
    pieces = (word,) if len(word) > 1000 else tuple(word[i : i + 1] for i in range(len(word)))
    async with through("https", whole, opening=pieces) as (caller, _, proxy, _):
        for _ in range(2):
            assert (await caller.call()).ending == "ok"
        assert proxy.connections == 1


def read(*pieces: bytes) -> tuple[str, bool]:
    """What becomes of an answer that comes in these pieces: status and reason, or the error; and whether more came behind it."""
    loop = asyncio.new_event_loop()
    try:
        asking = loop.run_until_complete(_asking())
        for piece in pieces:
            asking.data_received(piece)
        if not asking.answer.done():
            asking.connection_lost(None)
        answer = asking.answer.result()
        return (answer.words, False) if isinstance(answer, _NoAnswer) else (str(answer), asking.surplus)
    finally:
        loop.close()


async def _asking() -> _Asking:
    return _Asking()


@pytest.mark.parametrize("name", [name for name in OPENINGS if len(OPENINGS[name]) < 1000])
@pytest.mark.parametrize("behind", [b"", b"body"])
def test_a_word_cut_at_every_offset_is_the_same_word(name: str, behind: bytes) -> None:
    word = OPENINGS[name] + behind
    assert read(word)[1] is bool(behind)
    assert {read(word[:cut], word[cut:]) for cut in range(1, len(word))} == {read(word)}


def test_a_head_that_is_too_long_is_refused_in_one_piece_too() -> None:
    assert "longer than 65536 bytes" in read(b"HTTP/1.1 200 OK\r\nX: " + b"x" * MAX_HEAD_BYTES + b"\r\n\r\n")[0]
    assert "longer than 65536 bytes" in read(b"HTTP/1.1 100 Continue\r\n\r\n" * 4000 + OPEN)[0]


WORDS = st.lists(
    st.sampled_from(
        [b"HTTP/1.", b"1 ", b"200", b" OK", b"100", b"407 no", b"\r\n", b"\n", b"\r", b"X: 1", b"\r\n\r\n", b"\0", b" "]
    )
    | st.binary(max_size=8)
).map(b"".join)


@given(WORDS, st.data())
def test_any_bytes_in_any_pieces_are_a_word_or_an_error(word: bytes, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(word)), max_size=8)))
    pieces = [word[i:j] for i, j in zip([0, *cuts], [*cuts, len(word)], strict=True)]
    assert read(*(piece for piece in pieces if piece)) == (read(word) if word else read())


# --- what is known of a proxy ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("proxy", "host", "port", "speaks_tls"),
    [
        ("http://proxy:3128", "proxy", 3128, False),
        ("http://proxy", "proxy", 80, False),
        ("https://proxy", "proxy", 443, True),
        ("HTTP://[::1]:8080", "::1", 8080, False),
    ],
)
def test_where_a_proxy_is(proxy: str, host: str, port: int, speaks_tls: bool) -> None:
    known = proxy_on_the_way(Access(proxy=proxy), "https://far.invalid")
    assert known is not None
    assert known.place == (host, port, host if speaks_tls else None)
    assert isinstance(known.tls, ssl.SSLContext) is speaks_tls
    assert known.login is None


def test_this_machine_has_no_proxy_before_it() -> None:
    assert proxy_on_the_way(Access(proxy="http://proxy:3128"), "http://127.0.0.1:8000") is None
    assert proxy_on_the_way(Access(), "http://far.invalid") is None


def test_no_picture_of_a_proxy_shows_its_login() -> None:
    known = proxy_on_the_way(Access(proxy=f"http://{LOGIN}proxy:3128"), "http://far.invalid")
    assert known is not None
    assert known.login == f"Basic {ENCODED}"
    assert known.name == "http://proxy:3128"
    assert not any(secret in f"{known!r} {known}" for secret in ("SECRET", ENCODED))
