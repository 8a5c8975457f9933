"""One failing repeat with given figures -> the cause that they fit, and no more than they say."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.config import Slo
from core.facts import Fact, Said, fact, parts, says
from core.judge import validity
from core.judge.diagnosis.causes import GROWN, LIGHT_PROMPTS
from core.judge.diagnosis.comparison import AT_PLATEAU, KV_FULL_FRAC
from core.judge.diagnosis.diagnosis import diagnose
from core.records import Phase, ServerInfo
from core.report import diagnosis_lines
from core.results import (
    Answer,
    Diagnosis,
    EngineUse,
    GatewayUse,
    Gauges,
    Idle,
    MachineUse,
    MeanLengths,
    Missed,
    Percentiles,
    RepeatResult,
    Stages,
    StepResult,
    StepVerdict,
)
from tests.core.judge import feed

SLO = Slo(ttft_s=0.5, tpot_s=0.05)
IDLE = Idle(tpot_s=0.010, prefill_token_s=1e-4)
SERVER = ServerInfo(url="", kv_cache_tokens=100_000)
ANSWER = Answer(outcome="bracket", message="holds and fails")

QUEUED = Gauges(
    readings=40,
    waiting_mean=6.0,
    running_mean=14.0,
    kv_usage_mean=0.3,
    queued=30,
    queued_running_mean=15.8,
    queued_kv_usage_mean=0.34,
    plateau=27,
)
FLAT = Gauges(readings=40, waiting_mean=0.02, running_mean=12.0, kv_usage_mean=0.3, queued=1)
WAITED = Stages(finished=200, queue_s=0.40, prefill_s=0.08, decode_s=0.6, ttft_s=0.5, tpot_s=0.015)
PROMPT = MeanLengths(input=100.0, input_asked=100.0, output=40.0, output_asked=40.0, finish_reasons={"length": 200})


def repeat(**changes: object) -> RepeatResult:
    """A repeat that failed by TTFT at its highest of 16 running sequences; figures as given otherwise."""
    base = feed.repeat("fail")
    fields: dict[str, object] = {
        "sent": 200,
        "planned": 200,
        "misses": 30,
        "lateness_s": Percentiles(p50=0.0002, p95=0.0005, p99=0.0009, mean=0.0003, max=0.004, n=200),
        "loop_lag_max_s": 0.004,
        "tpot_s": Percentiles(p50=0.015, p95=0.02, p99=0.025, mean=0.015, n=200),
        "ttft_s": Percentiles(mean=0.5, n=200),
        "prefix_hit_frac": 0.0,
        "preemptions": 0.0,
        "kv_usage_max": 0.41,
        "running_max": 16.0,
        "waiting_max": 19.0,
        "missed": Missed(ttft=30),
        "lengths": PROMPT,
        "stages": WAITED,
        "gauges": QUEUED,
    }
    return msgspec.structs.replace(base, **{**fields, **changes})


def step(rate_rps: float, verdict: StepVerdict, result: RepeatResult, phase: Phase = "search") -> StepResult:
    return msgspec.structs.replace(feed.step_result(rate_rps, verdict, phase=phase), repeats=(result,))


HELD = step(
    11.3,
    "pass",
    msgspec.structs.replace(
        repeat(missed=Missed(), gauges=FLAT, stages=Stages(finished=200, queue_s=0.004, prefill_s=0.05, decode_s=0.5)),
        verdict="pass",
        running_max=15.0,
    ),
)


def explained(
    failing: RepeatResult, *, rate_rps: float = 12.4, phase: Phase = "search", idle: Idle = IDLE, server: ServerInfo = SERVER
) -> Diagnosis:
    verdict: StepVerdict = "void" if failing.verdict == "void" else "fail"
    outcome = msgspec.structs.replace(ANSWER, outcome="void" if verdict == "void" else "bracket")
    found = diagnose(SLO, outcome, [HELD, step(rate_rps, verdict, failing, phase)], server, idle)
    assert found is not None
    return found


def figures(said: Said | None, code: str) -> dict[str, object]:
    """The figures of the one fact with this code in what was said."""
    found = [each.figures for each in parts(said or "") if isinstance(each, Fact) and each.code == code]
    assert len(found) == 1, f"{len(found)} of {code}"
    return dict(found[0])


def at(found: Diagnosis, place: str) -> Said:
    """What was found at one of the five places."""
    return next(step.text for step in found.steps if step.place == place)


def doubts(found: Diagnosis) -> list[str]:
    assert isinstance(found.sentence, Fact)
    return [each.code if isinstance(each, Fact) else each for each in found.sentence.of]


def test_what_was_set_aside_is_not_looked_at() -> None:
    gone = msgspec.structs.replace(step(9.0, "void", repeat(verdict="void", running_max=64.0)), set_aside=True)
    alone, beside = [HELD, step(12.4, "fail", repeat())], [gone, HELD, step(12.4, "fail", repeat())]
    assert diagnose(SLO, ANSWER, beside, SERVER, IDLE) == diagnose(SLO, ANSWER, alone, SERVER, IDLE)
    void = msgspec.structs.replace(ANSWER, outcome="void")
    assert diagnose(SLO, void, [gone], SERVER, IDLE) is None


def test_a_plateau_of_running_sequences_beside_a_queue_is_the_number_of_sequences() -> None:
    found = explained(repeat())
    assert (found.cause, found.also, found.sure, found.setting) == ("slots", None, True, "--max-num-seqs")
    assert found.at_rps == 12.4
    assert found.advice == fact("more_sequences", sequences=16.0, engines=1, tpot_p95_s=0.02, tpot_limit_s=0.05, room=True)
    assert found.sentence == fact("binds", rate_rps=12.4, cause="slots", setting="--max-num-seqs", memory_free=True)
    assert figures(at(found, "resources"), "running_limit") == {"sequences": 16, "engines": 1}
    assert figures(at(found, "stages"), "ttft_split")["queue_s"] == 0.4
    assert found.ruled_out == (at(found, "client"), at(found, "workload"), fact("memory_free", max_frac=0.41))
    assert [each.place for each in found.steps] == ["client", "workload", "queue", "stages", "resources"]
    lines = diagnosis_lines(found)
    assert lines[0].startswith(
        "WHY   waiting requests 0.0200 -> 6.00 on average from 11.3 to 12.4 requests/s, queue time 4 ms -> 400 ms; "
    )
    assert "80 % queue, 16 % prefill, 4.0 % outside the engine" in lines[0]
    assert "running stays at 16 while requests wait" in lines[0]
    assert lines[1] == (
        "      -> At 12.4 requests/s the number of sequences binds, not memory: the setting to change is --max-num-seqs"
    )
    assert lines[-1] == (
        "NOT   the client: late p99 0.9 ms, its loop stalled 4 ms at most · the prompts: 0 % prefix hits, "
        "100/40 tokens as asked, no errors · memory: KV peak 41 %"
    )


def test_a_number_that_another_rate_exceeded_is_no_limit() -> None:
    higher = step(20.0, "fail", repeat(running_max=40.0))
    found = diagnose(SLO, ANSWER, [HELD, step(12.4, "fail", repeat()), higher], SERVER, IDLE)
    assert found is not None
    assert found.cause != "slots"
    assert found.at_rps == 12.4  # the lowest failing rate is the one to look at


def test_tpot_near_its_limit_is_said_with_more_sequences() -> None:
    found = explained(repeat(tpot_s=Percentiles(p95=0.045, mean=0.03, n=200)))
    assert (found.cause, found.also, found.sure) == ("slots", "decode", False)
    assert figures(found.advice, "more_sequences")["room"] is False


def test_a_full_cache_with_preemptions_is_memory() -> None:
    full = msgspec.structs.replace(QUEUED, queued_kv_usage_mean=0.97)
    found = explained(repeat(gauges=full, kv_usage_max=1.0, preemptions=12.0))
    assert (found.cause, found.sure, found.setting) == ("kv", True, "--gpu-memory-utilization")
    assert figures(at(found, "resources"), "preemptions_seen") == {"preemptions": 12.0}
    assert not any(says(each, "memory_free") for each in found.ruled_out)
    override = msgspec.structs.replace(SERVER, config={"num_gpu_blocks_override": "24"})
    assert explained(repeat(gauges=full, preemptions=12.0), server=override).setting == "--num-gpu-blocks-override"


def test_a_full_cache_and_a_plateau_without_preemptions_fit_both() -> None:
    full = msgspec.structs.replace(QUEUED, queued_kv_usage_mean=0.97)
    found = explained(repeat(gauges=full, kv_usage_max=0.98))
    assert (found.cause, found.also, found.sure) == ("kv", "slots", False)
    assert found.sentence == fact(
        "two_causes",
        fact("places_full_too", sequences=16, preemptions=0.0),
        rate_rps=12.4,
        cause="kv",
        also="slots",
        setting="--gpu-memory-utilization",
    )


def test_a_few_preemptions_in_a_thousand_requests_are_not_the_cause() -> None:
    assert explained(repeat(preemptions=1.0, sent=1000)).cause == "slots"


def test_a_queue_with_free_places_and_memory_is_prefill_if_prompts_fill_the_engine() -> None:
    loose = msgspec.structs.replace(QUEUED, plateau=3)
    heavy = msgspec.structs.replace(PROMPT, input=600.0, input_asked=600.0)
    found = explained(repeat(gauges=loose, lengths=heavy))
    assert (found.cause, found.sure, found.setting) == ("prefill", True, "--max-num-batched-tokens")
    assert figures(at(found, "stages"), "prompts_take")["at_most_frac"] == pytest.approx(12.4 * 600 * 1e-4)
    light = explained(repeat(gauges=loose))
    assert (light.cause, light.also, light.sure) == ("unknown", "prefill", False)
    assert figures(light.sentence, "nothing_full") == {"at_most_frac": pytest.approx(0.124), "kv_known": True}


def test_late_requests_that_had_not_ended_are_in_no_histogram_but_in_the_gauges() -> None:
    """A repeat cut short within seconds: the server's means are those of the requests before."""
    before = Stages(finished=5, queue_s=0.008, prefill_s=0.016, decode_s=0.6, ttft_s=0.024, tpot_s=0.015)
    found = explained(repeat(curtailed=True, stages=before))
    assert (found.cause, found.sure) == ("slots", True)
    assert figures(at(found, "stages"), "late_not_ended") == {"requests": 30}
    assert not says(at(found, "queue"), "queue_time_seen")
    few = msgspec.structs.replace(QUEUED, readings=6, queued=3, plateau=2)
    hardly = explained(repeat(curtailed=True, stages=before, gauges=few))
    assert (hardly.cause, hardly.sure) == ("slots", False)
    assert figures(hardly.sentence, "few_queued_readings") == {"readings": 3, "shows_limit": True}
    few = msgspec.structs.replace(few, plateau=1)
    short = explained(repeat(curtailed=True, stages=before, gauges=few))
    assert (short.cause, short.sure) == ("unknown", False)
    assert figures(short.sentence, "few_queued_readings") == {"readings": 3, "shows_limit": False}


