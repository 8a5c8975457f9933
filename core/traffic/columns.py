"""Reads a file of figures row by row into columns. A row that cannot be used is kept by its line and reason, never guessed at."""

import csv
from array import array
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import BinaryIO

import numpy as np

from core.facts import Fact, fact
from core.traffic.files import BOM, streamed, unreadable
from core.traffic.index import MOST_ROW_BYTES, Progress
from core.traffic.trace import LeftOut
from core.traffic.trace_forms import TimeUnit, TraceForm, blocks, cells
from core.traffic.values import date_s, decoded, number, whole

_EXAMPLES = 1000
_GIVEN_UP = 10_000
"""If so many rows have not a good one among them, the rest is not read."""
_TOLD_EVERY = 65_536
_LATEST_S = 1e11
"""In the year 5138: a number of seconds that is larger counts something else."""

_TIMES: dict[TimeUnit, Callable[[object], float | None]] = {
    "date": date_s,
    "s": number,
    "ms": lambda value: None if (ms := number(value)) is None else ms / 1e3,
    "us": lambda value: None if (us := number(value)) is None else us / 1e6,
    "ns": lambda value: None if (ns := number(value)) is None else ns / 1e9,
}

Fields = Mapping[str, object]
Rows = Iterator[tuple[int, Fields | Fact]]
"""Each row by its line, or why it cannot be read."""


class _Left:
    """Rows that are left out, while a file is read."""

    def __init__(self) -> None:
        self.before, self.examples = array("q"), list[Fact]()

    def add(self, before: int, line: int, why: Fact) -> None:
        self.before.append(before)
        if len(self.examples) < _EXAMPLES:
            self.examples.append(fact("row_bad", why, at=line, unit="line"))

    def whole(self) -> LeftOut:
        return LeftOut(np.frombuffer(self.before, dtype=np.int64) if self.before else np.zeros(0, np.int64), tuple(self.examples))


class Columns:
    """The columns of a file while it is read. `unit`: what its timestamps count; None reads lengths alone."""

    def __init__(self, form: TraceForm, unit: TimeUnit | None) -> None:
        self.form, self._time = form, None if unit is None else _TIMES[unit]
        self.time, self.inputs, self.outputs = array("d"), array("i"), array("i")
        self.sessions, self._numbers, self._roots = array("i"), dict[object, int](), dict[object, object]()
        self.begins, self.ids = array("q", [0]), array("q")
        self.bad, self.failed, self.unordered, self.images = _Left(), _Left(), 0, 0
        self._latest = -np.inf

    def add(self, line: int, row: Fields | Fact) -> None:
        """Take a row, or keep why not."""
        why = row if isinstance(row, Fact) else self._taken(line, row)
        if why is not None:
            self.bad.add(len(self.inputs), line, why)

    def _taken(self, line: int, row: Fields) -> Fact | None:
        form = self.form
        inputs = 0
        for name in form.inputs:
            if (tokens := whole(row.get(name))) is None:
                return _no_number(row, name)
            inputs += tokens
        if (outputs := whole(row.get(form.output))) is None:
            return _no_number(row, form.output)
        time = 0.0
        if self._time is not None and form.time is not None:
            found = self._time(row.get(form.time))
            if found is None or abs(found) > _LATEST_S:
                return fact("row_lacks" if row.get(form.time) in (None, "") else "row_time", field=form.time)
            time = found
        if not inputs or not outputs:
            self.failed.add(len(self.inputs), line, fact("row_no_tokens", field=form.output if inputs else form.inputs[0]))
            return None
        ids = row.get(form.hash_ids) if form.hash_ids else None
        if form.block_tokens is not None and (wrong := self._chain(ids, inputs, form.block_tokens)):
            return wrong
        self._keep(time, inputs, outputs, row)
        return None

    def _chain(self, ids: object, tokens: int, block_tokens: int) -> Fact | None:
        """Append the ids of a row, or say what is wrong with them. A row without ids shares nothing."""
        if ids is not None:
            if not isinstance(ids, list):
                return fact("row_kind", field="hash_ids")
            if blocks(tokens, block_tokens) != len(ids):
                return fact("row_blocks", ids=len(ids), input_tokens=tokens, block_tokens=block_tokens)
            known = len(self.ids)
            try:
                self.ids.extend(ids)
            except (TypeError, OverflowError):
                del self.ids[known:]
                return fact("row_kind", field="hash_ids")
        self.begins.append(len(self.ids))
        return None

    def _keep(self, time: float, inputs: int, outputs: int, row: Fields) -> None:
        self.time.append(time)
        self.inputs.append(inputs)
        self.outputs.append(outputs)
        if time < self._latest:
            self.unordered += 1
        self._latest = max(time, self._latest)
        if self.form.session is not None:
            self.sessions.append(self._session(row))
        if self.form.images is not None and (images := row.get(self.form.images)) and number(images):
            self.images += 1

    def _session(self, row: Fields) -> int:
        """The number of the session; of rows that name the one before them, that of the first one of their chain."""
        name = row.get(str(self.form.session))
        if not isinstance(name, (str, int, float)) or name == "":
            return -1
        if self.form.parent is not None:
            parent = row.get(self.form.parent)
            known = isinstance(parent, (str, int, float)) and parent not in (-1, "-1", "")
            root = self._roots.get(parent, parent) if known else name  # a parent may be missing from the file
            self._roots[name] = root
            name = root
        return self._numbers.setdefault(name, len(self._numbers))


