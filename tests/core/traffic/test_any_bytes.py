"""Whatever bytes a file holds, it is read or refused by a sentence; nothing else comes out of a reader."""

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.errors import UserError
from core.traffic import draw, mix_of, open_dataset, read_lengths, read_trace, usable
from tests.core.traffic.files import DATA, SEED, written

PIECES = [
    *(
        b"[",
        b"]",
        b"{",
        b"}",
        b'"',
        b"\\",
        b",",
        b":",
        b"\n",
        b"\r\n",
        b" ",
        b"0",
        b"-1",
        b"1e999",
        b"nan",
        b"null",
        b"true",
        b"\xff",
    ),
    *(b'{"prompt": "P"}', b'{"prompt": "P", "output_tokens": 0}', b'"conversations"', b'{"from": "human", "value": "Q"}'),
    *(b'{"timestamp": 1, "input_length": 600, "output_length": 5, "hash_ids": [1, 2]}', b'"hash_ids": [1, 99999999999999999999]'),
    *(
        b"TIMESTAMP,ContextTokens,GeneratedTokens\n",
        b"2024-05-12 00:00:00,5,5\n",
        b"arrived_at,num_prefill_tokens,num_decode_tokens\n",
    ),
    *(b"1.5,5,5\n", b"1024:128\n", b"\xef\xbb\xbf", b"\xe2\x80\xa8", b"\\ud83d"),
]
FILES = sorted(path.read_bytes() for path in DATA.iterdir() if path.suffix != ".md")


@st.composite
def damaged(draw_one: st.DrawFn) -> bytes:
    """One of our files with a piece of it cut out or put in."""
    data = draw_one(st.sampled_from(FILES))
    low = draw_one(st.integers(0, len(data)))
    high = draw_one(st.integers(low, min(len(data), low + 200)))
    return data[:low] + draw_one(st.sampled_from([b"", *PIECES])) + data[high:]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("bytes")


@settings(deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=12).map(b"".join) | damaged() | st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(folder: Path, data: bytes) -> None:
    path = written(folder, data)
    with suppress(UserError):
        drawn = draw(open_dataset(path), 5, SEED)
        assert 0 < len(drawn.rows) <= 5
    with suppress(UserError):
        assert mix_of(read_lengths(path), 5)[0]
    for unit in (None, "ms"):
        with suppress(UserError):
            trace = usable(read_trace(path, "ms" if unit else None))
            assert trace.input_tokens.min() > 0 < trace.output_tokens.min()
            assert trace.found
            assert len(list(trace.rows())) == len(trace)