def test_a_late_first_token_without_a_queue_is_prefill() -> None:
    heavy = msgspec.structs.replace(PROMPT, input=600.0, input_asked=600.0)
    stages = Stages(finished=200, queue_s=0.01, prefill_s=0.6, decode_s=0.5, ttft_s=0.62, tpot_s=0.015)
    assert explained(repeat(gauges=FLAT, stages=stages, lengths=heavy)).cause == "prefill"


def test_time_outside_the_engine_is_the_frontend() -> None:
    stages = Stages(finished=200, queue_s=0.01, prefill_s=0.05, decode_s=0.5, ttft_s=0.6, tpot_s=0.015)
    found = explained(repeat(gauges=FLAT, stages=stages))
    assert (found.cause, found.sure, found.setting) == ("frontend", True, "--api-server-count")


@pytest.mark.parametrize(
    ("input_tokens", "tpot_s", "cause", "also"),
    [
        (30.0, 0.060, "decode", None),  # prompts 4 % of the time, TPOT six times that of the idle server
        (400.0, 0.022, "prefill", None),  # 50 % of the time explains a factor of 2 of 2.2
        (400.0, 0.035, "prefill", "decode"),
        (400.0, 0.050, "decode", "prefill"),
    ],
)
def test_slow_tokens_are_slower_steps_or_prompts_between_them(
    input_tokens: float, tpot_s: float, cause: str, also: str | None
) -> None:
    """Prompts that take the share u of the engine's time stretch TPOT by 1/(1 - u); the rest of its growth is the steps'."""
    changes = {
        "gauges": FLAT,
        "missed": Missed(tpot=30),
        "tpot_s": Percentiles(mean=tpot_s, p95=tpot_s, n=200),
        "lengths": msgspec.structs.replace(PROMPT, input=input_tokens, input_asked=input_tokens),
    }
    found = explained(repeat(**changes))
    assert (found.cause, found.also, found.sure) == (cause, also, also is None)
    assert not any(says(each.text, "ttft_split", "ttft_not_split") for each in found.steps)


