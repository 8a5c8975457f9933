import asyncio
import errno
import socket
import ssl
from collections.abc import AsyncIterator

import httpx
import pytest

from core.access import Access
from core.errors import UserError
from core.facts import Fact, fact
from core.server.http import MAX_BODY_BYTES, Caller, Credential, HttpError, Why, public
from tests.core.server.fakes import KEY, Handler, client


def caller(handler: Handler, key: str | None = KEY, origin: str = "http://gw:8000") -> Caller:
    return Caller(client(handler), Credential(origin, Access(api_key=key)))


async def failure(error: Exception) -> tuple[str, Fact]:
    def handler(request: httpx.Request) -> httpx.Response:
        raise error

    with pytest.raises(HttpError) as caught:
        await caller(handler).get("http://gw:8000/x")
    assert KEY not in str(caught.value)
    return str(caught.value), caught.value.found


def caused(error: Exception, *causes: BaseException) -> Exception:
    current: BaseException = error
    for cause in causes:
        current.__cause__ = cause
        current = cause
    return error


async def test_the_key_goes_to_its_own_origin_only() -> None:
    seen: dict[str, str | None] = {}

    def handler(request: httpx.Request) -> httpx.Response:
        seen[str(request.url)] = request.headers.get("authorization")
        return httpx.Response(200)

    calls = caller(handler, origin="http://gw")
    for url in ("http://gw/x", "http://gw:80/y", "http://gw:8080/x", "https://gw/x", "http://other/x"):
        await calls.get(url)
    assert seen == {
        "http://gw/x": f"Bearer {KEY}",
        "http://gw/y": f"Bearer {KEY}",
        "http://gw:8080/x": None,
        "https://gw/x": None,
        "http://other/x": None,
    }


async def test_redirects_inside_the_origin_are_followed_with_the_key() -> None:
    seen: list[str | None] = []

    def handler(request: httpx.Request) -> httpx.Response:
        seen.append(request.headers.get("authorization"))
        if request.url.path == "/metrics":
            return httpx.Response(307, headers={"location": "/metrics/"})
        return httpx.Response(200, text=f"your header: Bearer {KEY}")

    reply = await caller(handler).get("http://gw:8000/metrics")
    assert (reply.text, reply.url) == ("your header: Bearer ***", "http://gw:8000/metrics/")
    assert seen == [f"Bearer {KEY}"] * 2


@pytest.mark.parametrize(
    "location", ["http://elsewhere/metrics", "https://gw:8000/metrics", "//elsewhere:8000/metrics", "http://gw:9/"]
)
async def test_redirects_to_another_origin_are_not_followed(location: str) -> None:
    seen: list[str] = []

    def handler(request: httpx.Request) -> httpx.Response:
        seen.append(request.url.host)
        return httpx.Response(307, headers={"location": location})

    with pytest.raises(HttpError, match="redirects to another place"):
        await caller(handler).get("http://gw:8000/metrics")
    assert seen == ["gw"]


async def test_redirects_without_end_are_given_up() -> None:
    seen: list[str] = []

    def handler(request: httpx.Request) -> httpx.Response:
        seen.append(request.url.path)
        return httpx.Response(302, headers={"location": f"{request.url.path}x"})

    with pytest.raises(HttpError, match="more than 3 times"):
        await caller(handler).get("http://gw:8000/m")
    assert seen == ["/m", "/mx", "/mxx", "/mxxx"]


async def test_a_post_is_not_redirected() -> None:
    seen: list[str] = []

    def handler(request: httpx.Request) -> httpx.Response:
        seen.append(request.url.path)
        return httpx.Response(307, headers={"location": "/other"})

    reply = await caller(handler).post("http://gw:8000/tokenize", {"a": 1})
    assert (reply.status, reply.ok, seen) == (307, False, ["/tokenize"])


async def test_a_body_without_end_is_not_read() -> None:
    given = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal given
        while True:
            given += 1 << 20
            yield bytes(1 << 20)

    with pytest.raises(HttpError, match="more than 32 MiB"):
        await caller(lambda request: httpx.Response(200, content=endless())).get("http://gw:8000/x")
    assert given <= MAX_BODY_BYTES + (1 << 20)


