"""A file of prompts: what it is, and the rows that a run draws from it. It is never whole in memory."""

import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np
from numpy.random import PCG64, Generator, SeedSequence
from numpy.typing import NDArray

from core.errors import UserError
from core.facts import Fact, fact
from core.traffic.files import BOM, head, unreadable
from core.traffic.forms import LINES, READERS, Form, Read, Reader, columns_of_prompts, recognised
from core.traffic.index import MOST_ROW_BYTES, Index, Progress, index_array, index_lines
from core.traffic.refusals import BadRows, too_many_bad
from core.traffic.rows import Prompt, Row
from core.traffic.trace_forms import trace_head, trace_row
from core.traffic.values import decoded

NAME = "--dataset"
_LOOKED_AT = 64
"""Rows at the beginning that may tell the form: one broken row must not decide."""

_NO_TALK = {"row_begins_with_answer", "row_few_turns", "row_empty"}
"""What many rows of ShareGPT files are, without being broken: they were cut into pieces of 2,048 tokens, and pieces and empty turns
stand in the files that everybody uses. All tools leave them out."""

_PERMUTED = 2**20
"""Up to so many rows the order is a permutation in memory (8 MiB); of more rows few are drawn, each at random."""


class Span(NamedTuple):
    """The bytes of a row in its file: where they begin, how many they are, and their checksum."""

    begin: int
    size: int
    checksum: int


def checksum(data: bytes) -> int:
    """By which the bytes of a row are known again."""
    return zlib.crc32(data)


@dataclass(frozen=True, slots=True)
class Dataset:
    """A file of prompts with the place of each of its rows, blank lines among them. Nothing of its text is kept."""

    path: Path
    form: Form
    index: Index
    reader: Reader = field(repr=False)
    stamp: tuple[int, int] = field(repr=False)

    @property
    def found(self) -> Fact:
        """What was recognised."""
        return fact("dataset_found", file=self.path.name, form=self.form, rows=self.index.rows, unit=self.index.unit)

    def spans(self, rows: Iterable[Row]) -> list[Span]:
        """Where these rows stand. Raises UserError if the file has changed, or is gone."""
        try:
            with self.path.open("rb") as file:
                found = [self.index.found(file, row.at - 1) for row in rows]
            self.refuse_changed()
        except OSError as error:
            raise unreadable(NAME, self.path, error) from None
        return [Span(begin, len(data), checksum(data)) for begin, data in (each for each in found if each is not None)]

    def refuse_changed(self) -> None:
        """Raise UserError if the file is not the one that was looked at any more."""
        if _stamp(self.path) != self.stamp:
            raise UserError(f"{NAME}: {self.path} has changed since it was looked at; start again.")


@dataclass(frozen=True, slots=True)
class Drawn:
    """The rows of a run, in the order in which they are sent. `bad`: those drawn that cannot be used, each with its line. Pieces of
    ShareGPT conversations that have no question with its answer are none of them.

    `said`: what is worth a word. `next`: where the following draw of the same order begins, so that repeats share no row.
    """

    rows: tuple[Row, ...]
    bad: tuple[Fact, ...]
    said: tuple[Fact, ...]
    next: int


def look_at(path: Path) -> tuple[int, bytes, bytes]:
    """The beginning of a file that may be a dataset: where its text begins, the text, and the first line. Raises UserError, with
    what to do, for what cannot be one."""
    first = head(path, NAME, unpack=False)
    begin = len(BOM) if first.startswith(BOM) else 0
    text = first[begin:].lstrip()
    line = text.split(b"\n", 1)[0].strip()
    if line == b"{":
        raise UserError(f"{NAME}: {path} is one JSON object over many lines; give an array of objects, or one object a line.")
    if trace := trace_head(line.decode(errors="replace")):
        raise UserError(f"{NAME}: {path} holds no text but {trace}.")
    if columns_of_prompts(line.decode(errors="replace")):
        raise UserError(f"{NAME}: {path} is CSV, whose columns are not read here; write it out as JSONL with the same names.")
    return begin, text, line


def open_dataset(path: Path, progress: Progress = lambda share: None) -> Dataset:
    """Look at a file once from end to end: 2 GB take some seconds. Raises UserError, with what to do, for what is no dataset."""
    begin, text, line = look_at(path)
    array, is_json = _is_array(text), text[:1] == b"{" or isinstance(decoded(line), (str, list))
    try:
        with path.open("rb") as file:
            size = path.stat().st_size
            if array:
                index = index_array(file, begin, size, progress, f"{NAME}: {path}")
            else:
                index = index_lines(file, begin, size, progress)
            reader = _reader(file, index, path, array or is_json)
            return Dataset(path, reader.form, index, reader, _stamp(path))
    except OSError as error:
        raise unreadable(NAME, path, error) from None


def _is_array(text: bytes) -> bool:
    """Whether it begins as an array of objects or texts; `[INST] Who are you?` is a prompt, and `[1, 2]` a line of JSON."""
    behind = text[1:].lstrip()
    return text[:1] == b"[" and (behind[:1] in (b"{", b'"') or behind == b"]")