def test_an_idle_gpu_contradicts_a_bound_engine() -> None:
    slow = {"gauges": FLAT, "missed": Missed(tpot=30), "tpot_s": Percentiles(mean=0.06, n=200)}
    busy = explained(repeat(**slow, machine=MachineUse(gpus=1, gpu_frac=0.97, dram_frac=0.8)))
    assert busy.sure
    seen = figures(at(busy, "resources"), "machine_seen")
    assert (seen["gpu_frac"], seen["dram_frac"], seen["cpu_frac"]) == (0.97, 0.8, None)
    idle = explained(repeat(**slow, machine=MachineUse(gpus=1, gpu_frac=0.3)))
    assert (idle.cause, idle.sure) == ("decode", False)
    assert figures(idle.sentence, "gpu_hardly_busy") == {"busy_frac": 0.3}


def test_errors_come_first() -> None:
    found = explained(repeat(missed=Missed(ttft=5, failed=20), endings={"ok": 175, "http": 20}, errors=20))
    assert (found.cause, found.setting) == ("failures", None)
    assert figures(at(found, "workload"), "errors_seen") == {"endings": {"http": 20}, "said": None}
    assert found.sentence == fact("errors_bind", rate_rps=12.4, said=None)


def test_one_error_among_many_late_requests_of_a_warm_up_is_not_the_cause() -> None:
    """None of the window's requests has missed by then: what missed is that of the warm-up."""
    found = explained(repeat(missed=Missed(ttft=25, failed=1), misses=0))
    assert found.cause == "slots"
    assert explained(repeat(missed=Missed(ttft=5, failed=20), misses=0)).cause == "failures"


def test_errors_are_told_in_the_servers_words() -> None:
    said = {"errors_said": "HTTP 503: Overloaded"}
    found = explained(repeat(missed=Missed(ttft=5, failed=20), endings={"ok": 175, "http": 20}, errors=20, **said))
    assert found.sentence == fact("errors_bind", rate_rps=12.4, said="HTTP 503: Overloaded")
    looked = at(found, "workload")
    assert isinstance(looked, Fact)
    assert looked.of[0] == fact("errors_seen", endings={"http": 20}, said="HTTP 503: Overloaded")


