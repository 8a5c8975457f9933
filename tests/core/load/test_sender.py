"""One request against a raw server: what is asked, every way to end, and what is told of it."""

import asyncio
import time
from functools import partial
from typing import cast

import pytest

from core.config import Api
from core.load import sender as client_module
from core.load.sender import MAX_BACKEND_CHARS, MAX_ERROR_CHARS
from core.load.sse import SseParser
from core.records import RequestEnded, RequestFirst, RequestSent
from tests.core.load.calling import KEY, calling, end_of, raw
from tests.core.load.server import DONE, END, HEAD, WHOLE, Handler, Received, answer, chunk, serving, token, usage, whole

pytestmark = pytest.mark.usefixtures("transport")

# --- success ------------------------------------------------------------------------------------------------------


async def test_a_whole_answer() -> None:
    async with calling(whole) as (caller, server):
        ended = await caller.call()
        sent, first = caller.told[0], caller.told[1]
        assert isinstance(sent, RequestSent)
        assert isinstance(first, RequestFirst)
        assert len(caller.told) == 3
        assert (sent.order, sent.index, sent.t_sched, sent.t_sent) == (3, 0, 0.5, ended.t_sent)
        assert (first.t_first, first.first_tokens) == (ended.t_first, 1)
        times = [ended.t_sched, ended.t_sent, ended.t_first, ended.t_last, ended.t_end]
        assert None not in times
        assert times == sorted(cast(list[float], times))
        assert (ended.ending, ended.error, ended.status, ended.finish_reason) == ("ok", None, 200, "length")
        assert (ended.output_tokens, ended.prompt_tokens, ended.usage) == (2, 8, True)
        assert (ended.asked_input, ended.asked_output) == (8, 2)
        assert ended.fingerprint == "vllm-0.32.0-9666ce4b"
        assert (ended.gaps.n, ended.gaps.under_1ms) == (1, 1)
        assert server.received[0].body == b'{"prompt":[1,2]}'


@pytest.mark.parametrize(("api", "path"), [("completions", "/v1/completions"), ("chat", "/v1/chat/completions")])
async def test_what_is_asked(api: Api, path: str) -> None:
    async with calling(whole, api=api, api_key=KEY) as (caller, server):
        await caller.call()
        request = server.received[0]
        assert request.path == path
        assert request.headers["authorization"] == f"Bearer {KEY}"
        assert request.headers["accept-encoding"] == "identity"
        assert request.headers["content-type"] == "application/json"
        assert request.headers["host"] == server.url.removeprefix("http://")


async def test_without_a_key_no_authorization_is_sent() -> None:
    async with calling(whole) as (caller, server):
        await caller.call()
        assert "authorization" not in server.received[0].headers


async def test_the_send_is_told_before_the_server_says_anything() -> None:
    told = asyncio.Event()

    async def silent(request: Received) -> None:
        await told.wait()
        await whole(request)

    async with calling(silent) as (caller, _):
        task = caller.start()
        await caller.until(RequestSent)
        assert len(caller.told) == 1
        told.set()
        await task
        assert caller.last.ending == "ok"


async def test_the_first_token_is_told_while_the_answer_runs() -> None:
    go_on = asyncio.Event()

    async def slow(request: Received) -> None:
        await request.write(HEAD + chunk(token(count=1)))
        await go_on.wait()
        await request.write(chunk(token(count=2, finish="stop") + usage(2)) + END)

    async with calling(slow) as (caller, _):
        task = caller.start()
        await caller.until(RequestFirst)
        go_on.set()
        await task
        assert [type(m) for m in caller.told] == [RequestSent, RequestFirst, RequestEnded]
        assert caller.last.gaps.n == 1


async def test_a_character_split_over_reads_stays_whole() -> None:
    stream = token("中🦙", count=1, finish="stop")
    ended = await end_of(raw(HEAD, *(chunk(stream[i : i + 1]) for i in range(len(stream))), END))
    assert (ended.ending, ended.output_tokens) == ("ok", 1)


async def test_comments_before_the_first_token_start_nothing() -> None:
    go_on = asyncio.Event()

    async def waiting(request: Received) -> None:
        await request.write(HEAD + chunk(b":\n\n") + chunk(b": ping\n\n"))
        await go_on.wait()
        await request.write(chunk(WHOLE) + END)

    async with calling(waiting) as (caller, _):
        task = caller.start()
        await caller.until(RequestSent)
        assert len(caller.told) == 1
        go_on.set()
        await task
        assert (caller.last.ending, caller.last.output_tokens) == ("ok", 2)


