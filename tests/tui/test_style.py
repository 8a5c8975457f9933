"""Texts are made fit for a line, states are known by more than a colour, and colours stand in one place."""

import re
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from tui.draw import style


def test_clean_takes_out_what_a_terminal_would_obey() -> None:
    assert style.clean("a \x1b[31mred\x1b[0m b\x1b]0;title\x07c\nd\x9be\u202ef\x1b") == "a red bc d e f"
    assert style.clean("[/red] [bold]x") == "[/red] [bold]x"


@given(st.text(alphabet="ab1. ", max_size=60), st.integers(min_value=1, max_value=70))
def test_shorten_fits_and_cuts_between_words(text: str, width: int) -> None:
    short = style.shorten(text, width)
    assert cell_len(short) <= width or short == text
    if short != text:
        kept = short.removesuffix("…")
        assert text.startswith(kept)
        if " " in kept.strip():
            before = kept[: kept.rindex(" ")].rstrip()
            assert text[len(kept)] == " " or len(before) < width // 2, "only a long word is cut inside"
            assert not kept[-1].isdigit() or all(word[-1].isdigit() for word in kept.split())


def test_every_state_has_glyph_word_and_colour() -> None:
    for table in (style.VERDICTS, style.CHECKS, style.LOADS, style.OUTCOMES):
        marks = list(table.values())
        assert all(mark.glyph and mark.word and mark.role in style.STYLES for mark in marks)
        assert len({mark.word for mark in marks}) == len(marks)


def test_what_is_longer_than_all_before_it_is_cut_inside() -> None:
    assert style.shorten("Metrics at http://127.0.0.1:34839/metrics, 1 engine.", 32) == "Metrics at http://127.0.0.1:…"
    assert style.shorten("No requests from others: 0 running, 0 waiting.", 32) == "No requests from others:…"


def test_colours_are_named_in_one_place() -> None:
    """All else uses the variables of a theme, so that every theme works."""
    folder = Path(style.__file__).parents[1]
    colour = re.compile(r"#[0-9a-fA-F]{3}(?:[0-9a-fA-F]{3})?\b|\b(?:rgb|hsl)a?\(|\bansi_[a-z]+")
    files = [path for end in ("*.py", "*.tcss") for path in folder.rglob(end) if path.name != "style.py"]
    assert len(files) > 30
    assert {path.name: found for path in files if (found := colour.findall(path.read_text()))} == {}
    declared = re.compile(r"^\s*(?:color|background|border(?:-\w+)*|background-tint|[a-z-]*color):\s*(.*);", re.MULTILINE)
    kinds = {"none", "round", "solid", "tall", "wide", "blank"}
    for path in folder.rglob("*.tcss"):
        for value in declared.findall(path.read_text()):
            words = [word for word in value.split() if not re.fullmatch(r"[0-9]+%?", word)]
            assert all(word.startswith("$") or word in kinds for word in words), f"{path.name}: {value}"
