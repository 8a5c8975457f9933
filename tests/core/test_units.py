"""Every form of a number: its edges, no exponent anywhere, and no rounding across what it is read beside."""

import ast
import math
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core import units
from core.units import DASH
from tests.benchmarks.house import formats, modules, writing_numbers

ANY = st.floats(min_value=1e-12, max_value=1e12)
SHARES = st.floats(min_value=0, max_value=1)
TARGETS = st.sampled_from([0.9, 0.95, 0.99, 0.999, 0.9999, 1.0])


def value(text: str) -> float:
    return float(text.split(" ")[0].replace(",", ""))


@pytest.mark.parametrize(
    ("measured", "text"),
    [
        (0, "0"),
        (1e-7, "0.000000100"),
        (0.0432, "0.0432"),
        (0.9996, "1.00"),
        (9.996, "10.0"),
        (12, "12.0"),
        (12.44, "12.4"),
        (99.95, "100"),
        (999.6, "1,000"),
        (1234, "1,234"),
        (1e6, "1,000,000"),
        (-12, "-12.0"),
        (math.nan, DASH),
        (math.inf, DASH),
        (None, DASH),
    ],
)
def test_what_is_measured_has_three_significant_digits(measured: float | None, text: str) -> None:
    assert units.number(measured) == text


@given(st.floats(min_value=1e-6, max_value=1e9))
def test_a_number_is_near_what_it_shows(measured: float) -> None:
    assert math.isclose(value(units.number(measured)), measured, rel_tol=0.00501)


@given(st.floats(min_value=1e-6, max_value=1e9))
def test_a_bound_stays_true(measured: float) -> None:
    assert value(units.number(measured, math.floor)) <= measured * (1 + 1e-9)
    assert value(units.number(measured, math.ceil)) >= measured * (1 - 1e-9)
    assert math.isclose(value(units.number(measured, math.ceil)), measured, rel_tol=0.0101)


@pytest.mark.parametrize(
    ("given_", "text"),
    [
        (0, "0"),
        (0.7, "0.7"),
        (12, "12"),
        (3350, "3,350"),
        (1e6, "1,000,000"),
        (1e-6, "0.000001"),
        (0.1 + 0.2, "0.3"),
        (math.inf, DASH),
    ],
)
def test_what_was_set_has_no_zeros_that_nobody_typed(given_: float, text: str) -> None:
    assert units.as_set(given_) == text


def test_counts_have_separators_and_their_noun() -> None:
    assert (units.count(0), units.count(1234)) == ("0", "1,234")
    assert [units.count(n, "request") for n in (0, 1, 2, 1234)] == ["0 requests", "1 request", "2 requests", "1,234 requests"]
    assert (units.length(0.9), units.length(1234.4)) == ("1 token", "1,234 tokens")
    assert units.classes({"http": 2, "timeout": 1200, "aborted": 2}) == "timeout 1,200, aborted 2, http 2"


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        (0, "0"),
        (0.0004, "0.000400"),
        (0.9996, "1.00"),
        (12.5, "12.50"),
        (9999.99, "9,999.99"),
        (9999.996, "10,000"),
        (1e6, "1,000,000"),
    ],
)
def test_money(amount: float, text: str) -> None:
    assert units.money(amount) == text


@pytest.mark.parametrize(
    ("n_bytes", "text"),
    [
        (0, "0 B"),
        (999.6, "1.00 kB"),
        (61.4e6, "61.4 MB"),
        (999.6e6, "1.00 GB"),
        (140e9, "140 GB"),
        (1.4e12, "1.40 TB"),
        (5e15, "5,000 TB"),
    ],
)
def test_bytes(n_bytes: float, text: str) -> None:
    assert units.data_size(n_bytes) == text


@pytest.mark.parametrize(
    ("rate_rps", "text"),
    [(0, "0"), (0.01, "0.0100"), (0.9996, "1.00"), (16, "16.0"), (999.6, "1,000"), (1234, "1,234"), (1e6, "1,000,000")],
)
def test_rates(rate_rps: float, text: str) -> None:
    assert units.rate_number(rate_rps) == text
    assert units.rate_text(rate_rps) == f"{text} requests/s"
    assert units.rate_brief(rate_rps) == f"{text} req/s"


def test_a_rate_that_is_not_known() -> None:
    assert units.rate_brief(None) == DASH


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 ms"),
        (0.0612, "61.2 ms"),
        (0.9994, "999 ms"),
        (0.9996, "1.00 s"),
        (1.24, "1.24 s"),
        (59.6, "59.6 s"),
        (90, "90.0 s"),
        (1234, "1,234 s"),
        (math.nan, DASH),
        (math.inf, DASH),
        (None, DASH),
    ],
)
def test_a_latency_changes_its_unit_at_a_second(seconds: float | None, text: str) -> None:
    assert units.latency(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.0008, "0.8 ms"), (0.0099, "9.9 ms"), (0.00996, "10 ms"), (0.9996, "1.0 s"), (90, "90 s"), (1234, "1,234 s"), (None, DASH)],
)
def test_a_latency_in_a_narrow_column(seconds: float | None, text: str) -> None:
    assert units.latency_brief(seconds) == text


