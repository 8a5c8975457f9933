"""Answers are read right whatever the server's way of streaming: tokens, times, endings, errors."""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.ddsketch import bin_of
from core.load.completion import AnswerReader
from core.load.sse import SseEvent, SseParser
from core.net import error_text

STREAMS = Path(__file__).parents[2] / "data" / "streams"


class Stream:
    """Feeds chunks at given times through the real parser."""

    def __init__(self, asked_output: int | None = None, *, keeps_length: bool = False) -> None:
        self.reader = AnswerReader(asked_output, keeps_length=keeps_length)
        self.parser = SseParser()

    def at(self, t: float, *chunks: Any) -> "Stream":
        raw = b"".join(c if isinstance(c, bytes) else b"data: " + json.dumps(c).encode() + b"\n\n" for c in chunks)
        self.reader.feed(self.parser.feed(raw), t)
        return self

    def end(self, t: float = 99.0, *, orderly: bool = True) -> tuple[str, str | None]:
        self.reader.feed_rest(self.parser.close(), t)
        return self.reader.end(orderly=orderly)


DONE = b"data: [DONE]\n\n"


def usage(count: int, prompt: int = 8, **details: Any) -> dict[str, Any]:
    return {"prompt_tokens": prompt, "total_tokens": prompt + count, "completion_tokens": count, **details}


def text(piece: str = "a", finish: str | None = None, **more: Any) -> dict[str, Any]:
    return {"object": "text_completion", "choices": [{"index": 0, "text": piece, "finish_reason": finish}], **more}


def delta(finish: str | None = None, *, count: int | None = None, **fields: Any) -> dict[str, Any]:
    more = {} if count is None else {"usage": usage(count)}
    return {"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": fields, "finish_reason": finish}], **more}


def tpot(reader: AnswerReader) -> float:
    assert reader.t_first is not None
    assert reader.t_last is not None
    return (reader.t_last - reader.t_first) / (reader.output_tokens - reader.first_tokens)


# --- captured from real servers -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "tokens", "fingerprint", "ending"),
    [
        ("vllm-0.32.0-completions", 4, "vllm-0.32.0-9666ce4b", "ok"),
        ("vllm-0.32.0-chat", 4, "vllm-0.32.0-9666ce4b", "ok"),
        ("vllm-0.15.1-chat", 4, None, "ok"),
        ("vllm-0.15.1-completions", 2, None, "truncated"),  # the capture holds the first two events only
    ],
)
def test_captured_streams(name: str, tokens: int, fingerprint: str | None, ending: str) -> None:
    """One event a second: events before the first token, if any, are the role's."""
    stream = Stream()
    pieces = (STREAMS / f"{name}.txt").read_bytes().split(b"\n\n")
    for second, piece in enumerate(pieces):
        stream.at(float(second), piece + b"\n\n")
    assert stream.end()[0] == ending
    reader = stream.reader
    first = 1.0 if "chat" in name else 0.0
    assert (reader.t_first, reader.t_last) == (first, first + tokens - 1)
    assert (reader.output_tokens, reader.first_tokens, reader.prompt_tokens) == (tokens, 1, 8)
    assert (reader.usage, reader.fingerprint, reader.gaps.n) == (True, fingerprint, tokens - 1)
    assert reader.finish_reason == ("length" if ending == "ok" else None)


# --- what starts and stops the clocks -----------------------------------------------------------------------------


@pytest.mark.parametrize("role", [{"content": ""}, {"content": None}, {}])
@pytest.mark.parametrize("continuous", [True, False])
def test_the_role_chunk_starts_nothing(role: dict[str, Any], continuous: bool) -> None:
    stream = Stream().at(0.02, delta(role="assistant", **role, count=0 if continuous else None))
    started_by_role = stream.reader.t_first
    assert started_by_role is None
    for i in range(10):
        stream.at(0.5 + 0.02 * i, delta("length" if i == 9 else None, content="x", count=i + 1 if continuous else None))
    stream.at(0.7, {"choices": [], "usage": usage(10)}, DONE)
    assert stream.end() == ("ok", None)
    assert stream.reader.t_first == 0.5
    assert stream.reader.output_tokens == 10
    assert tpot(stream.reader) == pytest.approx(0.02)


@pytest.mark.parametrize("field", ["reasoning", "reasoning_content"])
def test_reasoning_is_output(field: str) -> None:
    def thought(piece: str) -> dict[str, Any]:
        return {"choices": [{"index": 0, "delta": {field: piece}, "finish_reason": None}]}

    stream = Stream().at(0.1, thought("")).at(0.3, thought("hm")).at(0.5, thought("hm"))
    stream.at(2.0, delta(content="so")).at(2.1, delta("length", content=""), {"choices": [], "usage": usage(3)})
    assert stream.end() == ("ok", None)
    assert (stream.reader.t_first, stream.reader.t_last, stream.reader.output_tokens) == (0.3, 2.0, 3)


