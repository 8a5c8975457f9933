"""HTML and SVG as text: every text that goes in is escaped by the way it is written, so that none of it can be mark-up."""

import html

from core.units import coordinate


class Markup(str):
    """Text that is mark-up already."""

    __slots__ = ()


def element(name: str, *inside: str, **attributes: str | float | None) -> Markup:
    """An element with what stands in it: mark-up as it is, texts escaped and without control characters.

    Of an attribute's name a trailing underscore is dropped and others become hyphens; None leaves it out. Numbers have at most two
    decimals.
    """
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{_value(value)}"' for key, value in attributes.items() if value is not None
    )
    return Markup(f"<{name}{given}>{''.join(map(written, inside))}</{name}>")


def joined(*parts: str) -> Markup:
    """Several, one after the other."""
    return Markup("".join(map(written, parts)))


def written(text: str) -> str:
    """A text as it may stand in a page; mark-up as it is."""
    return text if isinstance(text, Markup) else html.escape("".join(char if char.isprintable() else " " for char in text))


def _value(value: str | float) -> str:
    return written(value) if isinstance(value, str) else coordinate(value)
