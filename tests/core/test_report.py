"""The result for scripts and the verdict for people."""

import json
import math
from functools import partial
from typing import Any

import msgspec
import pytest

from core import report
from core.config import FleetAsk, Method, ProbeConfig, Slo, Target, Workload
from core.facts import Fact, fact, several
from core.hardware import Hardware
from core.judge.rate_verdicts import set_aside
from core.records import Check, Phase, ServerInfo, Shape
from core.results import Answer, ClientInfo, FailCount, Knee, OutputTokens, Percentiles, RepeatVerdict, StepResult, StepVerdict
from core.run.state import step_told
from core.view import Line, RunView
from core.workloads import Gateway, MixPart, Prefix, Source, parse_mix
from tests import builders
from tests.tui import knee_samples


def keys(text: str) -> list[str]:
    return text.split()


TOP = keys(
    """schema outcome message knee slo workload request mode seed method started_at duration_s others_rps server client workers
    preflight steps diagnosis fleet run_log required"""
)
PARTS = {
    "knee": keys("pass_rps pass_repeats first_fail_rps first_fail clear_fail_rps clear_fail notes"),
    "slo": keys("ttft_s tpot_s e2e_s target max_error_rate default"),
    "workload": keys(
        """api input_tokens output_tokens prefix sampling cache arrivals arrival_cv reset_cache between stop length_correlation mix
        source trace"""
    ),
    "request": keys("prompt length_by cache_salt usage left_out counted_by"),
    "server": keys("url version model max_model_len metrics kv_cache_tokens engines tp pp dp fingerprint config"),
    "client": keys("version python platform hostname_hash cores transport"),
    "fleet": keys(
        """peak_rps mean_rps headroom replicas gpus gpus_per_endpoint unit at_pass at_fail at_p90_output losses marks cost
        speed memory binds margin assumptions"""
    ),
}
STEP = keys("rate_rps phase verdict reason floor set_aside trace_scale repeats")
REPEAT = keys(
    """index verdict reason attainment attainment_interval planned sent succeeded errors endings error_rate lateness_s
    lateness_p99_s queue offered_rps served_rps goodput_rps output_tps total_tps ttft_s tpot_s e2e_s itl_s margin worst_block
    kv_usage_max preemptions waiting_max running_max prefix_hit_frac planned_hit_frac buckets loop_lag_max_s
    output_tokens stopped_frac"""
)

LATE = Percentiles(p50=0.0002, p95=0.0005, p99=0.0009, mean=0.0003, max=0.0042, n=450)
HOLDS = fact("bracket", pass_rps=11.3, first_fail_rps=16.0, fail_rps=16.0, clearly=False)
NOTE = "lower end rests on one repeat, which is no evidence by itself"


repeat = partial(
    builders.repeat,
    order=7,
    planned=450,
    sent=450,
    succeeded=440,
    good=432,
    misses=18,
    endings={"ok": 440, "aborted": 10},
    lateness_s=LATE,
    offered_rps=11.3,
    served_rps=11.1,
    goodput_rps=10.9,
    output_tps=300.0,
    total_tps=900.0,
)


def step(
    number: int, rate_rps: float, phase: Phase, verdict: StepVerdict, floor: tuple[float, float] | None, **changes: Any
) -> StepResult:
    """A step of one repeat, to which the changes belong."""
    verdicts: dict[StepVerdict, RepeatVerdict] = {"pass": "pass", "fail": "fail", "void": "void"}
    each = verdicts.get(verdict, "unjudged")
    only = repeat(each, floor or (0.0, 1.0), **{"reason": f"{each} it is", **changes})
    return builders.step(rate_rps, verdict, only, number=number, phase=phase, reason=f"{verdict} because of it", floor=floor)


