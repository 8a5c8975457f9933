"""`kneescope check`: a run held against a rate or an older run, for a pipeline, which reads the exit code."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from core.check import MAX_DROP_FRAC, Verdict, check
from core.compare import Side, read_side
from core.errors import UserError
from core.history import resolve
from core.report import CheckSides, check_json, check_junit, check_markdown, check_text
from core.run_files import refuse_going
from tui.cli.output import JsonOut, emit
from tui.terminal.signals import NO_ANSWER

_EXIT_CODES: dict[Verdict, int] = {"met": 0, "not_met": 1, "not_known": NO_ANSWER}


def run(name: str, options: Mapping[str, Any]) -> int:
    """Print what is known, write what was asked for, and return the exit code of the verdict."""
    require_rps, against, max_drop_frac = options["require_rps"], options["against"], options["max_drop"]
    if require_rps is None and against is None:
        raise UserError("Nothing is asked: give --require-rps R, or --against OLD.")
    if max_drop_frac is not None and against is None:
        raise UserError("--max-drop says how much of the rate of an older run may be lost; give that run with --against.")
    max_drop_frac = MAX_DROP_FRAC if max_drop_frac is None else max_drop_frac
    out = JsonOut(options["json"])
    try:
        new, old = _side(name), None if against is None else _side(against)
        checked = check(new, require_rps=require_rps, old=old, max_drop_frac=max_drop_frac)
        sides = CheckSides(new=new, old=old, require_rps=require_rps, max_drop_frac=max_drop_frac)
        if options["junit"] is not None:
            _write("--junit", Path(options["junit"]), check_junit(checked, sides), "w")
        if options["summary"] is not None:  # the file of a job summary is shared by the steps of the job
            _write("--summary", Path(options["summary"]), check_markdown(checked, sides), "a")
        out.write(check_json(checked, sides))
        if not out.to_stdout:
            emit(check_text(checked, sides))
        return _EXIT_CODES[checked.verdict]
    finally:
        out.withdraw()


def _side(name: str) -> Side:
    path = resolve(name)
    refuse_going(path, "check")
    return read_side(path)


def _write(option: str, path: Path, text: str, mode: str) -> None:
    try:
        with path.open(mode, encoding="utf-8", errors="replace") as file:
            file.write(text)
    except OSError as error:
        raise UserError(f"{option}: {path} cannot be written: {error.strerror}. Give another file.", exit_code=NO_ANSWER) from None
