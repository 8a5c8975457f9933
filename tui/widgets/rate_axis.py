"""What was measured and what a model says, one under the other on one axis of rates."""

import math
from typing import NamedTuple

from textual.content import Content

from core.units import rate_brief
from tui.draw.style import Role
from tui.widgets.pieces import styled

_NAME, _VALUE = 14, 24
"""As on the sliders above it, so that all tracks begin and end in the same columns."""
_ROOM = 1.05
"""Beyond the outermost ends, at least."""


class Span(NamedTuple):
    """One row: from `low` to `high`, with a point between them if there is one, and how its ends and its inside are drawn."""

    name: str
    low: float | None
    high: float | None
    point: float | None
    ends: tuple[str, str]
    inside: str
    role: Role
    said: str


def measured(low: float | None, high: float | None, name: str = "measured") -> Span:
    """A bracket: a measured rate at each end, and between them it is not known."""
    ends = " to ".join(rate_brief(end).removesuffix(" req/s") if end else "?" for end in (low, high))
    return Span(name, low, high, None, ("✔", "✘"), "▒", "strong", f"{ends} req/s")


def modelled(name: str, point: float, low: float, high: float) -> Span:
    """What the model says, with its interval."""
    return Span(name, low, high, point, ("├", "┤"), "─", "plain", rate_brief(point))


def axis(spans: tuple[Span, ...], width: int) -> Content:
    """All rows over one logarithmic axis that has room for every end."""
    known = [rate for span in spans for rate in (span.low, span.high, span.point) if rate]
    track = width - _NAME - _VALUE
    if not known or track < 10:
        return Content("\n").join(styled_row(span) for span in spans)
    # From one power of two to another, so that it stays where it is while a slider moves.
    low, high = math.floor(math.log2(min(known) / _ROOM)), math.ceil(math.log2(max(known) * _ROOM))

    def cell(rate: float) -> int:
        return round((math.log2(rate) - low) / (high - low) * (track - 1))

    def row(span: Span) -> Content:
        cells = [" "] * track
        ends = [cell(end) if end else None for end in (span.low, span.high)]
        inside = range((ends[0] if ends[0] is not None else -1) + 1, ends[1] if ends[1] is not None else track)
        for at in inside:
            cells[at] = span.inside
        for end, glyph in zip(ends, span.ends, strict=True):
            if end is not None:
                cells[end] = glyph
        if span.point:
            cells[cell(span.point)] = "●"
        name, line = styled(span.name.ljust(_NAME), "plain"), styled("".join(cells), span.role)
        return Content.assemble(name, line, styled(f" {span.said}", span.role))

    return Content("\n").join(map(row, spans))


def styled_row(span: Span) -> Content:
    """Without room for an axis: the figures alone."""
    return Content.assemble(styled(span.name.ljust(_NAME), "plain"), styled(span.said, span.role))