STEPS = (
    step(1, 16.0, "ramp", "fail", (0.1, 0.409)),
    step(2, 11.3137085, "search", "pass", (0.96, 0.96), warnings=("queue: undecided",)),
)
ANSWER = Answer(
    outcome="bracket",
    message="holds at 11.3 requests/s, fails at 16.0 requests/s",
    knee=Knee(pass_rps=11.3137085, pass_repeats=1, first_fail_rps=16.0, first_fail=FailCount(failed=1, run=1), notes=(NOTE,)),
)
VIEW = RunView(
    version=10,
    now_s=130.0,
    bin_s=1.0,
    started_utc="2026-01-01T00:00:00Z",
    config=ProbeConfig(target=Target(url="http://127.0.0.1:8000"), fleet=FleetAsk(peak_rps=50.0)),
    client=ClientInfo(version="0.1.0", python="3.11.7", platform="Linux", hostname_hash="ab12", cores=2, transport="aiohttp"),
    server=ServerInfo(url="http://127.0.0.1:8000", version="0.32.0", model="tiny", metrics_url="http://127.0.0.1:8000/metrics"),
    checks=(Check(check="kv capacity", status="warn", message="The size of the KV cache is not known."),),
    steps=STEPS,
    lines=(
        Line(t_s=40.0, level="info", text=step_told(STEPS[0]), step=1),
        Line(t_s=50.0, level="warn", text="A repeat does not count and is run again: late"),
    ),
    answer=ANSWER,
    duration_s=130.0,
)


def view(**changes: Any) -> RunView:
    return msgspec.structs.replace(VIEW, **changes)


def assert_keys(data: dict[str, Any], wanted: list[str]) -> None:
    assert set(wanted) <= set(data), set(wanted) - set(data)


def assert_all_keys(data: dict[str, Any]) -> None:
    assert_keys(data, TOP)
    for name, wanted in PARTS.items():
        assert_keys(data[name], wanted)
    for each in data["steps"]:
        assert_keys(each, STEP)
        for one in each["repeats"]:
            assert_keys(one, REPEAT)
            assert_keys(one["lateness_s"], ["p50", "p95", "p99", "max"])
            for name in ("ttft_s", "tpot_s", "e2e_s", "itl_s", "margin"):
                assert_keys(one[name], ["p50", "p95", "p99", "mean", "n"])


def strict(text: str) -> dict[str, Any]:
    def refuse(name: str) -> None:
        raise AssertionError(f"{name} in JSON")

    data: dict[str, Any] = json.loads(text, parse_constant=refuse)
    return data


def test_every_key_is_there_and_the_json_is_strict() -> None:
    data = strict(report.to_json(VIEW, "/runs/a.jsonl"))

    assert_all_keys(data)
    assert data == report.result(VIEW, "/runs/a.jsonl")
    assert data["schema"] == 2
    assert data["outcome"] == "bracket"
    assert (data["message"], data["message_fact"]) == (ANSWER.message, None)
    assert data["knee"]["first_fail"] == {"failed": 1, "run": 1}
    assert data["server"]["metrics"] is True
    assert data["run_log"] == "/runs/a.jsonl"
    assert data["others_rps"] is None


def test_every_key_is_there_when_next_to_nothing_is_known() -> None:
    bare = view(server=None, checks=(), steps=(), lines=(), answer=Answer(outcome="refused", message="no"), duration_s=None)
    data = strict(report.to_json(bare, None))

    assert_all_keys(data)
    assert data["server"]["url"] == "http://127.0.0.1:8000"
    assert data["server"]["version"] is None
    assert data["knee"]["pass_rps"] is None
    assert data["fleet"]["at_pass"] is None
    assert data["steps"] == []


def test_numbers_of_steps_and_repeats() -> None:
    ramp, search = report.result(VIEW, None)["steps"]

    assert (search["floor"], search["floor_interval"]) == (0.96, [0.96, 0.96])
    assert (ramp["floor"], ramp["floor_interval"]) == (None, [0.1, 0.409])
    one = search["repeats"][0]
    assert one["lateness_p99_s"] == one["lateness_s"]["p99"] == 0.0009
    assert one["ttft_s"]["p50"] is None
    assert one["ttft_s"]["n"] == 0
    assert one["endings"] == {"ok": 440, "aborted": 10}
    assert (one["worst_block"], one["buckets"], one["loop_lag_max_s"]) == (None, [], None)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_what_is_no_number_becomes_null(bad: float) -> None:
    broken = step(3, 4.0, "search", "pass", (0.9, 0.9), served_rps=bad, lateness_s=Percentiles(p99=bad, max=bad))
    data = strict(report.to_json(view(steps=(broken,)), None))

    assert data["steps"][0]["repeats"][0]["served_rps"] is None
    assert data["steps"][0]["repeats"][0]["lateness_p99_s"] is None


