"""What is left out of a frame is what the terminal shows already: whatever is written, the picture is that of the whole frames."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from tui.terminal.changed import Shown

WIDTH, HEIGHT = 12, 3
STYLES = (
    "",
    "1",
    "38;2;215;218;224;48;2;17;19;24",
    "1;38;2;215;218;224;48;2;17;19;24",
    "38;5;7;48;5;0",
    "4;31",
    "31",
    "44",
    "2;39;49",
)
TEXTS = st.text(alphabet="ab  ─⠤✔", min_size=1, max_size=WIDTH)
TOKEN = re.compile(r"\x1b\[(\d+);(\d+)H|\x1b\[(\d*)C|\x1b\[([\d;]*)m|([^\x00-\x1f]+)|\n")


class Screen:
    """A terminal as far as frames need one: places, steps to the right, colours, characters of one or two cells."""

    def __init__(self) -> None:
        self.cells = {(y, x): ("?", "") for y in range(HEIGHT) for x in range(WIDTH)}
        self.at: tuple[int, int] = (0, 0)
        self.set: dict[str, str] = {}

    def feed(self, data: str) -> None:
        position = 0
        for token in TOKEN.finditer(data):
            assert token.start() == position, data[position:]
            position = token.end()
            row, column, right, style, text = token.groups()
            if row is not None:
                self.at = (int(row) - 1, int(column) - 1)
            elif right is not None:
                self.at = (self.at[0], self.at[1] + int(right or 1))
            elif style is not None:
                self._style(style)
            elif text is not None:
                for char in text:
                    self._write(char)
        assert position == len(data)

    def _write(self, char: str) -> None:
        (y, x), look = self.at, self.set
        bare = char == " " and not {"4", "7"} & look.keys()
        style = ";".join(f"{key}={value}" for key, value in sorted(look.items()) if not bare or key != "ink")
        self.cells[y, min(x, WIDTH - 1)] = (char, style)
        for behind in range(1, cell_len(char)):
            self.cells[y, min(x + behind, WIDTH - 1)] = ("", style)
        self.at = (y, x + cell_len(char))

    def _style(self, numbers: str) -> None:
        codes = numbers.split(";")
        while codes:
            code = codes.pop(0)
            if code in ("", "0"):
                self.set = {}
            elif code in ("38", "48"):
                length = 4 if codes[0] == "2" else 2
                value, codes = ";".join([code, *codes[:length]]), codes[length:]
                self.set["ink" if code == "38" else "ground"] = value
            elif code in ("39", "49"):
                self.set.pop("ink" if code == "39" else "ground", None)
            elif code[0] in "34":
                self.set["ink" if code[0] == "3" and len(code) == 2 else "ground" if len(code) == 2 else code] = code
            else:
                self.set[code] = code


def piece(text: str, style: str) -> str:
    return f"\x1b[{style}m{text}\x1b[0m" if style else text


def whole(*rows: str, style: str = "", width: int = WIDTH) -> str:
    """A frame that fills the screen."""
    lines = [f"\x1b[{y + 1};1H{piece(row.ljust(width), style)}" for y, row in enumerate(rows)]
    return "\n".join(lines) + "\x1b[1;1H"


def shown(width: int = WIDTH, height: int = HEIGHT) -> Shown:
    terminal = Shown()
    terminal.resize(width, height)
    return terminal


SPANS = st.tuples(st.integers(0, HEIGHT - 1), st.integers(0, WIDTH - 1), TEXTS, st.sampled_from(STYLES))


@given(st.lists(st.lists(SPANS, min_size=1, max_size=4), max_size=8))
@settings(max_examples=200, deadline=None)
def test_the_picture_is_that_of_the_whole_frames(frames: list[list[tuple[int, int, str, str]]]) -> None:
    terminal, sent, meant = shown(), Screen(), Screen()
    data = [whole("one", "two", "three", style=STYLES[2])]
    for spans in frames:
        parts = [f"\x1b[{y + 1};{x + 1}H{piece(text[: WIDTH - x], style)}" for y, x, text, style in spans]
        data.append("\n".join(parts) + f"\x1b[{len(spans)};3H")
    for frame in data:
        meant.feed(frame)
        sent.feed(terminal.changes(frame))
        assert sent.cells == meant.cells
        assert (sent.at, sent.set) == (meant.at, {})


def test_nothing_is_sent_of_what_is_there_and_of_a_change_only_its_cells() -> None:
    terminal, frame = shown(), whole("one", "two", "three", style=STYLES[2])
    assert terminal.changes(frame) == frame
    assert terminal.changes(frame) == ""
    assert texts(terminal.changes(whole("one", "tWo too", "three", style=STYLES[2]))) == "tWo too", "words stay whole"
    curve = whole("one", "⠤⠤⠤⠤⠤⠤⠤⠤", "three", style=STYLES[2])
    terminal.changes(curve)
    assert texts(terminal.changes(curve.replace("⠤⠤⠤⠤⠤⠤⠤⠤", "⠤⠒⠤⠤⠤⠤⠤⠒"))) == "⠒⠒"


def texts(sent: str) -> str:
    """What of it is seen."""
    return re.sub(r"\x1b\[[\d;]*[mHC]", "", sent)


def test_neighbours_of_one_style_are_sent_with_it_once() -> None:
    terminal = shown()
    terminal.changes(whole("", "", ""))
    sent = terminal.changes(f"\x1b[1;1H{piece('ab', STYLES[2])}{piece('cd', STYLES[2])}{piece('ef', STYLES[3])}\x1b[1;1H")
    assert "abcd" in sent
    assert sent.count("38;2;") == 2


@pytest.mark.parametrize("harmless", ["\x07", "\x1b[?2026h", "\x1b[?25l", "\x1b]52;c;YQ==\x07"])
def test_what_moves_no_cell_goes_through_and_nothing_is_forgotten(harmless: str) -> None:
    terminal, frame = shown(), whole("one", "two", "three")
    terminal.changes(frame)
    assert terminal.changes(harmless) == harmless
    assert terminal.changes(frame) == ""


@pytest.mark.parametrize("unknown", ["\x1b[2J", "\x1b[?1049h", "\x1b[5S", "text without a place"])
def test_after_what_is_not_understood_everything_goes_through_until_a_frame_fills_the_screen(unknown: str) -> None:
    terminal, frame = shown(), whole("one", "two", "three")
    terminal.changes(frame)
    assert terminal.changes(unknown) == unknown
    part = "\x1b[1;1Hone\x1b[1;1H"
    assert terminal.changes(part) == part
    assert terminal.changes(frame) == frame
    assert terminal.changes(frame) == ""


def test_at_another_size_nothing_is_known_and_a_late_frame_of_the_old_one_is_no_picture_of_it() -> None:
    terminal, old = shown(), whole("one", "two", "three")
    terminal.changes(old)
    terminal.resize(WIDTH - 2, HEIGHT)
    assert terminal.changes(old) == old, "its last columns lie over each other"
    new = whole("one", "two", "three", width=WIDTH - 2)
    assert terminal.changes(new) == new
    assert terminal.changes(new) == ""


def test_rows_with_wide_characters_are_sent_whole() -> None:
    terminal, sent, meant = shown(), Screen(), Screen()
    for frame in (whole("one", "two", "three"), "\x1b[2;2H模型x\x1b[1;1H", "\x1b[2;3Hab\x1b[1;1H", "\x1b[2;2H模型x\x1b[1;1H"):
        meant.feed(frame)
        sent.feed(terminal.changes(frame))
        assert sent.cells == meant.cells
