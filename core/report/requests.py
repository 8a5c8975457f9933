"""Rows of requests as text for pandas, polars, duckdb and the like: CSV and JSON lines."""

import csv
import io
import itertools
from collections.abc import Iterable, Iterator
from typing import Literal

import msgspec
import numpy as np

from core.run import RequestRow

Form = Literal["csv", "jsonl"]
ROW_COLUMNS = RequestRow.__struct_fields__
"""The names of the columns, in their order."""

_ROWS = 1000
"""Rows that are written at once: some 300 kB."""
_FORMULA = ("=", "+", "-", "@")
"""A spreadsheet takes a cell that begins so for a formula, and texts of a server are not ours."""


def request_text(rows: Iterable[RequestRow], form: Form) -> Iterator[str]:
    """The rows in pieces of whole lines, so that those of a long run are never in memory at once. CSV begins with the names."""
    rows = iter(rows)
    some = list(itertools.islice(rows, _ROWS))  # a file that is damaged is refused by now, and nothing is written of it
    if form == "csv":
        yield ",".join(ROW_COLUMNS) + "\n"
    while some:
        yield _csv(some) if form == "csv" else "".join(msgspec.json.encode(row).decode() + "\n" for row in some)
        some = list(itertools.islice(rows, _ROWS))


def _csv(rows: Iterable[RequestRow]) -> str:
    out = io.StringIO()
    write = csv.writer(out, lineterminator="\n")
    write.writerows([_cell(value) for value in msgspec.structs.astuple(row)] for row in rows)
    return out.getvalue()


def _cell(value: object) -> str:
    """Empty where not known; numbers with a point and without an exponent; texts in one line, and never a formula."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        text = repr(value)
        return text if "e" not in text else np.format_float_positional(value, trim="-")
    text = str(value)
    return f"'{text}" if isinstance(value, str) and text.startswith(_FORMULA) else text
