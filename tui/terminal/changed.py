"""Only what changed goes to the terminal: a frame is compared with the cells that are there, and the rest of it is left out.

Textual 8.2.8 sends whole widgets, and of a part of a row all that stands before it; over a slow line that is most of what a look
costs. What is not understood goes through as it is, and then so does everything until the next frame that fills the screen.
"""

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from rich.cells import cell_len

_TOKEN = re.compile(r"\x1b\[(?P<y>\d+);(?P<x>\d+)H|\x1b\[(?P<style>[\d;]*)m|(?P<text>[^\x00-\x1f\x7f]+)|\n")
_HARMLESS = re.compile(r"(?:\x1b\[\?(?!1049)\d+[hl]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x07)*")
"""Modes, titles, the clipboard and the bell: they move no cell."""
_WORD = re.compile(r"[^\W\d_]{2}")
_BRIDGE = 3
"""So many cells that stay are written again rather than jumped over: a jump takes as many bytes."""

Cell = tuple[str, str] | None
"""A character and its style; None: not known, or a part of a character that is wider or narrower than a cell."""


class Span(NamedTuple):
    """A piece of a row in one style, as it was meant to be written; rows and columns count from 0."""

    y: int
    x: int
    text: str
    style: str


class Look(NamedTuple):
    """The parts of a style, each as the terminal's numbers for it."""

    attributes: str
    ink: str
    ground: str


class Shown:
    """The cells that a terminal of a known size shows, as far as they were written through here."""

    def __init__(self) -> None:
        self._size = (0, 0)
        self._rows: list[list[Cell]] | None = None
        self._resized: tuple[int, int] | None = None
        self._cursor: tuple[int, int] | None = None

    def resize(self, width: int, height: int) -> None:
        """The terminal has this size from now on, and may have moved anything. May be called from any thread."""
        self._resized = (width, height)

    def changes(self, data: str) -> str:
        """What is to be written in place of `data` for the same picture."""
        resized, self._resized = self._resized, None
        if resized is not None:
            self._size, self._rows = resized, None
        if _HARMLESS.fullmatch(data):
            return data
        frame = _spans(data)
        if frame is None or not all(self._inside(span) for span in frame[0]):
            self._rows = self._cursor = None
            return data
        spans, cursor = frame
        if self._rows is None:
            if self._fills(spans):
                self._rows = [[None] * self._size[0] for _ in range(self._size[1])]
                for span in spans:
                    self._put(span)
            self._cursor = cursor
            return data
        return self._written(spans, cursor)

    def _inside(self, span: Span) -> bool:
        return self._rows is None or (span.y < self._size[1] and span.x + cell_len(span.text) <= self._size[0])

    def _fills(self, spans: Sequence[Span]) -> bool:
        """Whether the frame is one of this size: one that was drawn for another one goes beyond it or leaves a part."""
        ends: dict[int, int] = {}
        for span in spans:
            if span.x != ends.get(span.y, 0):
                return False
            ends[span.y] = span.x + cell_len(span.text)
        width, height = self._size
        return width > 0 and ends == dict.fromkeys(range(height), width)

    def _put(self, span: Span) -> None:
        assert self._rows is not None
        cells = _cells(span)
        self._rows[span.y][span.x : span.x + len(cells)] = cells

    def _written(self, spans: Sequence[Span], cursor: tuple[int, int] | None) -> str:
        out: list[str] = []
        at, style = self._cursor, ""
        for span in (part for whole in spans for part in self._changed(whole)):
            out += (_way(at, (span.y, span.x)), _turn(style, span.style), span.text)
            style, end = span.style, span.x + cell_len(span.text)
            at = (span.y, end) if end < self._size[0] else None  # where the cursor stays behind the last column differs
        if out or cursor != at:
            out += (_turn(style, ""), _way(at, cursor) if cursor is not None else "")
        self._cursor = cursor if cursor is not None else at
        return "".join(out)

    def _changed(self, span: Span) -> Iterator[Span]:
        """The parts of it that are not there yet; they are from now on."""
        assert self._rows is not None
        new = _cells(span)
        old = self._rows[span.y][span.x : span.x + len(new)]
        if None in new:
            self._put(span)
            yield span
        elif old != new:
            self._put(span)
            for begin, end in _stretches(span.text, [at for at in range(len(new)) if old[at] != new[at]]):
                yield Span(span.y, span.x + begin, span.text[begin:end], span.style)


