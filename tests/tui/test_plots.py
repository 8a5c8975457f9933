"""The picture itself: what is drawn where, and that nothing a server can send harms it."""

import math
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from tui.draw.plots import Bar, Curve, Dot, Ink, Plot, Shade, Upright, Zone, draw, reduce
from tui.draw.sparkline import blocks

BRAILLE = range(0x2801, 0x2900)
SHADES: tuple[Shade, ...] = ("first", "second", "third")
VALUES = st.one_of(st.none(), st.floats(allow_nan=True, allow_infinity=True), st.floats(min_value=-2, max_value=3))


def plot(
    *values: float | None, name: str = "", rule: float | None = None, above: Ink | None = None, below: Ink | None = None
) -> Plot:
    points = tuple((float(x), y) for x, y in enumerate(values))
    curve = Curve(name, "bright", points, above=above, below=below)
    return Plot(x_range=(0.0, float(max(len(values) - 1, 1))), y_range=(0.0, 1.0), curves=(curve,), rule=rule)


def rows(picture: Plot, width: int, height: int) -> list[str]:
    return ["".join(run.text for run in row) for row in draw(picture, width, height)]


def dots(row: str) -> list[int]:
    return [at for at, char in enumerate(row) if ord(char) in BRAILLE]


def test_the_line_is_really_drawn_from_corner_to_corner() -> None:
    picture = rows(plot(0.0, 0.25, 0.5, 0.75, 1.0), 20, 5)
    assert dots(picture[4])[0] == 0
    assert dots(picture[0])[-1] == 19
    assert all(dots(row) for row in picture)


def test_a_flat_line_lies_in_the_row_of_its_value() -> None:
    picture = rows(plot(0.5, 0.5, 0.5), 20, 5)
    assert len(dots(picture[2])) == 20
    assert not any(dots(picture[y]) for y in (0, 1, 3, 4))


def test_values_that_are_no_numbers_are_left_out() -> None:
    picture = rows(plot(0.5, math.nan, None, math.inf, -math.inf, 0.5), 20, 5)
    assert len(dots(picture[2])) == 20
    assert rows(plot(math.nan, None), 20, 3) == [" " * 20] * 3


def test_values_beyond_the_range_lie_at_its_edge() -> None:
    picture = rows(plot(7.0, 7.0), 20, 5)
    assert len(dots(picture[0])) == 20


def test_a_gap_breaks_the_line() -> None:
    curve = Curve("", "bright", ((0.0, 0.5), (1.0, 0.5), (9.0, 0.5), (10.0, 0.5)))
    whole = Plot(x_range=(0.0, 10.0), y_range=(0.0, 1.0), curves=(curve,))
    broken = Plot(x_range=(0.0, 10.0), y_range=(0.0, 1.0), curves=(curve,), max_gap=2.0)
    assert len(dots(rows(whole, 21, 3)[1])) == 21
    assert len(dots(rows(broken, 21, 3)[1])) == 6


def test_the_rule_lies_behind_the_curve_and_beyond_it_the_ink_changes() -> None:
    picture = draw(plot(0.0, 1.0, rule=0.5, above="bad"), 20, 5)
    assert {run.ink for run in picture[2]} == {"rule", "bright"}
    assert [run.ink for run in picture[0] if run.text.strip()] == ["bad"]
    assert [run.ink for run in picture[4] if run.text.strip()] == ["bright"]
    under = draw(plot(0.0, 1.0, rule=0.5, below="bad"), 20, 5)
    assert [run.ink for run in under[4] if run.text.strip()] == ["bad"]


def test_labels_names_bands_and_marks() -> None:
    curves = (Curve("hi", "bright", ((0.0, 0.8), (10.0, 0.8))), Curve("lo", "middle", ((0.0, 0.7), (10.0, 0.7))))
    picture = Plot(
        x_range=(0.0, 10.0),
        y_range=(0.0, 1.0),
        curves=curves,
        y_labels=((1.0, "1 s"), (0.0, "0")),
        bands=((5.0, 10.0),),
        marks=(0.0,),
    )
    drawn = rows(picture, 30, 6)
    assert drawn[0].startswith("1 s ▾")
    assert drawn[5].startswith("  0 ")
    names = [(y, name) for y, row in enumerate(drawn) for name in ("hi", "lo") if row.endswith(name)]
    assert [name for _, name in names] == ["hi", "lo"]
    assert names[0][0] < names[1][0]
    banded = [len(run.text) for run in draw(picture, 30, 6)[5] if run.band]
    assert sum(banded) == 12  # the right half of the 24 columns that labels and names leave


