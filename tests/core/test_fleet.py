"""Replicas and GPUs from a bracket, with the numbers of worked examples."""

import math
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.config import FleetAsk
from core.fleet import gpus_per_endpoint, plan, size
from core.records import ServerInfo
from core.results import FailCount, Knee


def server(*, engines: int = 1, tp: int | None = None, pp: int | None = None, dp: int | None = None) -> ServerInfo:
    return ServerInfo(url="http://127.0.0.1:8000", engines=engines, tp=tp, pp=pp, dp=dp)


def test_worked_example() -> None:
    fleet = size(peak_rps=50, headroom=0.7, replica_rps=7.8125, gpus_per_endpoint=1)
    assert (fleet.replicas, fleet.gpus) == (10, 10)  # 9.14 rounded up
    assert fleet.per_replica_rps == pytest.approx(5.0)
    assert fleet.load_frac == pytest.approx(0.64)


def test_halving_the_mean_output_halves_the_fleet() -> None:
    assert 2000 / 256 == 7.8125
    assert size(50, 0.7, 2000 / 128, 1).replicas == 5


def test_the_screen_example() -> None:
    fleet = size(50, 0.7, 11.3, 1)
    assert (fleet.replicas, round(fleet.per_replica_rps, 1), round(fleet.load_frac, 2)) == (7, 7.1, 0.63)
    assert size(50, 0.7, 13.6, 1).replicas == 6


def test_an_endpoint_of_eight_engines_is_counted_as_one_endpoint_of_sixteen_gpus() -> None:
    ask, eight = FleetAsk(peak_rps=560, headroom=1.0), server(engines=8, tp=2, pp=1)
    fleet = plan(Knee(pass_rps=56.0, pass_repeats=3), ask, eight)
    assert fleet is not None
    assert (fleet.gpus_per_endpoint, fleet.layout_known) == (16, True)
    assert fleet.at_pass is not None
    assert (fleet.at_pass.replicas, fleet.at_pass.gpus) == (10, 160)


def test_four_replicas_behind_one_address_are_one_endpoint() -> None:
    fleet = plan(Knee(pass_rps=56.0), FleetAsk(peak_rps=560, headroom=1.0), server(engines=4, tp=4, pp=1))
    assert fleet is not None
    assert fleet.at_pass is not None
    assert (fleet.at_pass.replicas, fleet.at_pass.gpus) == (10, 160)


@pytest.mark.parametrize(
    ("peak_rps", "headroom", "replica_rps", "replicas"),
    [(560, 0.7, 80, 10), (0.3, 1.0, 0.1, 3), (2.1, 0.7, 0.1, 30), (560.001, 0.7, 80, 11), (0.01, 0.7, 80, 1), (0.0, 0.7, 80, 1)],
)
def test_dust_never_adds_a_replica(peak_rps: float, headroom: float, replica_rps: float, replicas: int) -> None:
    assert size(peak_rps, headroom, replica_rps, 1).replicas == replicas


@settings(deadline=None)
@given(replicas=st.integers(1, 100_000), tenths=st.integers(1, 10), millis=st.integers(1, 5_000_000), gpus=st.integers(1, 64))
def test_exact_multiples_are_exact_and_a_little_more_is_one_more(replicas: int, tenths: int, millis: int, gpus: int) -> None:
    headroom, replica = Fraction(tenths, 10), Fraction(millis, 1000)
    peak = replicas * headroom * replica
    fleet = size(float(peak), float(headroom), float(replica), gpus)
    assert (fleet.replicas, fleet.gpus) == (replicas, replicas * gpus)
    assert fleet.load_frac == pytest.approx(float(headroom))
    assert size(float(peak) * (1 + 1e-7), float(headroom), float(replica), gpus).replicas == replicas + 1


@settings(deadline=None)
@given(peak=st.floats(0.001, 1e6), headroom=st.floats(0.01, 1), replica=st.floats(0.01, 1e4))
def test_the_fleet_carries_the_peak_and_one_less_does_not(peak: float, headroom: float, replica: float) -> None:
    fleet = size(peak, headroom, replica, 1)
    assert fleet.load_frac <= headroom * (1 + 1e-8)
    assert math.isclose(fleet.per_replica_rps * fleet.replicas, peak)
    if fleet.replicas > 1:
        assert peak / (fleet.replicas - 1) / replica > headroom


@pytest.mark.parametrize(
    ("ask", "told", "expected"),
    [
        (FleetAsk(), None, (1, False)),
        (FleetAsk(), server(), (1, False)),
        (FleetAsk(), server(tp=2, pp=1, dp=1), (2, True)),
        (FleetAsk(), server(tp=2, pp=3, dp=4), (24, True)),
        (FleetAsk(), server(engines=4), (4, False)),
        (FleetAsk(tp=2), server(engines=4, pp=1), (8, True)),
        (FleetAsk(dp=2), server(engines=4, tp=1, pp=1), (2, True)),
        (FleetAsk(tp=8), server(tp=2, pp=1, dp=1), (8, True)),
        (FleetAsk(tp=4, pp=2, dp=1), None, (8, True)),
        (FleetAsk(tp=4), None, (4, False)),
    ],
)
def test_gpus_as_asked_then_as_told_then_one(ask: FleetAsk, told: ServerInfo | None, expected: tuple[int, bool]) -> None:
    assert gpus_per_endpoint(ask, told) == expected


def test_both_ends_of_the_bracket_are_sized() -> None:
    knee = Knee(pass_rps=11.3, pass_repeats=1, first_fail_rps=16.0, first_fail=FailCount(failed=1, run=1))
    fleet = plan(knee, FleetAsk(peak_rps=50, headroom=0.7), None)
    assert fleet is not None
    assert fleet.at_pass is not None
    assert fleet.at_fail is not None
    assert (fleet.at_pass.replicas, fleet.at_fail.replicas) == (7, 5)
    assert (fleet.peak_rps, fleet.headroom, fleet.layout_known) == (50, 0.7, False)


def test_a_clear_fail_is_the_failing_end_where_there_is_one() -> None:
    knee = Knee(pass_rps=11.3, first_fail_rps=12.4, clear_fail_rps=13.6)
    fleet = plan(knee, FleetAsk(peak_rps=50), None)
    assert fleet is not None
    assert fleet.at_fail is not None
    assert fleet.at_fail.replica_rps == 13.6


def test_an_unknown_upper_end_is_left_out() -> None:
    fleet = plan(Knee(pass_rps=2.0), FleetAsk(peak_rps=50), None)
    assert fleet is not None
    assert fleet.at_pass is not None
    assert fleet.at_fail is None


def test_a_rate_that_is_only_known_to_fail_sizes_no_fleet() -> None:
    assert plan(Knee(first_fail_rps=2.0), FleetAsk(peak_rps=50), None) is None


def test_no_peak_no_fleet() -> None:
    assert plan(Knee(pass_rps=11.3), FleetAsk(), None) is None