def test_tool_calls_are_output_and_the_total_comes_from_usage() -> None:
    call = [{"index": 0, "function": {"name": "f", "arguments": ""}}]
    stream = Stream().at(1.0, delta(tool_calls=call)).at(1.2, delta("tool_calls", tool_calls=call))
    stream.at(1.3, {"choices": [], "usage": usage(31)})
    assert stream.end() == ("ok", None)
    assert stream.reader.t_first == 1.0
    assert tpot(stream.reader) == pytest.approx(0.2 / 30)


def test_several_tokens_in_one_chunk() -> None:
    stream = Stream().at(0.1, text(usage=usage(1)))
    for i in range(25):
        stream.at(0.1 + 0.032 * (i + 1), text("abcd", usage=usage(1 + 4 * (i + 1)), finish="length" if i == 24 else None))
    assert stream.end() == ("ok", None)
    assert stream.reader.output_tokens == 101
    assert tpot(stream.reader) == pytest.approx(0.008)
    assert stream.reader.gaps.n == 25


def test_a_first_chunk_of_several_tokens_is_known_as_such() -> None:
    stream = Stream().at(0.1, text("abc", usage=usage(3))).at(0.2, text("d", "length", usage=usage(4)))
    assert stream.end() == ("ok", None)
    assert (stream.reader.first_tokens, stream.reader.output_tokens) == (3, 4)


def test_events_without_a_rise_move_no_clock() -> None:
    """A finish chunk of its own, the usage chunk, [DONE] and a slow close all come after the last token."""
    stream = Stream()
    for i in range(11):
        stream.at(0.1 * (i + 1), text(usage=usage(i + 1)))
    stream.at(2.0, text("", "length", usage=usage(11))).at(2.5, {"choices": [], "usage": usage(11)}).at(3.0, DONE)
    assert stream.end(9.0) == ("ok", None)
    assert stream.reader.t_last == pytest.approx(1.1)
    assert tpot(stream.reader) == pytest.approx(0.1)


@pytest.mark.parametrize("last", [{"choices": [], "usage": usage(2)}, {"usage": usage(2)}])
def test_usage_chunks_of_both_shapes_after_null_usage(last: dict[str, Any]) -> None:
    stream = Stream().at(1.0, text(usage=None)).at(2.0, text("b", "stop", usage=None)).at(5.0, last)
    assert stream.end() == ("ok", None)
    assert (stream.reader.t_first, stream.reader.t_last, stream.reader.output_tokens) == (1.0, 2.0, 2)


def test_the_last_usage_wins_with_its_details() -> None:
    stream = Stream().at(1.0, text(usage=usage(1)), text("b", "stop", usage=usage(2)))
    stream.at(2.0, {"choices": [], "usage": usage(7, prompt=512, prompt_tokens_details={"cached_tokens": 0})})
    assert stream.end() == ("ok", None)
    assert (stream.reader.output_tokens, stream.reader.prompt_tokens, stream.reader.cached_tokens) == (7, 512, 0)


def test_without_usage_every_event_with_output_counts_one_and_that_is_said() -> None:
    stream = Stream()
    for i in range(20):
        stream.at(float(i), text(finish="length" if i == 19 else None))
    assert stream.end() == ("ok", None)
    assert (stream.reader.output_tokens, stream.reader.usage, stream.reader.prompt_tokens) == (20, False, None)


def test_usage_that_stays_zero_until_the_end_does_not_hide_the_first_token() -> None:
    stream = Stream().at(1.0, text(usage=usage(0))).at(2.0, text("b", "stop", usage=usage(0)))
    stream.at(3.0, {"choices": [], "usage": usage(2)})
    assert stream.end() == ("ok", None)
    assert (stream.reader.t_first, stream.reader.t_last, stream.reader.output_tokens) == (1.0, 2.0, 2)


def test_tokens_without_any_text_are_a_success() -> None:
    stream = Stream().at(1.0, text("", usage=usage(1))).at(2.0, text("", "length", usage=usage(2)))
    assert stream.end() == ("ok", None)
    assert (stream.reader.t_first, stream.reader.t_last, stream.reader.output_tokens) == (1.0, 2.0, 2)


def test_tokens_known_only_from_the_total_begin_at_the_finish() -> None:
    stream = Stream().at(1.0, text("")).at(2.0, text("", "length")).at(3.0, {"choices": [], "usage": usage(2)})
    assert stream.end() == ("ok", None)
    assert (stream.reader.t_first, stream.reader.t_last, stream.reader.first_tokens) == (2.0, 2.0, 2)


