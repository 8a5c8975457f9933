"""Other characters for terminals and fonts that lack ours: a table that is laid over all that is written to the terminal.

Ours are all one cell wide, and so are their stand-ins, so nothing moves.
"""

from functools import lru_cache
from typing import Literal

Symbols = Literal["braille", "block", "ascii"]
CHOICES: tuple[Symbols, ...] = ("braille", "block", "ascii")

_TOP, _BOTTOM = 0b00011011, 0b11100100
"""Bits of a braille character (U+2800 + bits) that are in its upper and in its lower two rows."""
LINES = "─━╌╍═▔│║▎▊┊╎┆╭╮╰╯┌┐└┘┏┓┗┛├┤┬┼▏▕"
"""What frames and divides: one meaning, whatever its direction; none of its stand-ins means anything else."""
HEIGHTS = "▁▂▃▄▅▆▇█▀▌▐▘▝▖▗▚▞▛▜▙▟"
"""Heights of a sparkline and parts of a mass, which are read against each other; a full one is also what fills a bar."""
_ASCII = {
    **dict.fromkeys("─━╌╍═▔╭╮╰╯┌┐└┘┏┓┗┛┬┼", "-"),
    **dict.fromkeys("│║▎▊┊╎┆├┤▏▕", "|"),
    **dict.fromkeys("▁▂", "_"),
    **dict.fromkeys("▃▄", ","),
    **dict.fromkeys("▅▆", ";"),
    **dict.fromkeys("▇█▀▌▐▘▝▖▗▚▞▛▜▙▟", "#"),
    # what became of requests
    "▒": "=",
    "╳": "X",  # noqa: RUF001
    "▓": "M",
    "░": "`",
    "┃": "T",
    # verdicts
    "✔": "+",
    "✘": "x",
    "✗": "r",
    "✓": "h",
    "⊘": "/",
    "◐": "%",
    # the load, and points
    "●": "*",
    "○": "o",
    "◑": "&",
    "■": "@",
    "◉": "Q",
    "◌": "c",
    "◆": "$",
    "◇": "a",
    "┴": "i",
    # how far something is
    "▰": "]",
    "▱": "[",
    # words
    "·": ".",
    "…": "~",
    "▲": "!",
    "▼": "V",
    "▾": '"',
    "▶": "}",
    "►": ")",
    "◂": "{",
    "‖": "\\",
    "×": "*",  # noqa: RUF001
    "≤": "<",
    "≥": ">",
    "–": "-",  # noqa: RUF001
    "—": "-",
    "→": ">",
    "←": "(",
    "↑": "^",
    "↓": "v",
}
SHARED = (LINES + "–—", HEIGHTS, "×●")  # noqa: RUF001
"""Signs that may have one stand-in because they mean the same or are told apart by what stands beside them: a dash between two
numbers, a factor behind one. All others have a stand-in of their own."""


PAIRS = {"≤ ": "<=", "≥ ": ">=", "→ ": "->", "▶ ": ">>", "‖ ": "||"}
"""One sign alone would say less than was meant; a blank stands behind ours, and gives its cell."""

_in_use: Symbols = "braille"


def use(choice: Symbols) -> None:
    """From now on screens are written in these."""
    global _in_use
    _in_use = choice


def in_use() -> Symbols:
    """What screens are written in."""
    return _in_use


def written(text: str, symbols: Symbols) -> str:
    """The text in these symbols, as wide as it was."""
    for ours, theirs in PAIRS.items() if symbols == "ascii" else ():
        text = text.replace(ours, theirs)
    stand_ins = table(symbols)
    return text.translate(stand_ins) if stand_ins else text


@lru_cache
def table(symbols: Symbols) -> dict[int, str]:
    """For `str.translate`: empty where all characters may stay."""
    if symbols == "braille":
        return {}
    curves = {0x2800 + bits: _block(bits) if symbols == "block" else _sign(bits) for bits in range(256)}
    return curves if symbols == "block" else {**curves, **{ord(char): sign for char, sign in _ASCII.items()}}


def _block(bits: int) -> str:
    """The half blocks that hold the dots."""
    return " ▀▄█"[bool(bits & _TOP) + 2 * bool(bits & _BOTTOM)]


def _sign(bits: int) -> str:
    """The sign whose ink lies where most dots are."""
    if not bits:
        return " "
    top, bottom = (bits & _TOP).bit_count(), (bits & _BOTTOM).bit_count()
    return "'" if top > bottom else "." if bottom > top else ":"
