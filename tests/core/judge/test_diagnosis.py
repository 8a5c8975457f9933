"""One failing repeat with given figures -> the cause that they fit, and no more than they say."""

import msgspec
import pytest

from core import prose
from core.config import Slo
from core.facts import Said
from core.judge import validity
from core.judge.diagnosis.diagnosis import diagnose, diagnosis_lines
from core.records import Phase, ServerInfo
from core.results import (
    Answer,
    Diagnosis,
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
    found = diagnose(SLO, outcome, [HELD, step(rate_rps, verdict, failing, phase)], server, idle, prose.text)
    assert found is not None
    return found


def test_what_was_set_aside_is_not_looked_at() -> None:
    gone = msgspec.structs.replace(step(9.0, "void", repeat(verdict="void", running_max=64.0)), set_aside=True)
    alone, beside = [HELD, step(12.4, "fail", repeat())], [gone, HELD, step(12.4, "fail", repeat())]
    assert diagnose(SLO, ANSWER, beside, SERVER, IDLE, prose.text) == diagnose(SLO, ANSWER, alone, SERVER, IDLE, prose.text)
    void = msgspec.structs.replace(ANSWER, outcome="void")
    assert diagnose(SLO, void, [gone], SERVER, IDLE, prose.text) is None


def test_a_plateau_of_running_sequences_beside_a_queue_is_the_number_of_sequences() -> None:
    found = explained(repeat())
    assert (found.cause, found.also, found.sure, found.setting) == ("slots", None, True, "--max-num-seqs")
    assert found.at_rps == 12.4
    assert found.advice == "Try --max-num-seqs above 16: TPOT has room for more (p95 20 ms of 50 ms)."
    assert [each.place for each in found.steps] == ["client", "workload", "queue", "stages", "resources"]
    lines = diagnosis_lines(found)
    assert lines[0].startswith(
        "WHY   waiting requests 0.02 -> 6 on average from 11.3 to 12.4 requests/s, queue time 4 ms -> 400 ms; "
    )
    assert "80 % queue, 16 % prefill, 4 % outside the engine" in lines[0]
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
    found = diagnose(SLO, ANSWER, [HELD, step(12.4, "fail", repeat()), higher], SERVER, IDLE, prose.text)
    assert found is not None
    assert found.cause != "slots"
    assert found.at_rps == 12.4  # the lowest failing rate is the one to look at


def test_tpot_near_its_limit_is_said_with_more_sequences() -> None:
    found = explained(repeat(tpot_s=Percentiles(p95=0.045, mean=0.03, n=200)))
    assert (found.cause, found.also, found.sure) == ("slots", "decode", False)
    assert found.advice is not None
    assert "hardly any room" in found.advice


def test_a_full_cache_with_preemptions_is_memory() -> None:
    full = msgspec.structs.replace(QUEUED, queued_kv_usage_mean=0.97)
    found = explained(repeat(gauges=full, kv_usage_max=1.0, preemptions=12.0))
    assert (found.cause, found.sure, found.setting) == ("kv", True, "--gpu-memory-utilization")
    assert "no preemptions" not in " ".join(diagnosis_lines(found))
    assert not any(text.startswith("memory") for text in found.ruled_out)
    override = msgspec.structs.replace(SERVER, config={"num_gpu_blocks_override": "24"})
    assert explained(repeat(gauges=full, preemptions=12.0), server=override).setting == "--num-gpu-blocks-override"


def test_a_full_cache_and_a_plateau_without_preemptions_fit_both() -> None:
    full = msgspec.structs.replace(QUEUED, queued_kv_usage_mean=0.97)
    found = explained(repeat(gauges=full))
    assert (found.cause, found.also, found.sure) == ("kv", "slots", False)
    assert "two causes fit" in found.sentence


def test_a_few_preemptions_in_a_thousand_requests_are_not_the_cause() -> None:
    assert explained(repeat(preemptions=1.0, sent=1000)).cause == "slots"


def test_a_queue_with_free_places_and_memory_is_prefill_if_prompts_fill_the_engine() -> None:
    loose = msgspec.structs.replace(QUEUED, plateau=3)
    heavy = msgspec.structs.replace(PROMPT, input=600.0, input_asked=600.0)
    found = explained(repeat(gauges=loose, lengths=heavy))
    assert (found.cause, found.sure, found.setting) == ("prefill", True, "--max-num-batched-tokens")
    assert "prompts take up to 74 % of the engine's time" in " ".join(diagnosis_lines(found))  # 12.4/s * 600 tokens * 0.1 ms
    light = explained(repeat(gauges=loose))
    assert (light.cause, light.also, light.sure) == ("unknown", "prefill", False)
    assert "not certain" in light.sentence


def test_late_requests_that_had_not_ended_are_in_no_histogram_but_in_the_gauges() -> None:
    """A repeat cut short within seconds: the server's means are those of the requests before."""
    before = Stages(finished=5, queue_s=0.008, prefill_s=0.016, decode_s=0.6, ttft_s=0.024, tpot_s=0.015)
    found = explained(repeat(curtailed=True, stages=before))
    assert (found.cause, found.sure) == ("slots", True)
    assert "30 requests past their TTFT limit had not ended" in " ".join(diagnosis_lines(found))
    assert "queue time" not in diagnosis_lines(found)[0]
    few = msgspec.structs.replace(QUEUED, readings=6, queued=3, plateau=2)
    hardly = explained(repeat(curtailed=True, stages=before, gauges=few))
    assert (hardly.cause, hardly.sure) == ("slots", False)
    assert "requests waited in only 3 readings" in hardly.sentence
    few = msgspec.structs.replace(few, plateau=1)
    short = explained(repeat(curtailed=True, stages=before, gauges=few))
    assert (short.cause, short.sure) == ("unknown", False)
    assert "requests waited in only 3 readings, too few to say for what" in short.sentence


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
    assert not any("TTFT" in each.text for each in found.steps)


def test_an_idle_gpu_contradicts_a_bound_engine() -> None:
    slow = {"gauges": FLAT, "missed": Missed(tpot=30), "tpot_s": Percentiles(mean=0.06, n=200)}
    busy = explained(repeat(**slow, machine=MachineUse(gpus=1, gpu_frac=0.97, dram_frac=0.8)))
    assert busy.sure
    assert "GPU busy 97 %, its memory bandwidth 80 %" in busy.steps[-1].text
    idle = explained(repeat(**slow, machine=MachineUse(gpus=1, gpu_frac=0.3)))
    assert (idle.cause, idle.sure) == ("decode", False)
    assert "the GPU was busy only 30 % of the time" in idle.sentence


def test_errors_come_first() -> None:
    found = explained(repeat(missed=Missed(ttft=5, failed=20), endings={"ok": 175, "http": 20}, errors=20))
    assert (found.cause, found.setting) == ("failures", None)
    assert "errors: http 20" in " ".join(diagnosis_lines(found))
    assert found.sentence == "At 12.4 requests/s most of what missed ended in errors, which is no limit of latency"


def test_one_error_among_many_late_requests_of_a_warm_up_is_not_the_cause() -> None:
    """None of the window's requests has missed by then: what missed is that of the warm-up."""
    found = explained(repeat(missed=Missed(ttft=25, failed=1), misses=0))
    assert found.cause == "slots"
    assert explained(repeat(missed=Missed(ttft=5, failed=20), misses=0)).cause == "failures"


def test_errors_are_told_in_the_servers_words() -> None:
    said = {"errors_said": "HTTP 503: Overloaded"}
    found = explained(repeat(missed=Missed(ttft=5, failed=20), endings={"ok": 175, "http": 20}, errors=20, **said))
    assert "ended in errors (HTTP 503: Overloaded)" in found.sentence
    assert diagnosis_lines(found)[0].startswith("WHY   the prompts: errors: http 20 (HTTP 503: Overloaded), ")


def test_a_slow_answer_is_where_it_grew() -> None:
    def of(stages: Stages) -> str:
        missed = Missed(e2e=30)
        return explained(repeat(stages=stages, missed=missed, tpot_s=Percentiles(mean=0.06, n=200))).cause

    assert of(Stages(finished=9, queue_s=2.0, prefill_s=0.06, decode_s=0.6)) == "slots"
    assert of(Stages(finished=9, queue_s=0.01, prefill_s=0.06, decode_s=4.0)) == "decode"


def test_without_a_passing_rate_a_slow_answer_grew_from_the_idle_server() -> None:
    stages = Stages(finished=9, queue_s=0.50, prefill_s=0.06, decode_s=0.6)  # idle: 0.39 s of decoding
    failing = repeat(stages=stages, missed=Missed(e2e=30), tpot_s=Percentiles(mean=0.015, n=200))
    found = diagnose(SLO, ANSWER, [step(12.4, "fail", failing)], SERVER, IDLE, prose.text)
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
    assert "what binds the replica was not seen" in found.sentence
    assert [each.verdict for each in found.steps if each.place != "client"] == ["clear"] * 4
    assert diagnosis_lines(found)[0] == "WHY   the client: late p99 300 ms, its loop stalled 4 ms at most"


def test_requests_that_were_not_sent_are_the_client_too() -> None:
    found = explained(void(validity.unsent(50), sent=150))
    assert found.cause == "client"
    assert "50 planned requests not sent" in diagnosis_lines(found)[0]


def test_warm_prompts_and_other_lengths_are_named() -> None:
    assert explained(void(validity.warm_prompts(0.3, []), prefix_hit_frac=0.3)).cause == "prefix"
    short = MeanLengths(input=100.0, input_asked=100.0, output=20.0, output_asked=40.0, finish_reasons={"stop": 200})
    found = explained(void(lengths=short))
    assert found.cause == "lengths"
    assert explained(void(lengths=msgspec.structs.replace(short, output=1.06 * short.output_asked))).cause == "lengths"
    assert explained(void(lengths=msgspec.structs.replace(short, output=1.04 * short.output_asked))).cause == "unknown"
    assert "100/20 tokens where 100/40 were asked for (ended by stop 200)" in diagnosis_lines(found)[0]


def test_any_other_void_is_said_in_its_own_words() -> None:
    found = explained(void())
    assert (found.cause, found.sure) == ("unknown", False)
    assert "why it does not count" in found.sentence


# --- figures that are missing -----------------------------------------------------------------------------------------


def test_without_metrics_a_late_first_token_has_no_address() -> None:
    blind = repeat(gauges=None, stages=None, preemptions=None, kv_usage_max=None, running_max=None, prefix_hit_frac=None)
    found = explained(blind)
    assert (found.cause, found.sure) == ("unknown", False)
    lines = diagnosis_lines(found)
    assert any(line.startswith("OPEN  ") and "shows no running and waiting requests" in line for line in lines)
    assert not any("slots" in line for line in lines)


def test_without_metrics_slow_tokens_can_still_be_told_apart() -> None:
    blind = repeat(gauges=None, stages=None, missed=Missed(tpot=30), tpot_s=Percentiles(mean=0.06, n=200))
    assert explained(blind).cause == "decode"
    unknown_idle = explained(blind, idle=Idle())
    assert (unknown_idle.cause, unknown_idle.also, unknown_idle.sure) == ("decode", "prefill", False)


def test_without_kv_usage_memory_is_not_ruled_out() -> None:
    gauges = msgspec.structs.replace(QUEUED, kv_usage_mean=None, queued_kv_usage_mean=None)
    found = explained(repeat(gauges=gauges, kv_usage_max=None))
    assert (found.cause, found.also, found.sure) == ("slots", "kv", False)
    assert not any("memory" in text for text in found.ruled_out)


def test_a_fail_in_the_ramp_alone_is_not_sure() -> None:
    found = explained(repeat(), phase="ramp")
    assert (found.cause, found.sure) == ("slots", False)
    assert "seen in the ramp alone" in found.sentence


def test_repeats_of_older_runs_have_none_of_the_figures() -> None:
    found = explained(msgspec.structs.replace(feed.repeat("fail"), misses=3))
    assert (found.cause, found.sure) == ("unknown", False)
    assert diagnosis_lines(found)


def test_where_nothing_failed_nothing_binds() -> None:
    found = diagnose(SLO, msgspec.structs.replace(ANSWER, outcome="at_least"), [HELD], SERVER, IDLE, prose.text)
    assert found is not None
    assert (found.cause, found.sure, found.setting) == ("none", False, None)
    assert not any(line.startswith("WHY   waiting") for line in diagnosis_lines(found))
    assert diagnose(SLO, ANSWER, [], SERVER, IDLE, prose.text) is None
    assert diagnosis_lines(None) == []


def test_engines_share_the_prompts() -> None:
    """Two engines behind one address have twice the time for them."""
    heavy = msgspec.structs.replace(PROMPT, input=600.0, input_asked=600.0)
    two = msgspec.structs.replace(SERVER, engines=2)
    found = explained(repeat(lengths=heavy, gauges=FLAT, missed=Missed(tpot=9)), server=two)
    assert found.steps[3].figures["prefill_load"] == pytest.approx(0.372)