@given(st.lists(VALUES, max_size=80), st.integers(min_value=0, max_value=60), st.integers(min_value=0, max_value=12))
@settings(max_examples=60, deadline=None)
def test_the_picture_has_the_size_that_was_asked_for(values: list[float | None], width: int, height: int) -> None:
    picture = rows(plot(*values, name="p95", rule=0.5), width, height)
    assert len(picture) == height
    assert all(cell_len(row) == width for row in picture)


@given(st.lists(VALUES, max_size=300), st.integers(min_value=1, max_value=40))
def test_reduce_keeps_the_extremes_and_two_points_a_column(values: list[float | None], columns: int) -> None:
    points = [(float(x), y) for x, y in enumerate(values)]
    stretches = reduce(points, (0.0, 299.0), columns)
    kept = [y for stretch in stretches for _, y in stretch]
    finite = [y for _, y in points if y is not None and math.isfinite(y)]
    assert len(kept) <= 2 * columns
    assert all(math.isfinite(y) for y in kept)
    assert (min(kept), max(kept)) == (min(finite), max(finite)) if finite else not kept


def test_blocks_show_the_greatest_of_each_share() -> None:
    assert blocks([0, 1, 2, 4, 8, 2], 8, 6) == "▁▁▂▄█▂"
    assert blocks([1, 8, 1, 1], 8, 2) == "█▁"
    assert blocks([None, math.nan, 5], 0, 3) == "  ▁"
    assert blocks([], 1, 3) == "   "


def test_names_of_equal_values_keep_their_order() -> None:
    points = ((0.0, 1.0), (1.0, 1.0))
    curves = (Curve("at least", "middle", points), Curve("at most", "bright", points))
    drawn = rows(Plot(x_range=(0.0, 1.0), y_range=(0.0, 1.0), curves=curves), 30, 4)
    assert "at most" in drawn[0]
    assert "at least" in drawn[1]


def points_plot(*dots: Dot, spread: int = 0) -> Plot:
    return Plot(x_range=(0.0, 1.0), y_range=(0.0, 1.0), curves=(), dots=dots, spread=spread)


def test_points_stand_in_the_row_of_their_value_and_beyond_the_range_at_its_edge() -> None:
    drawn = rows(points_plot(Dot(0.0, 1.0, "a", "good"), Dot(0.5, -3.0, "b", "bad"), Dot(1.0, 0.5, "c", "good")), 11, 5)
    assert drawn == ["a          ", " " * 11, "          c", " " * 11, "     b     "]


def test_a_point_stands_on_its_own_side_of_the_rule() -> None:
    reaches, misses = Dot(0.0, 0.95, "✔", "good"), Dot(1.0, 0.9499, "✘", "bad")
    picture = Plot(x_range=(0.0, 1.0), y_range=(0.8, 1.0), curves=(), dots=(reaches, misses), rule=0.95)
    drawn = rows(picture, 11, 9)
    assert drawn[2] == "╌" * 11
    assert drawn[1].strip() == "✔"
    assert drawn[3].strip() == "✘"


def test_points_of_one_place_move_aside_and_without_room_the_later_one_is_seen() -> None:
    same = [Dot(0.5, 0.5, char, "good") for char in "abcde"]
    assert rows(points_plot(*same, spread=2), 11, 5)[2].strip() == "ecabd"
    assert rows(points_plot(*same), 11, 5)[2].strip() == "e"


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_points_that_are_no_numbers_are_left_out(value: float) -> None:
    drawn = rows(points_plot(Dot(value, 0.5, "a", "good"), Dot(0.5, value, "b", "good")), 11, 5)
    assert "".join(drawn).strip() == ""
    assert "".join(rows(bars_plot(Bar(0.5, 0.5, value, "a", "good", "low")), 11, 5)).strip() == ""


def bars_plot(*bars: Bar, rule: float | None = None, spread: int = 0) -> Plot:
    return Plot(x_range=(0.0, 1.0), y_range=(0.0, 1.0), curves=(), bars=bars, rule=rule, spread=spread)


