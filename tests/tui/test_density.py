"""The cliff as text: what stands where, how much of it, and that no sign can be taken for another."""

import math
from collections.abc import Mapping
from itertools import pairwise
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from core.margins import AT_LIMIT, BINS, bin_of
from tui.draw import density, symbols
from tui.draw.density import Cliff, Column, Ink, Stretch
from tui.draw.symbols import Symbols

WIDTH, HEIGHT = 74, 20
DOTTED = {chr(0x2801 + bits) for bits in range(255)}
SOLID = set("▘▝▀▖▌▞▛▗▚▐▜▄▙▟█")
Counts = Mapping[float, int]
Grid = list[list[tuple[str, Ink | None]]]


def bins(counts: Counts) -> tuple[int, ...]:
    """How many have each margin."""
    made = [0] * BINS
    for margin, n in counts.items():
        made[bin_of(margin)] += n
    return tuple(made)


def column(rate: float, ended: Counts = {}, open: Counts = {}, **given: object) -> Column:  # noqa: B006
    return Column(rate, (f"{rate:g}",), bins(ended), bins(open), **{"counted": True, **given})  # type: ignore[arg-type]


def cliff(*columns: Column, **given: object) -> Cliff:
    rates = [each.rate_rps for each in columns]
    facts: dict[str, object] = {"x_range": (min(rates), max(rates)), "up": 2, "down": 3, "target": 0.95}
    return Cliff(columns=columns, **{**facts, **given})  # type: ignore[arg-type]


def cells(picture: Cliff, width: int = WIDTH, height: int = HEIGHT, written: Symbols = "braille") -> Grid:
    """Character and ink of each cell."""
    return [[(char, run.ink) for run in row for char in run.text] for row in density.draw(picture, width, height, written)]


def lines(picture: Cliff, width: int = WIDTH, height: int = HEIGHT, written: Symbols = "braille") -> list[str]:
    return ["".join(char for char, _ in row) for row in cells(picture, width, height, written)]


def horizon(rows: Grid) -> int:
    return next(y for y, row in enumerate(rows) if "".join(char for char, _ in row).strip().startswith("limit"))


def inks(rows: Grid) -> set[Ink | None]:
    return {ink for row in rows for _, ink in row}


def test_what_is_good_is_below_the_horizon_and_what_missed_is_above_it() -> None:
    rows = cells(cliff(column(1, {0.5: 3, 1.0: 2, 1.001: 2, 3.0: 1}), going=False))
    at = horizon(rows)
    assert "bad" in inks(rows[:at])
    assert "good" not in inks(rows[:at])
    assert "good" in inks(rows[at + 1 :])
    assert "bad" not in inks(rows[at + 1 :])
    assert "good" in inks(rows[at + 1 : at + 2]), "at the limit is good, and nearest to the horizon"


def test_a_single_miss_of_a_thousand_is_seen() -> None:
    rows = cells(cliff(column(1, {0.3: 500, 0.5: 499, 1.5: 1})))
    assert [char for row in rows for char, ink in row if ink == "bad"] != []


def test_what_is_drawn_is_as_much_as_its_share() -> None:
    shown = lines(cliff(column(1, {0.3: 200, 0.7: 100, 2.5: 50})), written="ascii")
    at = [y for y, line in enumerate(shown) if "limit" in line or "1/2" in line]
    areas = [sum(line.count("#") for line in part) for part in (shown[: at[0]], shown[at[0] : at[1]], shown[at[1] :])]
    assert [area / areas[0] for area in areas] == [1, 2, 4]


@pytest.mark.parametrize("written", get_args(Symbols))
def test_what_is_open_is_never_taken_for_what_has_ended(written: Symbols) -> None:
    ended = cells(cliff(column(1, {0.5: 5, 2.0: 5})), written=written)
    open_ = cells(cliff(column(1, open={0.5: 5, 2.0: 5})), written=written)
    solid = {char for row in ended for char, ink in row if ink in ("good", "bad")}
    dotted = {char for row in open_ for char, ink in row if ink in ("open", "over")}
    assert solid
    assert dotted
    assert not solid & dotted
    assert written != "braille" or (solid <= SOLID and dotted <= DOTTED)
    assert {ink for ink in inks(open_) if ink in ("good", "bad")} == set()


def test_what_is_open_is_no_colour_below_the_limit_and_missed_above_it() -> None:
    rows = cells(cliff(column(1, open={0.2: 5, 2.0: 5})))
    at = horizon(rows)
    assert "over" in inks(rows[:at])
    assert "over" not in inks(rows[at + 1 :])
    assert "open" in inks(rows[at + 1 :])
    assert "open" not in inks(rows[:at])


