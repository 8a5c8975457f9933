"""Plots as SVG text: axes, lines, marks and bars by their values. What they look like is up to the style of the page."""

import itertools
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Literal

from core.report.elements import Markup, element
from core.units import coordinate

WIDTH, HEIGHT = 380, 230
"""Of the drawing, in the units of its letters: it fits a phone of 360 pixels nearly as it is, and grows from there."""
LETTER = 6.6
"""Width of a letter, with room to spare: where a label would run into another it is left out."""
_LEFT, _RIGHT, _TOP, _BOTTOM = 54, 12, 24, 30
Shape = Literal["dot", "cross", "ring", "line", "bar"]
Write = Callable[[float], str]


@dataclass(frozen=True, slots=True)
class Axis:
    """From which value to which, evenly or by their logarithms, and what is written where."""

    low: float
    high: float
    log: bool = False
    labels: tuple[tuple[float, str], ...] = ()

    def share(self, value: float) -> float:
        """Where a value lies, from 0 to 1; what lies beyond is at the end."""
        low, high, at = (math.log10(max(each, 1e-12)) for each in (self.low, self.high, value)) if self.log else self._plain(value)
        return min(max((at - low) / (high - low), 0.0), 1.0) if high > low else 0.5

    def _plain(self, value: float) -> tuple[float, float, float]:
        return self.low, self.high, value


@dataclass(slots=True)
class Drawing:
    """A plot that is being drawn. Classes name what a mark means: the page gives them their colours."""

    name: str
    title: str
    about: str
    x: Axis
    y: Axis
    _behind: list[Markup] = field(default_factory=list)
    _marks: list[Markup] = field(default_factory=list)

    def at(self, x: float, y: float) -> tuple[float, float]:
        """Where a point of the plot lies in the drawing."""
        return (
            _LEFT + self.x.share(x) * (WIDTH - _LEFT - _RIGHT),
            HEIGHT - _BOTTOM - self.y.share(y) * (HEIGHT - _TOP - _BOTTOM),
        )

    def zone(self, low: float, high: float, kind: str) -> None:
        """A stretch of the x axis, shaded."""
        (left, top), (right, bottom) = self.at(low, self.y.high), self.at(high, self.y.low)
        self._behind.append(element("rect", x=left, y=top, width=right - left, height=bottom - top, class_=f"zone {kind}"))

    def rule(self, y: float, label: str) -> None:
        """A value that everything is held against, across the plot, with its name where it begins."""
        (left, at), (right, _) = self.at(self.x.low, y), self.at(self.x.high, y)
        self._marks.append(element("line", x1=left, y1=at, x2=right, y2=at, class_="rule"))
        below = at < _TOP + 12
        self._marks.append(element("text", label, x=left + 4, y=at + 13 if below else at - 4, class_="said"))

    def upright(self, x: float, label: str, kind: str, *, end: bool) -> None:
        """A value of the x axis that matters, with its name above the plot; `end`: left of it."""
        (at, top), (_, bottom) = self.at(x, self.y.high), self.at(x, self.y.low)
        self._behind.append(element("line", x1=at, y1=top - 4, x2=at, y2=bottom, class_=f"upright {kind}"))
        half = len(label) * LETTER / 2
        at = min(max(at - half if end else at + half, _LEFT + half), WIDTH - half)
        self._marks.append(element("text", label, x=at, y=top - 9, class_=f"said middle {kind}"))

    def line(self, points: Iterable[tuple[float, float | None]], kind: str) -> None:
        """A line through values, broken where there is none; a value that stands alone is a dot."""
        for known, part in itertools.groupby(points, key=lambda point: point[1] is not None):
            if not known:
                continue
            places = [self.at(x, y) for x, y in part if y is not None]
            if len(places) == 1:
                self._marks.append(element("circle", cx=places[0][0], cy=places[0][1], r=1.5, class_=f"alone {kind}"))
            else:
                path = " ".join(f"{coordinate(x)},{coordinate(y)}" for x, y in places)
                self._marks.append(element("polyline", points=path, class_=f"line {kind}"))

    def bar(self, x: float, low: float, high: float, kind: str, shift: float = 0.0) -> None:
        """From the least to the most that a value can be; `shift` to the side, in the units of the drawing."""
        (at, bottom), (_, top) = self.at(x, low), self.at(x, high)
        at += shift
        self._marks.append(element("rect", x=at - 2.5, y=top, width=5, height=max(bottom - top, 0.5), rx=2, class_=f"bar {kind}"))

    def mark(self, x: float, y: float, shape: Shape, kind: str, shift: float = 0.0) -> None:
        """One value."""
        at, level = self.at(x, y)
        self._marks.append(marked(at + shift, level, shape, kind))

    def markup(self) -> Markup:
        """The whole, with its title and what it shows for those who hear it."""
        title, about = f"{self.name}-title", f"{self.name}-about"
        inside = (
            element("title", self.title, id=title),
            element("desc", self.about, id=about),
            *self._behind,
            *self._frame(),
            *self._marks,
        )
        box = f"0 0 {WIDTH} {HEIGHT}"
        return element(
            "svg", *inside, viewBox=box, role="img", aria_labelledby=f"{title} {about}", xmlns="http://www.w3.org/2000/svg"
        )

    def _frame(self) -> Iterable[Markup]:
        left, bottom = self.at(self.x.low, self.y.low)
        right, _ = self.at(self.x.high, self.y.low)
        for value, label in self.y.labels:
            _, at = self.at(self.x.low, value)
            yield element("line", x1=left, y1=at, x2=right, y2=at, class_="grid")
            yield element("text", label, x=left - 5, y=at + 4, class_="number end")
        yield element("line", x1=left, y1=bottom, x2=right, y2=bottom, class_="axis")
        taken: list[tuple[float, float]] = []
        for value, label in self.x.labels:
            at, _ = self.at(value, self.y.low)
            half = len(label) * LETTER / 2 + 2
            centre = min(max(at, half), WIDTH - half)
            if any(centre - half < high and low < centre + half for low, high in taken):
                continue
            taken.append((centre - half, centre + half))
            yield element("line", x1=at, y1=bottom, x2=at, y2=bottom + 4, class_="axis")
            yield element("text", label, x=centre, y=bottom + 17, class_="number middle")