def test_the_fleet_stands_at_both_ends() -> None:
    plan = report.result(VIEW, None)["fleet"]

    assert (plan["peak_rps"], plan["headroom"]) == (50.0, 0.7)
    assert (plan["replicas"], plan["gpus"], plan["gpus_per_endpoint"]) == (7, 7, 1)
    assert (plan["at_pass"]["replicas"], plan["at_fail"]["replicas"]) == (7, 5)


def test_the_fleet_has_what_the_run_measured() -> None:
    server = msgspec.structs.replace(VIEW.server, kv_cache_tokens=64_000) if VIEW.server else None
    held = step(
        2, 11.3137085, "search", "pass", (0.96, 0.96), e2e_s=Percentiles(mean=4.0, n=440), kv_usage_max=0.4, preemptions=0.0
    )
    measured = view(server=server, steps=(STEPS[0], held), single_tpot_s=0.025)
    ask = FleetAsk(peak_rps=50.0, hardware=Hardware(weights_gb=15.2, gpu="RTX 4090"))
    assert measured.config is not None
    measured = msgspec.structs.replace(measured, config=msgspec.structs.replace(measured.config, fleet=ask))
    data = report.result(measured, None)["fleet"]

    assert (data["at_pass"]["floor"], data["at_pass"]["floor_rps"]) == (0.96, 11.3137085)
    assert (data["memory"]["fits_mean"], data["memory"]["needed"], data["binds"]) == (100, pytest.approx(45.25, abs=0.01), "speed")
    assert data["speed"]["eta_reached"] == pytest.approx(15.2 / 1008 / 0.025)
    assert data["speed"]["feasible"] is True
    text = report.to_text(measured, None)
    assert "What limits one replica:" in text
    assert measured.server is not None
    several = msgspec.structs.replace(measured, server=msgspec.structs.replace(measured.server, replicas=("a:1", "b:1")))
    assert "What limits the 2 replicas together:" in report.to_text(several, None)
    assert "a single stream has a TPOT of 25.0 ms: eta is 60 %" in text
    assert max(len(line) for line in lines_of(text)) <= report.WIDTH


def test_without_a_peak_the_fleet_is_null() -> None:
    config = ProbeConfig(target=Target(url="http://127.0.0.1:8000"))
    plan = report.result(view(config=config), None)["fleet"]

    assert_keys(plan, PARTS["fleet"])
    assert plan["peak_rps"] is None
    assert plan["at_pass"] is None
    assert plan["replicas"] is None
    assert plan["headroom"] == 0.7


def test_a_run_without_an_end_is_interrupted_with_what_its_steps_say() -> None:
    answer = report.answer_of(view(answer=None, duration_s=None))
    data = report.result(view(answer=None, duration_s=None), None)

    assert answer.outcome == "interrupted"
    assert (answer.knee.pass_rps, answer.knee.first_fail_rps) == (11.3137085, 16.0)
    assert data["outcome"] == "interrupted"
    assert data["duration_s"] == 130.0


def lines_of(text: str) -> list[str]:
    return text.splitlines()


def test_the_first_line_of_the_text_is_the_answer() -> None:
    lines = lines_of(report.to_text(VIEW, "/runs/a.jsonl"))

    assert lines[0] == "Holds at 11.3 requests/s, fails at 16.0 requests/s."
    assert lines[-1] == "Run file: /runs/a.jsonl"


def test_the_text_holds_zones_fleet_steps_client_and_notes() -> None:
    text = report.to_text(VIEW, None)

    assert "PASS        11.3 requests/s, 1 of 1 repeats passed, floor 96.0 %" in text
    assert "FIRST FAIL  16.0 requests/s, in the ramp alone" in text
    judged = report.to_text(view(steps=(*STEPS, step(3, 16.0, "search", "fail", (0.1, 0.4)))), None)
    assert "FIRST FAIL  16.0 requests/s, 1 of 1 repeats failed" in judged
    aside = set_aside(step(3, 16.0, "search", "fail", (0.1, 0.4)))
    anew = report.to_text(view(steps=(aside, *STEPS)), None)
    assert "FIRST FAIL  16.0 requests/s, in the ramp alone" in anew, "what was set aside is no evidence"
    assert "CLEAR FAIL  not looked for in quick mode" in text
    assert "Fleet for a peak of 50.0 requests/s, load at peak 70 % of what holds (30 % spare), 1 GPU per replica" in " ".join(
        text.split()
    )
    assert "at most 41 %" in text
    assert "late by 0.900 ms (p99, in the worst repeat), 4.20 ms at most" in text
    assert f"- {NOTE}" in text
    assert "- 11.3 requests/s: queue: undecided" in text
    assert "- kv capacity: The size of the KV cache is not known." in text
    assert "- A repeat does not count and is run again: late" in text
    assert text.count("fail because of it") == 1