def test_a_bar_has_its_glyph_at_the_end_that_is_known_and_a_cap_at_the_other() -> None:
    at_least, at_most = Bar(0.0, 0.5, 1.0, "✔", "good", "low"), Bar(0.5, 0.0, 0.5, "✘", "bad", "high")
    whole, point = Bar(1.0, 0.25, 0.75, "o", "bad", "both"), Bar(0.25, 0.5, 0.5, "x", "bad", "both")
    drawn = rows(bars_plot(at_least, at_most, whole, point), 21, 5)
    assert [row[0] for row in drawn] == ["┬", "│", "✔", " ", " "]
    assert [row[10] for row in drawn] == [" ", " ", "✘", "│", "┴"]
    assert [row[20] for row in drawn] == [" ", "o", "│", "o", " "]
    assert [row[5] for row in drawn] == [" ", " ", "x", " ", " "]


def test_a_bar_that_goes_on_beyond_the_axis_has_no_cap_there_and_its_glyph_keeps_its_side_of_the_rule() -> None:
    at_most = Bar(0.5, -3.0, 0.4999, "✘", "bad", "high")
    assert [row[10] for row in rows(bars_plot(at_most, rule=0.5), 21, 5)] == [" ", " ", "╌", "✘", "│"]


def test_bars_of_one_place_move_aside_as_a_whole() -> None:
    long, short = Bar(0.5, 0.0, 1.0, "a", "good", "low"), Bar(0.5, 0.5, 1.0, "b", "good", "low")
    drawn = rows(bars_plot(long, short, spread=2), 21, 5)
    assert [row[10] for row in drawn] == ["┬", "│", "│", "│", "a"]
    assert [row[11] for row in drawn] == ["┬", "│", "b", " ", " "]


ZONES = (Zone(0.0, 1.0, ("not known", "?"), "unknown"), Zone(0.0, 0.4, ("PASS",), "passes"), Zone(0.8, 1.0, ("FAIL", "F"), "fails"))


def test_zones_are_shaded_and_named_above_the_plot_by_the_first_name_that_fits() -> None:
    picture = draw(Plot(x_range=(0.0, 1.0), y_range=(0.0, 1.0), curves=(), zones=ZONES), 21, 5)
    assert "".join(run.text for run in picture[0]) == "  PASS  ▕   ?   FAIL "
    assert ["".join(run.text for run in row) for row in picture[1:]] == ["        ▕       ▏    "] * 4, (
        "also where no ground is seen"
    )
    for row in picture:
        cells = [run.ground for run in row for _ in run.text]
        assert cells == ["passes"] * 9 + ["unknown"] * 7 + ["fails"] * 5
    narrow = draw(Plot(x_range=(0.0, 1.0), y_range=(0.0, 1.0), curves=(), zones=ZONES), 10, 5)
    assert re.findall(r"[^ ▏▕]+", "".join(run.text for run in narrow[0])) == ["PASS", "?", "F"]


def test_an_upright_runs_behind_the_points_with_its_name_where_nothing_is_in_the_way() -> None:
    at_top = Dot(0.6, 1.0, "✔", "good")
    picture = Plot(x_range=(0.0, 1.0), y_range=(0.0, 1.0), curves=(), dots=(at_top,), uprights=(Upright(0.5, "name"),))
    drawn = rows(picture, 21, 4)
    assert [row[10] for row in drawn] == ["┊"] * 4
    assert drawn[0][6:10] == "name"
    assert drawn[0][12] == "✔"


def test_labels_of_x_stand_under_their_places_and_the_first_ones_win() -> None:
    labels = ((0.5, "half"), (0.52, "hidden"), (0.0, "0"), (1.0, "one"))
    drawn = rows(Plot(x_range=(0.0, 1.0), y_range=(0.0, 1.0), curves=(), x_labels=labels), 21, 5)
    assert drawn[-1].split() == ["0", "half", "one"]
    assert drawn[-1].index("half") == 8
    assert drawn[-1].endswith("one")


def timed(width: int, height: int, **given: Any) -> list[str]:
    ticks = (tuple((at / 10, f"0:{at:02d}") for at in range(11)), ((0.0, "0:00"), (0.5, "0:05"), (1.0, "0:10")))
    values = (tuple((at / 10, f"{at}") for at in range(11)), ((0.0, "0"), (0.5, "5"), (1.0, "10")))
    return rows(Plot(x_range=(0.0, 1.0), y_range=(0.0, 1.0), curves=(), x_ticks=ticks, y_ticks=values, **given), width, height)