# --- endings ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b'data: {"error":{"message":"boom","type":"X","param":null,"code":500}}\n\n', "boom"),
        (b'data: {"error":"boom"}\n\n', "boom"),
        (b'data: {"object":"error","message":"boom","type":"BadRequestError","param":null,"code":400}\n\n', "boom"),
        (b'event: error\ndata: {"message":"boom"}\n\n', '{"message":"boom"}'),
        (b'event: error\ndata: {"error":{"message":"boom"}}\n\n', "boom"),
        (b"event: error\ndata: boom\n\n", "boom"),
        (b'{"error":{"message":"boom"}}\n', "boom"),
        (b'data: {"error":{"code":7}}\n\n', '{"code":7}'),
    ],
)
@pytest.mark.parametrize("tokens", [0, 2])
def test_an_error_in_the_stream_is_a_failure_in_the_servers_words(raw: bytes, message: str, tokens: int) -> None:
    stream = Stream()
    for i in range(tokens):
        stream.at(float(i), text(usage=usage(i + 1)))
    stream.at(5.0, raw, DONE)
    assert stream.end() == ("stream", message)
    assert stream.reader.output_tokens == tokens


def test_nothing_after_an_error_is_taken_in() -> None:
    stream = Stream().at(1.0, {"error": {"message": "boom"}}, text("a", "stop", usage=usage(1)))
    assert stream.end() == ("stream", "boom")
    assert (stream.reader.t_first, stream.reader.finish_reason) == (None, None)


def test_error_null_is_no_error() -> None:
    stream = Stream().at(1.0, text(error=None)).at(2.0, text("b", "stop", error=None))
    assert stream.end() == ("ok", None)


@pytest.mark.parametrize(
    "raw",
    [
        b"data: hello\n\n",
        b"data: [1]\n\n",
        b'data: "hello"\n\n',
        b'data: {"choices": 3}\n\n',
        b'data: {"choices": [3]}\n\n',
        b'data: {"choices":[{"text":"\xff"}]}\n\n',
    ],
)
def test_what_is_no_chunk_fails_and_is_shown(raw: bytes) -> None:
    ending, error = Stream().at(1.0, raw).end()
    assert ending == "stream"
    assert error is not None
    assert error.startswith("The stream holds an event that is no chunk: ")


@pytest.mark.parametrize("field", [b"zzz", b"error", b"object", b"choices"])
def test_json_nested_too_deep_is_no_chunk_and_no_crash(field: bytes) -> None:
    deep = b"[" * 100_000 + b"]" * 100_000
    stream = Stream().at(1.0, b'data: {"%s":%s}\n\n' % (field, deep))
    ending, error = stream.end()
    assert ending == "stream"
    assert error is not None
    assert error.startswith("The stream holds an event that is no chunk: {")
    assert error_text(b'{"error":%s}' % deep) is None
    assert Stream().at(1.0, b"data: " + deep).end()[0] == "truncated"


@pytest.mark.parametrize("count", [-1, -(10**30), 2**64, 1e3 + 0.5, "many", "", "1" * 5000, True, [2], {}, {"total": 2}])
def test_a_count_that_is_none_is_not_taken_at_its_word(count: Any) -> None:
    tokens = Stream().at(1.0, text(usage=usage(1))).at(2.0, text(finish="length", usage={"completion_tokens": count}))
    assert tokens.end() == ("ok", None)
    assert (tokens.reader.output_tokens, tokens.reader.counted_by) == (2, "events")
    prompt = Stream().at(1.0, text(finish="length", usage={"prompt_tokens": count, "completion_tokens": 1}))
    assert prompt.end() == ("ok", None)
    assert (prompt.reader.prompt_tokens, prompt.reader.output_tokens, prompt.reader.usage) == (None, 1, True)


def test_plain_json_lines_are_no_stream() -> None:
    ending, error = Stream().at(1.0, json.dumps(text("a", "stop")).encode() + b"\n").end()
    assert ending == "stream"
    assert error is not None
    assert "outside the event stream" in error


@pytest.mark.parametrize("reason", ["abort", "error"])
def test_an_answer_given_up_by_the_engine(reason: str) -> None:
    ending, error = Stream().at(1.0, text(usage=usage(1))).at(2.0, text("", reason, usage=usage(1))).end()
    assert ending == "stream"
    assert error is not None
    assert repr(reason) in error


def test_an_orderly_end_without_finish_reason_is_a_cut() -> None:
    stream = Stream()
    for i in range(5):
        stream.at(float(i), text(usage=usage(i + 1)))
    assert stream.end() == ("truncated", "The stream ended after 5 tokens without a finish_reason.")


def test_a_broken_connection_is_a_cut_even_after_the_finish() -> None:
    stream = Stream().at(1.0, text("a", "stop", usage=usage(1)))
    assert stream.reader.end(orderly=False)[0] == "truncated"


def test_done_is_not_needed() -> None:
    assert Stream().at(1.0, text("a", "stop", usage=usage(1))).end() == ("ok", None)


def test_the_last_event_may_lack_its_blank_line_but_not_its_end() -> None:
    last = b"data: " + json.dumps(text("b", "stop", usage=usage(2))).encode()
    assert Stream().at(1.0, text(usage=usage(1))).at(2.0, last).end() == ("ok", None)
    assert Stream().at(1.0, text(usage=usage(1))).at(2.0, last[:-9]).end()[0] == "truncated"


