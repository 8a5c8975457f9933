"""What a shell completes: runs, replicas and files. It runs at each press of Tab, so it imports next to nothing."""

import os
import re
from collections.abc import Callable

import click
from click.shell_completion import CompletionItem, shell_complete

from core.run_files import runs_folder

VARIABLE = "_KNEESCOPE_COMPLETE"
"""Set by the script that the shell got from us (`bash_source` and the like in it print that script)."""
NEWEST_RUNS = 20
_PLAIN = re.compile(r"[\w./][\w.,:/@%+=-]*")
"""A word that means itself in every shell. bash puts what it is offered on the line as it is, and a label may be anybody's."""
Completes = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


def answer(cli: click.Command, instruction: str) -> int:
    """Print the script of a shell, or what it can put in place of the word that is being typed. The exit code."""
    return shell_complete(cli, {}, "kneescope", VARIABLE, instruction)


def files(context: click.Context, param: click.Parameter, begun: str) -> "list[CompletionItem]":
    """Any file: shells find those themselves."""
    return [CompletionItem(begun, type="file")]


def runs(context: click.Context, param: click.Parameter, begun: str) -> "list[CompletionItem]":
    """`last`, labels and files of the newest recorded runs, and any file. What would have to be quoted is not offered; of a file
    the shell does that."""
    words = dict.fromkeys(("last", *_labels(), *_recorded()))
    known = [word for word in words if word.startswith(begun) and _PLAIN.fullmatch(word)]
    return [*files(context, param, begun), *map(CompletionItem, known)]  # bash forgets what stands before the files


def replicas(context: click.Context, param: click.Parameter, begun: str) -> "list[CompletionItem]":
    """The replicas by name, and any file."""
    from core.replica.catalog import CATALOG

    return [*files(context, param, begun), *(CompletionItem(name) for name in CATALOG if name.startswith(begun))]


def _labels() -> list[str]:
    from core.history import remembered

    return [run.label for run in remembered()[:NEWEST_RUNS] if run.problem is None]


def _recorded() -> list[str]:
    try:
        with os.scandir(runs_folder()) as entries:
            found = [(entry.name, entry.path) for entry in entries if entry.name.endswith(".jsonl")]
    except OSError:  # there is no run yet
        return []
    return [path for _, path in sorted(found, reverse=True)[:NEWEST_RUNS]]  # names begin with the time


BY_METAVAR: dict[str, Completes] = {"FILE": files, "FILE|-": files, "FILE|last": runs, "RUN": runs, "RUN|last": runs}
"""What an option takes, by the word that its help has for the value."""
