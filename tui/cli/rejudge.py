"""`kneescope rejudge`: the stored requests of a run under other limits."""

from collections.abc import Mapping
from typing import Any

from core.history import resolve
from core.rejudge import Limits, Rejudged, rejudged
from core.report import rejudge_json, rejudge_text
from core.run import judged_again, read_run, whole_file
from core.run_files import refuse_going
from tui.cli.output import JsonOut, emit
from tui.terminal.signals import NO_ANSWER


def run(name: str, options: Mapping[str, Any]) -> int:
    """Print what the stored requests decide by these limits; exit code 3 if they decide nothing."""
    limits = Limits(
        ttft_s=options["ttft"],
        tpot_s=options["tpot"],
        e2e_s=options["e2e"],
        target=options["target"],
        max_error_rate=options["max_error_rate"],
    )
    out = JsonOut(options["json"])
    try:
        path = resolve(name)
        refuse_going(path, "rejudge")
        with whole_file(path):
            said: Rejudged = rejudged(judged_again(read_run(path), limits.of))
        out.write(rejudge_json(said, str(path)))
        if not out.to_stdout:
            emit(rejudge_text(said))
        return NO_ANSWER if said.outcome is None else 0
    finally:
        out.withdraw()
