"""What a stream may hold and how it may come, against a server that does it: times are virtual, sockets and client are real."""

import json
from typing import Any

import pytest

from core.config import Slo
from core.judge.validity import in_clumps
from core.records import RequestEnded
from core.slo import e2e_s, tpot_s, ttft_s
from tests.core.load.server import DONE, event, token, usage
from tests.faults.answers import Answer, Pieces, chat, finish, tokens
from tests.faults.runs import ended

MS = 0.0005
"""Virtual times are exact but for the dust of floating point; a millisecond would be a wrong time."""


def ttft(record: RequestEnded) -> float:
    """From the send on: these requests are due long before they are sent."""
    assert record.t_sent is not None
    assert record.t_first is not None
    return record.t_first - record.t_sent


def tpot(record: RequestEnded) -> float:
    value = tpot_s(record)
    assert value is not None
    return value


def after(delay_s: float, *events: bytes) -> Pieces:
    """The first event after `delay_s`, the others with it."""
    return ((delay_s, b"".join(events)),)


def paced(n: int, gap_s: float, one: bytes) -> Pieces:
    return tuple((gap_s, one) for _ in range(n))


@pytest.mark.parametrize("role", [{"content": ""}, {"content": None}, {}], ids=["empty", "null", "no content"])
def test_the_role_chunk_starts_no_clock(role: dict[str, Any]) -> None:
    role_chunk = chat(role="assistant", **role)
    stream = (
        after(0.02, role_chunk) + after(0.48, chat(content="a")) + paced(9, 0.02, chat(content="a")) + after(0, finish(), usage(10))
    )
    record = ended(Answer(pieces=stream))
    assert (record.ending, record.output_tokens) == ("ok", 10)
    assert ttft(record) == pytest.approx(0.5, abs=MS)
    assert tpot(record) == pytest.approx(0.02, abs=MS)


@pytest.mark.parametrize(
    ("stream", "first_s", "n"),
    [
        (paced(16, 0.1, chat(reasoning_content="hm")) + after(0, finish("length"), usage(16)), 0.1, 16),
        (paced(20, 0.1, chat(reasoning="hm")) + paced(5, 0.1, chat(content="a")) + after(0, finish(), usage(25)), 0.1, 25),
        (after(0.1, chat(reasoning="")) + paced(4, 0.1, chat(reasoning="hm")) + after(0, finish(), usage(4)), 0.2, 4),
    ],
    ids=["reasoning only", "reasoning and content", "the first delta is empty"],
)
def test_reasoning_counts_as_output(stream: Pieces, first_s: float, n: int) -> None:
    record = ended(Answer(pieces=stream))
    assert (record.ending, record.output_tokens) == ("ok", n)
    assert ttft(record) == pytest.approx(first_s, abs=MS)
    assert tpot(record) == pytest.approx(0.1, abs=MS)


def test_tool_calls_are_output_and_their_tokens_come_from_usage() -> None:
    name = chat(tool_calls=[{"index": 0, "function": {"name": "f", "arguments": ""}}])
    arguments = chat(tool_calls=[{"index": 0, "function": {"arguments": '{"a":1}'}}])
    record = ended(Answer(pieces=after(0.3, name) + after(0.2, arguments) + after(0, finish("tool_calls"), usage(31))))
    assert (record.ending, record.output_tokens) == ("ok", 31)
    assert ttft(record) == pytest.approx(0.3, abs=MS)
    assert tpot(record) == pytest.approx(0.2 / 30, abs=1e-5)


@pytest.mark.parametrize("usage_by", ["each", "last"])
def test_chunks_of_several_tokens_are_not_taken_for_tokens(usage_by: Any) -> None:
    record = ended(Answer(pieces=tokens(101, first_s=0.1, gap_s=0.032, per_chunk=4, usage_by=usage_by)))
    assert (record.ending, record.output_tokens) == ("ok", 101)
    assert tpot(record) == pytest.approx(0.008, abs=1e-5)
    assert record.gaps.n == 25
    assert record.gaps.max_s == pytest.approx(0.032, abs=MS)


@pytest.mark.parametrize("last", [{"choices": []}, {}], ids=["no choice", "no choices"])
@pytest.mark.parametrize("each", [None, {"completion_tokens": 0}], ids=["null", "zero"])
def test_the_usage_chunk_starts_nothing_and_the_last_usage_counts(last: dict[str, Any], each: Any) -> None:
    text = event({"choices": [{"text": "a", "finish_reason": None}], "usage": each})
    end = event({"choices": [{"text": "", "finish_reason": "stop"}], "usage": each})
    total = event({**last, "usage": {"completion_tokens": 5}})
    record = ended(
        Answer(pieces=after(0.1, event({**last, "usage": each})) + paced(5, 0.1, text) + after(0, end) + after(1.0, total))
    )
    assert (record.ending, record.output_tokens, record.usage) == ("ok", 5, True)
    assert ttft(record) == pytest.approx(0.2, abs=MS)
    assert tpot(record) == pytest.approx(0.1, abs=MS)


