"""Each request ends in one of nine ways, with the first sentence of whoever knows why; none is sent again in secret."""

import asyncio
import errno
import socket
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from core.config import Slo, Target
from core.load.sender import CLOSING_TIMEOUT_S, ERROR_BODY_TIMEOUT_S, Job
from core.load.transport.batching import BATCH_S
from core.records import Ending, RequestEnded
from core.slo import good, tpot_s
from tests.core.load.calling import calling, client_of, end_of, raw
from tests.core.load.server import DONE, END, Handler, Received, chunk, usage
from tests.faults.answers import JSON, Answer, Pieces, finish, tokens, whole
from tests.faults.clock import virtually
from tests.faults.runs import LONGEST_S, ended, ended_in_a_row
from tests.faults.server import FaultServer

FIVE = tokens(50, first_s=0.1, gap_s=0.1, finish=None)[:5]
FIFTY = tokens(50, first_s=0.01, gap_s=0.01)
OK = Answer(pieces=tokens(3, first_s=0.01, gap_s=0.01))
CUT_IN_A_LINE = len(Answer(pieces=FIVE).head) + 400


@pytest.mark.parametrize(
    ("answer", "ending", "said"),
    [
        (OK, "ok", None),
        (Answer(pieces=FIVE), "truncated", "The stream ended after 5 tokens without a finish_reason."),
        (Answer(pieces=FIVE, framing="close"), "truncated", "The stream ended after 5 tokens without a finish_reason."),
        (Answer(pieces=FIFTY, cut_after=CUT_IN_A_LINE, cut_by="rst"), "truncated", "The connection broke after "),
        (Answer(pieces=FIFTY, cut_after=CUT_IN_A_LINE, cut_by="fin"), "truncated", "The connection broke after "),
        (Answer(pieces=FIVE, framing="length", short_by=100), "truncated", "The connection broke after 5 tokens."),
        (Answer(pieces=tokens(5)[:-1]), "ok", None),
        (Answer(pieces=((1.0, b": ping\n\n"),) * 3), "truncated", "The stream ended after 0 tokens without a finish_reason."),
        (Answer(pieces=((0.0, DONE),)), "truncated", "The stream ended after 0 tokens without a finish_reason."),
        (Answer(pieces=((0.0, finish()),)), "empty", "The answer ended in order but holds no token."),
    ],
    ids=["ok", "no finish", "closed", "reset", "closed in a line", "short", "no done", "comments", "done alone", "no token"],
)  # fmt: skip
def test_how_a_stream_ends(answer: Answer, ending: Ending, said: str | None) -> None:
    record = ended(answer)
    assert record.ending == ending
    assert (record.error or "").startswith(said or "")
    assert (record.error is None) == (ending == "ok")


@pytest.mark.parametrize("after", [dict(cut_by="fin"), dict(cut_by="rst"), dict(silent=None)], ids=["closed", "reset", "left open"])
def test_an_answer_that_was_finished_and_done_is_whole_whatever_comes_after(after: dict[str, Any]) -> None:
    """A proxy that leaves out the end of the body, or never closes it, takes nothing from an answer with finish and `[DONE]`."""
    pieces = tokens(3, first_s=0.1, gap_s=0.1)
    if "cut_by" in after:
        record = ended(Answer(pieces=pieces, cut_after=len(Answer(pieces=pieces).raw) - len(END), **after))
    else:
        record = ended(Answer(pieces=(*pieces, (LONGEST_S, b": still here\n\n"))))
    assert (record.ending, record.output_tokens) == ("ok", 3)
    assert record.t_last is not None
    assert record.t_end - record.t_last <= CLOSING_TIMEOUT_S + BATCH_S + 0.01


def test_an_empty_finish_reason_is_none() -> None:
    """Some servers send one with every chunk: an answer that is cut is cut."""
    chunk_of = b'data: {"choices":[{"text":"a","finish_reason":%s}]}\n\n'
    cut = ended(Answer(pieces=((0.1, chunk_of % b'""'), (0.1, chunk_of % b'""'))))
    whole_one = ended(Answer(pieces=((0.1, chunk_of % b'""'), (0.1, chunk_of % b'"stop"'))))
    assert (cut.ending, whole_one.ending) == ("truncated", "ok")


def test_what_came_before_a_cut_is_kept() -> None:
    record = ended(Answer(pieces=FIVE, framing="length", short_by=100))
    assert (record.output_tokens, record.gaps.n, record.status) == (5, 4, 200)
    assert tpot_s(record) == pytest.approx(0.1, abs=1e-3)
    assert not good(record, Slo(ttft_s=10.0, tpot_s=10.0))