@pytest.mark.parametrize(
    "chunks", [[text("", "stop", usage=usage(0))], [text("", "stop")], [text("a", "stop"), {"choices": [], "usage": usage(0)}]]
)
def test_no_token_at_all_is_empty(chunks: list[Any]) -> None:
    assert Stream().at(1.0, *chunks).end() == ("empty", "The answer ended in order but holds no token.")


# --- gaps ---------------------------------------------------------------------------------------------------------


def test_events_of_one_read_share_its_time_and_their_gap_is_zero() -> None:
    stream = Stream().at(1.0, text(usage=usage(1)), text(usage=usage(2))).at(1.5, text("c", "stop", usage=usage(3)))
    assert stream.end() == ("ok", None)
    gaps = stream.reader.gaps
    assert (gaps.n, gaps.sum_s, gaps.max_s, gaps.under_1ms) == (2, 0.5, 0.5, 1)
    assert gaps.bins == ((0, 1), (bin_of(0.5), 1))


def test_an_answer_of_one_event_has_no_gap() -> None:
    stream = Stream().at(1.0, text("abc", "stop", usage=usage(3)))
    assert stream.end() == ("ok", None)
    assert stream.reader.gaps.n == 0


# --- error bodies -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b'{"error":{"message":"m","type":"t","param":null,"code":404}}', "m"),
        (b'{"object":"error","message":"m","type":"t","param":null,"code":400}', "m"),
        (b'{"error":"Unauthorized"}', "Unauthorized"),
        (b'{"detail":"Not Found"}', "Not Found"),
        (b'{"detail":[{"loc":["body"]}]}', '[{"loc":["body"]}]'),
        (b'{"error":null,"choices":[]}', None),
        (b"[]", None),
        (b"not json", None),
        (b"\xff", None),
    ],
)
def test_error_text_knows_every_form(body: bytes, message: str | None) -> None:
    assert error_text(body) == message


@pytest.mark.parametrize(
    ("data", "taken"),
    [
        (b'{"choices":[{"text":"a"}]}', True),
        (b'{"choices":[{"text":"say \\"error\\" twice"}]}', True),
        (b'{"choices":[],"error":null}', False),
        (b'{"detail":"boom"}', False),
        (b'{"error":{"message":"boom"}}', False),
        (b'{"object": "error", "message": "boom"}', False),
        (b"[DONE]", False),
        (b'{"choices":', False),
    ],
)
def test_the_short_way_takes_chunks_only(data: bytes, taken: bool) -> None:
    reader = AnswerReader()
    assert reader.plain(data, 1.0) is taken
    assert (reader.output_tokens, reader.error) == (int(taken), None)


def test_the_short_way_takes_nothing_after_done() -> None:
    reader = AnswerReader()
    reader.feed([SseEvent(b"[DONE]")], 1.0)
    assert not reader.plain(b'{"choices":[{"text":"a"}]}', 2.0)
    assert reader.output_tokens == 0


# --- usage that is no running total -------------------------------------------------------------------------------


def streamed(*totals: int | None, closing: int | None = None, piece: str = "a") -> AnswerReader:
    """An event with text each second from 1.0 on, with these counts in their usage (None: without). The last one ends it."""
    stream = Stream()
    for i, total in enumerate(totals):
        more = {} if total is None else {"usage": usage(total)}
        stream.at(1.0 + i, text(piece, "length" if i == len(totals) - 1 else None, **more))
    if closing is not None:
        stream.at(99.0, {"choices": [], "usage": usage(closing)})
    assert stream.end() == ("ok", None)
    return stream.reader


@pytest.mark.parametrize(
    ("totals", "closing", "first"),
    [
        ([1] * 64, 64, 1),
        ([1] * 2, 2, 1),
        ([4] * 16, 64, 4),
        ([2, 1, 3, 1, 1, 2], 10, 2),
        ([1, 1, 8, 1, 1], 12, 1),
        ([3, 2], 5, 3),
        ([1, 2], 3, 1),
        ([1, 2, 2], 5, 1),
        ([1, None, 1, 1, None, 1], 6, 1),
        ([64] * 64, 64, 1),
    ],
    ids=["1s", "two 1s", "4s", "speculative", "a rise by accident", "fewer", "more", "more, then as many", "some", "total in each"],
)
def test_usage_that_counts_one_chunk_stops_no_clock(totals: list[int | None], closing: int, first: int) -> None:
    reader = streamed(*totals, closing=closing)
    assert (reader.t_first, reader.t_last) == (1.0, float(len(totals)))
    assert (reader.output_tokens, reader.first_tokens, reader.usage) == (closing, first, True)
    assert reader.gaps.n == len(totals) - 1


@pytest.mark.parametrize(
    "totals",
    [[1] * 20, [2, 1, 3, 1, 1] * 4, [1, 2] + [None] * 18, [1] * 19 + [0]],
    ids=["ones", "speculative", "stops on the way", "none in the last"],
)
def test_a_last_usage_that_the_events_belie_is_not_believed(totals: list[int | None]) -> None:
    reader = streamed(*totals)
    assert (reader.output_tokens, reader.counted_by) == (20, "events")
    assert reader.t_last == 20.0
    assert tpot(reader) == pytest.approx(1.0, rel=0.06)