def test_what_errors_have_in_common_is_in_the_conclusion_and_the_advice_names_what_to_look_for() -> None:
    alike = fact("failures_alike", errors=20, n=20, age_s=1.0, until_first=False)
    seen = {"endings": {"ok": 175, "http": 20}, "errors": 20, "failures_alike": alike}
    found = explained(repeat(missed=Missed(ttft=5, failed=20), **seen))
    assert found.sentence == fact("errors_bind", alike, rate_rps=12.4, said=None)
    assert found.advice == fact("common_cause", errors=20, n=20, age_s=1.0, until_first=False)
    assert says(found.sentence, "failures_alike")
    assert not says(at(found, "workload"), "failures_alike"), "once is enough"
    few = explained(repeat(missed=Missed(ttft=40, failed=20), **seen))
    assert says(at(few, "workload"), "failures_alike")
    assert not says(few.sentence, "failures_alike")
    alone = explained(repeat(missed=Missed(ttft=5, failed=20), endings={"ok": 175, "http": 20}, errors=20))
    assert alone.advice == fact("errors_first")


def test_a_slow_answer_is_where_it_grew() -> None:
    def of(stages: Stages) -> str:
        missed = Missed(e2e=30)
        return explained(repeat(stages=stages, missed=missed, tpot_s=Percentiles(mean=0.06, n=200))).cause

    assert of(Stages(finished=9, queue_s=2.0, prefill_s=0.06, decode_s=0.6)) == "slots"
    assert of(Stages(finished=9, queue_s=0.01, prefill_s=0.06, decode_s=4.0)) == "decode"


def test_without_a_passing_rate_a_slow_answer_grew_from_the_idle_server() -> None:
    stages = Stages(finished=9, queue_s=0.50, prefill_s=0.06, decode_s=0.6)  # idle: 0.39 s of decoding
    failing = repeat(stages=stages, missed=Missed(e2e=30), tpot_s=Percentiles(mean=0.015, n=200))
    found = diagnose(SLO, ANSWER, [step(12.4, "fail", failing)], SERVER, IDLE)
    assert found is not None
    assert found.cause == "slots"


# --- what spoilt a run ------------------------------------------------------------------------------------------------


def void(reason: Said | None = "why it does not count", **changes: object) -> RepeatResult:
    assert reason is not None
    return msgspec.structs.replace(repeat(**changes), verdict="void", reason=reason)


def test_a_late_client_is_named_and_nothing_of_the_server() -> None:
    late = Percentiles(p50=0.2, p95=0.3, p99=0.3, mean=0.2, max=0.4, n=200)
    found = explained(void(validity.late(late, SLO.ttft_s), lateness_s=late))
    assert (found.cause, found.sure, found.setting) == ("client", True, None)
    assert found.sentence == fact("not_measured", rate_rps=12.4, cause="client")
    assert [each.verdict for each in found.steps if each.place != "client"] == ["clear"] * 4
    assert diagnosis_lines(found)[0] == "WHY   the client: late p99 300 ms, its loop stalled 4 ms at most"


def test_requests_that_were_not_sent_are_the_client_too() -> None:
    found = explained(void(validity.unsent(50), sent=150))
    assert found.cause == "client"
    assert figures(at(found, "client"), "not_sent") == {"requests": 50}


def test_turns_that_nobody_could_send_yet_are_not_held_against_the_client() -> None:
    found = explained(repeat(sent=150, endings={"ok": 140, "http": 10, "previous_failed": 30}, not_due=20))
    assert not [each for each in parts(at(found, "client")) if isinstance(each, Fact) and each.code == "not_sent"]


def test_turns_behind_a_request_that_failed_do_not_hide_that_requests_failed() -> None:
    endings = {"ok": 120, "http": 16, "previous_failed": 64}
    found = explained(repeat(sent=136, misses=80, errors=16, endings=endings, missed=Missed(failed=16, previous=64)))
    assert found.cause == "failures"


def test_turns_behind_a_request_that_a_gateway_turned_away_do_not_hide_the_gateway() -> None:
    use = GatewayUse(limit=8, wait_s=Percentiles(), held=20, rejected=16, timed_out=0, never_sent=16)
    endings = {"ok": 120, "rejected": 16, "previous_failed": 64}
    found = explained(repeat(sent=120, misses=80, endings=endings, missed=Missed(gateway=16, previous=64), gateway=use))
    assert found.cause == "gateway"


def test_warm_prompts_and_other_lengths_are_named() -> None:
    assert explained(void(validity.warm_prompts(0.3, []), prefix_hit_frac=0.3)).cause == "prefix"
    short = MeanLengths(input=100.0, input_asked=100.0, output=20.0, output_asked=40.0, finish_reasons={"stop": 200})
    found = explained(void(lengths=short))
    assert found.cause == "lengths"
    assert explained(void(lengths=msgspec.structs.replace(short, output=1.06 * short.output_asked))).cause == "lengths"
    assert explained(void(lengths=msgspec.structs.replace(short, output=1.04 * short.output_asked))).cause == "unknown"
    seen = figures(at(found, "workload"), "lengths_seen")
    assert (seen["output_tokens"], seen["output_asked_tokens"], seen["finish_reasons"]) == (20.0, 40.0, {"stop": 200})


