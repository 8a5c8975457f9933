"""One streamed request over httpx, from its due time to its record."""

import asyncio
import contextlib
import errno
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable
from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Any, Protocol, runtime_checkable

import httpx

from core.access import Access, public_address
from core.config import Target
from core.load.completion import AnswerReader
from core.load.prompts import PATHS
from core.load.sse import EventTooLong, SseEvent, SseParser
from core.load.transport import Digest, OnSent, Ready, Reply
from core.net import LOGIN_ADVICE, error_text
from core.records import Ending, RequestEnded, RequestFirst, RequestSent

CONNECT_TIMEOUT_S = 10.0
"""The only limit on an answer: a request that was accepted may take as long as the server likes; who judges it also ends it."""

ERROR_BODY_TIMEOUT_S = 5.0
"""An HTTP error has failed by its status; its words are waited for this long, since a proxy may leave the body open for ever."""

CLOSING_TIMEOUT_S = 5.0
"""A proxy may leave a body open behind the answer's `[DONE]`: the answer is whole by then, and its end is waited for this long."""

MAX_ERROR_CHARS = 300
MAX_BACKEND_CHARS = 100
"""An address or a name of a pod is shorter; it stands in the record of each request."""
_BACKENDS = (
    b"x-litellm-model-id",
    b"x-litellm-model-api-base",
    b"x-gateway-destination-endpoint-served",
    b"x-upstream-host",
    b"x-upstream-addr",
    b"x-upstream",
    b"x-backend-server",
    b"x-backend",
    b"x-served-by",
)
"""Headers by which gateways tell which of several servers answered (LiteLLM, inference gateways, what people name Envoy's, nginx's
and HAProxy's own), the most exact first."""
_MAX_ERROR_BODY = 64 * 1024
_FIELDS = (
    *("cache_salt", "stream_options", "continuous_usage_stats", "include_usage", "max_completion_tokens", "max_tokens"),
    *("temperature", "top_p", "ignore_eos", "messages", "prompt", "tools", "tool_choice"),
)
"""Of a request, as a refusal names them."""
_CLIENT_ERRNOS = (errno.EMFILE, errno.ENFILE, errno.EADDRNOTAVAIL)

Emit = Callable[[RequestSent | RequestFirst | RequestEnded], None]
_Outcome = tuple[Ending, str | None]


class Shown(Protocol):
    """Makes of a server's words what may be kept of them."""

    def __call__(self, words: str | None, most_chars: int = ...) -> str | None: ...


Prepared = httpx.Request | Ready
"""A request that waits for its time: written out where the transport takes that, else as httpx has it."""


@dataclass(frozen=True, slots=True)
class Anew:
    """A request that was turned away may be sent again now, after another wait at the gateway; or that has turned it away too, and
    `refused` is its ending."""

    gateway_wait_s: float = 0.0
    refused: Ending | None = None


Again = Callable[[int, float], Awaitable[Anew | None]]
"""Waits until a request may be sent again that was sent again so often, and is asked to wait so many seconds; None: not at all."""


@dataclass(frozen=True, slots=True)
class Job:
    """One request to send now: its place in the order, when it was due, what it asks for, and how long it waited at the gateway.
    `again`: asked when the server turns it away for some time; None: that is its end. `hear`: told what the answer says, just
    before its end, where it ended well; None: nobody needs its text."""

    order: int
    index: int
    t_sched: float
    asked_input: int
    asked_output: int
    gateway_wait_s: float = 0.0
    again: Again | None = None
    hear: Callable[[str], None] | None = None


@runtime_checkable
class MadeForLoad(Protocol):
    """A transport that takes requests written out, can have connections ready, and leaves nothing behind that only a collection
    of garbage would find."""

    def ready(self, request: httpx.Request) -> Ready: ...
    def open_ahead(self, url: str) -> None: ...
    async def ask(self, request: Ready, on_sent: OnSent | None = None) -> Reply: ...