@given(st.floats(min_value=1e-6, max_value=1e4))
def test_a_bound_of_a_latency_stays_true(seconds: float) -> None:
    def shown(text: str) -> float:
        return value(text) / (1000 if text.endswith(" ms") else 1)

    assert shown(units.latency(seconds, math.floor)) <= seconds * (1 + 1e-9)
    assert shown(units.latency(seconds, math.ceil)) >= seconds * (1 - 1e-9)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.05, "50 ms"),
        (0.0125, "12.5 ms"),
        (0.8, "800 ms"),
        (0.9999996, "1 s"),
        (1, "1 s"),
        (1.5, "1.5 s"),
        (90, "90 s"),
        (3600, "3,600 s"),
    ],
)
def test_a_limit_is_written_as_it_was_set(seconds: float, text: str) -> None:
    assert units.limit(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (1e-9, "0.000001 ms"),
        (0.0123, "12.3 ms"),
        (0.9994, "999 ms"),
        (0.9996, "1 s"),
        (3.42, "3.4 s"),
        (9.96, "10 s"),
        (40, "40 s"),
        (59.4, "59 s"),
        (59.6, "1 min"),
        (90, "1 min 30 s"),
        (599, "9 min 59 s"),
        (600, "10 min"),
        (3599.4, "59 min 59 s"),
        (3599.7, "1 h"),
        (7500, "2 h 5 min"),
        (1e6, "277 h 47 min"),
        (-90, "-1 min 30 s"),
        (math.nan, DASH),
        (math.inf, DASH),
        (None, DASH),
    ],
)
def test_a_span_of_time_is_written_in_one_way(seconds: float | None, text: str) -> None:
    assert units.duration(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (3.42, "3.4 s"),
        (41, "41 s"),
        (59.6, "1 min"),
        (94, "1 min 30 s"),
        (590, "9 min 50 s"),
        (599, "10 min"),
        (754, "13 min"),
        (3590, "1 h"),
    ],
)
def test_an_expected_time_is_rough(seconds: float, text: str) -> None:
    assert units.long_duration(seconds) == text


@given(st.floats(min_value=0, max_value=1e6))
def test_a_span_never_has_sixty_of_anything(seconds: float) -> None:
    for text in (units.duration(seconds), units.long_duration(seconds)):
        assert not re.search(r"\b60 (s|min)\b", text)


@pytest.mark.parametrize(("share", "text"), [(0.384, "+38 %"), (-0.031, "-3 %"), (-0.004, "+0 %"), (0.0, "+0 %")])
def test_a_change_has_its_sign(share: float, text: str) -> None:
    assert units.change(share) == text


def test_a_time_of_day_is_utc() -> None:
    assert units.time_of_day(1_800_000_130.0) == "08:02:10"


@pytest.mark.parametrize(("seconds", "text"), [(-1, "0:00"), (0, "0:00"), (59.6, "0:59"), (187.9, "3:07"), (3723, "1:02:03")])
def test_clock(seconds: float, text: str) -> None:
    assert units.clock(seconds) == text


@pytest.mark.parametrize(
    ("done_s", "whole_s", "text"), [(0, 40, "0/40 s"), (24.4, 40, "24/40 s"), (24.4, 59.6, "0:24/1:00"), (24.4, 90, "0:24/1:30")]
)
def test_progress(done_s: float, whole_s: float, text: str) -> None:
    assert units.progress(done_s, whole_s) == text


@pytest.mark.parametrize(
    ("share", "text", "brief"),
    [
        (0, "0 %", "0 %"),
        (1e-9, "0.0000001 %", "0.0000001 %"),
        (0.0985, "9.85 %", "9.8 %"),
        (0.412, "41.2 %", "41 %"),
        (0.95, "95.0 %", "95 %"),
        (0.999, "99.9 %", "99.9 %"),
        (0.9996, "99.96 %", "99.96 %"),
        (1, "100 %", "100 %"),
        (1.0004, "100.04 %", "100.04 %"),
        (1.25, "125 %", "125 %"),
        (12.5, "1,250 %", "1,250 %"),
        (None, DASH, DASH),
        (math.nan, DASH, DASH),
    ],
)
def test_percent(share: float | None, text: str, brief: str) -> None:
    assert units.percent(share) == text
    assert units.percent(share, 2) == brief


