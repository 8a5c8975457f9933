"""One careful HTTP call: redirects only within the origin, the API key only to its own origin, a limit on the body."""

import asyncio
import socket
import ssl
from dataclasses import dataclass, field
from typing import Literal

import httpx
import msgspec

from core.access import Access, everything_under
from core.facts import Fact, fact
from core.net import error_text, origin_of, status_words
from core.units import duration

CONNECT_TIMEOUT_S = 2.0
READ_TIMEOUT_S = 8.0
DEADLINE_S = CONNECT_TIMEOUT_S + READ_TIMEOUT_S
"""For the whole call: a server that drips a byte now and then would get past a read timeout for ever."""

MAX_BODY_BYTES = 32 * 1024 * 1024
MAX_REDIRECTS = 3
MAX_SENTENCE = 300
"""Of a server's error text this many characters are shown."""

_MOVED = (301, 302, 303, 307, 308)


Why = Literal[
    "elsewhere",
    "redirects",
    "timeout",
    "too_large",
    "proxy",
    "certificate",
    "client_certificate",
    "tls",
    "name",
    "refused",
    "reset",
    "not_http",
    "other",
]


class HttpError(Exception):
    """A call that brought no usable answer: the text is the second half of a sentence, such as "answers 404", `found` a fact."""

    def __init__(self, words: str, found: Why | Fact) -> None:
        super().__init__(words)
        self.found = found if isinstance(found, Fact) else fact("call_failed", why=found, said=words)


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
                        raise HttpError(f"redirects to another place ({public(target)}), which is not followed", "elsewhere")
                    reply = await self._once(method, target, accept, content)
        except TimeoutError as error:
            raise HttpError(f"does not answer within {duration(self._deadline_s)}", "timeout") from error
        except (httpx.HTTPError, httpx.InvalidURL, UnicodeError) as error:
            raise explained(error) from error
        if method == "GET" and reply.location is not None:
            raise HttpError(f"redirects more than {MAX_REDIRECTS} times", "redirects")
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
                    raise HttpError(f"answers with more than {MAX_BODY_BYTES >> 20} MiB, which is not read", "too_large")
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

    @property
    def refused(self) -> Fact:
        """A bad status, with the server's own words."""
        return fact("call_refused", status=self.status, said=self._words)

    def refusal(self) -> str:
        """How a bad status reads in a sentence: "answers 401 (unauthorised: ...)"."""
        return status_words(self.status, self._words)

    @property
    def _words(self) -> str | None:
        return (error_text(self.body, refusal=True) or "").strip()[:MAX_SENTENCE] or None


def public(url: str) -> str:
    """The address without user, password, query and fragment: fit to be shown and kept."""
    try:
        parsed = httpx.URL(url)
        return str(parsed.copy_with(username=None, password=None, query=None, fragment=None))
    except httpx.InvalidURL:
        return "an address that cannot be read"


def explained(error: Exception) -> HttpError:
    """Why a call failed, for a sentence that began with the address. Looks through the layers to the system's own error."""
    if isinstance(error, httpx.ConnectTimeout):
        return HttpError(f"cannot be reached: no connection within {duration(CONNECT_TIMEOUT_S)}", "timeout")
    if isinstance(error, httpx.TimeoutException):
        return HttpError(f"does not answer within {duration(READ_TIMEOUT_S)}", "timeout")
    if isinstance(error, httpx.ProxyError):
        return HttpError(f"cannot be reached through the proxy: {error}", "proxy")
    for cause in everything_under(error):
        match cause:
            case ssl.SSLCertVerificationError():
                advice = "--ca-file names the authority that signed it, --insecure goes on without a check"
                return HttpError(f"has a certificate that is not trusted: {cause.verify_message} ({advice})", "certificate")
            case ssl.SSLError() if "_CERTIFICATE" in (cause.reason or ""):  # its alert: required, unknown, expired
                advice = "give one with --client-cert"
                return HttpError(f"does not let this client in by its certificate ({cause.reason}); {advice}", "client_certificate")
            case ssl.SSLWantReadError():
                words = "breaks the connection after the TLS handshake, as one that wants a client certificate does (--client-cert)"
                return HttpError(words, "client_certificate")
            case ssl.SSLError():
                reason = cause.reason or "no reason given"
                return HttpError(f"does not complete the TLS handshake ({reason}); is it plain HTTP?", "tls")
            case socket.gaierror():
                return HttpError("cannot be reached: its name is not known (DNS)", "name")
            case ConnectionRefusedError():
                return HttpError("cannot be reached: nothing listens there (connection refused)", "refused")
            case ConnectionResetError() | BrokenPipeError():
                return HttpError("broke the connection before its answer was whole (connection reset)", "reset")
            case _:
                pass
    if isinstance(error, httpx.RemoteProtocolError):
        return HttpError("does not speak HTTP, or closed the connection before its answer", "not_http")
    return HttpError(f"cannot be reached: {str(error) or type(error).__name__}", "other")


def _join(url: str, location: str) -> str:
    return str(httpx.URL(url).join(location))