class LoadClient:
    """Sends requests to one target. What opens it goes to that origin only: redirects are not followed, proxies not looked for.

    httpx builds what all requests have in common; they are handed to the transport without httpx's client between, which costs
    80 us a request after its due time for redirects, cookies and hooks that a load has none of. Make it inside the running loop.
    """

    def __init__(self, target: Target, access: Access | None, transport: httpx.AsyncBaseTransport) -> None:
        headers = {"Accept": "text/event-stream", "Accept-Encoding": "identity", "Content-Type": "application/json"}
        self._access = access or Access()
        headers |= self._access.request_headers
        self._url = target.url.rstrip("/") + target.prefix + PATHS[target.api]
        self._transport = transport
        self._for_load = transport if isinstance(transport, MadeForLoad) else None
        self._digest = Digest()
        self.keeps_length = False
        """Whether the server is known to give as many tokens as it is asked for."""
        self.keeps_prompts_secret = False
        """Whether what the server says of a refusal is kept as far as it names fields of ours alone: it may repeat the prompt."""
        self._head: Ready | None = None
        """What all requests have in common, as httpx builds it."""
        self._http = httpx.AsyncClient(
            transport=transport,
            headers=headers,
            timeout=httpx.Timeout(None, connect=CONNECT_TIMEOUT_S),
            follow_redirects=False,
            trust_env=False,
        )

    def prepare(self, body: bytes) -> Prepared:
        """The request of a body, so that nothing is left to do when it is due."""
        if self._for_load is None:
            return self._http.build_request("POST", self._url, content=body)
        if self._head is None:
            self._head = self._for_load.ready(self._http.build_request("POST", self._url, content=b""))
        return self._head.with_body(body)

    @property
    def leaves_no_garbage(self) -> bool:
        """Whether collection can be off while it sends, for as long as that takes."""
        return self._for_load is not None

    def open_ahead(self) -> None:
        """Open connections before the first request needs one, if the transport does that."""
        if self._for_load is not None:
            self._for_load.open_ahead(self._url)

    async def send(self, job: Job, request: Prepared, emit: Emit) -> None:
        """Send, read the answer, and emit RequestSent, RequestFirst and always RequestEnded, also when cancelled."""
        exchange = _Exchange(job, emit, self._shown, keeps_length=self.keeps_length)
        outcome = self._outcome(request, exchange)
        kept = None if job.again is None else request
        del request  # here and below: what is sent need not be kept for as long as the answer takes, 3 KB each
        try:
            ending, error = await outcome
            while kept is not None and job.again is not None and exchange.retry_after_s is not None:
                anew = await job.again(exchange.retries, exchange.retry_after_s)
                if anew is None:
                    break
                exchange.gateway_wait_s += anew.gateway_wait_s
                if anew.refused is not None:
                    ending, error = anew.refused, None
                    break
                exchange.anew()
                ending, error = await self._outcome(kept, exchange)
        except asyncio.CancelledError:
            exchange.end("aborted", None)
            raise
        if self.keeps_prompts_secret and ending in ("http", "stream"):
            error = _wordless(exchange.status, error or "")
        if ending == "ok" and job.hear is not None:
            job.hear(exchange.reader.text)
        exchange.end(ending, error)

    async def aclose(self) -> None:
        """Close all connections."""
        await self._http.aclose()

    async def _outcome(self, request: Prepared, exchange: "_Exchange") -> _Outcome:
        answer: Reply | httpx.Response
        asking = self._asking(request, exchange.sent)
        del request
        try:
            answer = await asking
        except httpx.HTTPError as problem:
            return _failure(problem, "connection")
        try:
            if not isinstance(answer, Reply):
                return await _read_response(answer, exchange)
            if not answer.is_plain_success:
                return await _read_response(answer.as_response(), exchange)
            return await self._read(answer, exchange)
        except EventTooLong as problem:
            return "stream", str(problem)
        except httpx.HTTPError as problem:
            ending, error = _failure(problem, "truncated")
            return (ending, error) if ending != "truncated" else exchange.reader.end(orderly=False)
        finally:
            await answer.aclose()

    def _asking(self, request: Prepared, on_sent: OnSent) -> Coroutine[Any, Any, Reply | httpx.Response]:
        if isinstance(request, Ready):
            assert self._for_load is not None
            return self._for_load.ask(request, on_sent)
        request.extensions = {**request.extensions, "on_sent": on_sent}
        return self._transport.handle_async_request(request)

    async def _read(self, reply: Reply, exchange: "_Exchange") -> _Outcome:
        """The body to its end, or to the first error in it, at the times of its reads."""
        exchange.status, exchange.backend = reply.status, _backend(reply.headers)
        loop = asyncio.get_running_loop()
        exchange.when_done = lambda: loop.call_later(CLOSING_TIMEOUT_S, reply.stop)
        try:
            await self._digest.read(reply, exchange)
        finally:
            exchange.t_end = reply.t_end
            exchange.stop_closing()
        return _ended(reply.as_response, exchange, orderly=True)

    def _shown(self, words: str | None, most_chars: int = MAX_ERROR_CHARS) -> str | None:
        """A server's words as they may be kept: one line, no longer than `most_chars`, without a secret."""
        if words is None:
            return None
        text = self._access.scrub(" ".join(words.split()))
        return text if len(text) <= most_chars else text[: most_chars - 1] + "…"


