"""The fleet as lines and as data: what stands in a report and in `kneescope fleet`."""

import math
from typing import Any

import pytest

from core.config import FleetAsk, Lengths, Workload
from core.facts import fact
from core.fleet import End, Evidence, Fleet, Gates, Held, Mark, Unit, answers_of, gates, low_load_before, notes_of, plan, tokens_of
from core.hardware import Hardware
from core.records import ServerInfo
from core.report import fleet_data, fleet_lines, fleet_verdict, gate_lines, mark_number, work_lines
from core.report.fleet import unit_text
from core.results import Knee

WIDTH = 100
TOKENS = tokens_of(Workload(input_tokens=Lengths(median=512), output_tokens=Lengths(median=180, sigma=0.7, maximum=1024)))
EVIDENCE = Evidence(
    tokens=TOKENS,
    tpot_limit_s=0.015,
    single_tpot_s=0.025,
    held=(Held(rate_rps=8.0, floor=0.9889), Held(rate_rps=11.3, floor=0.9999)),
    at_pass=End(rate_rps=11.3, e2e_mean_s=6.0, kv_usage_max=0.4, preemptions=0.0),
    at_fail=End(rate_rps=13.6, kv_usage_max=0.5, preemptions=0.0),
)
ASK = FleetAsk(
    peak_rps=50,
    mean_rps=20,
    cost_per_gpu_h=2.5,
    growth_per_min=0.1,
    scale_out_s=240,
    rollout=2,
    burstiness=0.25,
    hardware=Hardware(weights_gb=15.2, gpu="RTX 4090", kv_bytes_per_token=131072),
)
SERVER = ServerInfo(url="http://x", kv_cache_tokens=64_000, engines=2, tp=1, pp=1)


def planned(ask: FleetAsk = ASK, evidence: Evidence = EVIDENCE) -> Fleet:
    fleet = plan(Knee(pass_rps=11.3, first_fail_rps=13.6), ask, SERVER, evidence)
    assert fleet is not None
    return fleet


def text(lines: list[str]) -> str:
    return " ".join(" ".join(lines).split())


def test_everything_that_was_asked_for_is_said_in_lines_that_fit() -> None:
    lines = [
        *fleet_lines(planned(), WIDTH),
        *gate_lines(gates(ASK, Unit(dp=2), SERVER, EVIDENCE), WIDTH),
        *work_lines(TOKENS, WIDTH),
    ]
    assert max(len(line) for line in lines) <= WIDTH
    whole = text(lines)
    for words in (
        "Fleet for a peak of 50.0 requests/s, load at peak 70 % of what holds (30 % spare), 2 GPUs per replica:",
        "11.3 requests/s (holds) 7 14 7.14 requests/s, 63 %",
        "13.6 requests/s (fails) 6 12 8.33 requests/s, 61 %",
        "One replica is one endpoint: 2 engines (TP 1, PP 1, DP 2), 2 GPUs.",
        "p90 is an estimate, not measured",
        "With all replicas each gets 7.14 requests/s at peak, 63 % of what holds; measured at 8.00 requests/s: floor 98.8 %.",
        "With 2 lost each gets 10.0 requests/s at peak, 88 % of what holds; measured at 11.3 requests/s: floor 99.9 %.",
        "Cost: 35.00 an hour",
        "The mean rate of 20.0 requests/s needs 3 replicas: scaling to it would save 8 GPUs on average at most",
        "(57 %, 20.00 an hour).",
        "Assumes Poisson arrivals, an even split (a random one costs at most 1 %), this mix of lengths.",
        "1 lost 88 % with 1 replica lost",
        "growth 10 %/min, 4 min 73 % binds",
        "Load at peak 70 % (30 % spare) is within all marks; 2 out and growth 10 %/min, 4 min binds (73 %).",
        "a TPOT limit of 15 ms is not possible, and no number of replicas changes that",
        "What would help, each by itself: weights of at most",
        "Measured: a single stream has a TPOT of 25.0 ms: eta is",
        "At 11.3 requests/s speed binds and not memory, which holds 2.5 times as much (KV usage rose to 40 %, no preemptions).",
        "One request: 512 tokens in, 228 out (means).",
    ):
        assert words in whole, words


def test_a_load_at_peak_above_a_mark_says_how_many_replicas_that_would_take() -> None:
    fleet = planned(FleetAsk(peak_rps=50, headroom=0.8, growth_per_min=0.1, scale_out_s=240))
    assert (
        fleet_verdict(fleet) == "Load at peak 80 % does not hold for growth 10 %/min, 4 min: that takes 7 replicas, at most 73 %."
    )


def test_what_is_to_be_known_beside_the_size() -> None:
    found = notes_of(planned())
    assert [each.code for each in found] == ["p90_answers", "each_gets", "each_gets", "each_gets", "fleet_cost", "mean_rate"]
    assert found[3].figures == {
        "lost": 2,
        "holds": True,
        "rate_rps": 10.0,
        "load_frac": pytest.approx(10 / 11.3),
        "floor_frac": 0.9999,
        "floor_rps": 11.3,
    }
    assert found[4].figures["per_hour"] == 35.0
    assert (found[5].figures["replicas"], found[5].figures["saved_gpus"]) == (3, 8)
    wide = plan(Knee(pass_rps=11.3, first_fail_rps=13.6, open_above=True), FleetAsk(peak_rps=50), SERVER)
    assert wide is not None
    assert notes_of(wide)[0] == fact("fleet_open_above")