def test_answers_that_may_stop_by_themselves_are_not_off_by_being_short() -> None:
    short = MeanLengths(
        input=100.0, input_asked=100.0, output=20.0, output_asked=40.0, finish_reasons={"stop": 200}, stop="natural"
    )
    found = explained(void(lengths=short))
    assert found.cause == "unknown"
    assert figures(at(found, "workload"), "lengths_seen")["natural"] is True
    assert explained(void(lengths=msgspec.structs.replace(short, output=50.0))).cause == "lengths"


def test_any_other_void_is_said_in_its_own_words() -> None:
    found = explained(void())
    assert (found.cause, found.sure) == ("unknown", False)
    assert found.sentence == fact("not_measured", "why it does not count", rate_rps=12.4, cause="unknown")


# --- figures that are missing -----------------------------------------------------------------------------------------


def test_without_metrics_a_late_first_token_has_no_address() -> None:
    blind = repeat(gauges=None, stages=None, preemptions=None, kv_usage_max=None, running_max=None, prefix_hit_frac=None)
    found = explained(blind)
    assert (found.cause, found.sure) == ("unknown", False)
    assert says(at(found, "queue"), "queue_not_shown")
    assert doubts(found) == ["late_token_unexplained"]


def test_without_metrics_slow_tokens_can_still_be_told_apart() -> None:
    blind = repeat(gauges=None, stages=None, missed=Missed(tpot=30), tpot_s=Percentiles(mean=0.06, n=200))
    assert explained(blind).cause == "decode"
    unknown_idle = explained(blind, idle=Idle())
    assert (unknown_idle.cause, unknown_idle.also, unknown_idle.sure) == ("decode", "prefill", False)


def test_without_kv_usage_memory_is_not_ruled_out() -> None:
    gauges = msgspec.structs.replace(QUEUED, kv_usage_mean=None, queued_kv_usage_mean=None)
    found = explained(repeat(gauges=gauges, kv_usage_max=None))
    assert (found.cause, found.also, found.sure) == ("slots", "kv", False)
    assert not any(says(each, "memory_free") for each in found.ruled_out)


def test_a_fail_in_the_ramp_alone_is_not_sure() -> None:
    found = explained(repeat(), phase="ramp")
    assert (found.cause, found.sure) == ("slots", False)
    assert doubts(found) == ["in_ramp_alone"]


def test_repeats_of_older_runs_have_none_of_the_figures() -> None:
    found = explained(msgspec.structs.replace(feed.repeat("fail"), misses=3))
    assert (found.cause, found.sure) == ("unknown", False)
    assert diagnosis_lines(found)


def test_where_nothing_failed_nothing_binds() -> None:
    found = diagnose(SLO, msgspec.structs.replace(ANSWER, outcome="at_least"), [HELD], SERVER, IDLE)
    assert found is not None
    assert (found.cause, found.sure, found.setting) == ("none", False, None)
    assert found.sentence == fact("none_failed", rate_rps=11.3)
    assert not any(each.verdict == "bound" for each in found.steps)
    assert diagnose(SLO, ANSWER, [], SERVER, IDLE) is None
    assert diagnosis_lines(None) == []


def test_engines_share_the_prompts() -> None:
    """Two engines behind one address have twice the time for them."""
    heavy = msgspec.structs.replace(PROMPT, input=600.0, input_asked=600.0)
    two = msgspec.structs.replace(SERVER, engines=2)
    found = explained(repeat(lengths=heavy, gauges=FLAT, missed=Missed(tpot=9)), server=two)
    assert found.steps[3].figures["prefill_load"] == pytest.approx(0.372)


# --- the server's own figures are never contradicted ----------------------------------------------------------------

LOOSE = msgspec.structs.replace(QUEUED, plateau=3)
HEAVY = msgspec.structs.replace(PROMPT, input=600.0, input_asked=600.0)


def test_short_prefill_times_of_the_server_come_before_what_its_idle_first_token_lets_expect() -> None:
    """An idle first token of 150 ms that is a transfer: 64 tokens at 2.3 ms each would fill the engine twice over."""
    stages = Stages(finished=200, queue_s=0.400, prefill_s=0.004, decode_s=0.6, ttft_s=0.412, tpot_s=0.015)
    short = msgspec.structs.replace(PROMPT, input=64.0, input_asked=64.0)
    found = explained(repeat(gauges=LOOSE, stages=stages, lengths=short), idle=Idle(tpot_s=0.01, prefill_token_s=0.0023))
    assert (found.cause, found.also, found.sure, found.setting) == ("unknown", None, False, None)
    assert figures(found.sentence, "nothing_full")["at_most_frac"] == pytest.approx(12.4 * 0.004)


def test_prompts_that_are_a_small_part_of_ttft_do_not_bind_though_they_might_fill_the_engine() -> None:
    stages = Stages(finished=200, queue_s=4.85, prefill_s=0.1, decode_s=0.6, ttft_s=5.0, tpot_s=0.015)
    found = explained(repeat(gauges=LOOSE, stages=stages, lengths=HEAVY))
    assert (found.cause, found.also, found.sure, found.setting) == ("unknown", None, False, None)
    assert figures(found.sentence, "prefill_hardly_seen") == {"prefill_frac": pytest.approx(0.02)}