async def test_a_server_that_says_nothing_is_left_after_the_deadline() -> None:
    async def silent(request: httpx.Request) -> httpx.Response:
        await asyncio.Event().wait()
        return httpx.Response(200)

    async with httpx.AsyncClient(transport=httpx.MockTransport(silent)) as http:
        with pytest.raises(HttpError, match=r"does not answer within 10 ms"):
            await Caller(http, Credential("http://gw"), deadline_s=0.01).get("http://gw/x")


async def test_failures_name_the_systems_own_reason() -> None:
    refused = ConnectionRefusedError(errno.ECONNREFUSED, "no")
    group = ExceptionGroup("all failed", [OSError("other"), refused])
    certificate = ssl.SSLCertVerificationError(1, "certificate verify failed")
    certificate.verify_message = "self-signed certificate"
    handshake = ssl.SSLError(1, "x")
    handshake.reason = "WRONG_VERSION_NUMBER"
    expected: list[tuple[Why, str, Exception]] = [
        ("refused", "connection refused", caused(httpx.ConnectError("All connection attempts failed"), OSError("x"), group)),
        ("name", "DNS", caused(httpx.ConnectError("x"), socket.gaierror(-2, "Name or service not known"))),
        ("certificate", "not trusted: self-signed certificate", caused(httpx.ConnectError("x"), certificate)),
        ("tls", "WRONG_VERSION_NUMBER", caused(httpx.ConnectError("x"), handshake)),
        ("timeout", "no connection within 2 s", httpx.ConnectTimeout("x")),
        ("timeout", "does not answer within 8 s", httpx.ReadTimeout("x")),
        ("timeout", "within", httpx.PoolTimeout("")),
        ("not_http", "does not speak HTTP", httpx.RemoteProtocolError("x")),
        ("other", "something new", httpx.ConnectError("something new")),
    ]
    for why, words, error in expected:
        said, found = await failure(error)
        assert words in said
        assert found == fact("call_failed", why=why, said=said)


async def test_an_address_that_is_none_is_a_failure_not_a_crash() -> None:
    for url in ("http://[::1/x", "http://gw:port/x"):
        with pytest.raises(HttpError):
            await caller(lambda request: httpx.Response(200)).get(url)


@pytest.mark.parametrize(
    ("status", "body", "said", "words"),
    [
        (401, b'{"error": "Unauthorized"}', "Unauthorized", "answers 401 (unauthorised: Unauthorized)"),
        (404, b'{"detail": "Not Found"}', "Not Found", "answers 404 (not found: Not Found)"),
        (400, b'{"object": "error", "message": "flat"}', "flat", "answers 400 (flat)"),
        (403, b'{"message": "no plan"}', "no plan", "answers 403 (forbidden: no plan)"),
        (503, b'{"error": {"message": "busy", "code": 503}}', "busy", "answers 503 (busy)"),
        (500, b"<html>", None, "answers 500"),
        (502, b'[1, {"error": 3}]', None, "answers 502"),
        (503, b'{"error": null}', None, "answers 503"),
    ],
)
async def test_refusals_in_the_servers_words(status: int, body: bytes, said: str | None, words: str) -> None:
    reply = await caller(lambda request: httpx.Response(status, content=body)).get("http://gw:8000/x")
    assert reply.refused == fact("call_refused", status=status, said=said)
    assert reply.refusal() == words


@pytest.mark.parametrize("key", ["", " sk", "sk\n", "sk\x00x", "sk-é", "two words"])
def test_keys_that_no_header_carries_are_refused_without_showing_them(key: str) -> None:
    with pytest.raises(UserError) as caught:
        Access(api_key=key)
    assert not key.strip() or key.strip() not in str(caught.value)


def test_scrub_takes_out_the_key_and_control_characters() -> None:
    credential = Credential("http://gw", Access(api_key=KEY))
    assert KEY not in credential.scrub(f"Incorrect API key provided: {KEY}.")
    assert credential.scrub("a\x1b[31mb\nc") == "a [31mb c"
    assert KEY not in repr(credential)


def test_addresses_are_shown_without_their_secrets() -> None:
    assert public("https://user:pass@gw:8443/llm?token=x#y") == "https://gw:8443/llm"
    assert "pass" not in public("http://user:pass@[::1/x")
