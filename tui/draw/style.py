"""One owner of how things look in text: states as glyph, word and colour, and the theme. Numbers are written by `core.units`.

Colours are names of roles (`holds`, `breaks`, ...) that `STYLES` maps to theme variables, so that any theme works.
"""

import dataclasses
import re
from typing import Any, Literal, NamedTuple

from rich.cells import cell_len, set_cell_size
from textual.app import App
from textual.theme import Theme

from core.records import CheckStatus, LoadState
from core.results import Outcome
from tui.draw import no_colour

Role = Literal["plain", "strong", "muted", "holds", "breaks"]

STYLES: dict[Role, str] = {
    "plain": "$foreground",
    "strong": "bold $foreground",
    "muted": "$foreground 70%",
    "holds": "$text-success",
    "breaks": "$text-error",
}

_LINES = ("line-first", "line-second", "line-third")


def _lines(*hues: str) -> dict[str, str]:
    """The variables of the theme for the lines of a plot, which say nothing of good or bad: the first is what is looked at."""
    return dict(zip(_LINES, hues, strict=True))


# Two accents, blue-green and orange-red, that the common kinds of colour blindness keep apart; lines of a plot, each darker than
# the one before, which these keep apart from the accents and from each other; the rest is grey.
THEME = Theme(
    name="kneescope",
    primary="#9aa3b2",
    secondary="#7d8594",
    accent="#c3c9d4",
    warning="#c3c9d4",
    success="#4fb8a5",
    error="#f0764f",
    foreground="#d7dae0",
    background="#111318",
    surface="#171a20",
    panel="#22262e",
    variables={
        "footer-key-foreground": "#d7dae0",
        "footer-description-foreground": "#8b919d",
        **_lines("#ecefa4", "#d99be8", "#8a6ff0"),
    },
)
THEME_BLUE = dataclasses.replace(
    THEME,
    name="kneescope-blue-orange",
    success="#56b4e9",
    error="#e69f00",
    variables={**THEME.variables, **_lines("#e4f0b8", "#c9a9b8", "#7f8f4a")},
)
"""Blue holds and orange breaks: the pair of Okabe and Ito's palette that every kind of colour blindness keeps apart."""
# Terminals of 16 colours show the nearest of theirs, and to the tints that text takes the nearest is a grey.
THEME_16 = dataclasses.replace(
    THEME,
    name="kneescope-16",
    variables={
        **THEME.variables,
        "text-success": "#55ff55",
        "text-error": "#ff5555",
        **_lines("#ffff55", "#ff55ff", "#5555ff"),
    },
)
_LIGHT = _lines("#232018", "#7a1f6a", "#7a5fd0")
_ANSI_DARK = _lines("ansi_bright_yellow", "ansi_bright_magenta", "ansi_bright_blue")
_ANSI_LIGHT = _lines("ansi_default", "ansi_magenta", "ansi_blue")

NOT_AVAILABLE = "not available"


class Mark(NamedTuple):
    """A state as it is always shown: a glyph, a word and a colour, so that each one alone is enough."""

    glyph: str
    word: str
    role: Role

    def __str__(self) -> str:
        return f"{self.glyph} {self.word}"


VERDICTS: dict[str, Mark] = {
    "pass": Mark("✔", "PASS", "holds"),
    "fail": Mark("✘", "FAIL", "breaks"),
    "mixed": Mark("◐", "MIXED", "strong"),
    "void": Mark("⊘", "VOID", "muted"),
    "unjudged": Mark("·", "UNJUDGED", "muted"),
    "running": Mark("…", "running", "strong"),
}
CHECKS: dict[CheckStatus, Mark] = {
    "pass": Mark("✔", "pass", "holds"),
    "warn": Mark("▲", "WARN", "strong"),
    "refuse": Mark("✘", "REFUSE", "breaks"),
}
LOADS: dict[LoadState, Mark] = {
    "idle": Mark("○", "IDLE", "muted"),
    "loading": Mark("●", "LOADING", "strong"),
    "draining": Mark("◑", "DRAINING", "strong"),
    "stopped": Mark("■", "STOPPED", "strong"),
}
OUTCOMES: dict[Outcome, Mark] = {
    "bracket": Mark("✔", "FOUND", "holds"),
    "at_least": Mark("✔", "HOLDS AT EVERY RATE JUDGED", "holds"),
    "below": Mark("✘", "FAILS AT EVERY RATE JUDGED", "breaks"),
    "infeasible": Mark("✘", "INFEASIBLE AT ANY RATE", "breaks"),
    "held": Mark("■", "HELD UNTIL STOPPED", "strong"),
    "void": Mark("⊘", "VOID, NO ANSWER", "strong"),
    "refused": Mark("✘", "REFUSED, NO LOAD SENT", "breaks"),
    "interrupted": Mark("■", "INTERRUPTED", "strong"),
}
GHOST = Mark("░", "ghost", "muted")
"""What is of a recorded run that is drawn behind."""
LEVELS: dict[str, Mark] = {
    "info": Mark("·", "", "muted"),
    "warn": Mark("▲", "warning", "strong"),
    "error": Mark("✘", "error", "breaks"),
}


_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|.)?")
_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]+")


def clean(text: str) -> str:
    """Text from outside made fit for one line of a terminal: no escape sequences, control or direction characters."""
    return _CONTROLS.sub(" ", _ESCAPES.sub("", text)).strip()


def shorten(text: str, width: int) -> str:
    """Cut between words and end with an ellipsis when the text is wider than `width` cells.

    The last word kept is no number if that can be, for the ellipsis would make it look cut; a word that is too long is cut.
    """
    if cell_len(text) <= width:
        return text
    whole, kept = "", ""
    for match in re.finditer(r"\s+", text):
        if cell_len(text[: match.start()]) > width - 1:
            break
        whole = text[: match.start()]
        if whole and not whole[-1].isdigit():
            kept = whole
    cut = set_cell_size(text, max(0, width - 1)).rstrip()
    if whole and cell_len(whole) < width // 2:  # an address, say, is longer than all that stands before it
        whole = kept = cut.rstrip("0123456789") if cut[-1].isdigit() else cut
    return f"{kept or whole or cut}…" if width > 0 else ""


def line_hues(theme: Theme) -> dict[str, str]:
    """The variables for the lines of a plot under a theme that has none of its own."""
    if theme.ansi:
        return _ANSI_DARK if theme.dark else _ANSI_LIGHT
    return {name: THEME.variables[name] for name in _LINES} if theme.dark else _LIGHT


def shows_grounds(app: App[Any]) -> bool:
    """Whether tints behind text are seen and leave it readable: on 16 colours each is a full one, and without colours none."""
    return not (app.no_color or app.current_theme.ansi or app.theme == THEME_16.name)


def set_up_themes(app: App[Any]) -> None:
    """Make our themes known to an app that is being made, and choose the usual one."""
    for theme in (THEME, THEME_BLUE, THEME_16):
        app.register_theme(theme)
    app.theme = THEME.name
    if app.no_color:  # of its ANSI themes textual does not know how bright they are
        no_colour.use(app)
        for name in [theme.name for theme in app.available_themes.values() if theme.ansi]:
            app.unregister_theme(name)
