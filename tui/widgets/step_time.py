"""The time of a step at equal batch, as a line over the repeats of a run: was the server as fast all along? Pure."""

import math
from itertools import groupby

from textual.content import Content

from core.results import MOST_STEADY
from core.units import change, number, rate_brief
from core.view import RunView
from tui.draw import plots
from tui.draw.plots import Curve, Dot, Ink, Plot
from tui.draw.style import VERDICTS, Role
from tui.widgets.pieces import styled

ROWS = 7
"""Of the line with its axes, without the heading."""
_LEAST = 2
"""Repeats that make a line."""
_ROLES: dict[Ink | None, Role] = {"good": "holds", "bad": "breaks", "first": "strong", "label": "muted", "rule": "muted"}


def line(view: RunView, chosen: int, width: int) -> list[Content]:
    """A heading and ROWS rows; nothing where too few repeats have a step time. The repeats of step `chosen` have their glyphs."""
    plot = of(view, chosen)
    if plot is None:
        return []
    head = Content.assemble(styled("step time at equal batch, repeat by repeat, against the first one", "muted"))
    rows = plots.draw(plot, width, ROWS)
    drawn = [Content.assemble(*(styled(run.text, _ROLES.get(run.ink, "plain")) for run in row)) for row in rows]
    return [head, *(row.rstrip() for row in drawn)]


def of(view: RunView, chosen: int) -> Plot | None:
    """The line over the number of the repeat, in the order of the run; up is slower. A steady server stays near the rule."""
    known = [
        (step, repeat, drift)
        for step in view.steps
        for repeat in step.repeats
        if repeat.step_model is not None and (drift := repeat.step_model.drift_frac) is not None
    ]
    if len(known) < _LEAST:
        return None
    drifts = [drift for _, _, drift in known]
    low, high = min(*drifts, 1 / MOST_STEADY - 1), max(*drifts, MOST_STEADY - 1)
    room = 0.05 * (high - low)
    numbered = list(enumerate(known))
    begun = [next(each) for _, each in groupby(numbered, key=lambda at: at[1][0].step)]
    rates = [(float(at), step.rate_rps) for at, (step, _, _) in begun]
    return Plot(
        x_range=(-0.5, len(known) - 0.5),
        y_range=(low - room, high + room),
        curves=(Curve("", "first", tuple((float(at), drift) for at, (_, _, drift) in numbered)),),
        y_labels=tuple((at, change(at)) for at in dict.fromkeys((0.0, high, low)) if math.isfinite(at)),
        x_labels=tuple((at, number(rate) if index else rate_brief(rate)) for index, (at, rate) in enumerate(rates)),
        rule=0.0,
        dots=tuple(
            Dot(float(at), drift, VERDICTS[repeat.verdict].glyph, "good" if repeat.verdict == "pass" else "bad")
            for at, (step, repeat, drift) in numbered
            if step.step == chosen
        ),
    )
