"""One streamed request over httpx, from its due time to its record."""

import asyncio
import errno
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, runtime_checkable

import httpx

from core.config import Target
from core.load.answer import AnswerReader, error_text
from core.load.digest import Digest
from core.load.sse import EventTooLong, SseEvent, SseParser
from core.load.workload import PATHS
from core.records import Ending, RequestEnded, RequestFirst, RequestSent

CONNECT_TIMEOUT_S = 10.0
"""The only timeout: a request that was accepted may take as long as the server likes; who judges it also ends it."""

MAX_ERROR_CHARS = 300
_MAX_ERROR_BODY = 64 * 1024
_CLIENT_ERRNOS = (errno.EMFILE, errno.ENFILE, errno.EADDRNOTAVAIL)
_HIDDEN = "***"

Emit = Callable[[RequestSent | RequestFirst | RequestEnded], None]
_Outcome = tuple[Ending, str | None]


@dataclass(frozen=True, slots=True)
class Job:
    """One request to send now: its place in the order, when it was due, what it asks for, and the request, built beforehand."""

    order: int
    index: int
    t_sched: float
    asked_input: int
    asked_output: int
    request: httpx.Request


@runtime_checkable
class MadeForLoad(Protocol):
    """A transport that can have connections ready, and leaves nothing behind that only a collection of garbage would find."""

    def open_ahead(self, url: str) -> None: ...


class LoadClient:
    """Sends requests to one target. The key goes to that origin only: redirects are not followed, proxies not looked for.

    httpx builds the requests; they are handed to the transport without httpx's client between, which costs 80 us a request
    after its due time for redirects, cookies and hooks that a load has none of. Make it inside the running loop.
    """

    def __init__(self, target: Target, api_key: str | None, transport: httpx.AsyncBaseTransport) -> None:
        headers = {"Accept": "text/event-stream", "Accept-Encoding": "identity", "Content-Type": "application/json"}
        if api_key:
            headers["Authorization"] = f"Bearer {api_key}"
        self._api_key = api_key
        self._url = target.url.rstrip("/") + PATHS[target.api]
        self._transport = transport
        self._digest = Digest()
        self._http = httpx.AsyncClient(
            transport=transport,
            headers=headers,
            timeout=httpx.Timeout(None, connect=CONNECT_TIMEOUT_S),
            follow_redirects=False,
            trust_env=False,
        )

    @cached_property
    def _head(self) -> httpx.Request:
        """What all requests have in common, as httpx's client builds it."""
        request = self._http.build_request("POST", self._url)
        del request.headers["Content-Length"]
        return request

    def prepare(self, body: bytes) -> httpx.Request:
        """The request of a body, so that nothing is left to do when it is due; a quarter of the time of httpx's own builder."""
        head = self._head
        headers = [*head.headers.raw, (b"Content-Length", b"%d" % len(body))]
        request = httpx.Request("POST", head.url, headers=headers, stream=httpx.ByteStream(body), extensions=head.extensions)
        request.read()
        return request

    @property
    def leaves_no_garbage(self) -> bool:
        """Whether collection can be off while it sends, for as long as that takes."""
        return isinstance(self._transport, MadeForLoad)

    def open_ahead(self) -> None:
        """Open connections before the first request needs one, if the transport does that."""
        if isinstance(self._transport, MadeForLoad):
            self._transport.open_ahead(self._url)

    async def send(self, job: Job, emit: Emit) -> None:
        """Send, read the answer, and emit RequestSent, RequestFirst and always RequestEnded, also when cancelled."""
        exchange = _Exchange(job, emit, self._shown)
        try:
            ending, error = await self._outcome(exchange)
        except asyncio.CancelledError:
            exchange.end("aborted", None)
            raise
        finally:
            job.request.extensions = {}  # it held the exchange, which holds the request: no cycle may stay, collection is off
        exchange.end(ending, error)

    async def aclose(self) -> None:
        """Close all connections."""
        await self._http.aclose()

    async def _outcome(self, exchange: "_Exchange") -> _Outcome:
        request = exchange.job.request
        request.extensions = {**request.extensions, "on_sent": exchange.sent}
        try:
            response = await self._transport.handle_async_request(request)
        except httpx.HTTPError as problem:
            return _failure(problem, "connection")
        exchange.status = response.status_code
        try:
            if not response.is_success:
                return "http", _http_error(response, await _body(response))
            if response.headers.get("Content-Type", "").startswith("application/json"):
                return "stream", error_text(await _body(response)) or "The server answered with one JSON body, not a stream."
            return await self._read(response, exchange)
        except EventTooLong as problem:
            return "stream", str(problem)
        except httpx.HTTPError as problem:
            ending, error = _failure(problem, "truncated")
            return (ending, error) if ending != "truncated" else exchange.reader.end(orderly=False)
        finally:
            await response.aclose()

    async def _read(self, response: httpx.Response, exchange: "_Exchange") -> _Outcome:
        """The body to its end, or to the first error in it. Times are those of the reads where the transport stamps them."""
        reply = response.extensions.get("stamped")
        if reply is not None:
            try:
                await self._digest.read(reply, exchange)
            finally:
                exchange.t_end = reply.t_end
        else:
            async for data in response.aiter_raw():
                if not exchange.read(data, time.monotonic()):
                    break
        if exchange.reader.error is not None:
            return exchange.reader.end(orderly=False)
        exchange.reader.feed_rest(exchange.parser.close(), exchange.t_end or time.monotonic())
        return exchange.reader.end(orderly=True)

    def _shown(self, words: str | None) -> str | None:
        """A server's words as they may be kept: one line, no longer than MAX_ERROR_CHARS, without the key."""
        if words is None:
            return None
        text = " ".join(words.split())
        if self._api_key:
            text = text.replace(self._api_key, _HIDDEN)
        return text if len(text) <= MAX_ERROR_CHARS else text[: MAX_ERROR_CHARS - 1] + "…"