@pytest.mark.parametrize(
    "handler",
    [
        raw(HEAD, chunk(token(count=1, finish="stop")), END),
        raw(HEAD, chunk(token(count=1, finish="stop") + usage(1) + DONE), END),
        raw(b"HTTP/1.0 200 OK\r\nContent-Type: text/event-stream\r\n\r\n", token(count=1, finish="stop"), close=True),
    ],
    ids=["no done", "done", "body until the connection closes"],
)
async def test_a_finish_and_an_orderly_end_are_a_success(handler: Handler) -> None:
    assert (await end_of(handler)).ending == "ok"


# --- cut, broken, wrong -------------------------------------------------------------------------------------------

FIVE = b"".join(token(count=i + 1) for i in range(5))


@pytest.mark.parametrize(
    "handler",
    [
        raw(HEAD, chunk(FIVE), END),
        raw(HEAD, chunk(FIVE), close=True),
        raw(HEAD, chunk(FIVE + token(count=6, finish="stop")), close=True),
        raw(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 99999\r\n\r\n" + FIVE, close=True),
        raw(b"HTTP/1.0 200 OK\r\nContent-Type: text/event-stream\r\n\r\n" + FIVE + b'data: {"choi', close=True),
    ],
    ids=["no finish_reason", "no end of body", "finish_reason, no end of body", "shorter than its length", "closed in a line"],
)
async def test_a_cut_stream_is_no_success(handler: Handler) -> None:
    ended = await end_of(handler)
    assert (ended.ending, ended.status) == ("truncated", 200)
    assert ended.output_tokens >= 5
    assert ended.t_first is not None
    assert ended.error is not None


async def test_a_reset_in_the_middle_of_a_line_is_a_cut() -> None:
    read = asyncio.Event()

    async def handler(request: Received) -> None:
        await request.write(HEAD + chunk(FIVE + b'data: {"choi'))
        await read.wait()
        request.reset()

    async with calling(handler) as (caller, _):
        task = caller.start()
        await caller.until(RequestFirst)
        read.set()
        await task
        assert caller.last.ending == "truncated"
        assert caller.last.error == "The connection broke after 5 tokens."


async def test_an_error_in_the_stream_ends_it_at_once_even_if_the_server_goes_on() -> None:
    async def handler(request: Received) -> None:
        await request.write(HEAD + chunk(token(count=1) + b'data: {"error":{"message":"boom","code":500}}\n\n'))
        await request.gone.wait()

    ended = await end_of(handler)
    assert (ended.ending, ended.error, ended.output_tokens) == ("stream", "boom", 1)


async def test_a_json_body_is_no_stream() -> None:
    body = b'{"choices":[{"text":"all at once","finish_reason":"stop"}]}'
    ended = await end_of(raw(answer(200, body, "Content-Type: application/json")))
    assert (ended.ending, ended.error) == ("stream", f"The server answered with JSON outside the event stream: {body.decode()}")
    failed = await end_of(raw(answer(200, b'{"error": {"message": "boom"}}', "Content-Type: application/json")))
    assert (failed.ending, failed.error) == ("stream", "boom")


async def test_an_endless_event_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "SseParser", partial(SseParser, limit=1000))
    ended = await end_of(raw(HEAD, chunk(b"data: " + b"x" * 2000), END))
    assert ended.ending == "stream"
    assert ended.error is not None
    assert "more than 1000 bytes" in ended.error


@pytest.mark.parametrize(
    ("status", "body", "error"),
    [
        (
            400,
            b'{"error":{"message":"This model\'s maximum context length is 2048 tokens. However, you asked for more.","code":400}}',
            "HTTP 400 Reason: This model's maximum context length is 2048 tokens.",
        ),
        (400, b'{"object":"error","message":"bad temperature 1.5 here","code":400}', "HTTP 400 Reason: bad temperature 1.5 here"),
        (401, b'{"error":"Unauthorized"}', "HTTP 401 Reason: Unauthorized"),
        (404, b'{"detail":"Not Found"}', "HTTP 404 Reason: Not Found"),
        (503, b"upstream busy\nsecond line", "HTTP 503 Reason: upstream busy"),
        (502, b"<html><title>502</title></html>", "HTTP 502 Reason"),
        (429, b"", "HTTP 429 Reason"),
    ],
)
async def test_an_http_error_says_its_first_sentence(status: int, body: bytes, error: str) -> None:
    ended = await end_of(raw(answer(status, body)))
    assert (ended.ending, ended.status, ended.error) == ("http", status, error)
    assert (ended.t_first, ended.output_tokens, ended.usage) == (None, 0, True)