def test_a_cut_anywhere_is_a_failure_and_never_a_crash() -> None:
    """Head, framing, line or token: before the end of the last event nothing is a success."""
    answer = Answer(pieces=tokens(3)[:-1])
    cuts = range(0, len(answer.raw) - len(END) - 2, 3)
    records, _ = ended_in_a_row(len(cuts), *(replace(answer, cut_after=at, cut_by="rst" if at % 2 else "fin") for at in cuts))
    assert len(cuts) > 150
    assert [record.ending for record in records] == ["connection" if at < len(answer.head) else "truncated" for at in cuts]
    assert all(record.error for record in records)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (whole(b'{"error":{"message":"No room. Come back."}}', 503, JSON), "HTTP 503 Reason: No room."),
        (whole(b'{"error":{"message":"Slow down","type":"rate_limit"}}', 429, JSON), "HTTP 429 Reason: Slow down"),
        (whole(b'{"detail":"[Errno 24] Too many open files"}', 500, JSON), "HTTP 500 Reason: [Errno 24] Too many open files"),
        (whole(b"<html>Bad Gateway</html>", 502), "HTTP 502 Reason"),
        (whole(b"", 504), "HTTP 504 Reason"),
        (whole(b"", 307, "Location: http://127.0.0.1:9/x"), "HTTP 307 Reason, and redirects are not followed."),
        (Answer(status=500, pieces=((0.0, b"half a sentence"),), framing="length", short_by=9), "HTTP 500 Reason: half a sentence"),
        (Answer(status=400, pieces=((0.0, b"too long\nand more"), *((1.0, b"."),) * 99)), "HTTP 400 Reason: too long"),
        (Answer(status=500, silent="head"), "HTTP 500 Reason"),
    ],
    ids=["503", "429", "files", "html", "empty", "redirect", "cut body", "endless body", "no body"],
)
def test_an_http_error_is_told_by_its_status_and_first_sentence(answer: Answer, said: str) -> None:
    record = ended(answer)
    assert (record.ending, record.error, record.status) == ("http", said, answer.status)
    assert record.t_sent is not None
    assert record.t_end - record.t_sent <= ERROR_BODY_TIMEOUT_S + 0.01


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (whole(b"<html>log in</html>", 200, "Content-Type: text/html"), "The server's answer (text/html) is no event stream."),
        (whole(b"hello", 200), "The server's answer (no content type) is no event stream: hello"),
        (whole(b"", 200, "Content-Type: text/event-stream"), "The server answered HTTP 200 with an empty body"),
        (whole(b"", 204), "The server answered HTTP 204 with an empty body"),
        (whole(b"\x1f\x8b\x08\0\0", 200, "Content-Encoding: gzip"), "The server compressed the answer (gzip)"),
        (whole(b'[{"error":{"message":"boom"}}]', 200, JSON), "boom"),
        (whole(b'{\n "error": {\n  "message": "boom"\n }\n}\n', 200, JSON), "boom"),
        (whole(b'{"choices":[{"text":"a"}]}', 200, JSON), "The server answered with JSON outside the event stream:"),
    ],
    ids=["html", "text", "nothing", "204", "gzip", "a list", "over lines", "no stream"],
)
def test_a_good_status_without_a_stream_is_a_failure_that_says_what_came(answer: Answer, said: str) -> None:
    record = ended(answer)
    assert (record.ending, record.output_tokens) == ("stream", 0)
    assert (record.error or "").startswith(said)


def test_the_end_of_an_answer_is_read_from_a_stream_under_another_name() -> None:
    """Some gateways call an event stream text/plain or application/json: what it is shows in it."""
    for name in ("text/plain", "application/json", "application/octet-stream"):
        assert ended(Answer(pieces=tokens(3), headers=(f"Content-Type: {name}",))).ending == "ok"


# --- connections ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cut_by", ["fin", "rst"])
def test_a_reused_connection_that_dies_before_any_byte_is_resent_once_and_that_is_logged(cut_by: Any) -> None:
    """The server closes the idle connection in the moment in which the next request is written to it."""
    records, received = ended_in_a_row(2, OK, Answer(cut_after=0, cut_by=cut_by), OK)
    assert [(record.ending, record.resent) for record in records] == [("ok", False), ("ok", True)]
    assert received == 3


def test_a_fresh_connection_that_dies_is_a_failure_and_nothing_is_sent_again() -> None:
    records, received = ended_in_a_row(1, Answer(cut_after=0, cut_by="rst"), OK)
    assert [(record.ending, record.resent) for record in records] == [("connection", False)]
    assert received == 1


def test_a_resent_request_that_dies_too_is_a_failure_and_not_sent_a_third_time() -> None:
    dead = Answer(cut_after=0, cut_by="rst")
    records, received = ended_in_a_row(2, OK, dead, dead, OK)
    assert [(record.ending, record.resent) for record in records] == [("ok", False), ("connection", True)]
    assert received == 3


