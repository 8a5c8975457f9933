"""The commands about recorded runs, with their options: apart from the others, whose options take longer to import than a list
takes to print."""

import math
import re

import click

from core.errors import UserError
from tui.cli import complete
from tui.cli.click_types import Option, Reads
from tui.cli.group import SETTINGS, Group, run_and_exit

_UNIT_S = {"m": 60.0, "h": 3600.0, "d": 86400.0}


def read_age(text: str, name: str) -> float:
    """An age in seconds: `90d`, `12h` or `30m`."""
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)\s*([mhd])", text.strip())
    seconds = float(match[1]) * _UNIT_S[match[2]] if match else 0.0
    if not (math.isfinite(seconds) and seconds > 0):
        raise UserError(f"{name}: {text!r} is not an age above zero; give a number and a unit, such as 90d, 12h or 30m.")
    return seconds


RUNS_OPTIONS = (
    Option("", "--table", "", "Print the list; automatic without a terminal.", is_flag=True),
    Option("", "--json", "", "Write the list as JSON to this file; - for stdout.", metavar="FILE|-"),
)
PRUNE_OPTIONS = (
    Option("", "--keep", "", "Keep the N newest runs.", type=click.IntRange(min=0), metavar="N"),
    Option("", "--older", "", "Remove only runs older than this, such as 90d, 12h or 30m.", type=Reads("age", read_age)),
    Option("", "--yes", "", "Remove them without asking; needed where nobody can be asked.", is_flag=True),
    Option("", "--json", "", "Write what was removed as JSON to this file; - for stdout.", metavar="FILE|-"),
)
"""With both, a run goes only if both let it go."""
REDACT_OPTIONS = (
    Option("", "--out", "", "File for the copy [default: beside the run, ending in .redacted.jsonl].", metavar="FILE"),
    Option("", "--json", "", "Write the path of the copy as JSON to this file; - for stdout.", metavar="FILE|-"),
)


@click.group(invoke_without_command=True, params=[*RUNS_OPTIONS])
@click.pass_context
def runs(context: click.Context, /, table: bool, json: str | None) -> int:
    """List the recorded runs: number, label, model, limits, bracket and age, the newest first.

    At a terminal it is a screen to choose from: enter opens a run, / filters, q leaves. The numbers never change. Wherever a RUN is
    asked for, give its path, last, its label (of several the newest) or its number.
    """
    if context.invoked_subcommand is not None:
        return 0
    from tui.cli.runs import show

    return show(json, table)


@runs.command("prune", params=[*PRUNE_OPTIONS], short_help="Remove old runs.")
def prune(keep: int | None, older: float | None, yes: bool, json: str | None) -> int:
    """Remove run files from the user's state folder, beyond the newest N, older than AGE, or both at once.

    What was recorded elsewhere with --out stays, and so does a run that is still going. It asks first; without a terminal it needs
    --yes.
    """
    from tui.cli.runs import prune as remove

    return remove(keep, older, yes, json)


@runs.command("redact", params=[*REDACT_OPTIONS], short_help="Copy a run without the names in it, to share it.")
@click.argument("run", shell_complete=complete.runs)
def redact(run: str, out: str | None, json: str | None) -> int:
    """Write a copy of a run to be given away: without addresses, names of models, labels, files and the machine.

    RUN is the path of a run file, last, a label, or a number of `kneescope runs`. What was measured stays, and so do the verdicts.
    """
    from tui.cli.runs import redact as write

    return write(run, out, json)


def main() -> None:
    """`kneescope runs` alone, when nothing else is asked for; exits, never returns."""
    run_and_exit(Group("kneescope", commands={"runs": runs}, context_settings=SETTINGS))