def test_usage_that_stops_on_the_way_is_counted_on_by_the_events() -> None:
    """It was cut off at 40 of 64, so that the answer seemed to have ended early."""
    reader = streamed(*range(1, 41), *[None] * 24)
    assert (reader.output_tokens, reader.counted_by, reader.t_last) == (64, "events", 64.0)
    assert tpot(reader) == pytest.approx(1.0)
    fours = streamed(*range(4, 41, 4), *[None] * 6, closing=64)
    assert (fours.output_tokens, fours.counted_by, fours.t_last) == (64, "usage", 16.0)
    chunks_alone = streamed(*[1] * 10, *[None] * 10)
    assert (chunks_alone.output_tokens, chunks_alone.counted_by) == (20, "events")


@pytest.mark.parametrize("begin", [58, 64, 70])
@pytest.mark.parametrize("closing", [None, 64])
def test_usage_that_counts_down_stretches_no_tpot(begin: int, closing: int | None) -> None:
    """What is left of the answer in each event: the first of them is no count of what its event brought."""
    reader = streamed(*(max(begin - i, 0) for i in range(64)), closing=closing)
    assert (reader.output_tokens, reader.first_tokens, reader.usage) == (64, 1, closing is not None)
    assert tpot(reader) == pytest.approx(1.0)


def test_a_total_of_nothing_is_not_believed_beside_text() -> None:
    assert (streamed(*[0] * 20).output_tokens, streamed(*[0] * 20).counted_by) == (20, "events")


def test_an_answer_that_is_cut_off_tells_its_tokens_by_its_events() -> None:
    stream = Stream()
    for i in range(30):
        stream.at(float(i), text(usage=usage(1)))
    assert stream.end()[0] == "truncated"
    assert (stream.reader.output_tokens, stream.reader.usage, stream.reader.t_last) == (30, False, 29.0)


def test_a_total_at_the_end_alone_is_believed_however_small_the_pieces_are() -> None:
    """Something on the way sends each letter in an event of its own: the server's total is no less true."""
    reader = streamed(*[None] * 50, closing=10)
    assert (reader.output_tokens, reader.usage, reader.t_last) == (10, True, 50.0)


def test_the_text_of_one_token_in_two_events_changes_no_count() -> None:
    reader = streamed(1, 2, 2, 3, 4, closing=4)
    assert (reader.output_tokens, reader.first_tokens, reader.usage, reader.gaps.n) == (4, 1, True, 4)
    assert reader.t_last == 5.0


def test_text_that_was_held_back_to_the_finish_moves_no_clock() -> None:
    reader = streamed(1, 2, 3, 3, closing=3)
    assert (reader.output_tokens, reader.t_last, reader.gaps.n) == (3, 3.0, 2)


def test_tokens_without_text_still_count_after_a_doubt() -> None:
    """Text of one token in two events, and then a token whose text is held back: its count has risen."""
    stream = Stream().at(1.0, text(usage=usage(1))).at(1.1, text(usage=usage(1))).at(1.2, text("", usage=usage(3)))
    stream.at(1.3, text("", "length", usage=usage(3)))
    assert stream.end() == ("ok", None)
    assert (stream.reader.output_tokens, stream.reader.t_last) == (3, 1.2)


def test_text_without_usage_before_a_total_that_rose_with_it() -> None:
    reader = streamed(1, None, 2, 3, closing=3)
    assert (reader.output_tokens, reader.t_last, reader.gaps.n) == (3, 4.0, 3)


def test_text_after_the_finish_keeps_the_times_in_order() -> None:
    stream = Stream().at(1.0, text(usage=usage(1))).at(2.0, text("b", "length", usage=usage(1))).at(3.0, text("c"))
    stream.at(4.0, {"choices": [], "usage": usage(3)})
    assert stream.end() == ("ok", None)
    assert (stream.reader.t_last, stream.reader.gaps.n, stream.reader.gaps.sum_s) == (3.0, 1, 2.0)


def test_a_first_event_that_had_all_tokens_keeps_them() -> None:
    """What comes after it without a count may be text that was held back: no total was belied."""
    assert streamed(5, None, closing=5).first_tokens == 5


def test_before_anything_came_nothing_is_an_estimate() -> None:
    assert (AnswerReader().output_tokens, AnswerReader().usage) == (0, True)


COUNTS = st.lists(st.integers(1, 6), min_size=1, max_size=40)


