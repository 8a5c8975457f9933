"""TLS, proxies and near addresses, over real connections on this machine."""

import asyncio
import socket
import ssl
from base64 import b64encode
from functools import partial
from urllib.parse import quote

import httpx
import pytest

from core.access import Access
from core.config import Target
from core.errors import UserError
from core.load.sender import LoadClient
from core.load.transport.direct import DirectTransport
from core.load.transport.proxy import proxy_on_the_way
from core.net import PlainTransport, error_text, is_loopback, is_near, origin_of, tls_context, unused_proxies
from core.server.http import Caller, Credential, HttpError, Reply
from tests.core.load.asking import speaking_tls
from tests.core.load.calling import Caller as Load
from tests.core.load.proxying import PASSWORD, USER, proxying
from tests.core.load.server import WHOLE, Received, answer, chunk, serving
from tests.core.tls import CA, TLS, serving_tls

KEY = "sk-TESTSECRET"
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


async def ok(request: Received) -> bool:
    if request.path.endswith("/completions"):
        await request.write(HEAD, chunk(WHOLE), b"0\r\n\r\n")
    else:
        await request.write(answer(200, b"{}"))
    return True


async def get(url: str, access: Access, *, insecure: bool = False) -> Reply:
    """As checks and metrics do it."""
    async with httpx.AsyncClient(transport=PlainTransport(access, insecure), trust_env=False) as http:
        return await Caller(http, Credential(url, access)).get(f"{url}/health")


async def load(url: str, access: Access, *, insecure: bool = False) -> tuple[str, str | None]:
    """As load does it: ending and error."""
    transport = DirectTransport(tls_context(access, insecure), proxy_on_the_way(access, url))
    client = LoadClient(Target(url=url), access, transport)
    try:
        ended = await Load(client).call()
    finally:
        await client.aclose()
    return ended.ending, ended.error


@pytest.mark.parametrize(
    ("certificate", "words"), [("server", "issuer"), ("expired", "expired|issuer"), ("elsewhere", "issuer|match")]
)
async def test_a_certificate_that_nobody_signed_is_named_with_the_ways_round(certificate: str, words: str) -> None:
    async with serving_tls(ok, certificate) as server:
        with pytest.raises(HttpError, match=words) as caught:
            await get(server.url, Access())
        assert "--ca-file" in str(caught.value)
        assert "--insecure" in str(caught.value)
        assert (await load(server.url, Access()))[0] == "connection"
        assert (await get(server.url, Access(), insecure=True)).ok
        assert (await load(server.url, Access(), insecure=True))[0] == "ok"


async def test_a_ca_file_makes_its_certificates_trusted_and_no_others() -> None:
    access = Access(ca_file=CA)
    async with serving_tls(ok) as server:
        assert (await get(server.url, access)).ok
        assert (await load(server.url, access))[0] == "ok"
    for certificate, words in (("expired", "expired"), ("elsewhere", "IP address mismatch")):
        async with serving_tls(ok, certificate) as server:
            with pytest.raises(HttpError, match=words):
                await get(server.url, access)


@pytest.mark.parametrize("files", [("client.pem", None), ("client.crt", "client.key")])
async def test_a_client_certificate_opens_a_gateway(files: tuple[str, str | None]) -> None:
    cert, key = files
    mine = Access(ca_file=CA, client_cert=str(TLS / cert), client_key=None if key is None else str(TLS / key))
    async with serving_tls(ok, wants_client=True) as server:
        assert (await get(server.url, mine)).ok
        assert (await load(server.url, mine))[0] == "ok"
        with pytest.raises(HttpError, match="--client-cert"):
            await get(server.url, Access(ca_file=CA))