def test_a_loss_that_is_too_much_is_said() -> None:
    assert "With 1 lost each gets 12.5 requests/s at peak, 111 % of what holds: too much." in text(
        fleet_lines(planned(FleetAsk(peak_rps=50, headroom=1.0)), WIDTH)
    )


@pytest.mark.parametrize(("rho", "shown"), [(0.8849, "88 %"), (0.889999, "88 %"), (0.29, "29 %"), (1.0, "100 %"), (None, "-")])
def test_a_mark_is_cut_off_and_never_rounded_up(rho: float | None, shown: str) -> None:
    assert mark_number(Mark(name="lost", rho=rho, replicas=None, why=fact("mark_lost", replicas=1, rate_rps=11.3))) == shown


def test_assumed_sizes_are_said() -> None:
    assert unit_text(Unit()).endswith("1 GPU; sizes that are neither given nor told by the server count as 1.")
    assert unit_text(Unit(tp=2, known=True)) == "One replica is one endpoint: 1 engine (TP 2, PP 1, DP 1), 2 GPUs."


def test_a_stream_faster_than_the_floor_is_said() -> None:
    ask = FleetAsk(hardware=Hardware(weights_gb=15.2, gpu="RTX 4090"))
    lines = gate_lines(gates(ask, Unit(), None, Evidence(single_tpot_s=0.018)), WIDTH)
    assert "Measured: a single stream has a TPOT of 18.0 ms, less than the floor of 21.5 ms: eta was guessed too low" in text(lines)


def test_what_is_not_known_is_not_said() -> None:
    assert gate_lines(Gates(), WIDTH) == []
    assert work_lines(None, WIDTH) == []
    assert work_lines(answers_of(Lengths(median=128)), WIDTH) == []


def test_data_has_every_key_whether_known_or_not() -> None:
    full = fleet_data(ASK, Unit(dp=2), planned(), gates(ASK, Unit(dp=2), SERVER, EVIDENCE), EVIDENCE)
    bare = fleet_data(FleetAsk(), Unit(), None, Gates(), Evidence())
    assert full.keys() == bare.keys()
    assert (full["replicas"], full["gpus"], full["gpus_per_endpoint"], full["binds"]) == (7, 14, 2, "speed")
    assert full["unit"] == {"tp": 1, "pp": 1, "dp": 2, "known": False, "engines": 2, "gpus": 2}
    assert [mark["name"] for mark in full["marks"]] == ["peak", "lost", "rollout", "growth", "burstiness"]
    assert (bare["assumptions_fact"][0], bare["notes"]) == ({"code": "poisson_arrivals", "figures": {}, "of": ()}, [])
    assert full["marks"][1]["why"] == "with 1 replica lost at peak the others still get at most 11.3 requests/s each"
    assert full["marks"][1]["why_fact"]["figures"] == {"replicas": 1, "rate_rps": 11.3}
    assert full["speed"]["message"].endswith("no number of replicas changes that.")
    assert full["speed"]["message_fact"]["code"] == "stream_floor_forbids"
    assert [each["code"] for each in full["speed"]["helps_fact"]] == ["help_weights", "help_tp", "help_device", "help_limit"]
    assert [each["code"] for each in full["memory"]["message_fact"]["of"]] == ["kv_streams", "kv_needed", "fleet_kv_seen"]
    assert (bare["replicas"], bare["cost"], bare["speed"], bare["marks"], bare["headroom"]) == (None, None, None, [], 0.7)


def test_data_is_of_finite_numbers() -> None:
    def walk(value: Any) -> None:
        if isinstance(value, float):
            assert math.isfinite(value)
        for each in value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else []:
            walk(each)

    walk(fleet_data(ASK, Unit(), planned(), gates(ASK, Unit(), SERVER, EVIDENCE), EVIDENCE))


def test_a_loss_that_no_load_at_peak_covers_is_said_so() -> None:
    fleet = plan(Knee(pass_rps=200.0), FleetAsk(peak_rps=1), None)
    assert fleet is not None
    assert fleet_verdict(fleet) == "Load at peak 70 % does not hold for 1 lost: that takes 2 replicas, which no load at peak gives."


@pytest.mark.parametrize(("load", "told"), [(0.3, True), (0.39, True), (0.4, False), (0.7, False)])
def test_a_low_load_at_peak_is_answered_with_what_it_costs(load: float, told: bool) -> None:
    fleet = planned(FleetAsk(peak_rps=84, headroom=load, cost_per_gpu_h=2.5))
    found = [note for note in notes_of(fleet) if note.code == "low_load_at_peak"]
    assert bool(found) is told
    if found:
        usual = planned(FleetAsk(peak_rps=84, headroom=0.7, cost_per_gpu_h=2.5))
        assert fleet.at_pass is not None
        assert usual.at_pass is not None
        assert usual.cost is not None
        figures = found[0].figures
        assert (figures["replicas"], figures["usual_replicas"]) == (fleet.at_pass.replicas, usual.at_pass.replicas)
        assert figures["usual_per_hour"] == pytest.approx(usual.cost.per_hour)


def test_before_there_is_a_fleet_a_low_load_is_told_in_times() -> None:
    found = low_load_before(FleetAsk(headroom=0.35))
    assert found is not None
    assert found.figures["times"] == pytest.approx(2)
    assert low_load_before(FleetAsk(headroom=0.4)) is None
