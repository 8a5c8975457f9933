"""Formats: units, three significant digits, and no rounding across a limit."""

import math
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from tui.draw import style


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (0.0432, "0.0432"),
        (0.9996, "1.00"),
        (12, "12.0"),
        (12.44, "12.4"),
        (99.95, "100"),
        (999.6, "1,000"),
        (1234.5, "1,234"),
    ],
)
def test_number_has_three_significant_digits(value: float, text: str) -> None:
    assert style.number(value) == text


@given(st.floats(min_value=1e-6, max_value=1e9))
def test_number_is_near_what_it_shows(value: float) -> None:
    assert math.isclose(float(style.number(value).replace(",", "")), value, rel_tol=0.00501)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.0612, "61.2 ms"), (0.9994, "999 ms"), (0.9996, "1.00 s"), (12.345, "12.3 s"), (None, "\u2013"), (math.nan, "\u2013")],
)
def test_latency_changes_its_unit_at_a_second(seconds: float | None, text: str) -> None:
    assert style.latency(seconds) == text


@pytest.mark.parametrize(
    ("share", "text"),
    [(0, "0 %"), (1, "100 %"), (0.95, "95.0 %"), (0.9996, "99.96 %"), (0.412, "41.2 %"), (0.0985, "9.85 %")],
)
def test_percent(share: float, text: str) -> None:
    assert style.percent(share) == text


@given(st.integers(min_value=1, max_value=20000), st.data(), st.sampled_from([0.9, 0.95, 0.99, 0.999]))
def test_an_attainment_stays_on_its_side_of_the_target(planned: int, data: st.DataObject, target: float) -> None:
    good = data.draw(st.integers(min_value=0, max_value=planned))
    shown = float(style.attained(good / planned, target).removesuffix(" %"))
    assert (shown >= target * 100 - 1e-9) == (good / planned >= target - 1e-11)
    assert (shown == 100) == (good == planned)


@given(st.floats(min_value=0, max_value=1), st.sampled_from([0.9, 0.95, 0.99, 0.999, None]))
def test_a_bound_stays_true_when_it_is_rounded(share: float, target: float | None) -> None:
    least, most = (float(style.attained(share, target, end).removesuffix(" %")) for end in ("least", "most"))
    assert least <= share * 100 + 1e-3
    assert most >= share * 100 - 1e-3


def test_bounds_are_rounded_away_from_each_other() -> None:
    assert style.attained(0.9519, 0.95, "least") == "95.1 %"
    assert style.attained(0.8741, 0.95, "most") == "87.5 %"
    assert style.attained(1, 0.95) == "100 %"


def test_span_is_one_number_when_it_is_one() -> None:
    assert style.span(0.96, 0.96, 0.95) == "96.0 %"
    assert style.span(0.9319, 0.9601, 0.95) == "93.1\u201396.1 %"


@pytest.mark.parametrize(("seconds", "text"), [(0, "0:00"), (187.9, "3:07"), (3723, "1:02:03")])
def test_clock(seconds: float, text: str) -> None:
    assert style.clock(seconds) == text


@pytest.mark.parametrize(("seconds", "text"), [(1, "~5 s"), (41, "~40 s"), (370, "~6 min")])
def test_expected_times_are_rough(seconds: float, text: str) -> None:
    assert style.about(seconds) == text


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
    assert style.shorten("No requests of others: 0 running, 0 waiting.", 32) == "No requests of others:…"


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
