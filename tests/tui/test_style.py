"""Texts are made fit for a line, states are known by more than a colour, and colours stand in one place."""

import math
import re
from itertools import combinations, pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from textual.theme import Theme

from tests.tui import knee_samples, samples
from tests.tui.screen import settle, shown
from tui.draw import style
from tui.widgets.plot_view import PlotView


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


# Machado and others, 2009: what is seen without one kind of cone, in linear light.
BLIND = {
    "none": ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)),
    "protan": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "deutan": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)),
    "tritan": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.303900)),
}


def lab(hue: str, kind: str) -> tuple[float, float, float]:
    """CIE L*a*b* as one of them sees it."""
    srgb = [int(hue[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    light = [value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in srgb]
    r, g, b = (min(1.0, max(0.0, sum(a * value for a, value in zip(row, light, strict=True)))) for row in BLIND[kind])
    white = ((0.4124, 0.3576, 0.1805, 0.9505), (0.2126, 0.7152, 0.0722, 1.0), (0.0193, 0.1192, 0.9505, 1.089))
    x, y, z = ((p * r + q * g + s * b) / w for p, q, s, w in white)
    fx, fy, fz = (t ** (1 / 3) if t > 0.008856 else 7.787 * t + 16 / 116 for t in (x, y, z))
    return 116 * fy - 16, 500 * (fx - fy), 200 * (fy - fz)


@pytest.mark.parametrize("kind", BLIND)
@pytest.mark.parametrize("theme", [style.THEME, style.THEME_BLUE])
def test_lines_are_told_apart_from_each_other_and_from_the_accents_by_every_eye(theme: Theme, kind: str) -> None:
    lines = [lab(theme.variables[f"line-{name}"], kind) for name in ("first", "second", "third")]
    accents = [lab(hue, kind) for hue in (theme.success, theme.error) if hue is not None]
    apart = [math.dist(a, b) for a, b in combinations(lines, 2)] + [math.dist(a, b) for a in lines for b in accents]
    assert min(apart) > 22, "ten times what is just noticed side by side"
    assert all(before[0] - after[0] > 10 for before, after in pairwise(lines)), "each darker than the one before"


async def test_every_theme_has_hues_for_the_lines() -> None:
    async with shown(samples.mid_step()) as (app, pilot, _):
        for name in app.available_themes:
            app.theme = name
            await pilot.pause()
            plot = app.screen.query_one("#ttft")
            inks = {plot.get_component_rich_style(f"plot--{shade}").color for shade in ("first", "second", "third")}
            assert len(inks) == 3, name


@pytest.mark.parametrize("theme", ["ansi-dark", "ansi-light", "kneescope-16"])
async def test_where_a_tint_would_be_a_full_colour_zones_have_edges_and_no_ground(theme: str) -> None:
    async with shown(knee_samples.finished(), (160, 50), on="knee") as (app, pilot, _):
        app.theme = theme
        await settle(app, pilot)
        curve = app.screen.query_one("#knee-curve", PlotView)
        strips = [curve.render_line(y) for y in range(curve.size.height)]
        assert len({segment.style.bgcolor for strip in strips for segment in strip if segment.style}) == 1
        assert any("▕" in strip.text for strip in strips)
        assert any("▏" in strip.text for strip in strips)


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