@given(COUNTS, st.booleans(), st.data())
def test_a_running_total_is_followed_as_it_rises(counts: list[int], closing: bool, data: st.DataObject) -> None:
    """Whatever the tokens of each event, and where text is held back: the rise says what an event brought."""
    texts = data.draw(st.lists(st.sampled_from(["", "a"]), min_size=len(counts), max_size=len(counts)))
    stream, total = Stream(), 0
    for i, (count, piece) in enumerate(zip(counts, texts, strict=True)):
        total += count
        stream.at(float(i), text(piece, "length" if i == len(counts) - 1 else None, usage=usage(total)))
    if closing:
        stream.at(99.0, {"choices": [], "usage": usage(total)})
    assert stream.end() == ("ok", None)
    reader = stream.reader
    assert (reader.t_first, reader.t_last, reader.gaps.n) == (0.0, len(counts) - 1.0, len(counts) - 1)
    assert (reader.output_tokens, reader.first_tokens, reader.usage) == (total, counts[0], True)


@given(COUNTS)
def test_counts_of_each_chunk_are_told_from_a_running_total(counts: list[int]) -> None:
    reader = streamed(*counts, closing=sum(counts))
    assert (reader.t_first, reader.t_last) == (1.0, float(len(counts)))
    assert (reader.output_tokens, reader.first_tokens, reader.usage) == (sum(counts), counts[0], True)
    assert reader.gaps.n == len(counts) - 1


@given(st.lists(st.integers(1, 3), min_size=2, max_size=40))
def test_tokens_in_pieces_keep_their_number(pieces: list[int]) -> None:
    """Each token's text in one to three events: the total stays, and the last event with text is at most a token's pieces away."""
    totals = [i + 1 for i, n in enumerate(pieces) for _ in range(n)]
    reader = streamed(*totals, closing=len(pieces))
    if len(totals) <= 2 * len(pieces):
        assert (reader.output_tokens, reader.usage) == (len(pieces), True)
    assert reader.t_last is not None
    assert 0 <= len(totals) - reader.t_last < pieces[-1]


# --- counts of another kind, or by another name -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("told", "prompt", "cached"),
    [
        ({"usage": {"prompt_tokens": 8.0, "completion_tokens": 20.0}}, 8, None),
        ({"usage": {"prompt_tokens": "8", "completion_tokens": "20"}}, 8, None),
        ({"usage": {"prompt_tokens": -1, "completion_tokens": 20}}, None, None),
        ({"usage": {"completion_tokens": 20, "prompt_tokens_details": [3]}}, None, None),
        ({"usage": usage(20, prompt_tokens_details={"cached_tokens": "3"})}, 8, 3),
        ({"usage": {"input_tokens": 8, "output_tokens": 20}}, 8, None),
        ({"usage": {"prompt_eval_count": 8, "eval_count": 20}}, 8, None),
        ({"usage": {"generated_tokens": 20}}, None, None),
        ({"usage": {"prompt_tokens": None, "completion_tokens": None, "input_tokens": 8, "output_tokens": "20"}}, 8, None),
        ({"timings": {"cache_n": 3, "prompt_n": 5, "predicted_n": 20, "predicted_ms": 7.5}}, 8, 3),
        ({"timings": {"prompt_n": 5, "predicted_n": 20}}, None, None),
        ({"timings": {"prompt_n": "x", "predicted_n": 20}}, None, None),
        ({"usage": usage(20), "timings": {"prompt_n": 5, "predicted_n": 7}}, 8, None),
        ({"usage": usage(20), "system_fingerprint": 7}, 8, None),
    ],
)
@pytest.mark.parametrize("choices", [[], [{"index": 0, "text": "", "finish_reason": None}]], ids=["no choice", "a choice"])
def test_a_total_in_any_form_and_by_any_name_is_taken(
    told: dict[str, Any], prompt: int | None, cached: int | None, choices: list[Any]
) -> None:
    """Ten events of two tokens each, and then the total."""
    stream = Stream()
    for i in range(10):
        stream.at(1.0 + i, text("ab", "length" if i == 9 else None))
    stream.at(20.0, {"choices": choices, **told}, DONE)
    assert stream.end() == ("ok", None)
    reader = stream.reader
    assert (reader.output_tokens, reader.counted_by, reader.prompt_tokens, reader.cached_tokens) == (20, "usage", prompt, cached)
    assert (reader.t_first, reader.t_last) == (1.0, 10.0)


def test_a_running_total_as_text_is_followed() -> None:
    stream = Stream()
    for i in range(10):
        stream.at(1.0 + i, text("abcd", "length" if i == 9 else None, usage={"completion_tokens": str(4 * (i + 1))}))
    assert stream.end() == ("ok", None)
    assert (stream.reader.output_tokens, stream.reader.first_tokens, stream.reader.counted_by) == (40, 4, "usage")


def test_an_error_beside_a_count_that_is_none_is_an_error() -> None:
    assert Stream().at(1.0, {"error": {"message": "boom"}, "usage": "none"}).end() == ("stream", "boom")
    assert Stream().at(1.0, {"detail": "boom", "usage": "none"}).end() == ("stream", "boom")