def test_short_prefill_times_count_also_where_no_late_request_had_ended() -> None:
    before = Stages(finished=5, queue_s=0.008, prefill_s=0.004, decode_s=0.6, ttft_s=0.024, tpot_s=0.015)
    found = explained(repeat(curtailed=True, stages=before, gauges=LOOSE, lengths=HEAVY))
    assert (found.cause, found.sure) == ("unknown", False)


@pytest.mark.parametrize(
    ("deferred", "cause", "also", "sure"),
    [
        (6.0, "deferred", None, True),
        (4.2, "deferred", None, True),
        (3.2, "deferred", "slots", False),
        (2.4, "slots", "deferred", False),
        (1.2, "slots", None, True),
    ],
)
def test_requests_that_wait_for_a_transfer_do_not_wait_for_the_scheduler(
    deferred: float, cause: str, also: str | None, sure: bool
) -> None:
    """Of 6 that wait, beside a plateau of the running ones."""
    gauges = msgspec.structs.replace(QUEUED, waiting_deferred_mean=deferred)
    found = explained(repeat(gauges=gauges))
    assert (found.cause, found.also, found.sure) == (cause, also, sure)
    assert found.setting == (None if cause == "deferred" else "--max-num-seqs")
    assert figures(at(found, "queue"), "deferred_seen") == {"mean": deferred}


def test_a_queue_for_transfers_beside_cheap_prompts_is_named_for_sure() -> None:
    """Without a plateau, a long prompt of the idle server's would have been blamed."""
    gauges = msgspec.structs.replace(LOOSE, waiting_deferred_mean=5.9)
    found = explained(repeat(gauges=gauges, lengths=HEAVY))
    assert (found.cause, found.sure, found.setting) == ("deferred", True, None)
    assert found.sentence == fact("deferred_binds", rate_rps=12.4, deferred_frac=5.9 / 6)
    assert found.advice == fact("kv_transfer")
    few = explained(repeat(gauges=msgspec.structs.replace(gauges, readings=12, queued=4)))
    assert (few.cause, few.sure, doubts(few)) == ("deferred", False, ["few_queued_readings"])


def test_sequences_that_gave_way_are_counted_where_a_full_cache_and_a_plateau_fit() -> None:
    full = msgspec.structs.replace(QUEUED, queued_kv_usage_mean=0.97)
    found = explained(repeat(gauges=full, kv_usage_max=1.0, preemptions=1.0))
    assert (found.cause, found.also) == ("kv", "slots")
    assert figures(found.sentence, "places_full_too") == {"sequences": 16, "preemptions": 1.0}
    unknown = explained(repeat(gauges=full, kv_usage_max=1.0, preemptions=None))
    assert figures(unknown.sentence, "places_full_too") == {"sequences": 16, "preemptions": None}


def test_a_preemption_speaks_against_places_alone() -> None:
    found = explained(repeat(preemptions=1.0))
    assert (found.cause, found.sure, doubts(found)) == ("slots", False, ["gave_way"])
    assert figures(found.sentence, "binds")["memory_free"] is False
    assert not any(says(each, "memory_free") for each in found.ruled_out)


def test_preemptions_beside_a_cache_that_was_never_seen_full_are_not_sure() -> None:
    found = explained(repeat(preemptions=12.0, kv_usage_max=0.41))
    assert (found.cause, found.sure, doubts(found)) == ("kv", False, ["kv_never_full"])


def test_tokens_that_the_engine_made_in_time_are_slow_outside_of_it() -> None:
    """Decode time 0.59 s for 39 tokens is 15 ms each; we saw 60 ms."""
    stages = Stages(finished=200, queue_s=0.004, prefill_s=0.08, decode_s=0.59, ttft_s=0.1, tpot_s=0.06)
    slow = Percentiles(mean=0.06, p95=0.07, n=200)
    found = explained(repeat(gauges=FLAT, missed=Missed(tpot=30), tpot_s=slow, stages=stages))
    assert (found.cause, found.sure, found.setting) == ("frontend", True, "--api-server-count")


def test_time_outside_the_engine_is_not_sure_beside_a_queue_that_would_explain_it() -> None:
    stages = Stages(finished=200, queue_s=0.01, prefill_s=0.05, decode_s=0.5, ttft_s=0.4, tpot_s=0.015)
    found = explained(repeat(stages=stages))  # 6 waiting at 12.4 a second: half a second each
    assert (found.cause, found.sure, doubts(found)) == ("frontend", False, ["waits_in_server"])


def test_a_kv_usage_that_is_not_known_is_not_said_to_be_free() -> None:
    gauges = msgspec.structs.replace(LOOSE, kv_usage_mean=None, queued_kv_usage_mean=None)
    found = explained(repeat(gauges=gauges, kv_usage_max=None))
    assert figures(found.sentence, "nothing_full")["kv_known"] is False


# --- a sum hides its parts ------------------------------------------------------------------------------------------


def engine(name: str, running: float, waiting: float = 0.0, kv: float | None = None) -> EngineUse:
    return EngineUse(name=name, running_mean=running, waiting_mean=waiting, kv_usage_mean=kv)


