"""A plot on the screen, bare or as a panel with a title; drawn again only when its data, size or theme changed."""

import textwrap
from dataclasses import dataclass, replace
from typing import ClassVar, get_args

from rich.segment import Segment
from rich.style import Style
from textual.content import Content
from textual.strip import Strip
from textual.widget import Widget

from core.units import DASH, clock
from tui.draw import plots
from tui.draw.plots import Ground, Ink, Plot, Run, Upright
from tui.draw.style import shows_grounds
from tui.draw.ticks import time_ticks
from tui.widgets.pieces import Piece, fit, join

_CORNERS = 6  # two corners, a dash and a blank on each side of a title


@dataclass(frozen=True, slots=True)
class PanelContent:
    """What a panel shows: a title that answers by itself, and a plot or the sentence why there is none."""

    title: tuple[Piece, ...]
    body: Plot | str


class Titled(Widget, can_focus=True):
    """A widget whose border title is made of facts that fit its width. Tab goes from one to the next."""

    _title: tuple[Piece, ...] = ()
    _subtitle: str = ""

    def set_title(self, title: tuple[Piece, ...]) -> None:
        """Put these facts on the border, as many as fit."""
        if title != self._title:
            self._title = title
            self._fit_title()

    def set_subtitle(self, text: str) -> None:
        """Put this on the lower border; setting a border text repaints the whole widget, so only when it changed."""
        if text != self._subtitle:
            self._subtitle = text
            self.border_subtitle = Content(text)

    def on_resize(self) -> None:
        """A new width may hold more or fewer facts."""
        self._fit_title()

    def _fit_title(self) -> None:
        self.border_title = join(fit(self._title, self.outer_size.width - _CORNERS))


class PlotView(Widget):
    """Draws a `Plot`, or a sentence in its place."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {f"plot--{name}" for name in (*get_args(Ink), "band", *get_args(Ground))}

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._body: Plot | str = ""
        self._rows: list[Strip] = []
        self._drawn_for: tuple[Plot | str, int, int] | None = None

    def show(self, body: Plot | str) -> None:
        """Take new data; nothing happens when it is the same."""
        if body != self._body:
            self._body = body
            self.refresh()

    def notify_style_update(self) -> None:
        """Another theme: the same rows in other colours."""
        self._drawn_for = None
        super().notify_style_update()

    def render_line(self, y: int) -> Strip:
        """One row, from the picture of this data at this size."""
        width, height = self.size
        wanted = (self._body, width, height)
        if self._drawn_for is None or self._drawn_for[1:] != wanted[1:] or self._drawn_for[0] is not self._body:
            self._rows = self._draw(width, height)
            self._drawn_for = wanted
        return self._rows[y] if y < len(self._rows) else Strip.blank(width, self.rich_style)

    def _draw(self, width: int, height: int) -> list[Strip]:
        if isinstance(self._body, str):
            return self._sentence(self._body, width, height)
        styles: dict[tuple[Ink | None, str | None], Style] = {}
        return [Strip([self._segment(run, styles) for run in row], width) for row in plots.draw(self._body, width, height)]

    def _segment(self, run: Run, styles: dict[tuple[Ink | None, str | None], Style]) -> Segment:
        behind = (run.ground or ("band" if run.band else None)) if shows_grounds(self.app) else None
        key = (run.ink, behind)
        if key not in styles:
            style = self.get_component_rich_style(f"plot--{run.ink}") if run.ink else self.rich_style
            under = Style(bgcolor=self.get_component_rich_style(f"plot--{behind}").bgcolor) if behind else Style()
            styles[key] = style + under
        return Segment(run.text, styles[key])

    def _sentence(self, text: str, width: int, height: int) -> list[Strip]:
        lines = textwrap.wrap(text, max(1, width - 2))[:height]
        above = (height - len(lines)) // 2
        style = self.get_component_rich_style("plot--label")
        blank = Strip.blank(width, self.rich_style)
        return [blank] * above + [Strip([Segment(line.center(width)[:width], style)], width) for line in lines]


class PlotPanel(PlotView, Titled, can_focus=True):
    """A plot with a border and a title that carries its current values; can be maximised."""

    ALLOW_MAXIMIZE = True

    def show_content(
        self, content: PanelContent, cursor_s: float | None = None, x_range: tuple[float, float] | None = None
    ) -> None:
        """Take a new title and new data. `cursor_s`: a moment to draw a line at; `x_range`: another time axis than its own."""
        body = content.body
        if not isinstance(body, str):
            line = () if cursor_s is None else (Upright(cursor_s, clock(cursor_s)),)
            body = replace(body, uprights=(*body.uprights, *line))
            if x_range is not None:
                body = replace(body, x_range=x_range, x_ticks=time_ticks(x_range))
        self.set_title(content.title)
        self.show(body)
        self._fit_subtitle()

    def on_resize(self) -> None:
        """Another height may have room for the labels of the time axis."""
        super().on_resize()
        self._fit_subtitle()

    def _fit_subtitle(self) -> None:
        """What time it is that is seen, where the axis has no room to say it."""
        body = self._body
        footed = isinstance(body, Plot) and plots.has_footing(body, self.size.height)
        self.set_subtitle("" if footed else span_text(body))


def span_text(body: Plot | str) -> str:
    """The time that a plot spans, since the run began."""
    return "" if isinstance(body, str) else f"{clock(body.x_range[0])} {DASH} {clock(body.x_range[1])}"
