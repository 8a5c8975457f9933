"""Kinds of options and commands on top of click: values read by our own parsers, help under headings."""

from collections.abc import Callable
from typing import Any

import click


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
    """A click option that knows its heading in the help text."""

    def __init__(self, section: str, name: str, help: str, *, to: str | None = None, **attributes: Any) -> None:
        super().__init__([name, to] if to else [name], help=help, **attributes)
        self.section = section


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
