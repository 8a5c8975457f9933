"""How connections to a server are made, for load, checks and metrics alike: TLS, proxies, and what counts as a near address.

Where an address leads, and what a server says when it answers with an error.
"""

import asyncio
import ipaddress
import socket
import ssl
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import httpx
import msgspec

from core.access import Access, public_address
from core.errors import UserError

UNREADABLE = (msgspec.DecodeError, RecursionError)
"""What decoding a server's JSON can raise; RecursionError when it is nested too deep."""

PORTS = {"http": 80, "https": 443}
PROXY_VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_SHARED = ipaddress.ip_network("100.64.0.0/10")
"""Shared address space (RFC 6598): cluster and overlay networks use it, and nothing on the internet is reached by it."""


def tls_context(access: Access, insecure: bool = False) -> ssl.SSLContext:
    """The one TLS context of all connections: the usual authorities and those of `ca_file`, or no check at all when `insecure`.

    Raises UserError for files that cannot be used.
    """
    context = httpx.create_ssl_context(verify=not insecure, trust_env=False)
    if access.ca_file is not None:
        _used("--ca-file", access.ca_file, "certificates in PEM form", lambda path: context.load_verify_locations(cafile=path))
    if access.client_cert is not None:
        key, cert = access.client_key, access.client_cert
        what = "a certificate in PEM form, and with --client-key its key, neither of them encrypted"
        if key is not None:
            _used("--client-key", key, what, _readable)
        _used("--client-cert", cert, what, lambda path: context.load_cert_chain(path, key, password=_no_password))
    return context


def proxy_tls_context(access: Access) -> ssl.SSLContext:
    """For TLS with a proxy itself (https://): it gets a password, so `insecure`, which speaks of the server, does not hold for it,
    and the client's certificate is not for it. Raises UserError for a file that cannot be used."""
    return tls_context(Access(ca_file=access.ca_file))


def _used(option: str, path: str, what: str, use: Callable[[str], object]) -> None:
    try:
        use(path)
    except ssl.SSLError as error:
        raise UserError(f"{option}: the file cannot be used ({error.reason or 'not PEM'}); give {what}.") from None
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is encrypted, or not a path"
        raise UserError(f"{option}: the file cannot be read ({why}); give {what}.") from None


def _readable(path: str) -> None:
    with Path(path).open("rb"):
        pass


def _no_password() -> str:
    """OpenSSL would ask for it on the terminal, also in the process that sends."""
    raise ValueError("encrypted")


def proxy_for(access: Access, url: str) -> str | None:
    """The proxy for an address. This machine is always reached directly."""
    return None if access.proxy is None or is_loopback(urlsplit(url).hostname or "") else access.proxy


def unused_proxies(environ: Mapping[str, str]) -> dict[str, str]:
    """The proxy variables that are set, which are not obeyed: name to address, without user and password."""
    found = {}
    for name in PROXY_VARIABLES:
        value = (environ.get(name) or environ.get(name.lower()) or "").strip()
        if value:
            found[name] = public_address(value if "://" in value else f"http://{value}")
    return found


LOGIN_ADVICE = "give its address with user and password in a variable, --proxy env:NAME"


def refusal_words(status: int, reason: str) -> str:
    """What a proxy's refusal of a way to the server says, and what to do about it."""
    said = "".join(char if char.isprintable() else " " for char in f"{status} {reason}".strip())
    match status:
        case 407:
            return f"{said}; {LOGIN_ADVICE}"
        case 403 | 405:
            return f"{said}; it does not let this client reach that address and port"
        case 502 | 503 | 504:
            return f"{said}; it cannot reach the server"
        case _:
            return said


class Origin(NamedTuple):
    """What may see the same secrets; `port` None: of a scheme that has none of its own."""

    scheme: str
    host: str
    port: int | None


def origin_of(url: str | httpx.URL) -> Origin:
    """Scheme, host and port of an address, with the scheme's own port filled in. Raises httpx.InvalidURL."""
    parsed = httpx.URL(url)
    return Origin(parsed.scheme, parsed.host, parsed.port or PORTS.get(parsed.scheme))


def error_text(data: bytes, *, refusal: bool = False) -> str | None:
    """The message of an error object in any form that vLLM has used, or None when the JSON holds no error.

    Forms: `{"error": {"message": ...}}` (0.10.1 and later), `{"object": "error", "message": ...}` (before),
    `{"error": "text"}` (401 and scaling), `{"detail": ...}` (unknown paths of older releases); gateways put it into a list.
    `refusal`: the body came with a bad status, so that a `message` alone is one as well.
    """
    try:
        value = msgspec.json.decode(data)
    except UNREADABLE:
        return None
    value = value[0] if isinstance(value, list) and value else value
    return _error_in(value, refusal) if isinstance(value, dict) else None


def _error_in(value: dict[str, Any], refusal: bool) -> str | None:
    error = value.get("error")
    if isinstance(error, dict):
        return _words(error.get("message") or error)
    if error:
        return _words(error)
    if value.get("object") == "error":
        return _words(value.get("message") or value)
    said = value.get("detail") or (value.get("message") if refusal else None)
    return _words(said) if said else None


