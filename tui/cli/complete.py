"""What a shell completes: runs, replicas and files. It runs at each press of Tab, so it imports next to nothing."""

import os
from collections.abc import Callable
from pathlib import Path

import click
import platformdirs
from click.shell_completion import CompletionItem, shell_complete

VARIABLE = "_KNEESCOPE_COMPLETE"
"""Set by the script that the shell got from us (`bash_source` and the like in it print that script)."""
NEWEST_RUNS = 20
Completes = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


def answer(cli: click.Command, instruction: str) -> int:
    """Print the script of a shell, or what it can put in place of the word that is being typed. The exit code."""
    return shell_complete(cli, {}, "kneescope", VARIABLE, instruction)


def files(context: click.Context, param: click.Parameter, begun: str) -> "list[CompletionItem]":
    """Any file: shells find those themselves."""
    return [CompletionItem(begun, type="file")]


def runs(context: click.Context, param: click.Parameter, begun: str) -> "list[CompletionItem]":
    """`last`, the newest recorded runs, and any file. A path with a blank in it is left to the shell, which knows how to quote."""
    known = [path for path in ("last", *_recorded()) if path.startswith(begun) and not any(map(str.isspace, path))]
    return [*files(context, param, begun), *map(CompletionItem, known)]  # bash forgets what stands before the files


def replicas(context: click.Context, param: click.Parameter, begun: str) -> "list[CompletionItem]":
    """The replicas by name, and any file."""
    from core.replica.catalog import CATALOG

    return [*files(context, param, begun), *(CompletionItem(name) for name in CATALOG if name.startswith(begun))]


def _recorded() -> list[str]:
    folder = Path(platformdirs.user_state_dir("kneescope", appauthor=False)) / "runs"
    try:
        with os.scandir(folder) as entries:
            found = [(entry.name, entry.path) for entry in entries if entry.name.endswith(".jsonl")]
    except OSError:  # there is no run yet
        return []
    return [path for _, path in sorted(found, reverse=True)[:NEWEST_RUNS]]  # names begin with the time


BY_METAVAR: dict[str, Completes] = {"FILE": files, "FILE|-": files, "FILE|last": runs, "RUN": runs, "RUN|last": runs}
"""What an option takes, by the word that its help has for the value."""