def test_of_the_ticks_the_finest_set_that_has_room_is_taken() -> None:
    assert timed(100, 40)[-1].split() == [f"0:{at:02d}" for at in range(11)]
    assert timed(40, 40)[-1].split() == ["0:00", "0:05", "0:10"]
    assert len([row for row in timed(100, 40) if row[:2].strip()]) == 11
    assert [row[:2].strip() for row in timed(40, 6)[:-1]] == ["10", "", "5", "", "0"]


def test_heads_stand_behind_a_line_in_a_row_of_their_own_where_all_of_one_set_fit() -> None:
    fine, coarse = ((0.0, 0.2, "1.5"), (0.2, 0.5, "24"), (0.5, 1.0, "12.1")), ((0.0, 0.5, "1.5-24"), (0.5, 1.0, "12.1"))
    assert timed(43, 12, heads=(fine, coarse), head_unit="/s")[0].split() == ["/s", "▏1.5", "▏24", "▏12.1"]
    assert timed(19, 12, heads=(fine, coarse))[0].split() == ["▏1.5-24", "▏12.1"]
    narrow = timed(13, 12, heads=(fine, coarse))[0]
    assert "1.5" not in narrow, "no text is cut"
    assert narrow.count("▏") == 2


def test_in_a_low_plot_heads_leave_free_what_is_drawn() -> None:
    flat = Curve("", "first", ((0.0, 1.0), (0.5, 1.0)))
    picture = Plot(x_range=(0.0, 1.0), y_range=(0.0, 1.0), curves=(flat,), heads=(((0.0, 0.5, "1.5"), (0.6, 1.0, "12")),))
    top = rows(picture, 21, 4)[0]
    assert "1.5" not in top
    assert "▏12" in top


@given(st.integers(min_value=0, max_value=60), st.integers(min_value=0, max_value=12))
@settings(max_examples=60, deadline=None)
def test_with_all_that_there_is_the_picture_has_the_size_that_was_asked_for(width: int, height: int) -> None:
    picture = Plot(
        x_range=(0.0, 1.0),
        y_range=(0.0, 1.0),
        curves=(Curve("", "faint", ((0.0, 1.0), (1.0, 0.0))),),
        dots=tuple(Dot(0.5, 0.5, "✔", "good") for _ in range(15)),
        spread=6,
        bars=(Bar(0.5, -1.0, 0.4, "✘", "bad", "high"),),
        zones=ZONES,
        uprights=(Upright(0.3, "at peak 11.1"),),
        x_labels=((0.5, "17.4 req/s"),),
        y_labels=((1.0, "100 %"),),
        rule=0.95,
        margins=(7, 0),
    )
    drawn = rows(picture, width, height)
    assert len(drawn) == height
    assert all(cell_len(row) == width for row in drawn)


def line(shade: Shade, *values: float) -> Plot:
    points = tuple((float(x), y) for x, y in enumerate(values))
    return Plot(x_range=(0.0, len(values) - 1.0), y_range=(0.0, 1.0), curves=(Curve("", shade, points),))


def test_lines_are_told_apart_without_colour() -> None:
    solid, dashed, dotted = (rows(line(shade, 0.5, 0.5, 0.5), 20, 5)[2] for shade in SHADES)
    assert dots(solid) == dots(dotted) == list(range(20))
    assert len(set(dashed[3:6])) == 2, "a dash and a gap"
    assert 10 < len(dots(dashed)) < 20
    assert sum((ord(char) - 0x2800).bit_count() for char in dotted) < sum((ord(char) - 0x2800).bit_count() for char in solid)


@pytest.mark.parametrize("shade", SHADES)
def test_a_peak_of_one_moment_is_seen_in_every_kind_of_line(shade: Shade) -> None:
    for at in range(1, 19):
        values = [0.0] * 20
        values[at] = 1.0
        assert dots(rows(line(shade, *values), 20, 6)[0])


def test_a_line_right_behind_a_curve_takes_no_name_away() -> None:
    curve = Curve("p95", "first", ((0.0, 0.5), (5.0, 0.5)))
    picture = Plot(x_range=(0.0, 10.0), y_range=(0.0, 1.0), curves=(curve,), uprights=(Upright(5.6, "now"),), margins=(0, 9))
    shown = rows(picture, 30, 5)
    assert any("p95" in row for row in shown)
    assert any("now" in row for row in shown)