class _Exchange:
    """One request on its way: what is known of it so far, told as it becomes known."""

    def __init__(self, job: Job, emit: Emit, shown: Shown, *, keeps_length: bool) -> None:
        self.job = job
        self.reader = AnswerReader(job.asked_output, keeps_length=keeps_length, keeps_text=job.hear is not None)
        self.parser = SseParser()
        self.status: int | None = None
        self.backend: str | None = None
        self._emit = emit
        self._shown = shown
        self.t_end: float | None = None
        """When the body ended, if the transport tells; else it is when that was noticed."""
        self._t_start = time.monotonic()
        self._t_sent: float | None = None
        self._written = self._resent = False
        self.gateway_wait_s = job.gateway_wait_s
        self.retries = 0
        self.retry_after_s: float | None = None
        """How long a 429 asked to wait before the request is sent again."""
        self._told_first = False
        self.beginning = bytearray()
        """Of a body, as long as no event has come: what it is instead."""
        self.when_done: Callable[[], asyncio.TimerHandle] | None = None
        """Called once the server has said `[DONE]` and the body goes on: sets the timer that ends it."""
        self._closing: asyncio.TimerHandle | None = None

    def sent(self, t: float, connect_s: float = 0.0) -> None:
        """The request was written at `t`, after the server had kept it waiting for a connection for `connect_s`; a resend
        moves the time of the record, and is not told twice."""
        if self._t_sent is None:
            job = self.job
            self._emit(
                RequestSent(
                    order=job.order,
                    index=job.index,
                    t_sched=job.t_sched,
                    t_sent=t,
                    connect_s=connect_s,
                    gateway_wait_s=job.gateway_wait_s,
                )
            )
        self._resent |= self._written
        self._written = True
        self._t_sent = t

    def anew(self) -> None:
        """The server turned it away, and it is sent again: what was known of its answer is no more."""
        self.retries += 1
        self.retry_after_s = self.status = self.backend = self.t_end = None
        self._written = False

    def read(self, data: bytes, t: float) -> bool:
        """Bytes of the body that arrived at `t`; False when there is no sense in reading on."""
        reader = self.reader
        events = self.parser.plain(data)
        if events is None:
            reader.feed(self.parser.feed(data), t)
            if not self.parser.any_event and len(self.beginning) < _MAX_ERROR_BODY:
                self.beginning += data
        else:
            for event in events:
                if not reader.plain(event, t):
                    reader.feed([SseEvent(event)], t)
        if not self._told_first:
            self._tell_first()
        if reader.done and self.when_done is not None:
            self._closing, self.when_done = self.when_done(), None
        return reader.error is None

    def stop_closing(self) -> None:
        """The body has ended."""
        self.when_done = None
        if self._closing is not None:
            self._closing.cancel()

    def end(self, ending: Ending, error: str | None) -> None:
        """Nothing more comes: emit the record."""
        self._tell_first()
        job, reader = self.job, self.reader
        self._emit(
            RequestEnded(
                order=job.order,
                index=job.index,
                t_sched=job.t_sched,
                t_start=self._t_start,
                t_sent=self._t_sent,
                t_first=reader.t_first,
                t_last=reader.t_last,
                t_end=time.monotonic() if self.t_end is None or ending == "aborted" else self.t_end,
                first_tokens=reader.first_tokens,
                output_tokens=reader.output_tokens,
                prompt_tokens=reader.prompt_tokens,
                cached_tokens=reader.cached_tokens,
                asked_input=job.asked_input,
                asked_output=job.asked_output,
                ending=ending,
                finish_reason=self._shown(reader.finish_reason),
                status=self.status,
                error=self._shown(error),
                usage=reader.usage,
                counted_by=reader.counted_by,
                fingerprint=self._shown(reader.fingerprint),
                resent=self._resent,
                backend=self._shown(self.backend, MAX_BACKEND_CHARS),
                gaps=reader.gaps,
                gateway_wait_s=self.gateway_wait_s,
                retries=self.retries,
            )
        )

    def _tell_first(self) -> None:
        t_first = self.reader.t_first
        if t_first is not None and not self._told_first:
            self._told_first = True
            job = self.job
            self._emit(RequestFirst(order=job.order, index=job.index, t_first=t_first, first_tokens=self.reader.first_tokens))


async def _read_response(response: httpx.Response, exchange: _Exchange) -> _Outcome:
    """What no stream of ours brings: an error, or the answer by a transport that does not stamp."""
    exchange.status, exchange.backend = response.status_code, _backend(response.headers.raw)
    if response.status_code == httpx.codes.TOO_MANY_REQUESTS:
        exchange.retry_after_s = _retry_after_s(response.headers.get("Retry-After"))
    if not response.is_success:
        return "http", _http_error(response, await _body(response))
    if (coding := response.headers.get("Content-Encoding", "identity").lower()) != "identity":
        return "stream", f"The server compressed the answer ({coding}) though it was asked not to: that holds tokens back."
    body = response.aiter_raw()
    async for data in body:
        if not exchange.read(data, time.monotonic()):
            break
        if exchange.reader.done:
            return _ended(lambda: response, exchange, orderly=await _closed(body))
    return _ended(lambda: response, exchange, orderly=True)