def test_what_lies_below_the_picture_is_in_its_last_row_which_says_so() -> None:
    shown = lines(cliff(column(1, {0.5: 5}, {0.01: 3})))
    assert shown[-3].startswith("  less")
    assert set(shown[-3]) & DOTTED
    assert not any(line.startswith("  less") for line in lines(cliff(column(1, {0.5: 5}))))


def test_failed_requests_stand_above_every_multiple_of_the_limit_with_their_number() -> None:
    shown = lines(cliff(column(1, {0.5: 5, 20.0: 1}), column(2, failed=12), up=5))
    row = next(y for y, line in enumerate(shown) if "failed" in line)
    assert "✘ 12" in shown[row]
    assert row < min(y for y, line in enumerate(shown) if "x" in line[:7])


@pytest.mark.parametrize("size", [(40, 5), (20, 3), (74, 6)])
def test_failed_requests_are_seen_where_they_have_no_row_of_their_own(size: tuple[int, int]) -> None:
    assert any("✘" in line for line in lines(cliff(column(1, {0.5: 5}), column(2, failed=3)), *size))


def test_columns_that_do_not_count_are_paler() -> None:
    pale = inks(cells(cliff(column(1, {0.5: 5, 2.0: 5}, {4.0: 9}, counted=False))))
    assert {"good-pale", "bad-pale", "over-pale"} <= pale
    assert not {"good", "bad", "over"} & pale


# --- the quantile -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "low", "high"),
    [
        (column(1, {0.25: 95, 2.0: 5}), 0.25, 0.25),
        (column(1, {0.25: 94, 2.0: 6}), 2.0, 2.0),
        (column(1, {0.25: 94, 0.5: 1}, {0.1: 5}), 0.25, 0.5),
        (column(1, {0.25: 90}, {0.1: 10}), 0.25, math.inf),
        (column(1, {0.25: 50}, {2.0: 50}), 2.0, math.inf),
        (column(1, {0.25: 90}, failed=10), math.inf, math.inf),
    ],
)
def test_the_quantile_is_that_of_all_requests_and_a_bound_where_some_are_open(one: Column, low: float, high: float) -> None:
    ends = density.quantile(one, 0.95)
    assert ends == tuple(math.inf if at == math.inf else bin_of(at) for at in (low, high))


def test_of_nothing_there_is_no_quantile() -> None:
    assert density.quantile(column(1), 0.95) is None
    assert not any(density.QUANTILE in line for line in lines(cliff(column(1))))


def marks(picture: Cliff) -> tuple[int, int, set[str]]:
    """How many rows above and below the horizon the quantile's mark takes, and its signs."""
    rows = cells(picture)
    at = horizon(rows)
    signs = (density.QUANTILE, density.BETWEEN, density.ABOVE)
    found = [(y, char) for y, row in enumerate(rows) for char, _ in row if char in signs]
    return sum(y < at for y, _ in found), sum(y > at for y, _ in found), {char for _, char in found}


def test_the_mark_says_whether_the_column_holds_fails_or_is_undecided() -> None:
    assert marks(cliff(column(1, {0.25: 95, 2.0: 5}))) == (0, 1, {density.QUANTILE})
    assert marks(cliff(column(1, {0.25: 94, 2.0: 6}))) == (1, 0, {density.QUANTILE})
    above, below, signs = marks(cliff(column(1, {0.25: 90}, {0.1: 10})))
    assert above > 1
    assert below > 1
    assert signs == {density.BETWEEN, density.ABOVE}
    above, below, signs = marks(cliff(column(1, {0.25: 50}, {1.5: 50})))
    assert above > 1
    assert below == 0


# --- the room -----------------------------------------------------------------------------------------------------

RATES = st.lists(st.floats(0.01, 1000), min_size=1, max_size=12, unique=True).map(sorted)


@given(RATES, st.integers(1, 220), st.integers(0, 60), st.sampled_from(get_args(Symbols)))
def test_the_picture_fills_its_room_whatever_that_is(rates: list[float], width: int, height: int, written: Symbols) -> None:
    columns = [column(rate, {0.3: 5, 2.0: 1}, {0.01: 2}, failed=at % 3, now=at == 0) for at, rate in enumerate(rates)]
    zones = (Stretch(None, rates[0], ("holds",), "holds"), Stretch(rates[0], None, ("fails",), "fails"))
    rows = density.draw(cliff(*columns, stretches=zones, limits="TTFT 800 ms"), width, height, written)
    assert [sum(cell_len(run.text) for run in row) for row in rows] == [width] * height


@given(RATES, st.integers(30, 200))
def test_columns_keep_their_order_and_never_overlap(rates: list[float], width: int) -> None:
    slots = density.slots_of(cliff(*(column(rate) for rate in rates)), width)
    assert len(slots) == len(rates)
    assert slots[0].start >= 0
    assert slots[-1].end <= width
    assert all(one.end <= other.start for one, other in pairwise(slots))