def test_what_dies_after_the_first_byte_is_not_sent_again() -> None:
    records, received = ended_in_a_row(2, OK, Answer(cut_after=9, cut_by="fin"), OK)
    assert [(record.ending, record.resent) for record in records] == [("ok", False), ("connection", False)]
    assert received == 2


def test_an_idle_connection_that_the_server_closed_is_not_used() -> None:
    idle = Answer(pieces=OK.pieces, idle_close_s=1.0)
    records, received = ended_in_a_row(2, idle, OK, pause_s=2.0)
    assert [(record.ending, record.resent) for record in records] == [("ok", False), ("ok", False)]
    assert received == 2


def test_a_slow_answer_is_never_ended_by_the_client() -> None:
    """The first token after 12 s, then a token every 20 s for eleven minutes."""
    record = ended(Answer(pieces=tokens(34, first_s=12.0, gap_s=20.0)))
    assert (record.ending, record.output_tokens) == ("ok", 34)
    assert record.t_first is not None
    assert record.t_last is not None
    assert record.t_last - record.t_first == pytest.approx(660.0, abs=0.01)


@pytest.mark.parametrize("silent", ["request", "head"])
def test_a_server_that_says_nothing_is_left_only_by_who_judges(silent: Any) -> None:
    async def work() -> RequestEnded:
        async with calling(FaultServer(Answer(silent=silent))) as (caller, server):
            task = caller.start()
            await asyncio.sleep(LONGEST_S / 2)
            assert not task.done()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await server.until(lambda server: server.closed == 1)
            return caller.last

    record = virtually(work)
    assert (record.ending, record.status) == ("aborted", 200 if silent == "head" else None)