def marked(x: float, y: float, shape: Shape, kind: str) -> Markup:
    """A mark at a place of a drawing."""
    match shape:
        case "dot":
            return element("circle", cx=x, cy=y, r=4, class_=f"mark {kind}")
        case "ring":
            return element("circle", cx=x, cy=y, r=3.5, class_=f"ring {kind}")
        case "cross":
            path = f"M{coordinate(x - 3.5)} {coordinate(y - 3.5)}l7 7m0 -7l-7 7"
            return element("path", d=path, class_=f"stroke {kind}")
        case "line":
            return element("path", d=f"M{coordinate(x - 7)} {coordinate(y)}h14", class_=f"line {kind}")
        case "bar":
            return element("rect", x=x - 2.5, y=y - 6, width=5, height=12, rx=2, class_=f"bar {kind}")


def key(shape: Shape, kind: str, words: str) -> Markup:
    """A mark beside what it means, for the line under a plot."""
    mark = marked(8, 7, shape, kind)
    return element("span", element("svg", mark, viewBox="0 0 16 14", class_="key", aria_hidden="true"), words)


def log_labels(low: float, high: float, write: Write) -> tuple[tuple[float, str], ...]:
    """Round values between the ends of a logarithmic axis: powers of ten, with 2 and 5 where these are few."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    found: list[float] = []
    for steps in ((1,), (1, 3), (1, 2, 5), (1, 1.5, 2, 3, 4, 5, 7)):
        found = [step * 10.0**power for power in powers for step in steps if low <= step * 10.0**power <= high]
        if len(found) >= 3:
            break
    return tuple((value, write(value)) for value in found)


def ceiling(value: float) -> float:
    """The next round number that is not below."""
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in (1, 2, 4, 5, 6, 8, 10) if step * power >= value * 0.9999)


def even_labels(top: float, write: Write) -> tuple[tuple[float, str], ...]:
    """The ends of an axis that begins at 0, and its middle."""
    return tuple((top * part, write(top * part)) for part in (0.0, 0.5, 1.0))
