"""`kneescope check`: a run held against a rate or an older run, for a pipeline, which reads the exit code."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from core.check import MAX_DROP_FRAC, Known, Verdict, check, known
from core.errors import UserError
from core.history import resolve
from core.report import CheckSides, answered_data, check_json, check_junit, check_markdown, check_text
from core.run import read_recording, whole_file
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
        new_file, new = _known(name)
        old_file, old = (None, None) if against is None else _known(against)
        checked = check(new, require_rps=require_rps, old=old, max_drop_frac=max_drop_frac)
        asked = {"require_rps": require_rps, "max_drop_frac": max_drop_frac}
        sides = CheckSides(new=new, new_file=new_file, old=old, old_file=old_file, **asked)
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


def _known(name: str) -> tuple[str, Known]:
    """The file of a run file or a `--json` result, and what it says."""
    path = resolve(name)
    data = _result(path)
    if data is not None:
        return str(path), known(data, str(path))
    refuse_going(path, "check")
    with whole_file(path):
        return str(path), known(answered_data(read_recording(path)), str(path))


def _result(path: Path) -> dict[str, Any] | None:
    """The object of a `--json` result; None for what is anything else, which is then read as a run file."""
    try:
        with path.open("rb") as file:
            if file.readline(64).startswith(b'{"type":'):
                return None
            file.seek(0)
            data = msgspec.json.decode(file.read())
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}. Give a run file, or a result of --json.") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return data if isinstance(data, dict) else None


def _write(option: str, path: Path, text: str, mode: str) -> None:
    try:
        with path.open(mode, encoding="utf-8", errors="replace") as file:
            file.write(text)
    except OSError as error:
        raise UserError(f"{option}: {path} cannot be written: {error.strerror}. Give another file.", exit_code=NO_ANSWER) from None