def _stretches(text: str, changed: Sequence[int]) -> Iterator[tuple[int, int]]:
    """What to write again, as ends in the text. Words stay together: who reads what is sent, a recording say, finds them in it."""
    if _WORD.search(text):
        begin, end = text.rfind(" ", 0, changed[0] + 1) + 1, text.find(" ", changed[-1])
        yield min(begin, changed[0]), len(text) if end < 0 else max(end, changed[-1] + 1)
        return
    begin, end = changed[0], changed[0]
    for at in changed:
        if at - end > _BRIDGE:
            yield begin, end
            begin = at
        end = at + 1
    yield begin, end


def _spans(data: str) -> tuple[list[Span], tuple[int, int] | None] | None:
    """The frame as pieces and where the cursor stands behind it; None where it is no frame."""
    spans: list[Span] = []
    at: tuple[int, int] | None = None
    style, position = "", 0
    for token in _TOKEN.finditer(data):
        if token.start() != position:
            return None
        position = token.end()
        if (text := token["text"]) is not None:
            if at is None:
                return None
            spans.append(Span(*at, text, style))
            at = (at[0], at[1] + cell_len(text))
        elif token["y"] is not None:
            at = (int(token["y"]) - 1, int(token["x"]) - 1)
        elif (found := token["style"]) is not None:
            style = "" if found == "0" else found
        else:
            at = None  # a new row; a place follows
    return (spans, at) if position == len(data) and not style else None


def _cells(span: Span) -> list[Cell]:
    """One cell each; a blank has no ink that could be seen."""
    if not span.text.isascii() and any(cell_len(char) != 1 for char in span.text):
        return [None] * cell_len(span.text)
    blank = (" ", _of_blank(span.style))
    return [blank if char == " " else (char, span.style) for char in span.text]


@lru_cache(1024)
def _look(style: str) -> Look:
    """Every frame sets a style after a reset: attributes, then the colours of the character and of its ground."""
    numbers = style.split(";") if style else []
    attributes, ink, ground = [], "", ""
    while numbers:
        long = {"2": 5, "5": 3}.get(numbers[1], 1) if numbers[0] in ("38", "48") and len(numbers) > 1 else 1
        code, numbers = ";".join(numbers[:long]), numbers[long:]
        first = int(code.partition(";")[0] or 0)
        if first == 38 or 30 <= first <= 37 or 90 <= first <= 97:
            ink = code
        elif first == 48 or 40 <= first <= 47 or 100 <= first <= 107:
            ground = code
        else:
            attributes.append(code)
    return Look(";".join(attributes), ink, ground)


@lru_cache(1024)
def _of_blank(style: str) -> str:
    """A style without the ink, where no line or reversed ground would show it."""
    look = _look(style)
    return style if set(look.attributes.split(";")) & {"4", "7", "9", "21", "53"} else f"{look.attributes}/{look.ground}"


@lru_cache(4096)
def _turn(old: str, new: str) -> str:
    """The shortest way from one style to the other."""
    before, after = _look(old), _look(new)
    if before == after:
        return ""
    whole = ";".join(part for part in after if part)
    reset = "\x1b[m" if any(before) else ""
    full = f"{reset}\x1b[{whole}m" if whole else reset
    if before.attributes != after.attributes:
        return full
    parts = [after.ink or "39"] * (before.ink != after.ink) + [after.ground or "49"] * (before.ground != after.ground)
    return min(full, f"\x1b[{';'.join(parts)}m", key=len)


def _way(at: tuple[int, int] | None, to: tuple[int, int]) -> str:
    """The shortest way from one place to the other."""
    if at == to:
        return ""
    if at is not None and at[0] == to[0] and to[1] > at[1]:
        right = to[1] - at[1]
        return f"\x1b[{right}C" if right > 1 else "\x1b[C"
    return f"\x1b[{to[0] + 1};{to[1] + 1}H"