def _no_number(row: Fields, name: str) -> Fact:
    return fact("row_lacks" if row.get(name) in (None, "") else "row_number", field=name)


def read_columns(path: Path, name: str, columns: Columns, rows: Callable[[BinaryIO], Rows], progress: Progress) -> None:
    """Take all rows of a file, gzip or not. Raises UserError, naming the option, where the file cannot be read."""
    size = max(1, path.stat().st_size)
    try:
        with streamed(path, name) as (file, raw):
            for n, (line, row) in enumerate(rows(file)):
                columns.add(line, row)
                if n % _TOLD_EVERY == 0:
                    progress(min(1.0, raw.tell() / size))
                if n == _GIVEN_UP and not columns.inputs:
                    break
    except OSError as error:
        raise unreadable(name, path, error) from None
    progress(1.0)


def lines(file: BinaryIO) -> Iterator[tuple[int, bytes | None]]:
    """Lines with their numbers; None for one that is too long, which is passed over."""
    at = 0
    while line := file.readline(MOST_ROW_BYTES):
        at += 1
        if len(line) == MOST_ROW_BYTES and not line.endswith(b"\n"):
            while (rest := file.readline(MOST_ROW_BYTES)) and not rest.endswith(b"\n"):
                pass
            yield at, None
        else:
            yield at, line.removeprefix(BOM) if at == 1 else line


def json_rows(file: BinaryIO) -> Rows:
    """One object a line; blank lines are none."""
    for at, line in lines(file):
        if line is None:
            yield at, fact("row_too_long", most_bytes=MOST_ROW_BYTES)
        elif line.strip():
            row = decoded(line.strip())
            yield at, row if isinstance(row, (Fact, dict)) else fact("row_kind", field="row")


def csv_rows(file: BinaryIO) -> Rows:
    """Rows by the names of their columns, which the first line that is not blank tells. No cell goes on in the next line, so that a
    quote too many spoils one row."""
    names: list[str] = []
    for at, line in lines(file):
        if line is None:
            yield at, fact("row_too_long", most_bytes=MOST_ROW_BYTES)
        elif not line.strip(b", \t\r\n"):
            continue
        elif not names:
            names = cells(line.decode(errors="replace"))
        else:
            text = line.decode(errors="replace").rstrip("\r\n")
            try:
                row = text.split(",") if '"' not in text else next(csv.reader([text]), [])
            except csv.Error:  # a cell beyond its limit, or a carriage return behind a quote
                yield at, fact("row_kind", field="row")
                continue
            if len(row) == len(names):
                yield at, dict(zip(names, row, strict=True))
            else:
                yield at, fact("row_columns", columns=len(row), expected=len(names))