def _words(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def status_words(status: int, said: str | None) -> str:
    """How a bad status reads in a sentence: "answers 401 (unauthorised: ...)", with the server's own words."""
    kind = {401: "unauthorised", 403: "forbidden", 404: "not found", 407: f"from a proxy: {LOGIN_ADVICE}"}.get(status)
    inside = ": ".join(part for part in (kind, said) if part)
    return f"answers {status}" + (f" ({inside})" if inside else "")


class PlainTransport(httpx.AsyncBaseTransport):
    """For everything that is not load: through the proxy of `access`, or directly to this machine."""

    def __init__(self, access: Access, insecure: bool = False, *, tls: ssl.SSLContext | None = None) -> None:
        """`tls`: a context that was made of the same, to be shared."""
        tls = tls or tls_context(access, insecure)
        self._access = access
        self._direct = httpx.AsyncHTTPTransport(verify=tls, trust_env=False)
        self._proxied = None if access.proxy is None else _through(access, access.proxy, tls)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send one request. Raises httpx's exceptions; httpx.ProxyError says what became of the way through the proxy."""
        if self._proxied is None or proxy_for(self._access, str(request.url)) is None:
            return await self._direct.handle_async_request(request)
        in_tunnel = False

        async def notice(event: str, _: object) -> None:
            nonlocal in_tunnel
            in_tunnel = in_tunnel or event == "proxy.start_tls.started"

        request.extensions = {**request.extensions, "trace": notice}
        try:
            return await self._proxied.handle_async_request(request)
        except httpx.ProxyError as problem:
            status, _, reason = str(problem).partition(" ")
            raise httpx.ProxyError(refusal_words(int(status), reason) if status.isdecimal() else str(problem)) from problem
        except httpx.ConnectError as problem:
            if in_tunnel:  # the server's TLS
                raise
            raise httpx.ProxyError(f"no connection to {self._access.public_proxy}: {problem}") from problem

    async def aclose(self) -> None:
        """Close all connections."""
        await self._direct.aclose()
        if self._proxied is not None:
            await self._proxied.aclose()


MOST_POOLS = 1024


class ApartTransport(httpx.AsyncBaseTransport):
    """The same for many servers: each has connections of its own. One pool for all looks at every connection for every request
    (httpcore 1.0, `_assign_requests_to_connections`), which at 64 servers costs more than all the rest of a call."""

    def __init__(self, access: Access, insecure: bool = False) -> None:
        self._access = access
        self._tls = tls_context(access, insecure)
        self._pools: dict[Origin, PlainTransport] = {}

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send one request, as `PlainTransport` does."""
        origin = origin_of(request.url)
        if origin not in self._pools:
            if len(self._pools) >= MOST_POOLS:  # replicas come and go; those that were asked first are gone the longest
                await self._pools.pop(next(iter(self._pools))).aclose()
            self._pools[origin] = PlainTransport(self._access, tls=self._tls)
        return await self._pools[origin].handle_async_request(request)

    async def aclose(self) -> None:
        """Close all connections."""
        for pool in self._pools.values():
            await pool.aclose()


def _through(access: Access, proxy: str, tls: ssl.SSLContext) -> httpx.AsyncHTTPTransport:
    own_tls = proxy_tls_context(access) if proxy.lower().startswith("https:") else None
    return httpx.AsyncHTTPTransport(verify=tls, trust_env=False, proxy=httpx.Proxy(proxy, ssl_context=own_tls))


def is_loopback(host: str) -> bool:
    """Whether a host is this machine by its name or number alone; nothing is looked up."""
    if host.lower().rstrip(".") == "localhost" or host.lower().endswith(".localhost"):
        return True
    address = _number(host)
    return address is not None and address.is_loopback


async def is_near(host: str) -> bool | None:
    """Whether every address of a host is of this machine or of a private network; None when it has none that is known."""
    if is_loopback(host):
        return True
    numbers = [_number(host)]
    if numbers == [None]:
        try:
            found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError):
            return None
        numbers = [_number(str(entry[4][0])) for entry in found]
    return all(number is not None and _private(number) for number in numbers)


def _number(host: str) -> _Address | None:
    try:
        address = ipaddress.ip_address(host.strip("[]").partition("%")[0])
    except ValueError:
        return None
    mapped = getattr(address, "ipv4_mapped", None)
    return mapped or address


def _private(address: _Address) -> bool:
    return address.is_loopback or address.is_private or address.is_link_local or (address.version == 4 and address in _SHARED)


PROMPT_S = 2.0
"""A route beside the API that takes longer tells nothing of the server."""


def http_client(access: Access, insecure: bool = False) -> httpx.AsyncClient:
    """For checks and metrics. Proxy variables are not obeyed: they are meant for the web, not for the server under test.
    Raises UserError for certificates that cannot be used."""
    return httpx.AsyncClient(transport=PlainTransport(access, insecure), trust_env=False)


def client_of_many(access: Access, insecure: bool = False) -> httpx.AsyncClient:
    """The same for a client of many servers. Raises as `http_client` does."""
    return httpx.AsyncClient(transport=ApartTransport(access, insecure), trust_env=False)


async def status_of(http: httpx.AsyncClient, url: str, access: Access) -> int | None:
    """The status that GET is answered with within 2 s; None without an answer. A body, which may never end, is not waited for."""
    try:
        headers = {"Accept-Encoding": "identity", **access.request_headers}
        async with (
            asyncio.timeout(PROMPT_S),
            http.stream("GET", url, headers=headers, timeout=None) as reply,
        ):
            return reply.status_code
    except (TimeoutError, httpx.HTTPError):
        return None
