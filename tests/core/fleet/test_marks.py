"""Marks on the slider of the load at peak: the largest share at which it still holds, after rounding the replicas up."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core import prose
from core.config import FleetAsk
from core.errors import UserError
from core.facts import fact
from core.fleet import End, Evidence, Held, Mark, size
from core.fleet.marks import GRID, bursty_frac, largest_rho, marks_of


def marks(ask: FleetAsk, replica_rps: float = 11.3, evidence: Evidence | None = None) -> dict[str, Mark]:
    assert ask.peak_rps is not None
    return {mark.name: mark for mark in marks_of(ask, ask.peak_rps, replica_rps, evidence or Evidence())}


def rho(mark: Mark) -> float:
    assert mark.rho is not None
    return mark.rho


def test_one_lost_of_the_worked_example() -> None:
    """50/11.3 takes 5 replicas, so 6 for one lost: up to a load just under 50/(5 * 11.3) = 0.885."""
    found = marks(FleetAsk(peak_rps=50))
    assert (found["lost"].replicas, found["lost"].rho) == (6, 0.8849)
    assert size(50, 0.8849, 11.3, 1).replicas == 6
    assert size(50, 0.8850, 11.3, 1).replicas == 5
    assert (found["peak"].rho, found["peak"].replicas) == (1.0, 5)
    assert found["lost"].binds
    assert not found["peak"].binds
    assert found["lost"].holds


def test_growth_compounds_by_the_minute() -> None:
    """1.1^4 = 1.4641 times 50 takes 7 replicas."""
    found = marks(FleetAsk(peak_rps=50, growth_per_min=0.1, scale_out_s=240))
    assert found["growth"].replicas == math.ceil(50 * 1.4641 / 11.3) == 7
    assert found["growth"].rho == pytest.approx(50 / (6 * 11.3), abs=1e-4)
    assert found["growth"].why.figures["times"] == pytest.approx(1.4641)
    assert prose.mark_label(found["growth"].why) == "growth 10 %/min, 4 min"
    half = marks(FleetAsk(peak_rps=50, growth_per_min=0.1, scale_out_s=30))
    assert half["growth"].replicas == math.ceil(50 * 1.1**0.5 / 11.3) == 5


def test_the_smallest_mark_binds_and_marks_above_the_load_do_not_hold() -> None:
    ask = FleetAsk(peak_rps=50, headroom=0.8, lost=1, rollout=3, growth_per_min=0.1, scale_out_s=240)
    found = marks(ask)
    assert [name for name, mark in found.items() if mark.binds] == ["rollout"]
    assert {name: mark.holds for name, mark in found.items()} == {"peak": True, "lost": True, "rollout": False, "growth": False}


def test_marks_alike_bind_together() -> None:
    assert [mark.binds for mark in marks(FleetAsk(peak_rps=50, rollout=1)).values()] == [False, True, True]


def test_nothing_to_survive_leaves_the_peak() -> None:
    found = marks(FleetAsk(peak_rps=50, lost=0))
    assert list(found) == ["peak"]
    assert found["peak"].binds


def test_no_load_at_peak_is_enough_for_a_thousand_lost() -> None:
    mark = marks(FleetAsk(peak_rps=5, lost=1000))["lost"]
    assert (mark.rho, mark.replicas, mark.holds, mark.binds) == (None, 1001, False, True)


@pytest.mark.parametrize(("peak_rps", "replica_rps", "replicas"), [(560.0, 80.0, 7), (0.3, 0.1, 3), (2.1, 0.3, 7)])
def test_a_peak_that_replicas_carry_exactly_is_one_that_they_carry(peak_rps: float, replica_rps: float, replicas: int) -> None:
    assert marks(FleetAsk(peak_rps=peak_rps), replica_rps)["peak"].replicas == replicas
    lost = marks(FleetAsk(peak_rps=peak_rps), replica_rps)["lost"]
    assert lost.replicas == replicas + 1
    assert rho(lost) == 0.9999  # at 1 there are exactly as many as carry the peak, and none to lose


@settings(deadline=None)
@given(peak=st.floats(0.01, 1e5), replica=st.floats(0.01, 1e3), more=st.integers(0, 500))
def test_a_mark_is_the_largest_that_holds(peak: float, replica: float, more: int) -> None:
    """At the mark there are enough replicas; a ten thousandth above it there are not."""
    replicas = size(peak, 1.0, replica, 1).replicas + more
    found = largest_rho(peak, replica, replicas)
    if found is None:
        assert size(peak, 0.01, replica, 1).replicas < replicas
        return
    assert 0.01 <= found <= 1
    assert size(peak, found, replica, 1).replicas >= replicas
    if found < 1:
        assert size(peak, found + 1 / GRID, replica, 1).replicas < replicas


@settings(deadline=None)
@given(
    peak=st.floats(1, 1e4),
    replica=st.floats(0.5, 100),
    lost=st.integers(1, 9),
    growth=st.floats(0.01, 1),
    minutes=st.floats(0.1, 10),
)
def test_at_its_mark_a_fleet_survives_what_the_mark_is_for(
    peak: float, replica: float, lost: int, growth: float, minutes: float
) -> None:
    found = marks(FleetAsk(peak_rps=peak, lost=lost, growth_per_min=growth, scale_out_s=60 * minutes), replica)
    for name, mark in found.items():
        if mark.rho is None:
            continue
        replicas = size(peak, mark.rho, replica, 1).replicas
        load = {
            "peak": peak / replicas,
            "lost": peak / max(replicas - lost, 1e-9),
            "growth": peak * (1 + growth) ** minutes / replicas,
        }[name]
        assert load <= replica * (1 + 1e-6), name


def test_poisson_and_smoother_arrivals_leave_the_whole_rate() -> None:
    assert bursty_frac(11.3, 6.0, 1.0, 0.95) == pytest.approx(1)
    assert bursty_frac(11.3, 6.0, 4.0, 0.95) == 1


@settings(deadline=None)
@given(rate=st.floats(0.1, 1000), e2e=st.floats(0.05, 60), shape=st.floats(0.01, 1), target=st.floats(0.5, 1))
def test_burstier_arrivals_leave_less_and_large_replicas_more_of_it(rate: float, e2e: float, shape: float, target: float) -> None:
    left = bursty_frac(rate, e2e, shape, target)
    assert 0 < left <= 1
    assert bursty_frac(rate, e2e, shape / 2, target) <= left + 1e-9
    assert bursty_frac(10 * rate, e2e, shape, target) >= left - 1e-9


@pytest.mark.parametrize(
    ("rate_rps", "e2e_s", "shape", "simulated"), [(13.1, 8.19, 0.25, 0.91), (19.6, 1.08, 0.25, 0.81), (19.6, 1.08, 0.5, 0.93)]
)
def test_the_estimate_is_near_simulated_knees_and_not_above_them(
    rate_rps: float, e2e_s: float, shape: float, simulated: float
) -> None:
    """Knees of chat and demo under gamma arrivals, as shares of their Poisson knees (tests/benchmarks/burstiness.py)."""
    said = bursty_frac(rate_rps, e2e_s, shape, 0.95)
    assert simulated - 0.1 < said < simulated


def test_the_burstiness_mark_is_off_where_burstiness_was_measured() -> None:
    at_pass = End(rate_rps=11.3, e2e_mean_s=6.0)
    ask = FleetAsk(peak_rps=50, lost=0, burstiness=0.25)
    found = marks(ask, evidence=Evidence(at_pass=at_pass, arrival_cv=2.0))
    off = found["burstiness"]
    assert off.why == fact("mark_burst_measured", burstiness=0.25, arrival_cv=2.0)
    assert (off.rho, off.replicas, off.holds, off.binds) == (None, None, None, False)
    assert found["peak"].binds
    assert marks(ask, evidence=Evidence(at_pass=at_pass))["burstiness"].replicas is not None


def test_the_burstiness_mark_is_off_where_arrivals_were_recorded() -> None:
    ask = FleetAsk(peak_rps=50, lost=0, burstiness=0.25)
    off = marks(ask, evidence=Evidence(at_pass=End(rate_rps=11.3, e2e_mean_s=6.0), recorded=True))["burstiness"]
    assert off.why == fact("mark_burst_recorded", burstiness=0.25)
    assert (off.rho, off.replicas, off.holds, off.binds) == (None, None, None, False)


def test_the_burstiness_mark_needs_a_latency_and_says_so() -> None:
    ask = FleetAsk(peak_rps=50, burstiness=0.25)
    unknown = marks(ask)["burstiness"]
    assert (unknown.rho, unknown.replicas, unknown.holds, unknown.binds) == (None, None, None, False)
    known = marks(ask, evidence=Evidence(at_pass=End(rate_rps=11.3, e2e_mean_s=6.0)))["burstiness"]
    left = bursty_frac(11.3, 6.0, 0.25, 0.95)
    assert known.replicas == math.ceil(50 / (11.3 * left))
    assert known.why == fact("mark_burst", burstiness=0.25, bursty_rps=11.3 * left, rate_rps=11.3, e2e_mean_s=6.0, rough=False)
    assert unknown.why == fact("mark_burst_unknown", burstiness=0.25)
    rough = marks(FleetAsk(peak_rps=50, burstiness=0.1), evidence=Evidence(at_pass=End(rate_rps=11.3, e2e_mean_s=6.0)))
    assert rough["burstiness"].why.figures["rough"]


def test_the_peak_mark_names_the_floor_that_was_measured_there() -> None:
    found = marks(
        FleetAsk(peak_rps=50), evidence=Evidence(held=(Held(rate_rps=8.0, floor=0.989), Held(rate_rps=11.3, floor=0.9604)))
    )
    assert found["peak"].why == fact("mark_peak", rate_rps=11.3, floor_frac=0.9604, target=0.95)


@pytest.mark.parametrize(
    ("entries", "words"),
    [
        ({"growth_per_min": 0.1}, "belong together"),
        ({"scale_out_s": 60.0}, "belong together"),
        ({"growth_per_min": 0.0, "scale_out_s": 60.0}, "--growth"),
        ({"growth_per_min": 0.1, "scale_out_s": 1e6}, "--scale-out"),
        ({"burstiness": 0.0}, "--burstiness"),
        ({"burstiness": math.nan}, "--burstiness"),
        ({"lost": -1}, "--lost"),
        ({"rollout": 10**9}, "--rollout"),
        ({"tp": 10**9}, "--tp"),
        ({"cost_per_gpu_h": -1.0}, "--cost"),
        ({"mean_rps": 0.0}, "--mean-rps"),
    ],
)
def test_what_cannot_be_asked_for_is_refused(entries: dict[str, float], words: str) -> None:
    with pytest.raises(UserError, match=words):
        FleetAsk(**entries)  # type: ignore[arg-type]