def test_what_has_no_room_is_left_out_and_that_is_said() -> None:
    rates = [1 + at / 100 for at in range(30)]
    shown = lines(cliff(*(column(rate, {0.3: 5}) for rate in rates), first=(1.02,)), 27, 8)
    assert shown[-2].startswith(" 10/30")
    assert "1.02" in shown[-2]


def test_rates_that_have_room_stand_at_their_logarithms() -> None:
    one, two, four, sixteen = density.slots_of(cliff(*(column(rate) for rate in (1, 2, 4, 16))), 120)
    assert two.middle - one.middle == pytest.approx(four.middle - two.middle, abs=1)
    assert sixteen.middle - four.middle == pytest.approx(2 * (four.middle - two.middle), abs=2)


@given(st.lists(st.floats(0, 100), min_size=1, max_size=10).map(sorted), st.floats(1, 10))
def test_places_that_are_moved_apart_are_apart(wished: list[float], pitch: float) -> None:
    places = density.apart(wished, pitch, 100.0)
    assert all(b - a >= pitch - 1e-6 for a, b in pairwise(places))
    assert places[0] >= pitch / 2 - 1e-6
    assert places[-1] <= 100 - pitch / 2 + 1e-6


@pytest.mark.parametrize(("height", "least"), [(8, 4), (12, 4), (22, 5)])
def test_the_axis_has_labels(height: int, least: int) -> None:
    shown = lines(cliff(column(1, {0.2: 5, 2.0: 2})), 78, height)
    labels = [line[:7].strip() for line in shown if line[:7].strip() not in ("", "req/s")]
    assert len(labels) >= least
    assert "limit" in labels
    assert labels.index("2x") < labels.index("limit") < labels.index("1/2")


def test_the_rate_that_is_sent_is_marked() -> None:
    picture = cliff(column(1, {0.2: 5}), column(4, {0.2: 5}, now=True))
    assert any("▾ now" in line for line in lines(picture, 74, 12))
    assert any("now 4" in line for line in lines(picture, 74, 8))
    rows = density.draw(picture, 74, 12)
    assert {run.lane for row in rows for run in row} == {False, True}


def test_names_of_the_bracket_come_before_others() -> None:
    rates = (8.0, 8.4, 8.8, 9.2, 9.6, 10.0, 10.4)
    shown = lines(cliff(*(column(rate) for rate in rates), first=(8.8,)), 30, 8)[-2]
    assert "8.8" in shown
    assert "8.4" not in shown


def test_the_bracket_stands_below_the_columns_that_it_names() -> None:
    zones = (
        Stretch(None, 12, ("✔ holds 12",), "holds"),
        Stretch(12, 17, ("not known", "?"), "unknown"),
        Stretch(17, None, ("✘ fails 17",), "fails"),
    )
    picture = cliff(column(3), column(12), column(17), column(24), stretches=zones)
    names, bracket = cells(picture)[-2:]
    text = "".join(char for char, _ in bracket)
    assert text.index("✔ holds 12") < text.index("?" if "?" in text else "not known") < text.index("✘ fails 17")
    at = "".join(char for char, _ in names).index("17")
    assert bracket[at - 2][1] == "label"
    assert bracket[at + 2][1] == "fails"
    assert lines(cliff(column(3), note="ramp: nothing judged yet"))[-1].strip() == "ramp: nothing judged yet"


# --- signs --------------------------------------------------------------------------------------------------------


def test_in_ascii_every_sign_means_one_thing() -> None:
    signs = [density.NOW, density.QUANTILE, density.BETWEEN, density.ABOVE, density.FAILED, density.HORIZON]
    signs += [density.ENDED["ascii"], density.OPEN["ascii"], ".", ":"]
    shown = [symbols.written(sign, "ascii") for sign in signs]
    assert all(sign.isascii() for sign in shown)
    assert len(set(shown)) == len(shown)


def test_in_ascii_nothing_else_is_drawn() -> None:
    zones = (Stretch(None, 2, ("holds",), "holds"), Stretch(2, 4, ("?",), "unknown"), Stretch(4, None, ("mixed",), "mixed"))
    columns = (column(1, {0.3: 4, 2.0: 1}), column(2, {0.3: 1}, {0.1: 4}), column(4, failed=3, now=True))
    picture = cliff(*columns, stretches=zones)
    for written in get_args(Symbols):
        text = symbols.written("\n".join(lines(picture, written=written)), "ascii")
        assert sorted({char for char in text if not char.isascii()}) == []


def test_the_bins_at_the_ends_are_said_to_be_open() -> None:
    shown = lines(cliff(column(1, {0.001: 3, 100.0: 3}), up=5, down=8), 74, 40)
    assert [line[:7].strip() for line in shown if "less" in line or "more" in line] == ["more", "less"]
    assert bin_of(100.0) == BINS - 1 > AT_LIMIT