def test_connections_reset_at_accept_are_failures_of_the_server() -> None:
    """Two hundred at once on a queue of eight, and each is reset as soon as it is taken."""

    async def work() -> list[RequestEnded]:
        async with calling(FaultServer(Answer(cut_after=0, cut_by="rst"))) as (caller, _):
            await asyncio.gather(*(caller.start(i) for i in range(200)))
            return [message for message in caller.told if isinstance(message, RequestEnded)]

    records = virtually(work)
    assert Counter(record.ending for record in records) == {"connection": 200}
    assert all(record.error for record in records)


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.EADDRNOTAVAIL])
def test_files_and_ports_of_this_machine_are_the_clients_fault(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    def none_left(*args: object, **kwargs: object) -> socket.socket:
        raise OSError(number, "none left")

    async def work() -> RequestEnded:
        async with calling(FaultServer(OK)) as (caller, _):
            monkeypatch.setattr(socket, "socket", none_left)
            try:
                async with asyncio.timeout(LONGEST_S):
                    await caller.start()
            finally:
                monkeypatch.undo()
            return caller.last

    assert virtually(work).ending == "client"


def test_headers_without_end_are_a_failure() -> None:
    async def headers(request: Received) -> bool:
        await request.write(b"HTTP/1.1 200 OK\r\n", *(b"X-%d: %s\r\n" % (i, b"y" * 1000) for i in range(200)))
        return True

    assert virtually(lambda: end_of(headers)).ending == "connection"


HEAD = Answer().head
BODY = chunk(b"".join(data for _, data in tokens(3))) + END
OTHER = b"HTTP/1.1 200 OK\r\n"


@pytest.mark.parametrize(
    ("answer", "ending"),
    [
        (b"HTTP/1.1 100 Continue\r\n\r\n" + HEAD + BODY, "ok"),
        (b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + HEAD + BODY, "ok"),
        (HEAD.replace(b"200 Reason", b"200") + BODY, "ok"),
        (HEAD.replace(b"\r\n\r\n", b"\r\nX: \xff\xfe\r\n\r\n") + BODY, "ok"),
        (HEAD.replace(b"\r\n\r\n", b"\r\nX: a\r\n b\r\n\r\n") + BODY, "ok"),
        (HEAD + BODY[:-2] + b"X-Trailer: 1\r\n\r\n", "ok"),
        (HEAD + BODY.replace(b"\r\n", b";name=value\r\n", 1), "ok"),
        (HEAD.replace(b"200", b"999", 1) + BODY, "http"),
        (b"HTTP/1.1 101 Switching\r\nUpgrade: h2c\r\nConnection: upgrade\r\n\r\n", "http"),
        (HEAD.replace(b"\r\n\r\n", b"\r\nContent-Length: 5\r\n\r\n") + BODY, "connection"),
        (OTHER + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello", "connection"),
        (OTHER + b"Content-Length: -5\r\n\r\nhello", "connection"),
        (OTHER + b"no colon here\r\n\r\n", "connection"),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "connection"),
        (b"\x15\x03\x01\x00\x02\x02\x46", "connection"),
        (bytes(range(256)), "connection"),
    ],
    ids=["100", "103", "no reason", "no text", "folded", "trailer", "extension", "999", "101", "two framings", "two lengths",
         "negative length", "no colon", "http/2", "tls", "binary"],
)  # fmt: skip
def test_odd_http_has_its_ending_and_is_never_a_crash(answer: bytes, ending: Ending) -> None:
    record = virtually(lambda: end_of(raw(answer, close=True)))
    assert record.ending == ending
    assert (record.error is None) == (ending == "ok")


def test_what_a_server_says_unasked_harms_no_later_request() -> None:
    """Bytes behind the end of an answer, or the 408 with which proxies end an idle connection."""
    for unasked in (b"garbage", b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"):
        answers = iter([HEAD + BODY + unasked, HEAD + BODY])

        async def handler(request: Received, answers: Iterator[bytes] = answers) -> None:
            await request.write(next(answers))

        async def work(handler: Handler = handler) -> list[Ending]:
            async with calling(handler) as (caller, _):
                endings = []
                for _ in range(2):
                    endings.append((await caller.call()).ending)
                    await asyncio.sleep(1.0)
                return endings

        assert virtually(work)[1] == "ok"


@pytest.mark.parametrize("size", [1000, 200_000])
def test_a_refusal_before_the_request_was_read_is_a_failure_of_the_server(size: int) -> None:
    """A server that will not read a long prompt answers and closes. What it left unread becomes an RST, which may overtake its
    answer: then the connection is all that can be told of."""

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(whole(b"too large", 413).raw)
        await writer.drain()
        await asyncio.sleep(0.1)
        writer.transport.abort()

    async def work() -> RequestEnded:
        told: list[object] = []
        listener = await asyncio.start_server(refuse, "127.0.0.1", 0, limit=1024)
        url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
        client = client_of(Target(url=url))
        request = client.prepare(b"x" * size)
        await client.send(Job(order=1, index=0, t_sched=0.0, asked_input=1, asked_output=1), request, told.append)
        await asyncio.sleep(1.0)
        listener.close()
        await client.aclose()
        assert isinstance(told[-1], RequestEnded)
        return told[-1]

    record = virtually(work)
    assert (record.ending, record.status) in [("http", 413), ("connection", None)]
    assert record.error == "HTTP 413 Reason: too large" or record.ending == "connection"
    assert record.error


PART = b"".join(data for _, data in FIVE)


@pytest.mark.parametrize(
    "rest",
    [b"zz\r\nrubbish\r\n", b"-1\r\n\r\n", b"f" * 40 + b"\r\n", b"%x\r\n%sXX" % (len(PART), PART) + END],
    ids=["no number", "negative", "huge", "no end of line"],
)
def test_a_malformed_chunk_is_a_failure(rest: bytes) -> None:
    async def handler(request: Received) -> bool:
        for data in (Answer().head, chunk(PART), rest):
            await request.write(data)
            await asyncio.sleep(0.1)
        await request.gone.wait()
        return True

    async def work() -> Ending:
        async with calling(handler) as (caller, _), asyncio.timeout(LONGEST_S):
            await caller.start()
            return caller.last.ending

    assert virtually(work) == "truncated"


ONE, TWO = tokens(3, first_s=0.1, gap_s=0.1)[:1], tokens(3, first_s=0.1, gap_s=0.1)[:2]
UNCOUNTED = tokens(3, first_s=0.1, gap_s=0.1, usage_by="none")[:2]


@pytest.mark.parametrize(
    ("pieces", "ending"),
    [
        ((*TWO, (0.0, DONE)), "ok"),
        ((*TWO, (0.0, usage(2))), "ok"),
        ((*TWO, (0.0, usage(2) + b"data: [DONE] \n\n")), "ok"),
        ((*UNCOUNTED, (0.0, usage(2) + DONE)), "ok"),
        ((*ONE, (0.0, DONE)), "truncated"),
        ((*UNCOUNTED, (0.0, DONE)), "truncated"),
        (TWO, "truncated"),
    ],
    ids=["done", "closing usage", "done with a blank", "usage in the end", "a token fewer", "no usage", "no done"],
)
def test_an_answer_without_a_finish_reason_is_whole_by_its_count_and_its_done(pieces: Pieces, ending: Ending) -> None:
    """Two tokens were asked for; the finish_reason is null to the end."""
    record = ended(Answer(pieces=pieces))
    assert (record.ending, record.finish_reason) == (ending, None)


@pytest.mark.parametrize("cut_by", ["fin", "rst"])
def test_without_a_finish_reason_a_broken_connection_is_a_cut_unless_done_was_said(cut_by: Any) -> None:
    for pieces, ending in (((*TWO, (0.0, usage(2))), "truncated"), ((*TWO, (0.0, usage(2) + DONE)), "ok")):
        record = ended(Answer(pieces=pieces, cut_after=len(Answer(pieces=pieces).raw) - len(END), cut_by=cut_by))
        assert record.ending == ending
