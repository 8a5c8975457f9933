"""The whole fleet: long answers, what is left after losses, cost, and what was measured near the load of each."""

import pytest

from core.config import FleetAsk, Lengths, ProbeConfig, Target, Workload
from core.fleet import Evidence, Fleet, Held, Unit, evidence_of, floor_at, plan, unit_of
from core.fleet.lengths import answers_of
from core.records import Phase, ServerInfo
from core.results import Knee, Percentiles, StepResult, StepVerdict
from tests.core.test_report import step

KNEE = Knee(pass_rps=11.3, first_fail_rps=13.6)
MIXED = Workload(output_tokens=Lengths(median=180, sigma=0.7, maximum=1024))


def planned(ask: FleetAsk, evidence: Evidence | None = None, server: ServerInfo | None = None) -> Fleet:
    fleet = plan(KNEE, ask, server, evidence)
    assert fleet is not None
    assert fleet.at_pass is not None
    return fleet


def test_long_answers_are_an_estimate_of_their_own() -> None:
    tokens = answers_of(MIXED.output_tokens)
    fleet = planned(FleetAsk(peak_rps=50), Evidence(tokens=tokens))
    assert fleet.at_p90_output is not None
    assert fleet.at_p90_output.replica_rps == pytest.approx(11.3 * tokens.mean_output / tokens.p90_output)
    assert fleet.at_p90_output.replicas > (fleet.at_pass.replicas if fleet.at_pass else 0)
    assert planned(FleetAsk(peak_rps=50), Evidence(tokens=answers_of(Lengths(median=256)))).at_p90_output is None
    assert planned(FleetAsk(peak_rps=50)).at_p90_output is None


def test_what_each_gets_with_some_lost() -> None:
    """7 replicas for 50 requests/s at 0.7 * 11.3: 8.3 with one lost, 10.0 with two."""
    fleet = planned(FleetAsk(peak_rps=50))
    assert [(loss.lost, round(loss.per_replica_rps, 1), round(loss.load_frac, 2), loss.holds) for loss in fleet.losses] == [
        (1, 8.3, 0.74, True),
        (2, 10.0, 0.88, True),
    ]
    tight = planned(FleetAsk(peak_rps=50, headroom=1.0))
    assert [loss.holds for loss in tight.losses] == [False, False]
    assert planned(FleetAsk(peak_rps=5)).losses == ()  # one replica: nothing is left of it


def test_the_floor_is_that_of_the_next_rate_that_was_measured() -> None:
    held = (Held(rate_rps=8.0, floor=0.989), Held(rate_rps=11.3, floor=0.96))
    fleet = planned(FleetAsk(peak_rps=50), Evidence(held=held))
    assert fleet.at_pass is not None
    assert (fleet.at_pass.floor, fleet.at_pass.floor_rps) == (0.989, 8.0)  # each gets 7.1
    assert [(loss.floor, loss.floor_rps) for loss in fleet.losses] == [(0.96, 11.3), (0.96, 11.3)]  # 8.3 and 10
    assert floor_at(11.4, held) is None
    assert planned(FleetAsk(peak_rps=50)).losses[0].floor is None


def test_cost_by_the_hour_and_by_the_token() -> None:
    fleet = planned(FleetAsk(peak_rps=50, mean_rps=20, cost_per_gpu_h=2.5), Evidence(tokens=answers_of(Lengths(median=200))))
    cost = fleet.cost
    assert cost is not None
    assert cost.per_hour == 17.5
    assert cost.per_million_at_peak == pytest.approx(17.5 / (50 * 200 * 3600 / 1e6))
    assert cost.per_million_at_mean == pytest.approx(17.5 / (20 * 200 * 3600 / 1e6))
    assert (cost.mean_replicas, cost.mean_gpus, cost.saved_gpus, cost.saved_per_hour) == (3, 3, 4, 10.0)
    assert cost.saved_frac == pytest.approx(4 / 7)


def test_cost_counts_the_gpus_of_the_endpoint() -> None:
    sixteen = ServerInfo(url="http://x", engines=8, tp=2, pp=1)
    fleet = planned(FleetAsk(peak_rps=50, mean_rps=20, cost_per_gpu_h=2.5), server=sixteen)
    assert fleet.cost is not None
    assert (fleet.cost.per_hour, fleet.cost.mean_gpus, fleet.cost.saved_per_hour) == (7 * 16 * 2.5, 48, 4 * 16 * 2.5)
    assert fleet.cost.per_million_at_peak is None  # the length of answers is not known


def test_a_mean_without_a_price_still_saves_gpus_and_nothing_asked_costs_nothing() -> None:
    cost = planned(FleetAsk(peak_rps=50, mean_rps=20)).cost
    assert cost is not None
    assert (cost.per_hour, cost.saved_gpus, cost.saved_per_hour) == (None, 4, None)
    assert planned(FleetAsk(peak_rps=50)).cost is None
    above = planned(FleetAsk(peak_rps=5, mean_rps=20)).cost  # a peak typed on the screen below the mean
    assert above is not None
    assert above.saved_gpus == 0


def test_a_replica_is_one_endpoint_with_all_its_engines() -> None:
    unit = unit_of(FleetAsk(), ServerInfo(url="http://x", engines=8, tp=2, pp=1))
    assert (unit, unit.engines, unit.gpus) == (Unit(tp=2, pp=1, dp=8, known=True), 8, 16)
    assert planned(FleetAsk(peak_rps=50, tp=4)).unit == Unit(tp=4)


def steps(*rows: tuple[float, Phase, StepVerdict, float, dict[str, object]]) -> list[StepResult]:
    return [step(n, rate, phase, verdict, (floor, floor), **more) for n, (rate, phase, verdict, floor, more) in enumerate(rows)]


def test_evidence_of_a_run() -> None:
    e2e = {"e2e_s": Percentiles(mean=4.0, n=100), "kv_usage_max": 0.4, "preemptions": 0.0, "running_max": 30.0}
    judged = steps(
        (4.0, "ramp", "pass", 1.0, {}),  # a ramp's pass is evidence of nothing
        (8.0, "search", "pass", 0.99, {}),
        (11.3, "search", "pass", 0.97, e2e),
        (11.3, "confirm", "pass", 0.96, {**e2e, "e2e_s": Percentiles(mean=5.0, n=300), "kv_usage_max": 0.5}),
        (13.6, "search", "fail", 0.5, {"kv_usage_max": 1.0, "preemptions": 7.0}),
        (14.0, "search", "pass", 0.95, {}),  # above a fail: not what the answer rests on
    )
    config = ProbeConfig(target=Target(url="http://x"), workload=MIXED)
    found = evidence_of(config, KNEE, judged, 0.012)
    assert found.held == (Held(rate_rps=8.0, floor=0.99), Held(rate_rps=11.3, floor=0.96))
    assert found.at_pass is not None
    assert (found.at_pass.e2e_mean_s, found.at_pass.kv_usage_max, found.at_pass.running_max) == (4.75, 0.5, 30.0)
    assert found.at_fail is not None
    assert (found.at_fail.rate_rps, found.at_fail.kv_usage_max, found.at_fail.preemptions) == (13.6, 1.0, 7.0)
    assert (found.target, found.tpot_limit_s, found.single_tpot_s) == (0.95, 0.05, 0.012)


def test_evidence_where_nothing_held() -> None:
    found = evidence_of(ProbeConfig(target=Target(url="http://x")), Knee(first_fail_rps=2.0), [], None)
    assert (found.held, found.at_pass) == ((), None)
    assert found.at_fail is not None
    assert found.at_fail.e2e_mean_s is None
