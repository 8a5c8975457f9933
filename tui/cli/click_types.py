"""Kinds of options and commands on top of click: values read by our own parsers, help under headings."""

from collections.abc import Callable
from typing import Any

import click

from tui.cli.complete import BY_METAVAR


class Reads(click.ParamType):  # type: ignore[type-arg]  # generic only in newer releases of click
    """A value read by a parser of the form (text, option name) -> value, whose UserError is the refusal."""

    def __init__(self, name: str, read: Callable[[str, str], Any]) -> None:
        self.name = name
        self._read = read

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The parsed value; raises UserError naming the option."""
        name = param.opts[0] if param and param.opts[0].startswith("-") else self.name.upper()
        return self._read(value, name) if isinstance(value, str) else value


class Option(click.Option):
    """One row of the table of options: its heading, its flag, where its value goes, its help, and what click is told.

    `sets`: the places in `ProbeConfig` (`slo.ttft_s`) or `Access` (`access.proxy`) that take the value, with blanks between
    them; empty for an option of the command alone. `recorded`: what of the value the configuration holds, which is written
    down. `secret`: the value may hold one.
    """

    def __init__(
        self,
        section: str,
        flag: str,
        sets: str,
        help: str,
        *,
        recorded: Callable[[Any], Any] | None = None,
        secret: bool = False,
        **attributes: Any,
    ) -> None:
        attributes.setdefault("shell_complete", BY_METAVAR.get(attributes.get("metavar", "")))
        super().__init__([flag], help=help, **attributes)
        self.section = section
        self.flag = flag
        self.sets = tuple(sets.split())
        self.secret = secret
        self._recorded = recorded

    def stored(self, path: str, value: Any) -> Any:
        """The value as the place at `path` holds it."""
        return value if self._recorded is None or path.startswith("access.") else self._recorded(value)


class SectionedCommand(click.Command):
    """A command whose help lists its options under headings."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write one list per section, in the order of the table; what has none comes last."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx) if isinstance(param, click.Option) else None
            if record is not None:
                sections.setdefault(getattr(param, "section", "Help"), []).append(record)
        for title, rows in sections.items():
            with formatter.section(title):
                formatter.write_dl(rows)