async def test_redirects_are_not_followed_and_the_key_goes_nowhere_else() -> None:
    async with serving(whole) as other:
        ended = await end_of(raw(answer(307, b"", f"Location: {other.url}/v1/completions")), api_key=KEY)
        assert (ended.ending, ended.status) == ("http", 307)
        assert ended.error == "HTTP 307 Reason, and redirects are not followed."
        assert other.connections == 0


async def test_errors_are_one_short_line_without_the_key() -> None:
    body = b'{"error":"wrong key ' + KEY.encode() + b"\\t in your request" + b" x" * 400 + b'"}'
    ended = await end_of(raw(answer(401, body)), api_key=KEY)
    assert ended.error is not None
    assert len(ended.error) == MAX_ERROR_CHARS
    assert ended.error.startswith("HTTP 401 Reason: wrong key *** in your request x")
    stream = b'data: {"error":{"message":"no ' + KEY.encode() + b' here"}}\n\n'
    assert (await end_of(raw(HEAD, chunk(stream), END), api_key=KEY)).error == "no *** here"


@pytest.mark.parametrize(
    ("headers", "backend"),
    [
        (("X-Served-By: pod-7",), "pod-7"),
        (("x-request-id: 5", "X-Upstream-Addr:  10.0.0.7:8000 ", "x-served-by: edge"), "10.0.0.7:8000"),
        (("x-litellm-model-api-base: http://me:secret@10.0.0.7:8000/v1?api-key=s",), "http://10.0.0.7:8000/v1"),
        ((f"x-backend: {KEY} {'z' * 1000}",), "*** " + "z" * (MAX_BACKEND_CHARS - 5) + "…"),
        (("x-served-by:",), None),
        (("x-request-id: 5", "server: nginx"), None),
    ],
    ids=["named", "the most exact", "an address without what opens it", "short and without the key", "empty", "none"],
)
async def test_the_backend_that_a_gateway_names_is_in_the_record_of_an_answer_and_of_an_error(
    headers: tuple[str, ...], backend: str | None
) -> None:
    stream = HEAD.removesuffix(b"\r\n") + "".join(f"{header}\r\n" for header in headers).encode() + b"\r\n"
    good = await end_of(raw(stream, chunk(WHOLE), END), api_key=KEY)
    bad = await end_of(raw(answer(500, b"{}", *headers)), api_key=KEY)
    assert [(ended.ending, ended.backend) for ended in (good, bad)] == [("ok", backend), ("http", backend)]


async def test_a_key_at_the_edge_of_an_excerpt_does_not_stay_as_half_a_key() -> None:
    for before in range(195 - len(KEY), 200):
        stream = b"data: " + b"y" * before + KEY.encode() + b" z" * 400 + b"\n\n"
        error = (await end_of(raw(HEAD, chunk(stream), END), api_key=KEY)).error
        assert error is not None
        assert KEY[:4] not in error


async def test_what_else_is_kept_of_a_servers_words_is_short_and_without_the_key() -> None:
    words = f'"system_fingerprint":"{KEY}{"f" * 1000}","choices":[{{"text":"a","finish_reason":"{KEY}{"r" * 1000}"}}]'
    ended = await end_of(raw(HEAD, chunk(b"data: {" + words.encode() + b"}\n\n"), END), api_key=KEY)
    assert ended.ending == "ok"
    for kept in (ended.fingerprint, ended.finish_reason):
        assert kept is not None
        assert kept.startswith("***")
        assert len(kept) == MAX_ERROR_CHARS


async def test_the_end_is_when_the_body_ended_not_when_its_last_token_came() -> None:
    go_on = asyncio.Event()

    async def slow_to_close(request: Received) -> None:
        await request.write(HEAD + chunk(token(count=1, finish="stop") + usage(1)))
        await go_on.wait()
        await request.write(END)

    async with calling(slow_to_close) as (caller, _):
        task = caller.start()
        await caller.until(RequestFirst)
        before = time.monotonic()
        go_on.set()
        await task
        assert caller.last.t_last is not None
        assert caller.last.t_last < before <= caller.last.t_end


async def test_when_it_was_due_began_and_was_written_are_three_times() -> None:
    async with calling(whole) as (caller, _):
        ended = await caller.call()
        assert ended.t_start is not None
        assert ended.t_sent is not None
        assert ended.t_sched < ended.t_start <= ended.t_sent
