"""Where what is generated stands: tables between two comments in a page of docs/, by the name of the table, and whole files."""

import re
from collections.abc import Callable
from pathlib import Path

from tests.docs.man import man_page
from tests.docs.options import options_tables
from tests.docs.result import result_tables
from tests.docs.run_file import json_schema, run_file_tables

DOCS = Path(__file__).resolve().parents[2] / "docs"
COMMAND = "python -m tests.docs"
PAGES: dict[str, dict[str, Callable[[], str]]] = {
    "options.md": {"options": options_tables},
    "result.md": {"result": result_tables},
    "run-file.md": {"run-file": run_file_tables},
}
"""Page -> name of a table in it -> what makes the table."""
FILES: dict[str, Callable[[], str]] = {"kneescope.1": man_page, "run-file.schema.json": json_schema}
"""File -> what makes the whole of it."""


def with_tables(text: str, tables: dict[str, Callable[[], str]]) -> str:
    """The page with its tables made anew. Raises ValueError when a table does not have its pair of comments exactly once."""
    for name, make in tables.items():
        begin, end = f"<!-- begin {name}: generated, renew with `{COMMAND}` -->", f"<!-- end {name} -->"
        block = re.compile(f"{re.escape(begin)}\n.*?{re.escape(end)}", re.S)
        if len(block.findall(text)) != 1:
            raise ValueError(f"the page needs {begin!r} and {end!r}, once each and in this order")
        made = f"{begin}\n\n{make().strip()}\n\n{end}"
        text = block.sub(lambda _, made=made: made, text)  # type: ignore[misc]  # a function, so that \ in a table stays as it is
    return text


def stale() -> dict[str, str]:
    """The pages whose tables are not those of the code, and the files that are not, with the text that they should have."""
    pages = {page: ((DOCS / page).read_text(), tables) for page, tables in PAGES.items()}
    made = {page: (text, with_tables(text, tables)) for page, (text, tables) in pages.items()}
    files = {name: ((DOCS / name).read_text() if (DOCS / name).exists() else "", make()) for name, make in FILES.items()}
    return {name: new for name, (old, new) in {**made, **files}.items() if new != old}
