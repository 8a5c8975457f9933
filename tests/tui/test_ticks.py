"""Round numbers along axes: they rise in order, end inside the axis, and an axis moves seldom."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.units import number
from tui.draw.ticks import nice_ceiling, steady_ceiling, time_ticks, value_ticks


@pytest.mark.parametrize(("value", "ceiling"), [(0, 1.0), (0.6, 0.75), (1.0, 1.0), (31, 40), (100, 100), (7.6, 10)])
def test_nice_ceiling(value: float, ceiling: float) -> None:
    assert nice_ceiling(value) == pytest.approx(ceiling)


def test_an_axis_that_follows_what_grows_tenfold_moves_five_times() -> None:
    tops = [steady_ceiling(value) for value in range(11, 101)]
    assert sorted(set(tops)) == [15, 20, 30, 50, 100]
    assert tops == sorted(tops)


@given(st.floats(min_value=0.001, max_value=1e6))
def test_values_along_an_axis_begin_at_zero_and_rise_inside_it(top: float) -> None:
    sets = value_ticks(top, number)
    assert sets
    for labels in sets:
        values = [value for value, _ in labels]
        assert values[0] == 0
        assert values == sorted(set(values))
        assert values[-1] <= top * (1 + 1e-9)
    assert len(sets[0]) >= 10, "a plot of any height finds one that fills it"


@pytest.mark.parametrize("end", [1, 61, 90, 152, 600, 5400, 200_000])
def test_times_along_an_axis_are_round_and_some_set_has_four_to_eight_of_them(end: float) -> None:
    sets = time_ticks((0.0, float(end)))
    assert all(0 <= at <= end for labels in sets for at, _ in labels)
    if end >= 4:
        assert any(4 <= len(labels) <= 9 for labels in sets)


def test_times_are_written_as_on_a_clock() -> None:
    assert ((0.0, "0:00"), (30.0, "0:30"), (60.0, "1:00"), (90.0, "1:30")) in time_ticks((0.0, 98.2))
