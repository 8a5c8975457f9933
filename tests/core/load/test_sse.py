"""The same bytes give the same events however they are framed or cut."""

import json
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


@pytest.mark.parametrize("value", [{"error": {"message": "boom"}}, [{"error": {"message": "boom"}}]])
def test_json_over_several_lines_outside_any_field_is_one_event(value: object) -> None:
    bare = json.dumps(value, indent=2).encode()
    for stream in (bare, bare + b"\n", bare + b"\n\n"):
        for pieces in cuts(stream):
            assert events(*pieces) == [SseEvent(bare, BARE_JSON)]
    assert events(b"data: a\n\n" + bare + b"\n\ndata: b\n\n") == [SseEvent(b"a"), SseEvent(bare, BARE_JSON), SseEvent(b"b")]


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


def fits(limit: int, *pieces: bytes) -> bool:
    parser = SseParser(limit)
    try:
        _ = [parser.feed(piece) for piece in pieces]
    except EventTooLong:
        return False
    return True


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
@pytest.mark.parametrize("stream", [b"data: 0123456789E", b"data: 0123E: 01234E", b'{ "a": 1, E"b": 2}E', b": 0123456789012E"])
def test_the_limit_hangs_neither_on_the_cut_nor_on_the_ends_of_lines(stream: bytes, end: bytes) -> None:
    size = len(stream) - stream.count(b"E")
    framed = stream.replace(b"E", end)
    for pieces in (*cuts(framed), tuple(framed[i : i + 1] for i in range(len(framed)))):
        assert fits(size, *pieces)
        assert not fits(size - 1, *pieces)


TEXT = st.text(
    st.characters(exclude_categories=["Cs"]) | st.sampled_from("\u2028\u2029\u0085\ufeff\x0b\x0c\x1c\x1d\x1e中🦙"), max_size=12
)
NOISE = [b": ping", b":", b"id: 7", b"retry: 10", b"unknown: x", b"data_: x", b"x\xef\xbb\xbfdata: x", b"event"]
LINE_END = st.sampled_from([b"\n", b"\r\n", b"\r"])
FRAMED = st.tuples(
    TEXT,
    st.sampled_from([None, "\t"]),
    st.sampled_from([b"data:", b"data: "]),
    st.lists(st.sampled_from(NOISE), max_size=3),
    LINE_END,
)


@given(st.lists(FRAMED, max_size=3), st.booleans(), st.lists(st.integers(0, 200), max_size=6))
def test_any_text_in_any_framing_and_any_cut_is_the_same_events(
    framed: list[tuple[str, str | None, bytes, list[bytes], bytes]], bom: bool, at: list[int]
) -> None:
    """Unicode of every kind, one or several data lines, comments and other fields between them."""
    stream, wanted = b"\xef\xbb\xbf" * bom, []
    for text, indent, field, noise, end in framed:
        value = json.dumps({"text": text, "n": 1}, ensure_ascii=False, indent=indent).encode()
        lines = [field + line for line in value.split(b"\n")]
        for i, line in enumerate(noise):
            lines.insert(i * 2, line)
        stream += end.join([*lines, b"", b""])
        wanted.append(value)
    assert [event.data for event in events(*_at(stream, at))] == wanted


PIECE = st.sampled_from(
    [b"data: a", b"data:b", b"data", b"event: x", b": c", b"id: 1", b'{"a":1}', b"{", b"[", b"}", b"", b"\xef\xbb\xbf", b"q"]
)


@given(st.lists(st.tuples(PIECE, LINE_END), max_size=12), st.lists(st.integers(0, 120), max_size=8))
def test_any_cut_gives_the_same_events(lines: list[tuple[bytes, bytes]], at: list[int]) -> None:
    stream = b"".join(line + end for line, end in lines)
    assert events(*_at(stream, at)) == events(stream)


@given(st.lists(st.binary(max_size=30), max_size=10))
def test_any_bytes_are_survived_and_cut_freely(pieces: list[bytes]) -> None:
    assert events(*pieces) == events(b"".join(pieces))


def _at(stream: bytes, at: list[int]) -> list[bytes]:
    edges = sorted({0, len(stream), *(min(i, len(stream)) for i in at)})
    return [stream[a:b] for a, b in pairwise(edges)]


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