def test_a_bound_of_a_share_stays_true() -> None:
    assert units.percent(0.9989, rounded=math.floor) == "99.8 %"
    assert units.percent(0.29, rounded=math.floor) == "29.0 %"
    assert units.percent(0.412, 2, math.ceil) == "42 %"


@given(SHARES)
def test_a_share_is_all_or_nothing_only_where_it_is(share: float) -> None:
    shown = value(units.percent(share))
    if 1e-12 < share < 1 - 1e-12:
        assert 0 < shown < 100


@pytest.mark.parametrize(
    ("share", "text"), [(0, "0 %"), (0.07, "7 %"), (0.95, "95 %"), (0.999, "99.9 %"), (1, "100 %"), (1e-8, "0.000001 %")]
)
def test_a_target_as_it_was_set(share: float, text: str) -> None:
    assert units.plain(share) == text


@given(st.integers(min_value=1, max_value=20000), st.data(), TARGETS)
def test_an_attainment_stays_on_its_side_of_the_target(planned: int, data: st.DataObject, target: float) -> None:
    good = data.draw(st.integers(min_value=0, max_value=planned))
    shown = value(units.beside(good / planned, target))
    assert (shown >= target * 100 - 1e-9) == (good / planned >= target - 1e-11)
    assert (shown == 100) == (good == planned)


@given(SHARES, TARGETS)
def test_the_bound_of_an_attainment_stays_true(share: float, target: float) -> None:
    least, most = (value(units.beside(share, target, rounded=way)) for way in (math.floor, math.ceil))
    assert least <= share * 100 + 1e-3
    assert most >= share * 100 - 1e-3


@pytest.mark.parametrize(
    ("share", "target", "text"),
    [
        (0, 0.95, "0 %"),
        (0.96, 0.95, "96.0 %"),
        (0.9496, 0.95, "94.96 %"),
        (0.95, 0.95, "95.0 %"),
        (0.9504, 0.95, "95.0 %"),
        (0.99949, 0.9995, "99.9 %"),
        (0.99951, 0.9995, "99.95 %"),
        (0.9999, 1.0, "99.99 %"),
        (0.9996, None, "99.96 %"),
        (1, 1.0, "100 %"),
    ],
)
def test_a_share_beside_a_target(share: float, target: float | None, text: str) -> None:
    assert units.beside(share, target) == text


def test_bounds_beside_a_target() -> None:
    assert units.beside(0.9519, 0.95, rounded=math.floor) == "95.1 %"
    assert units.beside(0.8741, 0.95, rounded=math.ceil) == "87.5 %"
    assert units.at_least(0.9519, 0.95) == "at least 95.1 %"
    assert [units.at_most(share, 0.95) for share in (0, 0.403, 0.41, 0.946)] == [
        "at most 0 %",
        "at most 41 %",
        "at most 41 %",
        "at most 94.6 %",
    ]


def test_an_interval_is_one_number_when_it_is_one() -> None:
    assert units.between(0.96, 0.96, 0.95) == "96.0 %"
    assert units.between(0.9319, 0.9601, 0.95) == "93.1 % to 96.1 %"
    assert units.between(0.9319, 0.9601, 0.95, DASH) == "93.1\u201396.1 %"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (10_000, "10000"),
        (99.99, "99.99"),
        (0.00001, "0.00001"),
        (1e300, "1e+300"),
        (-1, "-1"),
        (0, "0"),
        (math.nan, "nan"),
        (math.inf, "inf"),
    ],
)
def test_what_was_typed_is_repeated_without_separators(value: float, text: str) -> None:
    assert units.typed(value) == text


def test_numbers_of_a_column() -> None:
    assert (units.milliseconds(0.00123), units.milliseconds(1.5)) == ("1.23", "1,500.00")
    assert units.stamp(12.34) == "   12.3 s"


@given(ANY)
def test_nothing_has_an_exponent(measured: float) -> None:
    forms = (
        units.number,
        units.as_set,
        units.money,
        units.data_size,
        units.rate_text,
        units.rate_brief,
        units.latency,
        units.latency_brief,
        units.limit,
        units.duration,
        units.long_duration,
        units.percent,
        units.plain,
    )
    for form in forms:
        assert not re.search(r"[0-9]e[+-]?[0-9]", form(measured)), form


def test_no_other_module_has_a_format_of_its_own() -> None:
    files = modules(Path(__file__).parents[2])
    assert writing_numbers({name: ast.parse(path.read_text()) for name, path in files.items()}) == ["core.units"]


@pytest.mark.parametrize(
    ("spec", "is_number"), [(".3g", True), (",", True), ("+.1%", True), ("02d", True), (">10", False), ("%Y-%m-%d %f", False)]
)
def test_what_a_format_of_a_number_is(spec: str, is_number: bool) -> None:
    assert formats(ast.parse(f"f'{{x:{spec}}}'")) == is_number
