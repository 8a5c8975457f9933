"""One careful HTTP call: redirects only within the origin, the API key only to its own origin, a limit on the body."""

import asyncio
import math
import socket
import ssl
from dataclasses import dataclass, field

import httpx
import msgspec

from core.access import Access, everything_under
from core.net import LOGIN_ADVICE

CONNECT_TIMEOUT_S = 2.0
READ_TIMEOUT_S = 8.0
DEADLINE_S = CONNECT_TIMEOUT_S + READ_TIMEOUT_S
"""For the whole call: a server that drips a byte now and then would get past a read timeout for ever."""

MAX_BODY_BYTES = 32 * 1024 * 1024
MAX_REDIRECTS = 3
MAX_SENTENCE = 300
"""Of a server's error text this many characters are shown."""

UNREADABLE = (msgspec.DecodeError, RecursionError)
"""What decoding a server's JSON can raise; RecursionError when it is nested too deep."""

_MOVED = (301, 302, 303, 307, 308)


class HttpError(Exception):
    """A call that brought no usable answer; the text is the second half of a sentence, such as "answers 404"."""


class Caller:
    """Calls one server's addresses with an httpx client that was set up elsewhere (proxy, certificates)."""

    def __init__(self, client: httpx.AsyncClient, credential: "Credential", deadline_s: float = DEADLINE_S) -> None:
        self._client = client
        self._credential = credential
        self._deadline_s = deadline_s

    async def get(self, url: str, accept: str = "*/*") -> "Reply":
        """GET with redirects followed inside the origin. Raises HttpError when no answer came; any status is an answer."""
        return await self._call("GET", url, accept, None)

    async def post(self, url: str, body: object) -> "Reply":
        """POST JSON. A redirect is returned as it is: it would not carry the body. Raises HttpError when no answer came."""
        return await self._call("POST", url, "application/json", msgspec.json.encode(body))

    async def _call(self, method: str, url: str, accept: str, content: bytes | None) -> "Reply":
        try:
            async with asyncio.timeout(self._deadline_s):
                reply = await self._once(method, url, accept, content)
                for _ in range(MAX_REDIRECTS):
                    if method != "GET" or reply.location is None:
                        return reply
                    target = _join(reply.url, reply.location)
                    if origin_of(target) != origin_of(url):
                        raise HttpError(f"redirects to another place ({public(target)}), which is not followed")
                    reply = await self._once(method, target, accept, content)
        except TimeoutError as error:
            raise HttpError(f"does not answer within {self._deadline_s:g} s") from error
        except (httpx.HTTPError, httpx.InvalidURL, UnicodeError) as error:
            raise HttpError(explain(error)) from error
        if method == "GET" and reply.location is not None:
            raise HttpError(f"redirects more than {MAX_REDIRECTS} times")
        return reply

    async def _once(self, method: str, url: str, accept: str, content: bytes | None) -> "Reply":
        headers = {"Accept": accept, "Accept-Encoding": "identity", **self._credential.headers(url)}
        if content is not None:
            headers["Content-Type"] = "application/json"
        timeout = httpx.Timeout(READ_TIMEOUT_S, connect=CONNECT_TIMEOUT_S)
        stream = self._client.stream(method, url, headers=headers, content=content, timeout=timeout, follow_redirects=False)
        async with stream as response:
            body = bytearray()
            async for chunk in response.aiter_bytes():
                body += chunk
                if len(body) > MAX_BODY_BYTES:
                    raise HttpError(f"answers with more than {MAX_BODY_BYTES >> 20} MiB, which is not read")
            access, status = self._credential.access, response.status_code
            scrub = access.scrub_answer if 200 <= status < 300 else access.scrub_body
            return Reply(
                url=url,
                status=status,
                content_type=response.headers.get("content-type", ""),
                location=response.headers.get("location") if status in _MOVED else None,
                body=scrub(bytes(body)),
            )