def test_no_line_is_wider_than_the_terminal_may_be() -> None:
    wordy = msgspec.structs.replace(STEPS[1], reason="word " * 90)
    answer = msgspec.structs.replace(ANSWER, message="so it is " * 40)
    text = report.to_text(view(steps=(STEPS[0], wordy), answer=answer), None)

    assert max(len(line) for line in lines_of(text)) <= report.WIDTH


@pytest.mark.parametrize(
    ("slo", "words"),
    [
        (Slo(default=True), "TTFT at most 800 ms and TPOT at most 50 ms for 95 % of requests (default limits)"),
        (Slo(), "TTFT at most 800 ms and TPOT at most 50 ms for 95 % of requests\n"),
        (Slo(ttft_s=1.25, tpot_s=None, target=0.999), "TTFT at most 1.25 s for 99.9 % of requests\n"),
        (Slo(ttft_s=None, tpot_s=None, e2e_s=20.0), "E2E at most 20 s for 95 % of requests\n"),
    ],
)
def test_limits_are_named_and_default_ones_are_called_so(slo: Slo, words: str) -> None:
    config = ProbeConfig(target=Target(url="http://x"), slo=slo)

    assert f"Limits: {words}" in report.to_text(view(config=config), None)


@pytest.mark.parametrize(("truth", "words"), [(13.0, "inside"), (9.0, "below"), (20.0, "above")])
def test_a_simulated_replica_is_called_so_and_its_knee_shown(truth: float, words: str) -> None:
    info = msgspec.structs.replace(VIEW.server or ServerInfo(url=""), simulated=True)
    text = report.to_text(view(server=info, truth_rps=truth), None)

    assert "simulated replica" in text
    assert f"{truth:.1f}" in text
    assert f", {words} this answer." in text


@pytest.mark.parametrize("outcome", ["at_least", "below", "infeasible", "held", "void", "refused", "interrupted"])
def test_every_outcome_has_a_text(outcome: str) -> None:
    answer = Answer(outcome=outcome, message=f"it was {outcome}")  # type: ignore[arg-type]
    text = report.to_text(view(answer=answer, steps=()), None)

    assert text.startswith(f"It was {outcome}.")
    assert "None" not in text


def test_a_refusal_is_told_once_and_an_address_keeps_its_spelling() -> None:
    refusal = Check(check="reachable", status="refuse", message="http://127.0.0.1:9 cannot be reached.")
    assert isinstance(refusal.message, str)
    refused = view(checks=(refusal,), steps=(), lines=(), answer=Answer(outcome="refused", message=refusal.message))
    text = report.to_text(refused, None)

    assert text.startswith("http://127.0.0.1:9 cannot be reached.\n")
    assert text.count("cannot be reached") == 1


def test_what_a_check_found_stands_beside_its_sentence() -> None:
    found = fact("model_found", model="tiny", context_tokens=2048)
    checks = (Check(check="model", status="pass", message=found), Check(check="model", status="pass", message="An old sentence."))
    stored, old = report.result(view(checks=checks), None)["preflight"]

    assert (stored["check"], stored["status"], stored["message"]) == ("model", "pass", "tiny, context of 2,048 tokens.")
    assert msgspec.convert(stored["message_fact"], Fact) == found
    assert (old["message"], old["message_fact"]) == ("An old sentence.", None)


def test_the_speed_check_is_told_with_what_limits_one_replica() -> None:
    floor = fact("tpot_floor", "the TPOT floor is 21.5 ms", floor_s=0.0215, limit_s=None, eta_frac=0.7)
    slow = fact("floor_contradicted", "a stream was faster", measured_s=0.018, eta_reached_frac=0.84)
    checked = view(checks=(Check(check="speed", status="warn", message=several(floor, slow)),))

    assert "a stream was faster" in " ".join(report.notes(checked)).lower()
    assert "a stream was faster" not in report.to_text(checked, None).lower()


