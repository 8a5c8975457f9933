"""Short facts side by side on a line: they are dropped whole, the least important first, never cut inside."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from rich.cells import cell_len
from textual.content import Content

from tui.draw.style import STYLES, Mark, Role

Part = tuple[str, str]


class Piece(NamedTuple):
    """One fact. `rank` says how soon it gives way: 0 stays to the end."""

    text: str
    role: Role = "plain"
    rank: int = 0


def styled(text: str, role: Role = "plain") -> Part:
    """A part for Content.assemble: literal text (never markup) and its theme style."""
    return (text, STYLES[role])


def mark_part(mark: Mark) -> Part:
    """Glyph and word in their colour."""
    return styled(str(mark), mark.role)


def keep_end(text: str, width: int) -> str:
    """A name that is too long loses its beginning, for its end is what tells it from others: "…70B-Instruct"."""
    return text if cell_len(text) <= width else f"…{right_crop(text, width - 1)}" if width > 1 else "…"[:width]


def fit(pieces: Sequence[Piece], width: int, gap: int = 2) -> tuple[Piece, ...]:
    """The pieces, in their order, that fit one line of `width` cells: the most important first, then what still has room."""
    kept: list[int] = []
    for at in sorted(range(len(pieces)), key=lambda at: (pieces[at].rank, at)):
        if _width([pieces[i] for i in [*kept, at]], gap) <= width:
            kept.append(at)
    return tuple(pieces[at] for at in sorted(kept))


def flow(
    pieces: Sequence[Piece], width: int, rows: int, gap: int = 2, first_width: int | None = None
) -> tuple[tuple[Piece, ...], ...]:
    """The pieces over up to `rows` lines; what has no room is dropped by rank. `first_width`: that of the first line."""
    kept = list(pieces)
    first = width if first_width is None else first_width
    while True:
        lines = _fill(kept, width, gap, first)
        widths = [first, *[width] * len(lines)]
        if len(lines) <= rows and all(_width(line, gap) <= room for line, room in zip(lines, widths, strict=False)):
            return tuple(tuple(line) for line in lines)
        worst = max(piece.rank for piece in kept)
        kept.pop(max(at for at, piece in enumerate(kept) if piece.rank == worst))


def _fill(pieces: Iterable[Piece], width: int, gap: int, first: int) -> list[list[Piece]]:
    lines: list[list[Piece]] = []
    for piece in pieces:
        if lines and _width([*lines[-1], piece], gap) <= (first if len(lines) == 1 else width):
            lines[-1].append(piece)
        else:
            lines.append([piece])
    return lines


def _width(pieces: Sequence[Piece], gap: int) -> int:
    return sum(cell_len(piece.text) for piece in pieces) + gap * max(0, len(pieces) - 1)


def join(pieces: Sequence[Piece], gap: str = "  ") -> Content:
    """One line of content."""
    parts: list[Part] = []
    for at, piece in enumerate(pieces):
        if at:
            parts.append((gap, ""))
        parts.append(styled(piece.text, piece.role))
    return Content.assemble(*parts)


def right_crop(text: str, width: int) -> str:
    """The last cells of a text, at most so many; a wide character is taken whole or left out."""
    at = len(text)
    while at > 0 and cell_len(text[at - 1 :]) <= width:
        at -= 1
    return text[at:]