@dataclass(frozen=True, slots=True)
class Credential:
    """What opens a server and the one origin that may see it; never in a repr, scrubbed from every sentence."""

    url: str
    access: Access = field(default_factory=Access)

    def headers(self, url: str) -> dict[str, str]:
        """The key and the headers of a gateway for addresses of their own origin, nothing for others."""
        return self.access.request_headers if origin_of(url) == origin_of(self.url) else {}

    def scrub(self, text: str) -> str:
        """The text fit for a screen or a file: without secrets (servers echo them) and without control characters."""
        return "".join(char if char.isprintable() else " " for char in self.access.scrub(text))


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer, read whole. `location` is set for redirects only."""

    url: str
    status: int
    content_type: str
    location: str | None
    body: bytes

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300

    @property
    def text(self) -> str:
        return self.body.decode("utf-8", errors="replace")

    def refusal(self) -> str:
        """How a bad status reads in a sentence: "answers 401 (unauthorised: ...)", with the server's own words."""
        words = _server_words(self.body)
        kind = {401: "unauthorised", 403: "forbidden", 404: "not found", 407: f"a proxy's: {LOGIN_ADVICE}"}.get(self.status)
        inside = ": ".join(part for part in (kind, words) if part)
        return f"answers {self.status}" + (f" ({inside})" if inside else "")


def origin_of(url: str) -> tuple[str, str, int | None]:
    """Scheme, host and port of an address, with the scheme's own port filled in. Raises httpx.InvalidURL."""
    parsed = httpx.URL(url)
    return parsed.scheme, parsed.host, parsed.port or {"http": 80, "https": 443}.get(parsed.scheme)


def public(url: str) -> str:
    """The address without user, password, query and fragment: fit to be shown and kept."""
    try:
        parsed = httpx.URL(url)
        return str(parsed.copy_with(username=None, password=None, query=None, fragment=None))
    except httpx.InvalidURL:
        return "an address that cannot be read"


def explain(error: Exception) -> str:
    """Why a call failed, for a sentence that began with the address. Looks through the layers to the system's own error."""
    if isinstance(error, httpx.ConnectTimeout):
        return f"cannot be reached: no connection within {CONNECT_TIMEOUT_S:g} s"
    if isinstance(error, httpx.TimeoutException):
        return f"does not answer within {READ_TIMEOUT_S:g} s"
    if isinstance(error, httpx.ProxyError):
        return f"cannot be reached through the proxy: {error}"
    for cause in everything_under(error):
        match cause:
            case ssl.SSLCertVerificationError():
                return (
                    f"has a certificate that is not trusted: {cause.verify_message} (--ca-file names the authority that signed "
                    "it, --insecure goes on without a check)"
                )
            case ssl.SSLError() if "_CERTIFICATE" in (cause.reason or ""):  # its alert: required, unknown, expired
                return f"does not let this client in by its certificate ({cause.reason}); give one with --client-cert"
            case ssl.SSLWantReadError():
                return "breaks the connection after the TLS handshake, as one that wants a client certificate does (--client-cert)"
            case ssl.SSLError():
                return f"does not complete the TLS handshake ({cause.reason or 'no reason given'}); is it plain HTTP?"
            case socket.gaierror():
                return "cannot be reached: its name is not known (DNS)"
            case ConnectionRefusedError():
                return "cannot be reached: nothing listens there (connection refused)"
            case ConnectionResetError() | BrokenPipeError():
                return "broke the connection before its answer was whole (connection reset)"
            case _:
                pass
    if isinstance(error, httpx.RemoteProtocolError):
        return "does not speak HTTP, or closed the connection before its answer"
    return f"cannot be reached: {str(error) or type(error).__name__}"


def _join(url: str, location: str) -> str:
    return str(httpx.URL(url).join(location))


def _server_words(body: bytes) -> str:
    """The sentence of a JSON error body in any of vLLM's forms (object, string, flat, `detail`); empty for other bodies."""
    try:
        parsed = msgspec.json.decode(body)
    except UNREADABLE:
        return ""
    found = parsed.get("error", parsed) if isinstance(parsed, dict) else None
    if isinstance(found, dict):
        found = found.get("message", found.get("detail"))
    return found.strip()[:MAX_SENTENCE] if isinstance(found, str) else ""


def seconds(value: float) -> str:
    """A duration for a sentence: 12 ms, 800 ms, 1.25 s."""
    if not math.isfinite(value):
        return "an unknown time"
    return f"{value * 1e3:.3g} ms" if value < 1 else f"{value:.3g} s"
