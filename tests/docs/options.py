"""The tables of options, per command, from the declarations that click reads."""

import re
from collections.abc import Iterator

import click

from tui.cli.commands import cli

SHARED = ("probe", "demo")
"""These two take the same options; `tests/tui/test_cli_options.py` compares their help."""
ORDER = (
    *SHARED,
    "preflight",
    "fleet",
    "fleet-check",
    "replica",
    "selftest",
    "open",
    "report",
    "what-if",
    "watch",
    "check",
    "rejudge",
    "compare",
    "tune",
    "runs",
    "runs prune",
    "runs redact",
)
_DEFAULT = re.compile(r" ?\[default: ([^\]]+)\]")

Row = tuple[str, str, str]
"""Option with the kind of its value, default, what it does."""


def options_tables() -> str:
    """A chapter for each command; options that a command shares with `probe` are only named there."""
    commands = every_command()
    if set(ORDER) != set(commands):
        raise ValueError(f"tests/docs/options.py orders {sorted(ORDER)}, but the commands are {sorted(commands)}")
    known = {row: name for name, row in rows(commands["probe"])}
    chapters = [_chapter(" and ".join(f"`kneescope {name}`" for name in SHARED), commands["probe"], set())]
    chapters += [_chapter(f"`kneescope {name}`", commands[name], set(known)) for name in ORDER if name not in SHARED]
    return "\n\n".join([*chapters, _chapter("`kneescope` alone", cli, set(known))])


def every_command() -> dict[str, click.Command]:
    """All of them by name, those of a group with the group's before their own."""
    groups = {name: command.commands for name, command in cli.commands.items() if isinstance(command, click.Group)}
    return {**cli.commands, **{f"{group} {name}": each for group, own in groups.items() for name, each in own.items()}}


def rows(command: click.Command) -> Iterator[tuple[str, Row]]:
    """Heading and row of each option of a command, in the order of its help."""
    context = click.Context(command, info_name=command.name)
    for param in command.params:  # not `get_params`, which would keep a --help made without the group's settings
        if isinstance(param, click.Option):
            yield getattr(param, "section", ""), _row(param, context)


def default_of(option: click.Option) -> str:
    """The default: as click has it, else as the help text says it, else what leaving the option out means."""
    said = _DEFAULT.search(option.help or "")
    if option.show_default:
        return str(option.default)
    return said[1] if said else "off" if option.is_flag else "none"


def _row(option: click.Option, context: click.Context) -> Row:
    value = "" if option.is_flag or option.is_eager else f" {option.make_metavar(context).strip('[]')}"
    text = _DEFAULT.sub("", option.help or "").strip()
    return f"`{option.opts[0]}{value}`", default_of(option), text


def _chapter(title: str, command: click.Command, known: set[Row]) -> str:
    own: dict[str, list[Row]] = {}
    shared = []
    for heading, row in rows(command):
        if row in known:
            shared.append(row[0].strip("`").split()[0])
        else:
            own.setdefault(heading, []).append(row)
    parts = [f"### {title}", *_about(command), *(_table(heading, table) for heading, table in own.items())]
    if shared:
        names = ", ".join(f"`{name}`" for name in shared)
        parts.append(f"{'Also takes' if own else 'Takes'}, as `probe` does: {names}.")
    elif not own:
        parts.append("No options.")
    return "\n\n".join(parts)


def _about(command: click.Command) -> list[str]:
    first = (command.help or "").split("\n\n")[0].split("\b")[0]
    return [" ".join(first.split())]


def _table(heading: str, table: list[Row]) -> str:
    lines = ["| option | default | what it does |", "|---|---|---|"]
    lines += [f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in table]
    return "\n".join([f"**{heading}**\n"] * bool(heading) + lines)