COUNT_NAMES = ["prompt_tokens", "completion_tokens", "input_tokens", "output_tokens", "eval_count", "prompt_tokens_details", "x"]
NO_COUNT = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(max_value=-1)
    | st.integers(min_value=10**9 + 1)
    | st.sampled_from(["", "a", "-1", "1.5"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(COUNT_NAMES), inner, max_size=4),
)


@given(st.lists(NO_COUNT, min_size=1, max_size=8), st.booleans())
def test_usage_that_holds_no_count_is_no_usage_and_never_an_error(told: list[Any], closing: bool) -> None:
    stream = Stream()
    for i, each in enumerate(told):
        stream.at(float(i), text("a", "length" if i == len(told) - 1 else None, usage=each))
    if closing:
        stream.at(99.0, {"choices": [], "usage": told[0]}, DONE)
    assert stream.end() == ("ok", None)
    assert (stream.reader.output_tokens, stream.reader.counted_by) == (len(told), "events")


def with_ids(*ids: int, piece: str = "", finish: str | None = None) -> dict[str, Any]:
    return {"choices": [{"index": 0, "text": piece, "token_ids": list(ids), "finish_reason": finish}]}


def test_without_usage_token_ids_are_counted_also_where_they_have_no_text() -> None:
    stream = Stream().at(0.5, {"choices": [{"text": "", "token_ids": None, "prompt_token_ids": [1, 2]}]})
    stream.at(1.0, with_ids(5, 6)).at(2.0, with_ids(7, piece="a")).at(3.0, with_ids(8, 9, 10)).at(4.0, with_ids(finish="length"))
    assert stream.end() == ("ok", None)
    reader = stream.reader
    assert (reader.output_tokens, reader.first_tokens, reader.counted_by) == (6, 2, "token_ids")
    assert (reader.t_first, reader.t_last, reader.gaps.n) == (1.0, 3.0, 2)


def test_events_of_which_some_have_no_token_ids_are_an_estimate() -> None:
    stream = Stream().at(1.0, with_ids(5, 6)).at(2.0, text("a")).at(3.0, with_ids(8, finish="length"))
    assert stream.end() == ("ok", None)
    assert (stream.reader.output_tokens, stream.reader.counted_by) == (4, "events")


def test_usage_counts_beside_token_ids() -> None:
    stream = Stream().at(1.0, with_ids(5, 6)).at(2.0, with_ids(8, finish="length")).at(3.0, {"choices": [], "usage": usage(3)})
    assert stream.end() == ("ok", None)
    assert (stream.reader.output_tokens, stream.reader.first_tokens, stream.reader.counted_by) == (3, 2, "usage")


@pytest.mark.parametrize(
    ("keeps", "finish", "totals", "counted"),
    [
        (True, "length", [None] * 16, (64, "length")),
        (True, "length", [None] * 80, (64, "length")),
        (True, "length", [1] * 16, (64, "length")),
        (True, "stop", [None] * 16, (16, "events")),
        (False, "length", [None] * 16, (16, "events")),
        (True, "length", [2 * (i + 1) for i in range(16)], (32, "usage")),
    ],
    ids=["several an event", "letters", "each chunk alone", "stopped", "not known", "usage"],
)
def test_a_length_that_the_server_keeps_counts_where_nothing_else_does(
    keeps: bool, finish: str, totals: list[int | None], counted: tuple[int, str]
) -> None:
    stream = Stream(64, keeps_length=keeps)
    for i, total in enumerate(totals):
        more = {} if total is None else {"usage": usage(total)}
        stream.at(1.0 + i, text("abcd", finish if i == len(totals) - 1 else None, **more))
        assert stream.reader.counted_by != "length", "before its end nothing says how long it gets"
    assert stream.end() == ("ok", None)
    assert (stream.reader.output_tokens, stream.reader.counted_by) == counted


# --- events that say nothing, and an end without a finish_reason ----------------------------------------------------

SAYS_NOTHING = [
    b"data: null\n\n",
    b"data: {}\n\n",
    b"data: []\n\n",
    b"data: true\n\n",
    b"data:   \n\n",
    b"data: { }\n\n",
    b'data: {"type": "ping"}\n\n',
    b'data: {"choices": []}\n\n',
    b": ping\n\n",
    b"event: ping\n\n",
    b"event: ping\ndata: pong\n\n",
    b"event: ping \ndata: 2026-01-01 00:00:00\n\n",
    b'event: heartbeat\ndata: {"t": 1.5}\n\n',
    b'event: request_id\ndata: "6a2b"\n\n',
    b'event: queue\ndata: {"detail": "place 3"}\n\n',
    b"id: 7\nretry: 100\n\n",
]


@pytest.mark.parametrize("nothing", SAYS_NOTHING)
def test_an_event_that_says_nothing_is_no_error_and_no_token(nothing: bytes) -> None:
    stream = Stream().at(0.2, nothing).at(1.0, text(usage=usage(1))).at(1.5, nothing).at(2.0, text("b", "length", usage=usage(2)))
    stream.at(3.0, nothing, {"choices": [], "usage": usage(2)}, nothing, DONE)
    assert stream.end() == ("ok", None)
    reader = stream.reader
    assert (reader.t_first, reader.t_last, reader.output_tokens, reader.gaps.n) == (1.0, 2.0, 2, 1)


