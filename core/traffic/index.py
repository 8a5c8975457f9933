"""Where each row of a large file begins, so that any row can be read and none need be kept: lines, or the entries of one array.

The array is split by own code because the libraries for it (ijson, json-stream) decode every value to find the next one, at some
30 MB/s; here only quotes, brackets and commas are looked at, all of a block at once.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import BinaryIO, Literal

import numpy as np
from numpy.typing import NDArray

from core.errors import UserError

Progress = Callable[[float], None]
"""Is told which share of the file has been looked at, from 0 to 1."""

MOST_ANCHORS = 2**21
"""16 MiB of offsets. A file of more rows keeps the offset of every second row, or fourth, and so on."""

MOST_ROW_BYTES = 16 * 2**20
"""Longer rows are no prompts: 16 MiB of text are some four million tokens."""

_BLOCK = 2**20
_QUOTE, _BACKSLASH, _COMMA = b'"\\,'
_STRUCTURE = bytes(byte in b'"\\,[]{}' for byte in range(256))
_DEPTH = np.zeros(256, dtype=np.int64)
_DEPTH[list(b"[{")], _DEPTH[list(b"]}")] = 1, -1

Offsets = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Index:
    """Row i is the (i mod stride)-th that begins at or after `anchors[i // stride]`; `end` is where the last one ends."""

    unit: Literal["line", "entry"]
    rows: int
    end: int
    stride: int
    anchors: Offsets = field(repr=False)

    def read(self, file: BinaryIO, row: int) -> bytes | None:
        """The bytes of a row, without what separates it from the next; None for one that is too long to be a row."""
        found = self.found(file, row)
        return None if found is None else found[1]

    def found(self, file: BinaryIO, row: int) -> tuple[int, bytes] | None:
        """Where in the file the bytes of a row begin, and these, as `read` has them."""
        group, place = divmod(row, self.stride)
        begin = int(self.anchors[group])
        end = int(self.anchors[group + 1]) if group + 1 < self.anchors.size else self.end
        if end - begin > self.stride * MOST_ROW_BYTES or end - begin > 4 * MOST_ROW_BYTES:
            return None
        file.seek(begin)
        data = file.read(end - begin)
        if self.unit == "line":
            lines = data.split(b"\n", place + 1)
            before, line = sum(len(each) + 1 for each in lines[:place]), lines[place]
            return begin + before + len(line) - len(line.lstrip()), line.strip()
        starts = np.append(0, Brackets(depth=1).feed(data)[0]) if self.stride > 1 else np.zeros(1, dtype=np.int64)
        stop = int(starts[place + 1]) if place + 1 < starts.size else len(data)
        entry = data[int(starts[place]) : stop]
        return begin + int(starts[place]) + len(entry) - len(entry.lstrip()), entry.strip().removesuffix(b",").rstrip()


class _Anchors:
    """Collects where rows begin, every `stride`-th of them."""

    def __init__(self, most: int) -> None:
        self._most, self._kept, self._size = most, [np.zeros(0, dtype=np.int64)], 0
        self.stride, self.rows = 1, 0

    def add(self, begins: Offsets) -> None:
        kept = begins[-self.rows % self.stride :: self.stride]
        self.rows += begins.size
        self._kept.append(kept)
        self._size += kept.size
        while self._size > self._most:
            self._kept = [np.concatenate(self._kept)[::2].copy()]
            self._size, self.stride = self._kept[0].size, 2 * self.stride

    def whole(self) -> Offsets:
        return np.concatenate(self._kept)


def index_lines(file: BinaryIO, begin: int, size: int, progress: Progress, most: int = MOST_ANCHORS) -> Index:
    """Every line from `begin` on, blank ones too (they keep their numbers). The last one need not end."""
    anchors, at = _Anchors(most), begin
    file.seek(begin)
    anchors.add(np.array([begin], dtype=np.int64))
    last = b""
    while block := file.read(_BLOCK):
        ends = np.flatnonzero(np.frombuffer(block, dtype=np.uint8) == 10).astype(np.int64)
        anchors.add(at + ends + 1)
        at, last = at + len(block), block
        progress(at / max(size, at))
    whole, rows = anchors.whole(), anchors.rows
    if last.endswith(b"\n"):  # what begins behind the last end is no line
        rows -= 1
        whole = whole[: -(-rows // anchors.stride)]
    return Index("line", rows, at, anchors.stride, whole)


def index_array(file: BinaryIO, begin: int, size: int, progress: Progress, name: str, most: int = MOST_ANCHORS) -> Index:
    """Every entry of the JSON array that begins at `begin`. Raises UserError where it does not end, or is not all of the file."""
    anchors, at, brackets = _Anchors(most), begin, Brackets()
    file.seek(begin)
    while block := file.read(_BLOCK):
        begins, end = brackets.feed(block)
        anchors.add(at + begins)
        if end is not None:
            file.seek(at + end + 1)
            if file.read(_BLOCK).strip():
                raise UserError(f"{name}: more text follows the JSON array; give one array, or JSONL.")
            progress(1.0)
            return Index("entry", anchors.rows, at + end, anchors.stride, anchors.whole())
        at += len(block)
        progress(at / max(size, at))
    raise UserError(f"{name}: the file ends inside entry {anchors.rows} of its JSON array; it is cut off, fetch it again.")


class Brackets:
    """Splits a JSON array that comes in blocks: where its entries begin, and where it ends. Strings are told from structure."""

    def __init__(self, depth: int = 0) -> None:
        self._depth, self._inside, self._escape = depth, False, False

    def feed(self, block: bytes) -> tuple[Offsets, int | None]:
        """Offsets in the block behind each opening bracket or comma of the array itself, and that of its closing bracket."""
        text = np.frombuffer(block, dtype=np.uint8)
        at = np.flatnonzero(np.frombuffer(block.translate(_STRUCTURE), dtype=np.bool_))
        kind = text[at]
        quotes = (kind == _QUOTE) & ~self._escaped(at, kind, text.size)
        after = np.cumsum(quotes)
        outside = ((after - quotes + self._inside) % 2 == 0) & ~quotes
        self._inside = bool((int(after[-1]) if after.size else 0) + self._inside & 1)
        at, kind = at[outside], kind[outside]
        change = _DEPTH[kind]
        depth = self._depth + np.cumsum(change)
        ended = np.flatnonzero((depth == 0) & (change < 0))
        stop = int(ended[0]) if ended.size else at.size
        first = (depth == 1) & ((kind == _COMMA) | (change > 0))
        self._depth = int(depth[-1]) if depth.size else self._depth
        begins: Offsets = (at[:stop][first[:stop]] + 1).astype(np.int64)
        return begins, int(at[stop]) if ended.size else None

    def _escaped(self, at: NDArray[np.int64], kind: NDArray[np.uint8], size: int) -> NDArray[np.bool_]:
        """Which of them stand behind an odd number of backslashes; a run may have begun in the block before."""
        slash = kind == _BACKSLASH
        run = np.ones(at.size, dtype=np.bool_)  # where a run of backslashes begins
        run[1:] = ~(slash[1:] & slash[:-1] & (np.diff(at) == 1))
        place = np.arange(at.size)
        length = np.where(slash, place - np.maximum.accumulate(np.where(run, place, 0)) + 1, 0) if at.size else place
        if self._escape and at.size and at[0] == 0 and slash[0]:  # the first one is itself escaped: its run counts one less
            length[: int(np.argmax(run[1:])) + 1 if run[1:].any() else at.size] += 1
        escaped = np.zeros(at.size, dtype=np.bool_)
        escaped[1:] = (length[:-1] % 2 == 1) & (np.diff(at) == 1)
        escaped[:1] = self._escape and at.size > 0 and at[0] == 0
        self._escape = bool(at.size and slash[-1] and at[-1] == size - 1 and length[-1] % 2 == 1)
        behind: NDArray[np.bool_] = escaped & ~slash
        return behind