FOUR = msgspec.structs.replace(SERVER, engines=4)
SPLIT = msgspec.structs.replace(
    QUEUED,
    running_mean=11.1,
    queued_running_mean=11.2,
    plateau=4,
    engines=(engine("0", 7.9, 6.0, 0.34), engine("1", 1.1, 0.0, 0.05), engine("2", 1.0, 0.0, 0.05), engine("3", 1.1, 0.0, 0.05)),
)


@pytest.mark.parametrize("kv", [0.34, 0.99])
def test_one_full_engine_among_idle_ones_is_an_uneven_split(kv: float) -> None:
    """Whether its KV cache is full too or not: neither more of that nor more places is what the whole lacks."""
    gauges = msgspec.structs.replace(SPLIT, kv_usage_mean=kv, queued_kv_usage_mean=kv)
    found = explained(repeat(gauges=gauges, running_max=14.0, kv_usage_max=kv, lengths=HEAVY), server=FOUR)
    assert (found.cause, found.also, found.sure, found.setting) == ("uneven", None, True, None)
    assert found.sentence == fact(
        "uneven_binds",
        rate_rps=12.4,
        engines=4,
        busiest="0",
        running_mean=7.9,
        waiting_mean=6.0,
        idle=3,
        idle_running_mean=sum((1.1, 1.0, 1.1)) / 3,
    )
    assert figures(at(found, "resources"), "engines_seen") == {
        "running_mean": [7.9, 1.1, 1.0, 1.1],
        "waiting_mean": [6.0, 0.0, 0.0, 0.0],
    }


def test_slow_tokens_of_one_engine_are_an_uneven_split() -> None:
    """None waits, but one steps with 30 sequences and the other with 6."""
    gauges = msgspec.structs.replace(FLAT, engines=(engine("a", 6.0), engine("b", 30.0)))
    found = explained(
        repeat(gauges=gauges, missed=Missed(tpot=30), tpot_s=Percentiles(mean=0.06, p95=0.06, n=200)),
        server=msgspec.structs.replace(SERVER, engines=2),
    )
    assert (found.cause, found.sure) == ("uneven", True)
    assert figures(found.sentence, "uneven_binds")["busiest"] == "b"


def test_where_most_engines_are_full_what_they_are_full_of_is_named_too() -> None:
    """Seven of eight at their places: an even split alone gives an eighth more."""
    rows = (*(engine(str(n), 8.0, 3.0) for n in range(7)), engine("7", 0.0))
    gauges = msgspec.structs.replace(QUEUED, running_mean=56.0, queued_running_mean=56.0, engines=rows)
    found = explained(repeat(gauges=gauges, running_max=56.0), server=msgspec.structs.replace(SERVER, engines=8))
    assert (found.cause, found.also, found.sure) == ("uneven", "slots", False)


def test_a_full_cache_of_one_engine_beside_free_ones_is_an_uneven_split() -> None:
    """Long prompts at one engine: it runs as many sequences as the others, and has no memory left for more."""
    rows = (engine("0", 5.0, 4.0, 0.99), engine("1", 5.0, 0.0, 0.2))
    gauges = msgspec.structs.replace(LOOSE, running_mean=10.0, queued_running_mean=10.0, queued_kv_usage_mean=0.99, engines=rows)
    found = explained(repeat(gauges=gauges, kv_usage_max=1.0), server=msgspec.structs.replace(SERVER, engines=2))
    assert (found.cause, found.sure) == ("uneven", True)


def test_engines_that_are_all_full_are_short_of_places_each() -> None:
    """The option counts the sequences of one engine."""
    rows = tuple(engine(str(n), 3.9, 1.5, 0.3) for n in range(4))
    found = explained(repeat(gauges=msgspec.structs.replace(QUEUED, engines=rows)), server=FOUR)
    assert (found.cause, found.sure) == ("slots", True)
    advice = figures(found.advice, "more_sequences")
    assert (advice["sequences"], advice["engines"]) == (4.0, 4)


def test_a_cache_is_full_by_the_prompts_share_of_one_engines() -> None:
    """Four caches of 25 000 tokens have no room for a prompt of 5000 from 78 % on, not from 93 %."""
    long = msgspec.structs.replace(PROMPT, input=5000.0, input_asked=5000.0)
    rows = tuple(engine(str(n), 4.0, 1.5, 0.85) for n in range(4))
    gauges = msgspec.structs.replace(LOOSE, kv_usage_mean=0.85, queued_kv_usage_mean=0.85, engines=rows)
    found = explained(repeat(gauges=gauges, lengths=long, kv_usage_max=0.9), server=FOUR)
    assert (found.cause, found.sure) == ("kv", True)


def test_a_few_readings_of_an_uneven_split_are_not_sure() -> None:
    gauges = msgspec.structs.replace(SPLIT, readings=5, queued=4)
    found = explained(repeat(gauges=gauges, running_max=14.0), server=FOUR)
    assert (found.cause, found.sure, doubts(found)) == ("uneven", False, ["few_readings"])


# --- a cause and the figures beside it -------------------------------------------------------------------------------

