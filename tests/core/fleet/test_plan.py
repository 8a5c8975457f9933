"""The whole fleet: long answers, what is left after losses, cost, and what was measured near the load of each."""

import pytest

from core.config import FleetAsk, Lengths, ProbeConfig, Target, Workload
from core.facts import fact
from core.fleet import Evidence, Fleet, Held, Unit, evidence_of, floor_at, plan, unit_of
from core.fleet.lengths import answers_of
from core.records import Phase, ServerInfo
from core.results import GatewayUse, Knee, OutputTokens, Percentiles, StepResult, StepVerdict
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


def test_a_request_that_waits_at_a_gateway_is_no_stream_of_the_server() -> None:
    use = GatewayUse(limit=8, wait_s=Percentiles(mean=1.5, n=100), held=60, rejected=0, timed_out=0, never_sent=0)
    judged = steps((11.3, "search", "pass", 0.97, {"e2e_s": Percentiles(mean=4.0, n=100), "gateway": use}))
    found = evidence_of(ProbeConfig(target=Target(url="http://x")), KNEE, judged, None)
    assert found.at_pass is not None
    assert found.at_pass.e2e_mean_s == 2.5


def test_evidence_where_nothing_held() -> None:
    found = evidence_of(ProbeConfig(target=Target(url="http://x")), Knee(first_fail_rps=2.0), [], None)
    assert (found.held, found.at_pass) == ((), None)
    assert found.at_fail is not None
    assert found.at_fail.e2e_mean_s is None


# --- answers that stop by themselves ----------------------------------------------------------------------------------

NATURAL = ProbeConfig(target=Target(url="http://x"), workload=Workload(output_tokens=Lengths(median=1024), stop="natural"))


def came(mean: float, p90: float, n: int) -> dict[str, object]:
    return {"output_tokens": OutputTokens(mean=mean, sd=0.0, p50=mean, p90=p90, p95=p90, n=n)}


def test_answers_that_stop_by_themselves_are_as_long_as_those_at_the_rate_that_holds() -> None:
    judged = steps(
        (8.0, "search", "pass", 0.99, came(900.0, 999.0, 50)),
        (11.3, "search", "pass", 0.97, came(100.0, 200.0, 100)),
        (11.3, "confirm", "pass", 0.97, came(140.0, 280.0, 300)),
        (13.6, "search", "fail", 0.5, came(5.0, 5.0, 50)),
    )
    found = evidence_of(NATURAL, KNEE, judged)
    assert found.tokens is not None
    assert (found.tokens.mean_output, found.tokens.p90_output) == (130.0, 260.0)
    assert (found.tokens.mean_total, found.tokens.p90_total) == (642.0, 772.0)
    fleet = planned(FleetAsk(peak_rps=50, cost_per_gpu_h=2.5), found)
    assert fleet.at_p90_output is not None
    assert fleet.at_p90_output.replica_rps == pytest.approx(11.3 / 2)
    assert fleet.assumptions[-1] == fact("answers_as_they_came", mean_tokens=130.0, p90_tokens=260.0)
    assert fleet.cost is not None
    assert fleet.cost.per_million_at_peak is not None


def test_where_their_lengths_are_not_known_nothing_rests_on_the_most_that_was_asked_for() -> None:
    judged = steps((11.3, "search", "pass", 0.97, came(100.0, 200.0, 100)), (11.3, "confirm", "pass", 0.97, {}))
    for found in (evidence_of(NATURAL, KNEE, judged), evidence_of(NATURAL, Knee(first_fail_rps=2.0), judged)):
        assert (found.tokens, found.natural) == (None, True)
    fleet = planned(FleetAsk(peak_rps=50, cost_per_gpu_h=2.5), evidence_of(NATURAL, KNEE, judged))
    assert (fleet.at_p90_output, fleet.mean_output) == (None, None)
    assert fleet.assumptions[-1] == fact("answer_lengths_unknown")
    assert fleet.cost is not None
    assert fleet.cost.per_million_at_peak is None
    assert planned(FleetAsk(peak_rps=50), Evidence()).assumptions[-1] == fact("same_lengths")