def test_a_server_cannot_paint_the_terminal() -> None:
    answer = Answer(outcome="refused", message="The server says \x1b[31mred\x07\x00.")

    assert report.to_text(view(answer=answer), None).replace("\n", "").isprintable()


def test_mode_and_seed_are_told() -> None:
    config = ProbeConfig(target=Target(url="http://x"), method=Method(seed=99))
    data = report.result(view(config=config), None)

    assert (data["mode"], data["seed"]) == ("quick", 99)
    assert "quick mode, seed 99" in report.to_text(view(config=config), None)


def test_seeds_that_differ_are_told_each() -> None:
    method = Method(seed=99, arrival_seed=5)
    config = ProbeConfig(target=Target(url="http://x"), method=method)
    data = report.result(view(config=config), None)
    assert (data["method"]["seed"], data["method"]["arrival_seed"], data["method"]["workload_seed"]) == (99, 5, None)
    assert "quick mode, arrival seed 5, workload seed 99" in " ".join(report.to_text(view(config=config), None).split())
    assert "arrival seed 5, workload seed 99" in report.to_markdown(view(config=config), "")


def test_the_result_has_the_kinds_of_a_mix_and_where_they_are_from() -> None:
    mix = Workload(mix=parse_mix("1024:128=3,4096:64=1@ttft=2s@tpot=none"), source=Source(kind="mix", rows=2))
    of_mix = view(config=ProbeConfig(target=Target(url="http://h"), workload=mix))
    found = json.loads(report.to_json(of_mix, None))["workload"]
    assert (found["input_tokens"], found["output_tokens"], found["source"]["kind"]) == (None, None, "mix")
    assert found["mix"] == [
        {"input": 1024, "output": 128, "weight": 3.0, "limits": {}},
        {"input": 4096, "output": 64, "weight": 1.0, "limits": {"ttft_s": 2.0, "tpot_s": None}},
    ]
    for text in (report.to_text(of_mix, None), report.to_markdown(of_mix, "")):
        words = " ".join(text.split())
        assert "mix of 2: 1,024:128 ×3, 4,096:64 ×1" in words  # noqa: RUF001
        assert "TTFT at most 800 ms (2 s for 4,096:64) and TPOT at most 50 ms (none for 4,096:64)" in words


def test_more_kinds_than_a_table_holds_are_named_by_their_file() -> None:
    many = parse_mix(",".join(f"{n}:8" for n in range(1, 65)))
    file = Source(kind="lengths", file="pairs.csv", form="plain", rows=900, of_rows=900, bad=1)
    workload = Workload(mix=(*many, MixPart(input_tokens=65, output_tokens=8)), source=file)
    of_file = view(config=ProbeConfig(target=Target(url="http://h"), workload=workload))
    found = json.loads(report.to_json(of_file, None))["workload"]
    assert found["mix"] is None
    source = {"kind": "lengths", "file": "pairs.csv", "form": "plain", "rows": 900, "of_rows": 900, "bad": 1, "estimated": 0}
    assert found["source"] == source
    assert "65 pairs of lengths from pairs.csv" in " ".join(report.to_text(of_file, None).split())


def test_answers_that_may_stop_by_themselves_are_told_everywhere() -> None:
    assert VIEW.config is not None
    answers = OutputTokens(mean=40.0, sd=9.0, p50=38.0, p90=55.0, p95=61.0, n=440)
    held = step(2, 11.3137085, "search", "pass", (0.96, 0.96), output_tokens=answers, stopped_frac=0.75)
    config = msgspec.structs.replace(VIEW.config, workload=Workload(stop="natural"))
    natural = msgspec.structs.replace(VIEW, config=config, steps=(STEPS[0], held))
    plain, found = report.result(VIEW, None), report.result(natural, None)
    assert [each["workload"]["stop"] for each in (plain, found)] == ["exact", "natural"]
    assert [each["workload"]["sampling"]["ignore_eos"] for each in (plain, found)] == [True, False]
    assert found["steps"][1]["repeats"][0]["output_tokens"] == msgspec.structs.asdict(answers)
    assert found["steps"][1]["repeats"][0]["stopped_frac"] == 0.75
    assert (plain["steps"][1]["repeats"][0]["output_tokens"], plain["steps"][1]["repeats"][0]["stopped_frac"]) == (None, None)
    assert [each["fleet"]["assumptions_fact"][2]["code"] for each in (plain, found)] == ["same_lengths", "answers_as_they_came"]
    for text in (report.to_text(natural, None), report.to_markdown(natural, ""), report.scaling_text(natural, None, "keda")):
        told = " ".join(text.replace("#", " ").split())
        assert "512 tokens in, at most 128 out (natural stop)" in told
    unknown = msgspec.structs.replace(natural, steps=STEPS)
    long = "answers at 11.3 requests/s: 40.0 tokens on average, p90 55.0; 75 % stopped by themselves"
    for each, words in ((natural, long), (unknown, "answers at 11.3 requests/s: of unknown length")):
        assert words in report.to_text(each, None)
        assert words in report.to_markdown(each, "")
    assert "answers at" not in report.to_text(VIEW, None)


