"""Which form a trace file has, and the trace that it holds."""

from array import array
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from core.errors import UserError
from core.facts import Fact, fact
from core.traffic.columns import Columns, Rows, csv_rows, json_rows, read_columns
from core.traffic.files import BOM, head
from core.traffic.index import Progress
from core.traffic.refusals import BadRows
from core.traffic.ticks import tick
from core.traffic.trace import NAME, Chains, Trace, frozen
from core.traffic.trace_forms import (
    HOLDS_TEXT,
    TimeUnit,
    TraceForm,
    cells,
    form_of_rows,
    form_of_table,
    has_text,
    is_generator,
    known_otherwise,
)
from core.traffic.values import decoded

_LOOKED_AT = 100
_FORMS = "Azure, BurstGPT, Mooncake, Qwen, RAGPulse or Vidur, or JSONL or CSV with timestamp, input_length and output_length"


def read_trace(path: Path, unit: TimeUnit | None = None, progress: Progress = lambda share: None) -> Trace:
    """The whole trace, by time, from its first request on; gzip or not. `unit`: what its timestamps count, where the user says so.

    Raises UserError for a file that is none, or whose unit nobody has told, and BadRows if all rows are broken. Whether too many
    are is judged by `usable`, of the rows that a run takes.
    """
    form, rows = form_of_file(path, NAME, timed=True)
    unit = _unit(form, unit, path)
    columns = Columns(form, unit)
    read_columns(path, NAME, columns, rows, progress)
    if not columns.inputs:
        if columns.bad.before:
            raise BadRows(NAME, path.name, tuple(columns.bad.examples), len(columns.bad.before), 0)
        raise UserError(f"{NAME}: no row of {path} is a request with tokens in and out; give a trace that has some.")
    time_s = np.frombuffer(columns.time, dtype=np.float64)
    order = np.argsort(time_s, kind="stable") if columns.unordered else None
    chains = None
    if form.block_tokens is not None and columns.ids:
        chains = Chains(
            form.block_tokens, np.frombuffer(columns.begins, dtype=np.int64), np.frombuffer(columns.ids, dtype=np.int64)
        )

    def sorted_column(column: "array[int]") -> NDArray[np.int32]:
        values = np.frombuffer(column, dtype=np.int32)
        return frozen(values if order is None else values[order])

    time_s = time_s if order is None else time_s[order]
    clock_s = float(time_s[0])
    trace = Trace(
        file=path.name,
        format=form.format,
        unit=unit,
        clock_s=clock_s,
        span_s=float(time_s[-1]) - clock_s,
        time_s=frozen(np.subtract(time_s, clock_s, out=time_s)),  # in place: there may be tens of millions
        input_tokens=sorted_column(columns.inputs),
        output_tokens=sorted_column(columns.outputs),
        sessions=sorted_column(columns.sessions) if columns.sessions and max(columns.sessions) >= 0 else None,
        chains=chains if chains is None or order is None else chains.of(order),
        bad=columns.bad.whole(),
        failed=columns.failed.whole(),
        notes=tuple(_notes(columns)),
    )
    return replace(trace, tick_s=tick(trace.clock_s, trace.time_s))


def _notes(columns: Columns) -> Iterator[Fact]:
    if columns.unordered:
        yield fact("trace_unordered", rows=columns.unordered)
    if columns.images:
        yield fact("trace_images", rows=columns.images)
    if columns.form.format in ("ragpulse", "shared_prefix"):
        yield fact("trace_parts", form=columns.form.format)
    elif columns.form.hash_ids is not None and columns.form.block_tokens is None:
        yield fact("trace_no_blocks")


def _unit(form: TraceForm, told: TimeUnit | None, path: Path) -> TimeUnit:
    unit = told or form.unit
    if unit is None:
        raise UserError(
            f"{NAME}: nothing in {path} tells what its timestamps count; say it with --trace-unit s, ms, us, ns or date."
        )
    if form.unit == "date" and unit != "date":
        raise UserError(f"{NAME}: the timestamps of {path} are dates, not {unit}; leave out --trace-unit.")
    return unit


def form_of_file(path: Path, name: str, timed: bool) -> tuple[TraceForm, Callable[[BinaryIO], Rows]]:
    """The form of a file by its beginning, and what reads its rows; without `timed` of its lengths alone. UserError for no form."""
    first = head(path, name, unpack=True).removeprefix(BOM).lstrip()
    if first[:1] == b"{":
        return _form_of_json(first, path, name, timed), json_rows
    return _form_of_csv(first, path, name, timed), csv_rows


def _form_of_json(first: bytes, path: Path, name: str, timed: bool) -> TraceForm:
    lines = first.split(b"\n")
    whole_lines = lines[:-1] if len(lines) > 1 else lines
    rows = [row for line in whole_lines[:_LOOKED_AT] if isinstance(row := decoded(line.strip()), dict)]
    if form := form_of_rows(rows, timed):
        return form
    if what := known_otherwise(rows, timed):
        raise UserError(f"{name}: {path} {what}.")
    raise UserError(f"{name}: {path} has no lengths under a name that is known; give {_FORMS}.")


def _form_of_csv(first: bytes, path: Path, name: str, timed: bool) -> TraceForm:
    line = first.split(b"\n", 1)[0].decode(errors="replace").strip()
    if form := form_of_table(cells(line), timed):
        return form
    if is_generator(line):
        raise UserError(
            f"{name}: {path} is a client of ServeGen: rates and laws by window, no requests; give a trace made from it."
        )
    if first[:1] == b"[" and first[1:].lstrip()[:1] in (b"{", b"[", b'"'):
        if has_text(first):
            raise UserError(f"{name}: {path} {HOLDS_TEXT}.")
        raise UserError(f"{name}: {path} is a JSON array, which is not read here; give one object a line.")
    if timed and form_of_table(cells(line), False):
        raise UserError(f"{name}: {path} has no timestamps; give it to --lengths.")
    raise UserError(f"{name}: the head of {path} has no columns that are known; give {_FORMS}.")