class _Exchange:
    """One request on its way: what is known of it so far, told as it becomes known."""

    def __init__(self, job: Job, emit: Emit, shown: Callable[[str | None], str | None]) -> None:
        self.job = job
        self.reader = AnswerReader()
        self.parser = SseParser()
        self.status: int | None = None
        self._emit = emit
        self._shown = shown
        self.t_end: float | None = None
        """When the body ended, if the transport tells; else it is when that was noticed."""
        self._t_start = time.monotonic()
        self._t_sent: float | None = None
        self._told_first = False

    def sent(self, t: float) -> None:
        """The request was written at `t`; a resend moves the time of the record, and is not told twice."""
        if self._t_sent is None:
            self._emit(RequestSent(order=self.job.order, index=self.job.index, t_sched=self.job.t_sched, t_sent=t))
        self._t_sent = t

    def read(self, data: bytes, t: float) -> bool:
        """Bytes of the body that arrived at `t`; False when there is no sense in reading on."""
        reader = self.reader
        events = self.parser.plain(data)
        if events is None:
            reader.feed(self.parser.feed(data), t)
        else:
            for event in events:
                if not reader.plain(event, t):
                    reader.feed([SseEvent(event)], t)
        if not self._told_first:
            self._tell_first()
        return reader.error is None

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
                fingerprint=self._shown(reader.fingerprint),
                gaps=reader.gaps,
            )
        )

    def _tell_first(self) -> None:
        t_first = self.reader.t_first
        if t_first is not None and not self._told_first:
            self._told_first = True
            job = self.job
            self._emit(RequestFirst(order=job.order, index=job.index, t_first=t_first, first_tokens=self.reader.first_tokens))


async def _body(response: httpx.Response) -> bytes:
    """The beginning of a body that is no stream; what breaks off is given as far as it came."""
    data = b""
    try:
        async for piece in response.aiter_raw():
            data += piece
            if len(data) > _MAX_ERROR_BODY:
                break
    except httpx.HTTPError:
        return data
    return data


def _http_error(response: httpx.Response, body: bytes) -> str:
    """The status and the first sentence of the body; a page of HTML says no more than the status does."""
    status = f"HTTP {response.status_code} {response.reason_phrase}".strip()
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