@given(st.lists(st.sampled_from(SAYS_NOTHING), max_size=8), st.lists(st.integers(0, 900), max_size=6))
def test_such_events_change_nothing_wherever_they_stand_and_however_they_are_cut(said: list[bytes], at: list[int]) -> None:
    tokens = [json.dumps(text("a", "length" if i == 3 else None, usage=usage(i + 1))).encode() for i in range(4)]
    events = [b"data: " + token + b"\n\n" for token in tokens]
    for i, nothing in enumerate(said):
        events.insert(3 * i % (len(events) + 1), nothing)
    body = b"".join(events) + b"data: [DONE] \n\n"
    edges = sorted({0, len(body), *(min(i, len(body)) for i in at)})
    stream = Stream()
    for a, b in pairwise(edges):
        stream.reader.feed(stream.parser.feed(body[a:b]), 1.0)
    assert stream.end() == ("ok", None)
    assert (stream.reader.output_tokens, stream.reader.done, stream.reader.gaps.n) == (4, True, 3)


def test_an_event_of_another_name_may_hold_a_chunk_or_an_error() -> None:
    def named(value: Any) -> bytes:
        return b"event: completion\ndata: " + json.dumps(value).encode() + b"\n\n"

    stream = Stream().at(1.0, named(text(usage=usage(1)))).at(2.0, named(text("b", "stop", usage=usage(2))))
    assert stream.end() == ("ok", None)
    assert stream.reader.output_tokens == 2
    assert Stream().at(1.0, named({"error": {"message": "boom"}})).end() == ("stream", "boom")
    assert Stream().at(1.0, b"event: error \ndata: boom\n\n").end() == ("stream", "boom")


@pytest.mark.parametrize("done", [b"data: [DONE] \n\n", b"data:  [DONE]\n\n", b"data: [DONE]\t\n\n", b"data: [DONE]\ndata:\n\n"])
def test_done_with_blanks_is_done(done: bytes) -> None:
    stream = Stream().at(1.0, text("a", "stop", usage=usage(1)), done, b"data: what comes after is not taken in\n\n")
    assert stream.end() == ("ok", None)
    assert stream.reader.done
    unfinished = Stream().at(1.0, text("a", "stop", usage=usage(1))).at(2.0, done.rstrip(b"\n"))
    assert unfinished.end() == ("ok", None)
    assert unfinished.reader.done


def unfinished(asked: int, sent: int, *, told: str = "each", closing: bool = True, done: bool = True) -> Stream:
    """A stream whose finish_reason is null to the end. `told`: usage in each event, or in the closing one alone, or none."""
    stream = Stream(asked)
    for i in range(sent):
        more = {"usage": usage(i + 1)} if told == "each" else {}
        stream.at(1.0 + i, text("a", None, **more))
    if closing:
        stream.at(98.0, {"choices": [], "usage": usage(sent)})
    return stream.at(98.5, DONE) if done else stream


@pytest.mark.parametrize(
    ("stream", "orderly", "ending"),
    [
        (unfinished(64, 64), True, "ok"),
        (unfinished(64, 64), False, "ok"),
        (unfinished(64, 65), True, "ok"),
        (unfinished(64, 64, closing=False), True, "ok"),
        (unfinished(64, 64, told="last"), True, "ok"),
        (unfinished(64, 64, done=False), True, "ok"),
        (unfinished(64, 64, told="last", done=False), True, "ok"),
        (unfinished(64, 63), True, "truncated"),
        (unfinished(64, 64, told="none", closing=False), True, "truncated"),
        (unfinished(64, 64, closing=False, done=False), True, "truncated"),
        (unfinished(64, 64, done=False), False, "truncated"),
        (unfinished(64, 64, done=False).at(99.0, text(usage=usage(65))), True, "truncated"),
        (Stream(64).at(1.0, {"choices": [], "usage": usage(64)}, DONE), True, "truncated"),
    ],
    ids=[
        "done", "done, then broken", "one more", "no closing usage", "usage in the end", "closing usage", "both of these",
        "one token fewer", "no usage", "neither closing usage nor done", "broken", "more after the closing usage", "no token",
    ],
)  # fmt: skip
def test_an_end_without_a_finish_reason(stream: Stream, orderly: bool, ending: str) -> None:
    """Some servers leave it null: an answer is whole where usage says that every token had come, and the server that it is over."""
    assert stream.end(orderly=orderly)[0] == ending
    assert stream.reader.finish_reason is None


def test_without_a_number_asked_for_an_end_without_a_finish_reason_is_a_cut() -> None:
    assert Stream().at(1.0, text(usage=usage(1)), {"choices": [], "usage": usage(1)}, DONE).end()[0] == "truncated"
