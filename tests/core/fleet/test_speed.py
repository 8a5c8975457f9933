"""The speed gate: the floor of TPOT, what is refused, what would help, and what a measured stream says of it."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.config import FleetAsk, Lengths, ProbeConfig, Slo, Target, Workload
from core.facts import Code, Fact, fact, says
from core.fleet import Evidence, SpeedGate, Unit, speed_check, speed_gate, tokens_of, tpot_floor_s
from core.hardware import Hardware
from core.records import RequestRecord, ServerInfo


def gate(weights_gb: float, limit_s: float | None = None, *, measured_s: float | None = None, **changes: float | str) -> SpeedGate:
    hardware = Hardware(weights_gb=weights_gb, gpu="RTX 4090", **{k: v for k, v in changes.items() if k != "tp"})  # type: ignore[arg-type]
    found = speed_gate(
        FleetAsk(hardware=hardware), Unit(tp=int(changes.get("tp", 1))), Evidence(tpot_limit_s=limit_s, single_tpot_s=measured_s)
    )
    assert found is not None
    return found


def test_the_floors_of_the_worked_examples() -> None:
    whole, quantised = gate(15.2), gate(5.5)
    assert (round(1000 * whole.floor_s, 1), round(whole.tokens_per_s)) == (21.5, 46)
    assert round(1000 * quantised.floor_s, 1) == 7.8
    assert tpot_floor_s(15.2e9, 1008, 0.7) == pytest.approx(0.02154, abs=1e-5)


@pytest.mark.parametrize(
    ("weights_gb", "limit_s", "feasible"), [(15.2, 0.050, True), (15.2, 0.015, False), (5.5, 0.050, True), (5.5, 0.015, True)]
)
def test_both_weights_at_both_limits(weights_gb: float, limit_s: float, feasible: bool) -> None:
    found = gate(weights_gb, limit_s)
    assert (found.feasible, found.refuses) == (feasible, not feasible)
    assert says(found.message, "stream_floor_allows" if feasible else "stream_floor_forbids")
    assert bool(found.helps) is not feasible


def test_weights_are_read_in_parallel_by_tp_but_not_by_pp_and_dp() -> None:
    hardware = Hardware(weights_gb=15.2, gpu_bandwidth_gbs=1008)
    floors = [
        found.floor_s
        for unit in (Unit(tp=1), Unit(tp=2), Unit(pp=2), Unit(dp=2))
        if (found := speed_gate(FleetAsk(hardware=hardware), unit, Evidence())) is not None
    ]
    assert floors == pytest.approx([0.02154, 0.01077, 0.02154, 0.02154], abs=1e-5)


def test_the_streams_own_kv_is_read_too() -> None:
    hardware = Hardware(weights_gb=15.2, gpu="RTX 4090", kv_bytes_per_token=131072)
    tokens = tokens_of(Workload(input_tokens=Lengths(median=7000), output_tokens=Lengths(median=1000)))
    found = speed_gate(FleetAsk(hardware=hardware), Unit(), Evidence(tokens=tokens))
    assert found is not None
    assert found.bytes_per_token == 15.2e9 + 131072 * 8000
    assert not says(found.message, "prefill_bound")


def test_the_decode_floor_says_nothing_of_prompts_that_are_the_work() -> None:
    tokens = tokens_of(Workload(input_tokens=Lengths(median=2500), output_tokens=Lengths(median=100)))
    found = speed_gate(FleetAsk(hardware=Hardware(weights_gb=15.2, gpu="L4")), Unit(), Evidence(tokens=tokens))
    assert found is not None
    assert says(found.message, "prefill_bound")


@pytest.mark.parametrize("hardware", [Hardware(), Hardware(weights_gb=5.5), Hardware(gpu="L4")])
def test_without_weights_or_bandwidth_there_is_no_gate(hardware: Hardware) -> None:
    assert speed_gate(FleetAsk(hardware=hardware), Unit(), Evidence()) is None


@settings(deadline=None)
@given(
    weights_gb=st.floats(0.1, 1000),
    limit_ms=st.floats(0.5, 500),
    eta=st.floats(0.1, 1),
    tp=st.sampled_from([1, 2, 4]),
    kv=st.floats(1, 1e6),
)
def test_what_is_said_to_help_does(weights_gb: float, limit_ms: float, eta: float, tp: int, kv: float) -> None:
    """Lighter weights, more devices or a faster one: with each of them the limit is no longer under the floor."""
    tokens = tokens_of(Workload())
    hardware = Hardware(weights_gb=weights_gb, gpu_bandwidth_gbs=1000, eta=eta, kv_bytes_per_token=kv)
    evidence = Evidence(tpot_limit_s=limit_ms / 1000, tokens=tokens)
    found = speed_gate(FleetAsk(hardware=hardware), Unit(tp=tp), evidence)
    assert found is not None
    for each in found.helps:
        figures = {name: figure for name, figure in each.figures.items() if isinstance(figure, (int, float))}
        if each.code == "help_tp":
            tp_needed = int(figures["tp"])
            assert tpot_floor_s(found.bytes_per_token, 1000, eta, tp_needed) <= limit_ms / 1000 * (1 + 1e-6)
            assert tpot_floor_s(found.bytes_per_token, 1000, eta, tp_needed // 2) > limit_ms / 1000
        elif each.code == "help_weights":
            read = figures["most_bytes"] + kv * (tokens.mean_total or 0)
            assert tpot_floor_s(read, 1000, eta, tp) <= limit_ms / 1000 * (1 + 1e-6)
        elif each.code == "help_device":
            needed_gbs = figures["least_bytes_per_s"] / 1e9
            assert tpot_floor_s(found.bytes_per_token, needed_gbs, eta, tp) <= limit_ms / 1000 * (1 + 1e-6)
        else:
            assert (each.code, figures["floor_s"]) == ("help_limit", found.floor_s)


def test_quantised_weights_that_would_do_are_named() -> None:
    ask = FleetAsk(hardware=Hardware(params_b=7.6, gpu="RTX 4090"))
    eight, four = (speed_gate(ask, Unit(), Evidence(tpot_limit_s=limit)) for limit in (0.015, 0.007))
    assert eight is not None
    assert four is not None
    bits = [(each.helps[0].figures["fitting_bits"], each.helps[0].figures["weight_bits"]) for each in (eight, four)]
    assert bits == [(8, 16), (4, 16)]


def test_a_measured_stream_gives_the_share_that_is_really_reached() -> None:
    slower, faster = gate(15.2, measured_s=0.025), gate(15.2, measured_s=0.018)
    assert slower.eta_reached == pytest.approx(15.2 / 1008 / 0.025)
    assert slower.contradiction is None
    assert faster.contradiction is not None
    assert faster.contradiction == fact(
        "stream_beats_floor",
        measured_s=0.018,
        floor_s=faster.floor_s,
        eta_reached_frac=faster.eta_reached,
        eta_frac=0.7,
        eta_assumed=True,
    )
    entered = gate(15.2, measured_s=0.018, eta=0.6)
    assert entered.contradiction is not None
    assert (entered.contradiction.figures["eta_frac"], entered.contradiction.figures["eta_assumed"]) == (0.6, False)


def test_a_stream_faster_than_the_whole_bandwidth_says_that_the_entries_are_wrong() -> None:
    found = gate(15.2, measured_s=0.010)
    assert found.eta_reached is not None
    assert found.eta_reached > 1
    assert found.contradiction == fact("stream_beats_bandwidth", measured_s=0.010, floor_s=found.floor_s, fastest_s=found.fastest_s)


def single(tpot_s: float) -> RequestRecord:
    return RequestRecord(
        order=1, index=0, t_sched=0.0, t_sent=0.0, t_first=0.1, t_last=0.1 + 127 * tpot_s, t_end=0.1 + 127 * tpot_s, first_tokens=1,
        output_tokens=128, asked_input=512, asked_output=128, ending="ok",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("weights_gb", "limit_ms", "measured_ms", "status", "codes"),
    [
        (15.2, 50, None, "pass", ["tpot_floor"]),
        (15.2, 50, 25, "pass", ["tpot_floor", "bandwidth_reached"]),
        (15.2, 15, 25, "refuse", ["limit_under_floor", "bandwidth_reached", "limit_helps"]),
        (15.2, 15, None, "refuse", ["limit_under_floor", "limit_helps"]),
        (15.2, 20, 18, "warn", ["tpot_floor", "floor_contradicted"]),  # at a guess that the stream shows to be wrong
        (15.2, 15, 10, "refuse", ["limit_under_floor", "floor_contradicted"]),  # no share of the bandwidth allows that
        (15.2, 50, 10, "warn", ["tpot_floor", "floor_contradicted"]),
    ],
)
def test_the_check_before_load(
    weights_gb: float, limit_ms: float, measured_ms: float | None, status: str, codes: list[Code]
) -> None:
    config = ProbeConfig(
        target=Target(url="http://x"),
        slo=Slo(tpot_s=limit_ms / 1000),
        fleet=FleetAsk(hardware=Hardware(weights_gb=weights_gb, gpu="RTX 4090")),
    )
    singles = [] if measured_ms is None else [single(measured_ms / 1000)] * 3
    check = speed_check(config, ServerInfo(url="http://x"), singles)
    assert check is not None
    assert (check.check, check.status) == ("speed", status)
    assert isinstance(check.message, Fact)
    found = [each for each in (check.message.of if check.message.code == "in_turn" else (check.message,)) if isinstance(each, Fact)]
    assert [each.code for each in found] == codes
    assert found[0].figures["limit_s"] == limit_ms / 1000
    assert found[0].figures["floor_s"] == pytest.approx(0.02154, abs=1e-5)
    if measured_ms is not None:
        assert found[1].figures["eta_reached_frac"] == pytest.approx(15.2 / 1.008 / measured_ms)


def test_the_check_takes_tp_from_the_server() -> None:
    config = ProbeConfig(
        target=Target(url="http://x"), slo=Slo(tpot_s=0.015), fleet=FleetAsk(hardware=Hardware(weights_gb=15.2, gpu="4090"))
    )
    for tp, status in ((1, "refuse"), (2, "pass")):
        check = speed_check(config, ServerInfo(url="http://x", tp=tp), [])
        assert check is not None
        assert check.status == status


def test_nothing_on_paper_no_check() -> None:
    assert speed_check(ProbeConfig(target=Target(url="http://x")), ServerInfo(url="http://x"), []) is None


def test_a_limit_that_a_single_stream_meets_is_never_called_impossible() -> None:
    found = gate(15.2, 0.010, measured_s=0.008)
    assert found.refuses  # what was entered cannot be right
    assert says(found.message, "stream_floor_doubted")