@pytest.mark.parametrize(
    ("access", "words"),
    [
        (Access(ca_file="/nowhere.pem"), "--ca-file: the file cannot be read"),
        (Access(ca_file=str(TLS / "client.key")), "--ca-file: the file cannot be used"),
        (Access(client_cert="/nowhere.pem"), "--client-cert: the file cannot be read"),
        (Access(client_cert=str(TLS / "client.crt"), client_key="/nowhere"), "--client-key: the file cannot be read"),
        (Access(client_cert=str(TLS / "client.crt")), "--client-cert: the file cannot be used"),
        (Access(client_cert=str(TLS / "client.crt"), client_key=str(TLS / "locked.key")), "encrypted"),
        (Access(client_cert=str(TLS / "server.pem"), client_key=str(TLS / "client.key")), "cannot be used"),
    ],
)
def test_files_that_cannot_be_used_are_refused(access: Access, words: str) -> None:
    with pytest.raises(UserError, match=words):
        tls_context(access)


# --- proxies --------------------------------------------------------------------------------------------------------


async def test_an_explicit_proxy_carries_checks_and_load_with_its_own_password() -> None:
    async with serving(ok) as server, proxying(leads_to=server.url) as proxy:
        access = Access(api_key=KEY, proxy=proxy.url)
        assert (await get("http://far.invalid", access)).ok
        assert await load("http://far.invalid", access) == ("ok", None)
        assert proxy.asked == [
            ["GET", "http://far.invalid/health"],
            ["POST", "http://far.invalid/v1/completions"],
        ]
        assert all("proxy-authorization: basic" in head.lower() for head in proxy.heads)
        assert [request.headers["authorization"] for request in server.received] == [f"Bearer {KEY}"] * 2


async def test_through_a_tunnel_a_proxy_sees_no_key() -> None:
    async with serving_tls(ok, "elsewhere") as server, proxying(leads_to=server.url) as proxy:
        access = Access(api_key=KEY, proxy=proxy.url, ca_file=CA)
        assert (await get("https://elsewhere.test", access)).ok
        assert (await load("https://elsewhere.test", access))[0] == "ok"
        assert proxy.asked == [["CONNECT", "elsewhere.test:443"]] * 2
        assert KEY not in "".join(proxy.heads)


async def test_this_machine_is_reached_directly_whatever_proxy_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.setenv("NO_PROXY", "localhost,fd07::/64,[::1]")
    async with serving(ok) as server:
        for access in (Access(), Access(proxy="http://127.0.0.1:9")):
            assert (await get(server.url, access)).ok
            assert (await load(server.url, access))[0] == "ok"


