"""The same bytes give the same events however they are framed or cut."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.load.sse import BARE_JSON, EventTooLong, SseEvent, SseParser

TRICKY = '{"text":"\u2028\u2029\u0085\x0b\x0c中🦙"}'.encode()


def events(*pieces: bytes) -> list[SseEvent]:
    """By `feed` alone, and by `plain` wherever that takes a piece: the same."""
    parser, quick = SseParser(), SseParser()
    found = [event for piece in pieces for event in parser.feed(piece)] + parser.close()
    quickly: list[SseEvent] = []
    for piece in pieces:
        plain = quick.plain(piece)
        quickly += quick.feed(piece) if plain is None else [SseEvent(data) for data in plain]
    assert quickly + quick.close() == found
    return found


def cuts(data: bytes) -> list[tuple[bytes, bytes]]:
    return [(data[:i], data[i:]) for i in range(len(data) + 1)]


FRAMINGS = {
    "lf": b"data: %s\n\ndata: [DONE]\n\n",
    "crlf": b"data: %s\r\n\r\ndata: [DONE]\r\n\r\n",
    "cr": b"data: %s\r\rdata: [DONE]\r\r",
    "no blank": b"data:%s\n\ndata:[DONE]\n\n",
    "comments": b":\n\n: ping\n\ndata: %s\n: between\n\n\n\ndata: [DONE]\n\n",
    "id and retry": b"id: 7\nretry: 10\ndata: %s\n\nid\ndata: [DONE]\n\n",
    "bom": b"\xef\xbb\xbfdata: %s\n\ndata: [DONE]\n\n",
    "no last blank line": b"data: %s\n\ndata: [DONE]",
}


@pytest.mark.parametrize("name", FRAMINGS)
def test_every_framing_and_every_cut_gives_the_same_events(name: str) -> None:
    stream = FRAMINGS[name] % TRICKY
    wanted = [SseEvent(TRICKY), SseEvent(b"[DONE]")]
    assert all(events(*pieces) == wanted for pieces in cuts(stream))
    assert events(*(stream[i : i + 1] for i in range(len(stream)))) == wanted


def test_data_lines_are_joined_and_names_kept_for_their_event_only() -> None:
    stream = b"event: error\ndata: one\ndata:\ndata:  two\n\nevent: lost\n\ndata: three\n\n"
    assert events(stream) == [SseEvent(b"one\n\n two", b"error"), SseEvent(b"three")]


def test_an_event_comes_with_its_blank_line_and_not_before() -> None:
    parser = SseParser()
    assert parser.feed(b"data: a") == []
    assert parser.feed(b"\n") == []
    assert parser.feed(b"\n") == [SseEvent(b"a")]
    assert parser.close() == []


def test_a_carriage_return_ends_the_event_at_once() -> None:
    parser = SseParser()
    assert parser.feed(b"data: a\r\n\r") == [SseEvent(b"a")]
    assert parser.feed(b"\ndata: b\r\rdata: c") == [SseEvent(b"b")]
    assert parser.feed(b"\n\n") == [SseEvent(b"c")]


def test_json_outside_any_field_is_an_event_of_its_own() -> None:
    assert events(b'{"error":{"message":"boom"}}\n\n') == [SseEvent(b'{"error":{"message":"boom"}}', BARE_JSON)]


def test_an_empty_data_line_is_an_event_without_data() -> None:
    assert events(b"data:\n\ndata\n\n") == [SseEvent(b""), SseEvent(b"")]


@pytest.mark.parametrize("piece", [b"data: " + b"x" * 100, b"data: xxxxxxxxxx\n" * 10, b": " + b"x" * 100])
def test_an_event_without_end_is_refused_with_a_sentence(piece: bytes) -> None:
    with pytest.raises(EventTooLong, match="more than 64 bytes"):
        SseParser(limit=64).feed(piece)
    parser = SseParser(limit=64)
    with pytest.raises(EventTooLong):
        _ = [parser.feed(piece[i : i + 1]) for i in range(len(piece))]


def test_the_limit_is_for_one_event_not_for_the_stream() -> None:
    parser = SseParser(limit=64)
    assert sum(len(parser.feed(b"data: 0123456789\n\n: ping\n\n")) for _ in range(100)) == 100


PIECE = st.sampled_from([b"data: a", b"data:b", b"data", b"event: x", b": c", b"id: 1", b'{"a":1}', b"", b"\xef\xbb\xbf", b"q"])
LINE_END = st.sampled_from([b"\n", b"\r\n", b"\r"])


@given(st.lists(st.tuples(PIECE, LINE_END), max_size=12), st.lists(st.integers(0, 120), max_size=8))
def test_any_cut_gives_the_same_events(lines: list[tuple[bytes, bytes]], at: list[int]) -> None:
    stream = b"".join(line + end for line, end in lines)
    edges = sorted({0, len(stream), *(min(i, len(stream)) for i in at)})
    assert events(*(stream[a:b] for a, b in pairwise(edges))) == events(stream)


@given(st.lists(st.binary(max_size=30), max_size=10))
def test_any_bytes_are_survived_and_cut_freely(pieces: list[bytes]) -> None:
    assert events(*pieces) == events(b"".join(pieces))


def test_what_nearly_every_read_is_goes_the_short_way_and_nothing_else() -> None:
    parser = SseParser(limit=100)
    assert parser.plain(b"data: a\n\n") is None, "the first may begin with a byte order mark"
    assert parser.feed(b"data: a\n\n") == [SseEvent(b"a")]
    assert parser.plain(b"data: a\n\n") == [b"a"]
    assert parser.plain(b"data: a\n\ndata: b\n\n") == [b"a", b"b"]
    for other in (
        b"",
        b"\n\n",
        b"data:a\n\n",
        b"data: a",
        b"data: a\n",
        b": ping\n\n",
        b"event: error\ndata: a\n\n",
        b"data: a\ndata: b\n\n",
        b"data: a\n\n\ndata: b\n\n",
        b"data: a\r\n\r\ndata: b\n\n",
        b'{"error": 1}\n\n',
        b"data: " + b"x" * 100 + b"\n\n",
    ):
        assert parser.plain(other) is None, other
    parser.feed(b"data: half")
    assert parser.plain(b"data: a\n\n") is None