def _ended(response: Callable[[], httpx.Response], exchange: _Exchange, *, orderly: bool) -> _Outcome:
    """What a body amounts to that was read to its end, or to its first error."""
    parser, reader = exchange.parser, exchange.reader
    if reader.error is not None:
        return reader.end(orderly=False)
    reader.feed_rest(parser.close(), exchange.t_end or time.monotonic())
    if not parser.any_event and (said := _no_stream(response(), bytes(exchange.beginning))) is not None:
        return "stream", said
    return reader.end(orderly=orderly)


async def _closed(body: AsyncIterator[bytes]) -> bool:
    """Whether the body ends in order after its `[DONE]`: a connection that is to be used again must be read to that end."""
    with contextlib.suppress(TimeoutError, httpx.HTTPError):
        async with asyncio.timeout(CLOSING_TIMEOUT_S):
            async for _ in body:
                pass
            return True
    return False


def _backend(headers: Iterable[tuple[bytes, bytes]]) -> str | None:
    """The one of several servers that answered, by a gateway's header; of an address no user, password or query."""
    named = {name.lower(): value for name, value in headers if value}
    value = next((named[name] for name in _BACKENDS if name in named), b"").decode("latin-1").strip()
    return public_address(value) if "://" in value else value or None


def _retry_after_s(value: str | None) -> float | None:
    """Seconds to wait by a Retry-After, which tells them or a date; None where there is none, or it is neither. Not finite for a
    number beyond all numbers."""
    if value is None:
        return None
    if value.strip().isascii() and value.strip().isdigit():
        return float(value)
    try:
        at = parsedate_to_datetime(value)
    except (ValueError, OverflowError):
        return None
    return max(0.0, (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() - time.time())


def _no_stream(response: httpx.Response, body: bytes) -> str | None:
    """What came in place of an event stream: a page of a gateway, nothing at all, a body in another form; None where it was one,
    of comments alone."""
    kind = response.headers.get("Content-Type", "").partition(";")[0].strip() or "no content type"
    words = body.decode("utf-8", "replace").strip()
    if not words:
        return f"The server answered HTTP {response.status_code} with an empty body ({kind}), not with a stream."
    if kind.lower() == "text/event-stream":
        return None
    return f"The server's answer ({kind}) is no event stream" + ("." if words.startswith("<") else f": {words}")


async def _body(response: httpx.Response) -> bytes:
    """The beginning of the body of an error; what breaks off, or does not end, is given as far as it came."""
    data = b""
    with contextlib.suppress(httpx.HTTPError, TimeoutError):
        async with asyncio.timeout(ERROR_BODY_TIMEOUT_S):
            async for piece in response.aiter_raw():
                data += piece
                if len(data) > _MAX_ERROR_BODY:
                    break
    return data


def _wordless(status: int | None, error: str) -> str:
    """An error of the server without its words, but for the fields of a request that they name."""
    named = [field for field in _FIELDS if re.search(rf"\b{field}\b", error)]
    which = f"; it names {', '.join(named)}" if named else ""
    return f"HTTP {status}, and words that are not kept because they may repeat the prompt{which}"


def _http_error(response: httpx.Response, body: bytes) -> str:
    """The status and the first sentence of the body; a page of HTML says no more than the status does."""
    status = f"HTTP {response.status_code} {response.reason_phrase}".strip()
    if response.status_code == httpx.codes.PROXY_AUTHENTICATION_REQUIRED:
        return f"{status}, which a proxy says; {LOGIN_ADVICE}."
    text = error_text(body) or body.decode("utf-8", "replace").strip()
    if not text or text.startswith("<"):
        return f"{status}, and redirects are not followed." if response.is_redirect else status
    sentence, dot, _ = text.partition("\n")[0].partition(". ")
    return f"{status}: {sentence}{dot.strip()}"


def _failure(problem: BaseException, otherwise: Ending) -> _Outcome:
    """The ending for a request that httpx gave up on; files and ports of this machine running out is the client's fault."""
    text = str(problem) or type(problem).__name__
    cause: BaseException | None = problem
    while cause is not None:
        if isinstance(cause, OSError) and cause.errno in _CLIENT_ERRNOS:
            return "client", text
        cause = cause.__cause__
    return ("timeout" if isinstance(problem, httpx.TimeoutException) else otherwise), text