async def refused(answer: bytes, url: str = "https://far.invalid") -> tuple[str, tuple[str, str | None]]:
    """What checks and load say of a proxy that answers with this."""

    async def answering(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(answer)

    async with proxying(answering=answering) as proxy:
        access = Access(proxy=proxy.url)
        with pytest.raises(HttpError) as caught:
            await get(url, access)
        return access.scrub(str(caught.value)), await load(url, access)


@pytest.mark.parametrize(
    ("status", "advice"),
    [
        (b"407 Proxy Authentication Required", "; give its address with user and password in a variable, --proxy env:NAME"),
        (b"403 Forbidden", "; it does not let this client reach that address and port"),
        (b"502 Bad Gateway", "; it cannot reach the server"),
        (b"418 Teapot", ""),
    ],
)
async def test_a_proxy_that_refuses_is_named_with_what_to_do(status: bytes, advice: str) -> None:
    checks, load = await refused(b"HTTP/1.1 %b\r\nContent-Length: 0\r\n\r\n" % status)
    assert checks == f"cannot be reached through the proxy: {status.decode()}{advice}"
    assert load == ("connection", f"No way through the proxy to far.invalid:443: {status.decode()}{advice}.")


async def test_a_proxy_that_wants_a_login_for_plain_requests_too() -> None:
    async with serving(ok) as server, proxying(leads_to=server.url) as proxy:
        access = Access(proxy=proxy.url.replace("user", "nobody"))
        reply = await get("http://far.invalid", access)
        assert "--proxy env:NAME" in reply.refusal()
        ending, error = await load("http://far.invalid", access)
        assert ending == "http"
        assert error == (
            "HTTP 407 Proxy Authentication Required, which a proxy says; "
            "give its address with user and password in a variable, --proxy env:NAME."
        )
        assert server.connections == 0


async def test_a_proxy_that_repeats_its_password_gives_it_to_nobody() -> None:
    for secret in (PASSWORD, quote(PASSWORD, safe=""), b64encode(f"{USER}:{PASSWORD}".encode()).decode()):
        for url in ("https://far.invalid", "http://far.invalid"):
            answer = b"HTTP/1.1 403 not for " + secret.encode() + b"\r\nContent-Length: 0\r\n\r\n"
            if url.startswith("https"):
                checks, (_, error) = await refused(answer, url)
                assert checks.count("***") == 1
            else:
                async with proxying(answering=partial(_say, answer)) as proxy:
                    _, error = await load(url, Access(proxy=proxy.url))
            assert error is not None
            assert "***" in error
            assert "SECRET" not in error
            assert secret not in error


async def _say(answer: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(answer)


async def test_a_proxy_that_is_not_there_is_told_from_a_server_that_is_not() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"http://user:p-SECRET@127.0.0.1:{free.getsockname()[1]}"
        shown = address.replace("user:p-SECRET@", "")
        for url in ("http://far.invalid", "https://far.invalid"):
            access = Access(proxy=address)
            with pytest.raises(HttpError, match=rf"cannot be reached through the proxy: no connection to {shown}") as caught:
                await get(url, access)
            ending, error = await load(url, access)
            assert ending == "connection"
            assert (error or "").startswith(f"No connection to the proxy {shown}: ")
            assert "SECRET" not in str(caught.value) + str(error)


async def test_a_proxy_that_speaks_tls_itself_has_to_prove_it_even_with_insecure() -> None:
    async with serving_tls(ok, "elsewhere") as server, serving(ok) as plain, proxying(tls=speaking_tls()) as proxy:
        for url, leads_to in (("https://elsewhere.test", server.url), ("http://far.invalid", plain.url)):
            proxy.leads_to = leads_to
            access = Access(proxy=proxy.url, ca_file=CA)
            with pytest.raises(
                HttpError, match=f"through the proxy: no connection to {access.public_proxy}: .*CERTIFICATE_VERIFY_FAILED"
            ):
                await get(url, access, insecure=True)
            ending, error = await load(url, access, insecure=True)
            assert ending == "connection"
            assert (error or "").startswith(f"No connection to the proxy {access.public_proxy}: ")
            assert "CERTIFICATE_VERIFY_FAILED" in (error or "")
        assert proxy.heads == []


async def test_a_proxy_that_speaks_tls_itself_carries_tls_in_tls() -> None:
    own = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    own.load_cert_chain(TLS / "server.pem")
    async with serving_tls(ok, "elsewhere") as server, serving(ok) as plain, proxying(tls=own) as proxy:
        for url, leads_to in (("https://elsewhere.test", server.url), ("http://far.invalid", plain.url)):
            proxy.leads_to = leads_to
            access = Access(proxy=proxy.url, ca_file=CA)
            assert (await get(url, access)).ok
            assert await load(url, access) == ("ok", None)
        assert {target for _, target in proxy.asked} == {
            "elsewhere.test:443",
            "http://far.invalid/health",
            "http://far.invalid/v1/completions",
        }


@pytest.mark.parametrize(
    ("certificate", "insecure", "ending"),
    [("elsewhere", False, "ok"), ("expired", False, "connection"), ("server", False, "connection"), ("expired", True, "ok")],
)
async def test_what_holds_for_certificates_holds_inside_a_tunnel(certificate: str, insecure: bool, ending: str) -> None:
    async with serving_tls(ok, certificate) as server, proxying(leads_to=server.url) as proxy:
        access = Access(proxy=proxy.url, ca_file=CA)
        got, error = await load("https://elsewhere.test", access, insecure=insecure)
        assert got == ending
        if ending == "ok":
            assert (await get("https://elsewhere.test", access, insecure=insecure)).ok
        else:
            with pytest.raises(HttpError, match="has a certificate that is not trusted"):
                await get("https://elsewhere.test", access, insecure=insecure)
        assert ("CERTIFICATE_VERIFY_FAILED" in (error or "")) is (ending != "ok")


async def test_a_client_certificate_goes_through_a_tunnel() -> None:
    async with serving_tls(ok, "elsewhere", wants_client=True) as server, proxying(leads_to=server.url) as proxy:
        mine = Access(ca_file=CA, client_cert=str(TLS / "client.pem"), proxy=proxy.url)
        assert (await get("https://elsewhere.test", mine)).ok
        assert (await load("https://elsewhere.test", mine))[0] == "ok"
        assert (await load("https://elsewhere.test", Access(ca_file=CA, proxy=proxy.url)))[0] == "connection"


def test_proxy_variables_are_told_without_passwords() -> None:
    environ = {"HTTPS_PROXY": "http://u:p-SECRET@proxy:3128", "http_proxy": "proxy:80", "ALL_PROXY": " ", "NO_PROXY": "x"}
    assert unused_proxies(environ) == {"HTTP_PROXY": "http://proxy:80", "HTTPS_PROXY": "http://proxy:3128"}


# --- near and far ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("host", "near"),
    [
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("localhost", True),
        ("a.localhost", True),
        ("[::1]", True),
        ("10.1.2.3", True),
        ("192.168.0.5", True),
        ("172.16.0.1", True),
        ("100.64.0.7", True),
        ("169.254.1.1", True),
        ("fd07::1", True),
        ("fe80::1%eth0", True),
        ("::ffff:10.0.0.1", True),
        ("8.8.8.8", False),
        ("172.32.0.1", False),
        ("2606:4700::1111", False),
        ("::ffff:8.8.8.8", False),
    ],
)
async def test_near_addresses(host: str, near: bool) -> None:
    assert await is_near(host) is near


@pytest.mark.parametrize(
    ("addresses", "near"), [(["10.0.0.1"], True), (["10.0.0.1", "8.8.8.8"], False), (["8.8.8.8"], False), (None, None)]
)
async def test_a_name_is_near_when_all_its_addresses_are(
    monkeypatch: pytest.MonkeyPatch, addresses: list[str] | None, near: bool | None
) -> None:
    async def found(*_: object, **__: object) -> list[tuple[int, int, int, str, tuple[str, int]]]:
        if addresses is None:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [(2, 1, 6, "", (address, 0)) for address in addresses]

    with monkeypatch.context() as patch:
        patch.setattr(asyncio.get_running_loop(), "getaddrinfo", found)
        assert await is_near("gpu.example") is near


def test_loopback_is_known_without_looking_it_up() -> None:
    assert [is_loopback(host) for host in ("LOCALHOST", "127.0.0.2", "::1", "localhost.example", "10.0.0.1", "")] == [
        True,
        True,
        True,
        False,
        False,
        False,
    ]


# --- where an address leads, and what an error says -------------------------------------------------------------------


def test_origins() -> None:
    assert origin_of("HTTP://GW/x") == origin_of(httpx.URL("http://gw:80"))
    assert origin_of("https://gw") == ("https", "gw", 443)
    assert origin_of("http://[::1]:8000/v1").port == 8000


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b'{"error": {"message": "busy", "code": 503}}', "busy"),
        (b'{"error": {"code": 503}}', '{"code":503}'),
        (b'{"object": "error", "message": "flat"}', "flat"),
        (b'{"error": "Unauthorized"}', "Unauthorized"),
        (b'{"detail": "Not Found"}', "Not Found"),
        (b'[{"error": {"message": "in a list"}}]', "in a list"),
        (b'{"choices": [], "error": null}', None),
        (b"<html>", None),
        (b"[" * 5000, None),
        (b"[]", None),
    ],
)
def test_an_error_is_read_in_every_form(body: bytes, words: str | None) -> None:
    assert error_text(body) == words
    assert error_text(body, refusal=True) == words


def test_a_message_alone_is_an_error_where_the_status_says_so() -> None:
    assert error_text(b'{"message": "no plan"}') is None
    assert error_text(b'{"message": "no plan"}', refusal=True) == "no plan"
