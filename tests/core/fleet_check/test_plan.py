"""What is asked of a fleet, by the recorded run of one of its replicas."""

from typing import Any

import pytest

from core.config import FleetAsk, FleetPlan, Method, ProbeConfig, Safety, Target, Workload
from core.errors import UserError
from core.fleet_check import check_of, not_tried
from core.results import Knee
from core.workloads import Gateway, parse_prefix
from tests.builders import config, repeat, step

GATEWAY = Target(url="http://gateway:8000")
ONE = config(
    workload=Workload(prefix=parse_prefix("shared:64/8", "--prefix")),
    method=Method(
        mode="standard", repeats=2, seed=7, arrival_seed=5, budget_s=100.0, require_rps=3.0, reset_cache=True, between=True
    ),
    safety=Safety(max_rps=5.0, max_in_flight=10),
    fleet=FleetAsk(peak_rps=50.0, headroom=0.6),
)
KNEE = Knee(pass_rps=4.0, first_fail_rps=5.0)
STEPS = (
    step(4.0, "pass", repeat("pass", prefix_hit_frac=0.4), repeat("pass", prefix_hit_frac=0.42)),
    step(5.0, "fail", repeat("fail", prefix_hit_frac=0.9)),
)


def asked(one: ProbeConfig = ONE, knee: Knee = KNEE, safety: Safety = Safety(), **given: Any) -> ProbeConfig:  # noqa: B008
    return check_of(one, knee, STEPS, **{"replicas": 8, "target": GATEWAY, "safety": safety, **given})


def test_the_rates_are_the_planned_load_and_as_many_times_what_one_holds() -> None:
    probe = asked()
    plan = probe.method.fleet
    assert plan is not None
    assert plan == FleetPlan(replicas=8, one_rps=4.0, load_at_peak=0.6, one_hit_frac=plan.one_hit_frac)
    assert plan.one_hit_frac == pytest.approx(0.41)
    assert probe.method.rates_rps == pytest.approx((19.2, 32.0))
    assert asked(load_at_peak=1.0).method.rates_rps == (32.0,)


def test_requests_limits_and_seeds_are_those_of_the_run_and_its_limits_on_the_load_are_not() -> None:
    probe = asked()
    assert (probe.target, probe.slo, probe.workload) == (GATEWAY, ONE.slo, ONE.workload)
    assert (probe.method.mode, probe.method.repeats, probe.method.seed, probe.method.arrival_seed) == ("standard", 2, 7, 5)
    assert (probe.method.budget_s, probe.method.require_rps, probe.method.reset_cache, probe.method.between) == (
        None,
        None,
        False,
        False,
    )
    assert probe.safety == Safety()
    assert probe.fleet.peak_rps is None, "this is no replica that a fleet is sized by"


def test_another_mode_has_its_own_repeats_and_what_is_given_wins() -> None:
    probe = asked(mode="quick", measure_s=20.0, budget_s=300.0)
    assert (probe.method.mode, probe.method.repeats, probe.method.measure_s, probe.method.budget_s) == ("quick", None, 20.0, 300.0)


def test_what_max_rps_does_not_allow_is_not_tried_and_said() -> None:
    probe = asked(safety=Safety(max_rps=20.0))
    assert probe.method.rates_rps == pytest.approx((19.2,))
    found = not_tried(probe)
    assert found is not None
    assert (found.code, found.figures) == ("fleet_full_not_tried", {"full_rps": 32.0, "max_rps": 20.0})
    assert not_tried(asked()) is None
    assert not_tried(ONE) is None


@pytest.mark.parametrize(
    ("given", "said", "code"),
    [
        ({"safety": Safety(max_rps=10.0)}, "planned load of 8 replicas is 19.2", 2),
        ({"replicas": 5000}, "above what can be measured", 2),
        ({"knee": Knee(first_fail_rps=4.0)}, "no rate that held", 3),
        ({"one": asked()}, "check of 8 replicas behind a gateway; give the run of one", 3),
        ({"one": config(workload=Workload(gateway=Gateway(limit=8)))}, "held requests back itself", 2),
        ({"lost": 8}, "at least one must be left", 2),
    ],
)
def test_what_cannot_be_asked_is_refused_before_any_load(given: dict[str, Any], said: str, code: int) -> None:
    with pytest.raises(UserError, match=said) as refused:
        asked(**given)
    assert refused.value.exit_code == code
