"""Any row of a large file is found by where it begins: lines, and entries of one array, however the blocks cut them."""

import io
import json
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.errors import UserError
from core.traffic import index as indexing
from core.traffic.index import Brackets, Index, index_array, index_lines

texts = st.text(st.sampled_from('a,"\\[]{}:\n\u00e4\u2028 '), max_size=12)
values = st.recursive(
    st.none() | st.integers() | texts, lambda v: st.lists(v, max_size=3) | st.dictionaries(texts, v, max_size=3), max_leaves=8
)


def quiet(share: float) -> None:
    assert 0 < share <= 1


def lines_of(data: bytes, most: int = 4) -> Index:
    return index_lines(io.BytesIO(data), 0, len(data), quiet, most)


def array_of(data: bytes, most: int = 4) -> Index:
    return index_array(io.BytesIO(data), 0, len(data), quiet, "--dataset: a.json", most)


def read(index: Index, data: bytes) -> list[bytes | None]:
    return [index.read(io.BytesIO(data), row) for row in range(index.rows)]


@pytest.fixture(params=[1, 2, 3, 7, 2**20])
def block(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    size: int = request.param
    monkeypatch.setattr(indexing, "_BLOCK", size)
    return size


@given(st.lists(st.text(st.sampled_from("ab{ \r"), max_size=6), max_size=20), st.booleans(), st.integers(1, 30))
def test_every_line_is_found_by_its_number(lines: list[str], ended: bool, most: int) -> None:
    data = "\n".join(lines).encode() + (b"\n" if ended else b"")
    index = lines_of(data, most)
    expected = data.split(b"\n")[: -1 if data.endswith(b"\n") else None]
    assert read(index, data) == [line.strip() for line in expected]
    assert index.anchors.size <= most


@settings(deadline=None)
@given(st.lists(values, max_size=9), st.sampled_from([None, 0, 2]), st.booleans(), st.integers(1, 30), st.integers(1, 99))
def test_every_entry_of_an_array_is_found(entries: list[object], indent: int | None, ascii_only: bool, most: int, cut: int) -> None:
    data = (" " + json.dumps(entries, indent=indent, ensure_ascii=ascii_only) + "\n").encode()
    index = array_of(data, most)
    found = [json.loads(row) for row in read(index, data) if row]
    assert found == entries
    brackets = Brackets()  # the same in pieces of a few bytes
    begins, at = list[int](), 0
    for piece in range(0, len(data), cut):
        firsts, end = brackets.feed(data[piece : piece + cut])
        begins += [piece + int(first) for first in firsts]
        if end is not None:
            at = piece + end
            break
    assert at == index.end
    assert [
        json.loads(data[low : high - 1]) for low, high in pairwise([*begins, at + 1]) if data[low : high - 1].strip()
    ] == entries


@pytest.mark.parametrize("slashes", range(6))
def test_a_quote_ends_a_text_behind_an_even_number_of_backslashes(block: int, slashes: int) -> None:
    text = "\\" * slashes + ('"' if slashes % 2 else "")
    data = f'["{text}", "b"]'.encode()
    assert read(array_of(data), data) == [f'"{text}"'.encode(), b'"b"']


def test_blocks_may_end_anywhere(block: int) -> None:
    data = b'[{"a": "x, ]\\\\\\"", "b": [1, {}]}, "\\\\", 3]'
    assert read(array_of(data), data) == [b'{"a": "x, ]\\\\\\"", "b": [1, {}]}', b'"\\\\"', b"3"]
    assert read(lines_of(b"a\n\nb"), b"a\n\nb") == [b"a", b"", b"b"]


@pytest.mark.parametrize("data", [b"[", b'[{"a": 1}, {"b"', b'[{"a": "]', b'["\\"]'])
def test_an_array_that_does_not_end_is_refused(data: bytes) -> None:
    with pytest.raises(UserError, match=r"^--dataset: a\.json: .*cut off, fetch it again\.$"):
        array_of(data)


def test_text_behind_the_array_is_refused() -> None:
    with pytest.raises(UserError, match="more text follows"):
        array_of(b"[1] [2]")


def test_a_row_that_is_too_long_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(indexing, "MOST_ROW_BYTES", 8)
    data = b"short\n" + b"x" * 20 + b"\nlast\n"
    assert read(lines_of(data), data) == [b"short", None, b"last"]


def test_progress_ends_at_one() -> None:
    told: list[float] = []
    index_lines(io.BytesIO(b"a\n" * 9), 0, 18, told.append)
    index_array(io.BytesIO(b"[1, 2]"), 0, 6, told.append, "x")
    assert told == [1.0, 1.0]


def test_a_file_of_many_rows_keeps_few_offsets() -> None:
    data = b"".join(b"%d\n" % n for n in range(10_000))
    index = index_lines(io.BytesIO(data), 0, len(data), quiet, 100)
    assert (index.stride, index.anchors.size <= 100, index.rows) == (128, True, 10_000)
    assert [index.read(io.BytesIO(data), row) for row in (0, 127, 128, 9_999)] == [b"0", b"127", b"128", b"9999"]
