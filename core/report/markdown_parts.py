"""Pieces of Markdown in which no text of others works as mark-up."""

import re
from collections.abc import Iterable, Sequence

_MARKUP = re.compile(r"([\\`*_{}\[\]<>#|~!&])")


def section(name: str, lines: Iterable[str]) -> list[str]:
    """A bold heading over a list; nothing without lines."""
    rows = [f"- {literal(line)}" for line in lines]
    return [f"**{name}**", "", *rows] if rows else []


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """A table; nothing without rows."""
    if not rows:
        return []
    cells = [" | ".join(literal(cell) for cell in row) for row in rows]
    return [f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}", *(f"| {row} |" for row in cells)]


def one_line(text: str) -> str:
    """One line without control characters."""
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())


def literal(text: str) -> str:
    """Literal text: what Markdown or a browser would take for mark-up is escaped."""
    return _MARKUP.sub(r"\\\1", one_line(text))