def test_arrivals_that_are_not_poisson_are_told_everywhere() -> None:
    assert VIEW.config is not None
    bursty = msgspec.structs.replace(VIEW, config=msgspec.structs.replace(VIEW.config, workload=Workload(arrival_cv=2.0)))
    plain, found = report.result(VIEW, None), report.result(bursty, None)
    assert (plain["workload"]["arrivals"], plain["workload"]["arrival_cv"]) == ("poisson", 1.0)
    assert (found["workload"]["arrivals"], found["workload"]["arrival_cv"]) == ("gamma", 2.0)
    assert [each["fleet"]["assumptions_fact"][0]["code"] for each in (plain, found)] == ["poisson_arrivals", "gamma_arrivals"]
    for text in (report.to_text(bursty, None), report.to_markdown(bursty, "")):
        told = " ".join(text.split())
        assert "arrivals with gamma gaps of CV 2 (Poisson: 1)" in told
        assert "Poisson arrivals" not in told
    assert "open-loop Poisson arrivals" in report.to_markdown(VIEW, "")


def test_a_scaler_tells_what_its_rate_was_measured_with() -> None:
    assert VIEW.config is not None
    asked = Workload(prefix=Prefix(kind="shared", tokens=256, groups=8), gateway=Gateway(limit=64))
    text = report.scaling_text(
        msgspec.structs.replace(VIEW, config=msgspec.structs.replace(VIEW.config, workload=asked)), None, "keda"
    )
    assert "256 tokens shared within each of 8 groups" in text
    assert "Poisson arrivals, a gateway's limit of 64 open requests." in text
    assert "cold" not in report.scaling_text(VIEW, None, "keda")


def test_recorded_arrivals_are_told_everywhere_with_the_scale_of_each_step() -> None:
    assert VIEW.config is not None
    recorded = msgspec.structs.replace(VIEW, config=msgspec.structs.replace(VIEW.config, workload=Workload(trace=builders.TRACE)))
    plain, found = report.result(VIEW, None), report.result(recorded, None)
    assert plain["workload"]["trace"] is None
    assert {step["trace_scale"] for step in plain["steps"]} == {None}
    assert (found["workload"]["arrivals"], found["workload"]["arrival_cv"]) == ("trace", 1.0)
    trace = found["workload"]["trace"]
    assert (trace["file"], trace["form"], trace["mean_rps"], trace["from_s"]) == ("t.csv", "azure", 2.5, 60.0)
    assert [step["trace_scale"] for step in found["steps"]] == [step["rate_rps"] / 2.5 for step in found["steps"]]
    assert found["fleet"]["assumptions_fact"][0]["code"] == "recorded_arrivals"
    text = " ".join(report.to_text(recorded, None).split())
    assert "arrivals as recorded" in text
    assert f"{found['steps'][0]['trace_scale']:.2g} times the recording" in text
    assert "arrivals as recorded" in report.to_markdown(recorded, "")


def test_a_fleet_says_what_it_takes_for_granted() -> None:
    text = " ".join(report.to_text(VIEW, None).split())
    assert "Assumes Poisson arrivals, an even split (a random one costs at most 1 %)" in text
    assert "Assumes" not in report.to_text(view(config=None), None)


