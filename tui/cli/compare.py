"""`kneescope compare`: recorded runs beside each other, on a screen at a terminal, and as text, Markdown or JSON."""

import asyncio
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from core.compare import MOST_SIDES, Comparison, compare, read_side
from core.errors import UserError
from core.history import resolve
from core.report import compare_json, compare_markdown, compare_text
from tui.cli.output import JsonOut, emit
from tui.terminal.signals import NO_ANSWER
from tui.terminal.whole import why_no_screen


def run(names: Sequence[str], options: Mapping[str, Any]) -> int:
    """Compare the runs with the first of them; 3 where one cannot be."""
    form, out = options["format"] or "text", JsonOut(options["json"])
    try:
        if form != "text" and out.to_stdout:
            raise UserError(f"--format {form} and --json - both write to stdout; give --json a file.")
        if len(names) > MOST_SIDES:
            raise UserError(f"{len(names)} runs are more than can be named; give at most {MOST_SIDES}.")
        found = compare([read_side(resolve(name)) for name in names])
        if form == "text" and not out.to_stdout and why_no_screen(sys.stdin, sys.stderr) is None:
            _show(found)
        out.write(compare_json(found))
        if not out.to_stdout:
            emit(compare_markdown(found) if form == "md" else compare_text(found))
        return 0 if found.complete else NO_ANSWER
    finally:
        out.withdraw()


def _show(found: Comparison) -> None:
    from tui.screens.compare import CompareApp  # textual is loaded only when it is shown
    from tui.terminal.display import StderrDriver, carried

    app = CompareApp(found, driver_class=StderrDriver)
    asyncio.run(carried(app, app.exit, app.exit))
    if app.return_code:
        raise UserError("The screen failed with an error of its own; --json and --format md need none.", NO_ANSWER)
