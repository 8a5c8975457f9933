"""`kneescope what-if`: a recorded run, a change, and what a model of the run says of it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from core.errors import UserError
from core.fleet_check import refuse_fleet
from core.history import resolve
from core.report import what_if_json, what_if_text
from core.run import Recording, read_recording
from core.run_files import refuse_going
from core.whatif import Change, Explained, Knob, Modelled, Refused, ask, explain, one_step
from tui.cli.output import JsonOut, emit
from tui.terminal.signals import NO_ANSWER


def run(name: str, options: Mapping[str, Any]) -> int:
    """Print what the model says, or how well it explains the run and one step of each knob where nothing is asked."""
    change = _change(options)
    out = JsonOut(options["json"])
    try:
        path = resolve(name)
        recorded = read(path)
        explained = explain(recorded)
        said, knobs = _asked(explained, change)
        out.write(what_if_json(explained, recorded.knee, change, said, knobs, str(path)))
        if not out.to_stdout:
            emit(what_if_text(explained, recorded.knee, change, said, knobs))
        return NO_ANSWER if isinstance(explained, Refused) else 0
    finally:
        out.withdraw()


def _asked(explained: Explained | Refused, change: Change) -> tuple[Modelled | None, tuple[Knob, ...]]:
    """The answer where something is asked, else the table."""
    if isinstance(explained, Refused):
        return None, ()
    return (ask(explained, change), ()) if change.given else (None, one_step(explained))


def read(path: Path) -> Recording:
    """The run of a file. Raises UserError for one that still goes on or is of a fleet, and for what is no run file."""
    refuse_going(path, "what-if")
    recorded = read_recording(path)
    refuse_fleet(recorded.config)
    return recorded


def _change(options: Mapping[str, Any]) -> Change:
    target = options["target"]
    if target == 0:
        raise UserError("--target: 0 must be above 0 and at most 100%.")
    return Change(
        ttft_s=options["ttft"],
        tpot_s=options["tpot"],
        e2e_s=options["e2e"],
        target=target,
        input_tokens=options["input_tokens"],
        output_tokens=options["output_tokens"],
        max_num_seqs=options["max_num_seqs"],
        kv_tokens=options["kv_tokens"],
    )
