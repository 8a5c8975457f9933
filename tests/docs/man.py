"""The man page, from the declarations that click reads: docs/kneescope.1, which the wheel installs."""

import inspect
import re
from collections.abc import Iterator

import click

from core import __version__
from tests.docs.options import ORDER, SHARED, Row, every_command, rows
from tui.cli.commands import cli
from tui.cli.inputs import KEY_VARIABLE

_NAME = "find the request rate that one LLM serving replica can take"
_EXIT = {
    "0": "answered",
    "1": "the required rate did not pass",
    "2": "usage error: nothing was sent",
    "3": "no valid answer",
    "130": "interrupted before the answer",
}
_ENVIRONMENT = {
    KEY_VARIABLE: "API key of the server, where --api-key-file does not name a file with it.",
    "XDG_STATE_HOME, XDG_CONFIG_HOME": "Where runs are recorded and settings are kept, in a folder kneescope; by default in"
    " ~/.local/state and ~/.config.",
}


def man_page() -> str:
    """The page in roff, for man(7) macros."""
    about, *rest = _paragraphs(cli.help or "")
    lines = [
        '.\\" Generated from the help texts; renew with: python -m tests.docs',
        f'.TH KNEESCOPE 1 "" "kneescope {__version__}" "User Commands"',
        ".SH NAME",
        f"kneescope \\- {_NAME}",
        ".SH SYNOPSIS",
        *(line for at, (name, command) in enumerate(_all()) for line in (*([".br"] if at else []), *_synopsis(name, command))),
        ".SH DESCRIPTION",
        *about,
        *(line for each in rest if not each[0].startswith("Exit codes") for line in (".PP", *each)),
        ".SH COMMANDS",
        *_commands(),
        ".SH EXIT STATUS",
        *_list(_EXIT),
        ".SH ENVIRONMENT",
        *_list(_ENVIRONMENT),
    ]
    return "\n".join(lines) + "\n"


def _all() -> list[tuple[str, click.Command]]:
    """Every command with its name, those of a group behind it."""
    commands = every_command()
    return [(name, commands[name]) for name in dict.fromkeys([*ORDER, *commands]) if name in commands]


def _synopsis(name: str, command: click.Command) -> Iterator[str]:
    inside = click.Context(command, info_name=name, parent=click.Context(cli, **cli.context_settings))  # click keeps its --help
    pieces = " ".join(command.collect_usage_pieces(inside))
    yield f".B kneescope {_text(name)}"
    yield _text(pieces)


def _commands() -> Iterator[str]:
    known: set[Row] = set()
    for name, command in _all():
        yield f".SS kneescope {_text(name)}"
        for at, paragraph in enumerate(_paragraphs(command.help or "")):
            yield from ((".PP",) if at else ())
            yield from paragraph
        shared = [row[0].strip("`").split()[0] for _, row in rows(command) if row in known]
        for _, row in rows(command):
            if row not in known:
                yield from _option(row)
        if shared:
            yield ".PP"
            yield _text(f"Takes, as {SHARED[0]} does: {', '.join(shared)}.")
        known.update(row for _, row in rows(command) if name == SHARED[0])


def _option(row: Row) -> Iterator[str]:
    flag, _, value = row[0].strip("`").partition(" ")
    yield ".TP"
    yield f"\\fB{_text(flag)}\\fR" + (f" \\fI{_text(value)}\\fR" if value else "")
    yield _text(row[2])
    if row[1] not in ("none", "off"):
        yield _text(f"Default: {row[1].rstrip('.')}.")


def _list(entries: dict[str, str]) -> Iterator[str]:
    for name, text in entries.items():
        yield from (".TP", f"\\fB{_text(name)}\\fR", _text(text))


def _paragraphs(text: str) -> list[list[str]]:
    r"""The paragraphs of a help text, each as lines of roff; one that begins with \b keeps its lines, as click has it."""
    found = []
    for block in re.split(r"\n\s*\n", inspect.cleandoc(text)):
        lines = [line for line in block.split("\n") if line.strip("\b ")]
        if "\b" in block:
            found.append([".nf", *(_text(line) for line in lines), ".fi"])
        else:
            found.append([_text(" ".join(" ".join(lines).split()))])
    return found


def _text(text: str) -> str:
    """A line of text as roff shows it: its backslashes, hyphens that are typed, and no line that begins like a request."""
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("~", "\\(ti").replace("^", "\\(ha").replace("`", "\\(ga")
    return f"\\&{text}" if text.startswith((".", "'")) else text