def _reader(file: BinaryIO, index: Index, path: Path, is_json: bool) -> Reader:
    if not is_json:
        return LINES
    for row in range(min(index.rows, _LOOKED_AT)):
        data = index.read(file, row)
        entry = decoded(data) if data else None
        if reader := recognised(entry):
            return reader
        if trace := trace_row(entry):
            raise UserError(f"{NAME}: {path} holds no text but {trace}.")
    raise UserError(
        f"{NAME}: none of the first {min(index.rows, _LOOKED_AT)} rows of {path} is a prompt; give ShareGPT, OpenAI chat or batch "
        'JSONL, objects such as {"prompt": "…", "output_tokens": 128}, or plain lines.'
    )


def _stamp(path: Path) -> tuple[int, int]:
    now = path.stat()
    return now.st_size, now.st_mtime_ns


def draw(dataset: Dataset, n: int, seed: SeedSequence, start: int = 0, *, again: bool = True) -> Drawn:
    """`n` rows in an order of their own, from its `start` on; the same seed gives the same rows, whatever the arrivals are. Without
    `again` no row comes twice, so that they may be fewer.

    Raises BadRows if more than 1 % of the rows drawn cannot be used, or none can, and UserError if the file has changed.
    """
    rows: list[Row] = []
    bad: list[Fact] = []
    pieces: list[Fact] = []
    order, taken = _endless(dataset.index.rows, seed), 0
    try:
        with dataset.path.open("rb") as file:
            dataset.refuse_changed()
            for place in islice(order, start, None if again else dataset.index.rows):
                if len(rows) == n or (not rows and taken == dataset.index.rows):
                    break
                taken += 1
                found = _read(dataset, file, place)
                if isinstance(found, Fact):
                    piece = dataset.form == "sharegpt" and found.code in _NO_TALK
                    (pieces if piece else bad).append(fact("row_bad", found, at=place + 1, unit=dataset.index.unit))
                    if too_many_bad(len(bad), n):
                        break
                elif found is not None:
                    rows.append(found)
    except OSError as error:
        raise unreadable(NAME, dataset.path, error) from None
    if n and not rows:
        bad += pieces
        raise BadRows(NAME, dataset.path.name, tuple(bad), len(bad), 0)
    if too_many_bad(len(bad), len(rows)):
        raise BadRows(NAME, dataset.path.name, tuple(bad), len(bad) + len(rows), len(rows))
    _refuse_mixed(dataset, rows)
    return Drawn(tuple(rows), tuple(bad), tuple(_said(dataset, bad, pieces, rows, start + taken)), start + taken)


def _read(dataset: Dataset, file: BinaryIO, place: int) -> Read | None:
    """A row; None for a blank line."""
    data = dataset.index.read(file, place)
    if data is None:
        return fact("row_too_long", most_bytes=MOST_ROW_BYTES)
    return _row(data, dataset.reader, place + 1) if data else None


def _row(data: bytes, reader: Reader, at: int) -> Read:
    if reader is LINES:
        try:
            return reader.read(data.decode(), at)
        except UnicodeDecodeError:
            return fact("row_not_utf8")
    entry = decoded(data)
    return entry if isinstance(entry, Fact) else reader.read(entry, at)


def row_of(data: bytes, form: str) -> Row | None:
    """The row that these bytes of a file of that form are; None if they are none any more."""
    reader = next(reader for name, reader in READERS.items() if name == form)
    row = _row(data, reader, 0)
    return None if isinstance(row, Fact) else row


def _refuse_mixed(dataset: Dataset, rows: list[Row]) -> None:
    asked = sorted({row.endpoint for row in rows if isinstance(row, Prompt) and row.endpoint is not None})
    if dataset.form == "openai_batch" and len(asked) > 1:
        raise UserError(f"{NAME}: {dataset.path} asks for {' and '.join(asked)} in one file; give a file for each.")


def _said(dataset: Dataset, bad: list[Fact], pieces: list[Fact], rows: list[Row], until: int) -> Iterator[Fact]:
    if pieces:
        yield fact("rows_pieces", rows=len(pieces), drawn=len(pieces) + len(bad) + len(rows))
    if bad:
        yield fact("rows_bad", *bad[:5], bad=len(bad), drawn=len(bad) + len(rows))
    if until > dataset.index.rows:
        yield fact("rows_again", rows=dataset.index.rows, unit=dataset.index.unit, drawn=until)


def _endless(rows: int, seed: SeedSequence) -> Iterator[int]:
    """Every row once in a random order, then all again in another."""
    rng = Generator(PCG64(seed))
    while rows:
        yield from _once(rows, rng)


def _once(rows: int, rng: Generator) -> Iterator[int]:
    left: NDArray[np.int64] = np.arange(min(rows, _PERMUTED))
    if rows > _PERMUTED:
        seen: set[int] = set()
        while len(seen) < rows // 2:
            for place in rng.integers(0, rows, 1024).tolist():
                if place not in seen:
                    seen.add(place)
                    yield place
        rest = np.ones(rows, dtype=np.bool_)
        rest[np.fromiter(seen, dtype=np.int64, count=len(seen))] = False
        left = np.flatnonzero(rest)
    yield from (int(place) for place in rng.permutation(left))
