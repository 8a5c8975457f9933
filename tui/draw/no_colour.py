"""The screen where NO_COLOR is set: no colour is sent at all; what colours told apart is dim, reversed or plain."""

from functools import lru_cache
from typing import Any

from rich.segment import Segment
from rich.style import Style
from textual.app import App
from textual.color import Color
from textual.filter import LineFilter

_MARKED = 0.2
"""A ground that goes so far from the screen's own towards the text's marks something: the field with the focus, a choice, Start."""
_FAINT = 0.8
"""Text that goes less far from the ground towards the usual text has stepped back."""


class WithoutColour(LineFilter):
    """Takes the colours out of what is drawn. Textual 8.2.8's own filter sends greys in their place."""

    def __init__(self, app: App[Any]) -> None:
        super().__init__()
        self._app = app

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """The same texts; a terminal that has no colours of ours can show every one of these styles."""
        own = self._app.theme_variables
        ends = (own["background"], own["foreground"])
        return [Segment(text, plain(style, *ends) if style else None, control) for text, style, control in segments]


@lru_cache(1024)
def plain(style: Style, background: str, foreground: str) -> Style:
    """A style without colours, as the theme's own `background` and `foreground` give them a meaning."""
    dark, light = Color.parse(background).brightness, Color.parse(foreground).brightness
    reach = (light - dark) or 1.0
    ground, ink = (
        None if colour is None else (Color.from_rich_color(colour).brightness - dark) / reach
        for colour in (style.bgcolor, style.color)
    )
    if ground is not None and ground > _MARKED:
        return style.without_color + Style(reverse=not style.reverse)
    return style.without_color + Style(dim=True) if ink is not None and ink < _FAINT else style.without_color


def use(app: App[Any]) -> None:
    """In place of the filters that work on colours, behind the one that makes the terminal's own 16 comparable."""
    app._filters[1:] = [WithoutColour(app)]