def test_without_usage_the_count_is_an_estimate_and_called_so() -> None:
    record = ended(Answer(pieces=tokens(20, first_s=0.1, gap_s=0.1, usage_by="none")))
    assert (record.ending, record.output_tokens, record.usage) == ("ok", 20, False)
    nothing = ended(Answer(pieces=after(0, event({"choices": [{"text": "a", "finish_reason": "stop"}]}), usage(0))))
    assert (nothing.ending, nothing.output_tokens, nothing.usage) == ("empty", 0, True)


def test_usage_that_stops_on_the_way_does_not_stop_the_clock() -> None:
    """Usage with the first chunks only, and a total at the end: the text between moves the last token all the same."""
    with_usage, without = token(count=1), token(" a")
    stream = after(0.1, with_usage) + paced(9, 0.1, without) + after(0, token("", finish="length"), usage(10))
    record = ended(Answer(pieces=stream))
    assert (record.ending, record.output_tokens) == ("ok", 10)
    assert tpot(record) == pytest.approx(0.1, abs=MS)


@pytest.mark.parametrize("closing", [b"", usage(64)], ids=["no total", "total at the end"])
def test_usage_that_counts_each_chunk_alone_hides_neither_tpot_nor_e2e(closing: bytes) -> None:
    """Chats of vLLM 0.6.1 to 0.6.3: each chunk's usage says 1."""
    role = event({"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}], "usage": {"completion_tokens": 0}})
    stream = after(0.1, role) + paced(63, 0.02, token(count=1)) + after(0.02, token(count=1, finish="length"), closing)
    record = ended(Answer(pieces=stream))
    assert (record.ending, record.output_tokens, record.first_tokens, record.gaps.n) == ("ok", 64, 1, 63)
    assert record.usage == bool(closing)
    assert ttft(record) == pytest.approx(0.12, abs=MS)
    assert tpot(record) == pytest.approx(0.02, abs=1e-5)


TWO = tokens(2, first_s=0.1, gap_s=0.1, finish=None)[:2]
BOOM = b'{"error":{"message":"boom","code":500}}'
OVER_LINES = json.dumps(json.loads(BOOM), indent=2).encode()


@pytest.mark.parametrize(
    "stream",
    [
        (*TWO, (0.0, b"data: " + BOOM + b"\n\n" + DONE)),
        ((0.0, b"data: " + BOOM + b"\n\n" + DONE),),
        (*TWO, (0.0, b'event: error\ndata: {"message":"boom","object":"error"}\n\n')),
        (*TWO, (0.0, BOOM + b"\n\n")),
        (*TWO, (0.0, b'event: error\ndata: {"error":"boom"}\n\n' + DONE)),
        (*TWO, (0.0, OVER_LINES + b"\n\n")),
        (*TWO, (0.0, b'data: {"detail":"boom"}\n\n')),
        (
            *TWO,
            (0.0, b"\n".join(b"data: " + line for line in OVER_LINES.split(b"\n")) + b"\n\n"),
        ),
    ],
    ids=["after tokens", "first", "event: error", "bare JSON", "a word", "bare JSON over lines", "detail", "data over lines"],
)
def test_an_error_in_the_stream_is_no_success_and_says_what_the_server_said(stream: Pieces) -> None:
    record = ended(Answer(pieces=stream))
    assert (record.ending, record.error, record.status) == ("stream", "boom", 200)


def test_error_null_is_no_error() -> None:
    good = event({"choices": [{"text": "a", "finish_reason": "stop"}], "error": None, "usage": {"completion_tokens": 1}})
    assert ended(Answer(pieces=((0.0, good + DONE),))).ending == "ok"


def test_keep_alive_comments_are_neither_tokens_nor_json() -> None:
    prefill = tuple((1.0, comment) for comment in (b":\n\n", b": ping\n\n") * 2)
    one, *rest = tokens(3, first_s=1.0, gap_s=0.5)
    between = tuple(piece for token_piece in rest for piece in ((0.0, b": ping\n\n"), token_piece))
    record = ended(Answer(pieces=(*prefill, one, *between)))
    assert (record.ending, record.output_tokens, record.gaps.n) == ("ok", 3, 2)
    assert ttft(record) == pytest.approx(5.0, abs=MS)


@pytest.mark.parametrize("text", ["中", "🦙", "\u2028\u0085\x0b"])
def test_bytes_that_come_one_by_one_keep_their_text_and_the_time_of_their_event(text: str) -> None:
    stream = json.dumps(
        {"choices": [{"text": text, "finish_reason": "stop"}], "usage": {"completion_tokens": 1}}, ensure_ascii=False
    )
    body = b"data: " + stream.encode() + b"\n\n"
    answer = Answer(pieces=((0.0, body),), framing="close", bytes_per_write=1, write_gap_s=0.02)
    record = ended(answer)
    assert (record.ending, record.output_tokens) == ("ok", 1)
    assert ttft(record) == pytest.approx(0.02 * (len(answer.head) + len(body) - 1), abs=MS)


SIXTY = tokens(60, first_s=0.02, gap_s=0.02)


@pytest.mark.parametrize(
    "answer",
    [Answer(pieces=SIXTY, one_write=True), Answer(pieces=SIXTY, clump_bytes=4096)],
    ids=["one write", "clumps"],
)
def test_a_stream_that_a_proxy_holds_back_cannot_pass_a_tpot_limit(answer: Answer) -> None:
    record = ended(answer)
    assert (record.ending, record.output_tokens) == ("ok", 60)
    assert record.gaps.under_1ms >= record.gaps.n * 0.5
    reason = in_clumps([record] * 20, Slo(), server_decode_s=1.2)
    assert reason is not None
    assert reason.code == "tokens_in_clumps"
    assert in_clumps([ended(Answer(pieces=SIXTY))] * 20, Slo(), server_decode_s=1.2) is None


def test_what_comes_after_the_last_token_is_in_no_latency() -> None:
    record = ended(Answer(pieces=tokens(11, first_s=0.1, gap_s=0.1, usage_by="last", tail_s=1.9)))
    assert record.t_sent is not None
    assert tpot(record) == pytest.approx(0.1, abs=MS)
    assert (e2e_s(record) or 0) - (ttft_s(record) or 0) == pytest.approx(1.0, abs=MS)
    assert record.t_last is not None
    assert record.t_end - record.t_last == pytest.approx(1.9, abs=MS)


def test_more_tokens_than_the_total_says_make_no_negative_time() -> None:
    """A first chunk of five tokens, and a total of three in the end: there is no time per output token."""
    stream = after(0.1, token(" a" * 5, count=5)) + after(0.1, token("", count=5, finish="stop")) + after(0, usage(3))
    record = ended(Answer(pieces=stream))
    assert (record.ending, record.output_tokens, tpot_s(record)) == ("ok", 3, None)


NOTHING = (b"data: null\n\n", b"data: []\n\n", b"event: ping\ndata: pong\n\n", b'event: queue\ndata: {"detail": "place 3"}\n\n')


@pytest.mark.parametrize("nothing", NOTHING)
def test_events_that_say_nothing_are_no_error_no_token_and_move_no_clock(nothing: bytes) -> None:
    one, *rest = tokens(3, first_s=1.0, gap_s=0.5)
    between = tuple(piece for token_piece in rest for piece in ((0.0, nothing), token_piece))
    record = ended(Answer(pieces=((1.0, nothing), (1.0, nothing), one, *between)))
    assert (record.ending, record.output_tokens, record.gaps.n) == ("ok", 3, 2)
    assert ttft(record) == pytest.approx(3.0, abs=MS)
    assert tpot(record) == pytest.approx(0.5, abs=MS)


@pytest.mark.parametrize(
    "told", [b'{"completion_tokens": "64"}', b'{"completion_tokens": 64.0}', b'{"output_tokens": 64}', b'{"eval_count": 64}']
)
def test_a_total_of_another_kind_or_name_is_a_total(told: bytes) -> None:
    last = b'data: {"choices": [], "usage": ' + told + b"}\n\n"
    record = ended(Answer(pieces=(*tokens(64, first_s=0.1, gap_s=0.08, per_chunk=4, usage_by="none")[:-1], (0.0, last + DONE))))
    assert (record.ending, record.output_tokens, record.counted_by) == ("ok", 64, "usage")
    assert tpot(record) == pytest.approx(0.08 * 16 / 63, abs=1e-5)


@pytest.mark.parametrize("told", [b'"many"', b"[64]", b"-1", b'{"completion_tokens": -1}', b'{"completion_tokens": [64]}'])
def test_usage_that_is_none_breaks_no_answer(told: bytes) -> None:
    text = b'data: {"choices": [{"text": "a", "finish_reason": %s}], "usage": ' + told + b"}\n\n"
    record = ended(Answer(pieces=(*paced(19, 0.1, text % b"null"), (0.1, text % b'"length"' + DONE))))
    assert (record.ending, record.output_tokens, record.counted_by) == ("ok", 20, "events")
    assert tpot(record) == pytest.approx(0.1, abs=MS)


def test_usage_that_is_cut_off_on_the_way_makes_no_answer_short() -> None:
    with_usage = tuple((0.1, token(count=i + 1)) for i in range(40))
    record = ended(Answer(pieces=(*with_usage, *paced(23, 0.1, token()), (0.1, token(finish="length") + DONE))))
    assert (record.ending, record.output_tokens, record.counted_by) == ("ok", 64, "events")
    assert tpot(record) == pytest.approx(0.1, abs=MS)
