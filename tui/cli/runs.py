"""`kneescope runs`: the recorded runs as a table, JSON or a screen to choose from; old ones removed; one without its names."""

import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import msgspec

from core import RESULT_SCHEMA, history
from core.errors import UserError
from core.run_files import runs_folder
from core.units import count
from tui import run_list
from tui.cli.output import JsonOut, emit, say_if_heard
from tui.terminal.whole import plain, why_no_screen


def show(json_file: str | None, table: bool) -> int:
    """Let somebody at a terminal choose a run and look at it; else print the list."""
    out = JsonOut(json_file)
    try:
        listed = history.runs()
        if json_file is None and not table and listed and _can_choose():
            from tui.runs import app  # textual is loaded only when it is shown

            return app.choose()
        if json_file is not None:  # a thousand runs take longer to write as JSON than to print
            out.write(_json(runs=[_data(run) for run in listed]))
    finally:
        out.withdraw()
    if not out.to_stdout:
        emit(_table(listed) if listed else f"No run is recorded in {runs_folder()} yet.\n")
    return 0


def prune(keep: int | None, older_s: float | None, yes: bool, json_file: str | None) -> int:
    """Remove old runs of the state folder, once that is permitted. Raises UserError where nobody is there to ask."""
    if keep is None and older_s is None:
        raise UserError("prune: say which runs may go, with --keep N, --older AGE, or both; with both, only what both let go goes.")
    out = JsonOut(json_file)
    try:
        doomed = history.prunable(keep, older_s, time.time())
        if doomed and not yes:
            _ask(doomed)
        from tui.cli.kept import path_beside  # with the rooms that it needs

        gone, stayed = history.remove(doomed, path_beside)
        out.write(_json(removed=[_data(run) for run in gone], kept=[{**_data(run), "why": why} for run, why in stayed]))
    finally:
        out.withdraw()
    for run, why in stayed:
        say_if_heard(plain(f"Run {run.number} stays: {why} ({run.path})."))
    if not out.to_stdout:
        told = f"Removed {count(len(gone), 'run')}:\n{_table(gone)}" if gone else "No run was removed.\n"
        emit(told)
    return 0


def redact(run: str, out_file: str | None, json_file: str | None) -> int:
    """Write a copy of a run that tells nobody's names, and say where."""
    out = JsonOut(json_file)
    try:
        place = history.redact(history.resolve(run), None if out_file is None else Path(out_file))
        out.write(_json(redacted=str(place)))
    finally:
        out.withdraw()
    if not out.to_stdout:
        emit(f"{place}\n")
    return 0


def _ask(doomed: Sequence[history.Run]) -> None:
    if why := why_no_screen(sys.stdin, sys.stderr):
        raise UserError(
            f"prune would remove {count(len(doomed), 'run')}, and nobody can be asked ({why}); give --yes to remove them."
        )
    say_if_heard(_table(doomed).rstrip("\n"))
    if not click.confirm(f"Remove {'this run' if len(doomed) == 1 else f'these {count(len(doomed))} runs'} for good?", err=True):
        raise UserError("Not confirmed, so nothing was removed.")


def _can_choose() -> bool:
    return why_no_screen(sys.stdin, sys.stderr) is None and sys.stdout is not None and sys.stdout.isatty()


def _table(listed: Sequence[history.Run]) -> str:
    now_s = time.time()
    lines = run_list.table([run_list.row(run, now_s) for run in listed], _columns())
    return "\n".join(lines) + "\n"


def _columns() -> int | None:
    """Cells of a line where it goes to a terminal; a file or a pipe gets whole lines."""
    try:
        return os.get_terminal_size(1).columns or None
    except OSError:
        return None


def _data(run: history.Run) -> dict[str, Any]:
    return {
        "number": run.number,
        "path": run.path,
        "label": run.label,
        "model": run.model,
        "slo": msgspec.to_builtins(run.slo),
        "mode": run.mode,
        "way": run.way,
        "replicas": run.replicas,
        "outcome": run.outcome,
        "pass_rps": run.pass_rps,
        "fail_rps": run.fail_rps,
        "clear": run.clear,
        "started_at": run.started_utc,
        "size_bytes": run.size,
        "going": run.is_going,
        "problem": run.problem,
    }


def _json(**parts: Any) -> str:
    return msgspec.json.format(msgspec.json.encode({"schema": RESULT_SCHEMA, "kind": "runs", **parts})).decode() + "\n"