@pytest.mark.parametrize(
    ("method", "words"),
    [
        (Method(rates_rps=(2.0, 4.0)), "a list of rates"),
        (Method(rates_rps=(2.0,)), "one rate"),
        (Method(hold_rps=6.0), "a held rate"),
    ],
)
def test_a_list_and_a_held_rate_are_no_mode(method: Method, words: str) -> None:
    text = report.to_text(view(config=ProbeConfig(target=Target(url="http://x"), method=method)), None)

    assert f"{words}, seed 11" in text
    assert f"CLEAR FAIL  not looked for with {words}" in text
    assert "mode" not in text


def test_a_fail_without_misses_has_no_highest_attainment() -> None:
    text = report.to_text(view(steps=(step(1, 16.0, "search", "fail", (0.0, 1.0)),)), None)

    assert "search  fail      -  " in text
    assert "at most" not in text.partition("Steps:")[2].partition("Client:")[0]


def test_what_the_answer_says_is_no_note_besides() -> None:
    skipped, ended = fact("steps_ended", rates_rps=[8.0]), "the step at 8.00 requests/s was ended by the user"
    knee = msgspec.structs.replace(ANSWER.knee, notes=(NOTE, skipped))
    answer = msgspec.structs.replace(ANSWER, message=several(HOLDS, skipped), knee=knee, told=(skipped,))
    text = " ".join(report.to_text(view(answer=answer), None).split())

    assert text.count(ended) == 1
    assert NOTE in text
    data = report.result(view(answer=answer), None)
    assert data["message"] == f"holds at 11.3 requests/s, fails at 16.0 requests/s; {ended}"
    assert [said["code"] for said in data["message_fact"]["of"]] == ["bracket", "steps_ended"]
    told = data["knee"]
    assert told["notes"] == [NOTE, ended]
    assert told["notes_fact"] == [None, {"code": "steps_ended", "figures": {"rates_rps": [8.0]}, "of": []}]


def test_the_same_fact_of_a_note_and_of_a_line_is_one_remark() -> None:
    away, late = fact("was_away", away_s=20.0, said="HTTP 502", endings={"http": 9}), fact("loop_stalled", lag_max_s=0.2)
    knee = msgspec.structs.replace(ANSWER.knee, notes=(away,))
    passed = partial(step, phase="search", verdict="pass", floor=(1.0, 1.0))
    twice = (passed(1, 8.0, warnings=(late, late)), passed(2, 9.0, warnings=(late,)))
    lines = tuple(Line(t_s=t_s, level="warn", text=away) for t_s in (50.0, 60.0))
    found = report.remarks(view(answer=msgspec.structs.replace(ANSWER, knee=knee), checks=(), steps=twice, lines=lines))

    assert [(remark.said, remark.about) for remark in found] == [
        (away, "knee"),
        (fact("at_rate", late, rate_rps=8.0), "repeat"),
        (fact("at_rate", late, rate_rps=9.0), "repeat"),
    ]


def test_the_fitted_interval_stands_beside_the_answer_as_what_it_is() -> None:
    text = " ".join(report.to_text(knee_samples.diagnosed(), None).split())
    assert "between 11.4 and 13.1 requests/s, meant to be right 9 times in 10; not a measured rate." in text
    assert "A curve fitted" not in report.to_text(knee_samples.diagnosed(8.0, 16.0), None)


def test_how_requests_were_written_stands_in_the_result() -> None:
    shape = Shape(prompt="text", salted=False, usage="end", left_out=("ignore_eos",))
    info = msgspec.structs.replace(VIEW.server or ServerInfo(url=""), shape=shape, counted_by="usage")
    data = strict(report.to_json(view(server=info), None))
    assert data["request"] == {
        "prompt": "text",
        "length_by": "max_tokens",
        "cache_salt": False,
        "usage": "end",
        "left_out": ["ignore_eos"],
        "counted_by": "usage",
    }
    assert data["workload"]["sampling"] == {"temperature": 0.0, "top_p": 1.0, "ignore_eos": None}


@pytest.mark.parametrize("server", [None, ServerInfo(url="http://x")])
def test_of_an_older_run_it_is_not_known_how_they_were(server: ServerInfo | None) -> None:
    data = strict(report.to_json(view(server=server), None))
    assert set(data["request"].values()) == {None}
    assert data["workload"]["sampling"]["ignore_eos"] is True
