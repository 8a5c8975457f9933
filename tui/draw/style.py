"""One owner of how things look in text: number formats with units, states as glyph, word and colour, and the theme.

Colours are names of roles (`holds`, `breaks`, ...) that `STYLES` maps to theme variables, so that any theme works.
"""

import dataclasses
import math
import re
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

from rich.cells import cell_len, set_cell_size
from textual.app import App
from textual.theme import Theme

from core import units
from core.records import CheckStatus, LoadState
from core.results import Outcome
from core.units import limit as limit
from tui.draw import no_colour

Role = Literal["plain", "strong", "muted", "holds", "breaks"]

STYLES: dict[Role, str] = {
    "plain": "$foreground",
    "strong": "bold $foreground",
    "muted": "$foreground 70%",
    "holds": "$text-success",
    "breaks": "$text-error",
}

# Two accents, blue-green and orange-red, that the common kinds of colour blindness keep apart; the rest is grey.
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
    variables={"footer-key-foreground": "#d7dae0", "footer-description-foreground": "#8b919d"},
)
THEME_BLUE = dataclasses.replace(THEME, name="kneescope-blue-orange", success="#56b4e9", error="#e69f00")
"""Blue holds and orange breaks: the pair of Okabe and Ito's palette that every kind of colour blindness keeps apart."""
# Terminals of 16 colours show the nearest of theirs, and to the tints that text takes the nearest is a grey.
THEME_16 = dataclasses.replace(
    THEME, name="kneescope-16", variables={**THEME.variables, "text-success": "#55ff55", "text-error": "#ff5555"}
)

NOT_AVAILABLE = "not available"
DASH = "\u2013"
"""Between the ends of an interval, and where a number is missing."""


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
LEVELS: dict[str, Mark] = {
    "info": Mark("·", "", "muted"),
    "warn": Mark("▲", "warning", "strong"),
    "error": Mark("✘", "error", "breaks"),
}


def number(value: float) -> str:
    """Three significant digits in plain notation (12.0, 0.0432, 1,230); whole numbers from 1,000 on keep all their digits."""
    if not math.isfinite(value):
        return DASH
    if value == 0:
        return "0"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    magnitude = math.floor(math.log10(abs(float(f"{value:.2e}"))))
    return f"{value:,.{max(0, 2 - magnitude)}f}"


def count(value: int) -> str:
    """A whole number with thousands separators."""
    return f"{value:,}"


def latency(seconds: float | None) -> str:
    """61.2 ms, 1.24 s; a dash when there is none."""
    if seconds is None or not math.isfinite(seconds):
        return DASH
    return f"{number(seconds * 1000)} ms" if seconds < 0.9995 else f"{number(seconds)} s"


def percent(share: float | None) -> str:
    """A share as a percentage with three significant digits, or as many as it takes to stay on its side of 0 and 1."""
    if share is None or not math.isfinite(share):
        return DASH
    value = share * 100
    if value in (0, 100):
        return f"{value:.0f} %"
    text = ""
    for decimals in range(2 if value < 9.995 else 1, 7):
        text = f"{value:.{decimals}f}"
        if (float(text) > 0) == (value > 0) and (float(text) < 100) == (value < 100):
            break
    return f"{text} %"


Bound = Literal["exact", "least", "most"]
_ROUNDED: dict[Bound, Callable[[float], float]] = {"exact": round, "least": math.floor, "most": math.ceil}


def attained(share: float, target: float | None, bound: Bound = "exact") -> str:
    """An attainment, which no rounding moves across the target; a bound is rounded so that it stays true."""
    return units.beside(share, 1.0 if target is None else target, rounded=_ROUNDED[bound]).replace("100.0", "100")


def share_limit(share: float) -> str:
    """A target as it was set: 95 %, 99.9 %."""
    return f"{share * 100:g} %"


def span(lo: float, hi: float, target: float | None) -> str:
    """An interval of attainments with one unit, or one number when both ends are the same."""
    if lo == hi:
        return attained(lo, target)
    return f"{attained(lo, target, 'least').removesuffix(' %')}{DASH}{attained(hi, target, 'most')}"


def rate(rps: float | None) -> str:
    """12.4 rps; a dash when there is none."""
    return DASH if rps is None else f"{number(rps)} rps"


def clock(seconds: float) -> str:
    """Time since the run began as m:ss, or h:mm:ss."""
    minutes, whole = divmod(int(max(0.0, seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{whole:02d}" if hours else f"{minutes}:{whole:02d}"


def about(seconds: float) -> str:
    """An expected time, worded as roughly as it is known: ~40 s, ~6 min."""
    if seconds < 95:
        return f"~{max(5, round(seconds / 5) * 5)} s"
    return f"~{round(seconds / 60)} min"


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


def set_up_themes(app: App[Any]) -> None:
    """Make our themes known to an app that is being made, and choose the usual one."""
    for theme in (THEME, THEME_BLUE, THEME_16):
        app.register_theme(theme)
    app.theme = THEME.name
    if app.no_color:  # of its ANSI themes textual does not know how bright they are
        no_colour.use(app)
        for name in [theme.name for theme in app.available_themes.values() if theme.ansi]:
            app.unregister_theme(name)