FULL = msgspec.structs.replace(LOOSE, kv_usage_mean=0.65, queued_kv_usage_mean=0.97)
LIGHT = msgspec.structs.replace(PROMPT, input=4.0, input_asked=4.0)
SLOW_TOKENS = Percentiles(mean=0.06, p95=0.07, n=200)
TOKENS_LATE = {"gauges": FLAT, "missed": Missed(tpot=30)}
BY_ENGINE = Stages(finished=200, queue_s=0.004, prefill_s=0.08, decode_s=2.3, ttft_s=0.1, tpot_s=0.06)


@pytest.mark.parametrize(
    ("seen", "cause", "sure", "doubt"),
    [
        ({"gauges": FULL, "kv_usage_max": 0.99}, "kv", True, None),
        ({"gauges": FULL, "kv_usage_max": 0.65}, "unknown", False, "nothing_full"),  # no reading was as full as their mean
        ({"gauges": FULL, "kv_usage_max": 0.65, "preemptions": 9.0}, "kv", False, "kv_never_full"),
        ({"gauges": QUEUED}, "slots", True, None),
        ({"gauges": QUEUED, "running_max": 12.0}, "unknown", False, "few_queued_readings"),  # another repeat of the run had 15
        ({**TOKENS_LATE, "tpot_s": SLOW_TOKENS, "stages": BY_ENGINE}, "decode", True, None),
        ({**TOKENS_LATE, "tpot_s": Percentiles(mean=0.0104, p95=0.06, n=200), "stages": None}, "unknown", False, "tpot_not_grown"),
        ({**TOKENS_LATE, "tpot_s": Percentiles(mean=0.0111, p95=0.06, n=200), "lengths": LIGHT}, "decode", True, None),
    ],
)
def test_a_cause_goes_with_the_figures_beside_it(seen: dict[str, object], cause: str, sure: bool, doubt: str | None) -> None:
    found = explained(repeat(**seen))
    assert (found.cause, found.sure) == (cause, sure)
    assert doubt is None or doubt in doubts(found)


def test_the_usage_that_decides_stands_beside_the_mean_that_looks_free() -> None:
    seen = figures(at(explained(repeat(gauges=FULL, kv_usage_max=0.99)), "resources"), "kv_seen")
    assert (seen["mean_frac"], seen["queued_frac"], seen["max_frac"]) == (0.65, 0.97, 0.99)
    assert seen["full_frac"] == pytest.approx(0.95)
    free = figures(at(explained(repeat()), "resources"), "kv_seen")
    assert free["full_frac"] is None


SHARE = st.floats(0, 1)
SECONDS = st.none() | st.floats(0, 3)


@st.composite
def any_repeat(draw: st.DrawFn) -> RepeatResult:
    """Figures that need not go together, as those of a server's metrics need not."""
    readings = draw(st.integers(1, 60))
    queued = draw(st.integers(0, readings))
    known = st.none() | SHARE
    stages = Stages(
        finished=9,
        queue_s=draw(SECONDS),
        prefill_s=draw(SECONDS),
        decode_s=draw(SECONDS),
        ttft_s=draw(SECONDS),
        tpot_s=draw(SECONDS),
    )
    gauges = Gauges(
        readings=readings,
        waiting_mean=draw(st.floats(0, 40)),
        running_mean=draw(st.floats(0, 40)),
        kv_usage_mean=draw(known),
        queued=queued,
        queued_running_mean=draw(st.none() | st.floats(0, 40)),
        queued_kv_usage_mean=draw(known),
        plateau=draw(st.integers(0, queued)),
        waiting_deferred_mean=draw(st.none() | st.floats(0, 40)),
    )
    mean_s = draw(SECONDS)
    return repeat(
        gauges=draw(st.sampled_from([gauges, gauges, gauges, None])),
        stages=draw(st.sampled_from([stages, stages, None])),
        kv_usage_max=draw(known),
        preemptions=draw(st.none() | st.integers(0, 9).map(float)),
        running_max=draw(st.none() | st.floats(0, 40)),
        lengths=msgspec.structs.replace(PROMPT, input=draw(st.sampled_from([4.0, 100.0, 600.0, 5000.0]))),
        missed=Missed(ttft=draw(st.integers(0, 9)), tpot=draw(st.integers(0, 9)), e2e=draw(st.integers(0, 9))),
        tpot_s=Percentiles(mean=mean_s, p95=mean_s, n=200),
    )


@settings(max_examples=300, deadline=None)
@given(any_repeat())
def test_no_cause_is_concluded_beside_a_figure_that_says_the_opposite(failing: RepeatResult) -> None:
    found = explained(failing)
    named, figures_of = {found.cause, found.also}, found.steps[4].figures
    load, growth = found.steps[3].figures["prefill_load"], found.steps[3].figures["tpot_growth"]
    highest, running = failing.kv_usage_max, failing.running_max
    if "kv" in named and highest is not None and not failing.preemptions:
        assert highest >= KV_FULL_FRAC[0]
    if "slots" in named:
        limit = figures_of["plateau"]
        assert isinstance(limit, (int, float))
        assert running is None or running >= AT_PLATEAU * limit - 0.5, "the limit is a whole number"
    if "prefill" in named and isinstance(load, float):
        assert load >= LIGHT_PROMPTS
    if "decode" in named and isinstance(growth, float):
        assert growth >= GROWN
    if found.cause == "deferred":
        assert failing.gauges is not None
        assert failing.gauges.waiting_deferred_mean
