"""Text in columns of a terminal, where a character of the East takes two cells and a combining mark none. Light to import."""

import unicodedata


def cells(text: str) -> int:
    """How many cells a text takes."""
    return len(text) if text.isascii() else sum(map(_cells, text))


def padded(text: str, width: int) -> str:
    """The text with blanks behind it up to so many cells."""
    return text + " " * (width - cells(text))


def cut(text: str, width: int) -> str:
    """At most so many cells of a text, with an ellipsis where something is missing."""
    if cells(text) <= width:
        return text
    room, at = width - 1, 0
    while at < len(text) and (room := room - _cells(text[at])) >= 0:
        at += 1
    return f"{text[:at]}…"


def _cells(char: str) -> int:
    if unicodedata.combining(char) or unicodedata.category(char) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1
