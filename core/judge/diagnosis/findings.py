"""The five places to look at when a rate fails, in their order: client, workload, queue, stages, resources. Pure.

Each gives its figures, one sentence and how it stands; which of them was the cause is `core.judge.diagnosis.causes`' to say.
"""

from collections.abc import Sequence

from core.facts import says
from core.judge import validity
from core.judge.diagnosis.comparison import Case
from core.results import DiagnosisStep, Figures, Finding, RepeatResult
from core.slo import MAX_OUTPUT_FRAC, MAX_PROMPT_OFF_FRAC, MIN_OUTPUT_FRAC
from core.units import classes, count, duration, plain, rate_number


def look(case: Case) -> tuple[DiagnosisStep, ...]:
    """All five."""
    return (client(case), workload(case), queue(case), stages(case), resources(case))


def client(case: Case) -> DiagnosisStep:
    """Did it really offer the rate? Lateness, stalls of its loop, processor, requests that it could not send."""
    r = case.failing
    late = validity.lateness_status(r.lateness_s, case.slo.ttft_s)
    unsent = 0 if r.curtailed else r.planned - r.sent
    own = r.endings.get("client", 0)
    stalls = f"its loop stalled {duration(r.loop_lag_max_s)} at most" if r.loop_lag_max_s is not None else None
    words = [
        f"late p99 {duration(r.lateness_s.p99)}" if r.lateness_s.p99 is not None else "lateness not known",
        stalls,
        f"{own} requests failed on its own side" if own else None,
        f"{unsent} planned requests not sent" if unsent > 0 else None,
        f"{100 * r.client_cpu_frac:.0f} % of a core" if r.client_cpu_frac is not None else None,
    ]
    if client_bound(case):
        finding: Finding = "bound"
    elif r.lateness_s.p99 is None:
        finding = "unknown"
    else:
        finding = "open" if late == "warn" else "clear"
    figures: Figures = {
        "offered_rps": r.offered_rps,
        "lateness_p99_s": r.lateness_s.p99,
        "lateness_max_s": r.lateness_s.max,
        "loop_lag_max_s": r.loop_lag_max_s,
        "cpu_frac": r.client_cpu_frac,
        "unsent": unsent,
    }
    return DiagnosisStep(place="client", verdict=finding, text=f"the client: {_joined(words)}", figures=figures)


def client_bound(case: Case) -> bool:
    """Whether a repeat was void for the client's own sake."""
    return case.failing.verdict == "void" and says(case.failing.reason, *validity.CLIENT)


def prefix_warm(case: Case) -> bool:
    """Whether a repeat was void because its prompts were found in the prefix cache."""
    return case.failing.verdict == "void" and says(case.failing.reason, "warm_prompts")


def lengths_off(case: Case) -> bool:
    """Whether a repeat was void because prompts or answers were not as long as asked."""
    seen = case.failing.lengths
    if case.failing.verdict != "void" or seen is None:
        return False
    share = seen.output / seen.output_asked
    off = not MIN_OUTPUT_FRAC <= share <= MAX_OUTPUT_FRAC
    return off or (seen.input is not None and abs(seen.input - seen.input_asked) > MAX_PROMPT_OFF_FRAC * seen.input_asked)


def workload(case: Case) -> DiagnosisStep:
    """Was it the work that was asked for? Lengths, stop reasons, prefix hits, failures."""
    r, seen = case.failing, case.failing.lengths
    errors = {name: n for name, n in r.endings.items() if name not in ("ok", "aborted")}
    failed = f"errors: {classes(errors)}{f' ({r.errors_said})' if r.errors_said else ''}" if errors else "no errors"
    hits = "prefix hits not known" if r.prefix_hit_frac is None else f"{100 * r.prefix_hit_frac:.2g} % prefix hits"
    words = [failed, hits, _lengths_text(r)] if case.mostly_failed else [hits, _lengths_text(r), failed]
    finding: Finding = "clear"
    if prefix_warm(case) or lengths_off(case) or case.mostly_failed:
        finding = "bound"
    elif r.prefix_hit_frac is None or seen is None:
        finding = "unknown"
    figures: Figures = {
        "prefix_hit_frac": r.prefix_hit_frac,
        "input_tokens": seen.input if seen else None,
        "input_asked": seen.input_asked if seen else None,
        "output_tokens": seen.output if seen else None,
        "output_asked": seen.output_asked if seen else None,
        "finish_reasons": classes(seen.finish_reasons) if seen else None,
        "errors": r.errors,
    }
    return DiagnosisStep(place="workload", verdict=finding, text=f"the prompts: {_joined(words)}", figures=figures)


def _lengths_text(r: RepeatResult) -> str:
    seen = r.lengths
    if seen is None:
        return "no answer ended well"
    prompt = seen.input_asked if seen.input is None else seen.input
    as_asked = abs(prompt - seen.input_asked) < 0.5 and abs(seen.output - seen.output_asked) < 0.5
    asked = "as asked" if as_asked else f"where {seen.input_asked:.4g}/{seen.output_asked:.4g} were asked for"
    other = {name: n for name, n in seen.finish_reasons.items() if name != "length"}
    return f"{prompt:.4g}/{seen.output:.4g} tokens {asked}" + (f" (ended by {classes(other)})" if other else "")


def queue(case: Case) -> DiagnosisStep:
    """Do requests wait in the server, and for how long, against the rate that held?"""
    r, before = case.failing, case.passing
    now, then = r.gauges, before.gauges if before else None
    queue_s = r.stages.queue_s if r.stages else None
    before_s = before.stages.queue_s if before and before.stages else None
    figures: Figures = {
        "waiting_mean": now.waiting_mean if now else None,
        "waiting_mean_before": then.waiting_mean if then else None,
        "waiting_max": r.waiting_max,
        "queue_s": queue_s,
        "queue_s_before": before_s,
        "trend": r.queue,
    }
    if now is None:
        text = "the queue: the server shows no running and waiting requests"
        return DiagnosisStep(place="queue", verdict="unknown", text=text, figures=figures)
    waiting = _from_to(then.waiting_mean if then else None, now.waiting_mean, "{:.2g}")
    took = f"queue time {_times(before_s, queue_s)}" if queue_s is not None else "queue time not known"
    if case.late_unfinished:
        took = ""
    words = [f"waiting requests {waiting} on average{_between(case)}", took]
    verdict: Finding = "bound" if case.queued else "clear"
    return DiagnosisStep(place="queue", verdict=verdict, text=_joined(words), figures=figures)


def stages(case: Case) -> DiagnosisStep:
    """What TTFT and TPOT are made of: queue, prefill and what lies outside the engine; steps and the prompts between them."""
    r, before = case.failing, case.passing
    parts, load, growth = case.ttft_parts, case.prefill_load, case.tpot_growth
    late = case.limits_missed
    words: list[str | None] = [_ttft_text(case)] if late != ("tpot",) else []
    if case.tpot_s is not None and late != ("ttft",):
        held_s = before.tpot_s.mean if before else None
        words.append(f"TPOT {_times(case.idle.tpot_s if held_s is None else held_s, case.tpot_s)} on average")
    if load is not None and (late != ("ttft",) or not case.queued or case.plateau is None):
        words.append(f"prompts take up to {100 * min(load, 1.0):.0f} % of the engine's time")
    figures: Figures = {
        "ttft_s": r.ttft_s.mean,
        "queue_s": parts[0] if parts else None,
        "prefill_s": parts[1] if parts else None,
        "outside_s": parts[2] if parts else None,
        "decode_s": r.stages.decode_s if r.stages else None,
        "tpot_s": case.tpot_s,
        "tpot_idle_s": case.idle.tpot_s,
        "tpot_growth": growth,
        "prefill_load": load,
    }
    verdict: Finding = "unknown" if parts is None else "bound" if late else "clear"
    return DiagnosisStep(place="stages", verdict=verdict, text=_joined(words) or "no latency was measured", figures=figures)


PARTS = ("queue", "prefill", "outside the engine")


def _ttft_text(case: Case) -> str | None:
    parts, mean_s = case.ttft_parts, case.failing.ttft_s.mean
    if case.late_unfinished and case.failing.missed is not None:
        return f"{case.failing.missed.ttft} requests past their TTFT limit had not ended, so the server does not split their time"
    if parts is not None and sum(parts) > 0:
        shares = [f"{100 * part / sum(parts):.0f} % {name}" for part, name in zip(parts, PARTS, strict=True)]
        return f"TTFT splits into {', '.join(shares)}"
    return f"TTFT {duration(mean_s)} on average, which the server does not split" if mean_s is not None else None


def resources(case: Case) -> DiagnosisStep:
    """What was full: places for sequences, KV cache, GPU, host."""
    r, gauges, machine = case.failing, case.failing.gauges, case.failing.machine
    figures: Figures = {
        "plateau": case.plateau,
        "running_mean": gauges.running_mean if gauges else None,
        "running_max": r.running_max,
        "kv_usage_mean": gauges.kv_usage_mean if gauges else None,
        "kv_usage_max": r.kv_usage_max,
        "kv_usage_while_queued": gauges.queued_kv_usage_mean if gauges else None,
        "preemptions": r.preemptions,
        "gpu_frac": machine.gpu_frac if machine else None,
        "dram_frac": machine.dram_frac if machine else None,
        "gpu_memory_frac": machine.gpu_memory_frac if machine else None,
        "cpu_frac": machine.cpu_frac if machine else None,
    }
    if gauges is None:
        text = "running sequences and KV cache are not known"
        return DiagnosisStep(place="resources", verdict="unknown", text=_joined([text, *_machine(case)]), figures=figures)
    words = [_running_text(case), _kv_text(case), _preempted_text(case), *_machine(case)]
    verdict: Finding = "bound" if case.plateau is not None or case.kv_full else "unknown" if case.kv_full is None else "clear"
    return DiagnosisStep(place="resources", verdict=verdict, text=_joined(words), figures=figures)


def _running_text(case: Case) -> str:
    gauges = case.failing.gauges
    if case.plateau is not None:
        return f"running stays at {case.plateau} while requests wait (max_num_seqs, as far as seen)"
    return f"running {gauges.running_mean:.3g} on average, {case.failing.running_max:.3g} at most" if gauges else ""


def _kv_text(case: Case) -> str:
    gauges, highest = case.failing.gauges, case.failing.kv_usage_max
    if gauges is None or gauges.kv_usage_mean is None or highest is None:
        return "KV usage not known"
    return f"KV cache at {100 * gauges.kv_usage_mean:.0f} %, {100 * highest:.0f} % at most"


def _preempted_text(case: Case) -> str:
    n = case.failing.preemptions
    if n is None:
        return "preemptions not known"
    return count(round(n), "preemption") if n else "no preemptions"


def _machine(case: Case) -> list[str]:
    seen = case.failing.machine
    if seen is None:
        return []
    named = (
        ("GPU busy", seen.gpu_frac),
        ("its memory bandwidth", seen.dram_frac),
        ("its tensor cores", seen.tensor_frac),
        ("its memory", seen.gpu_memory_frac),
        ("host processors", seen.cpu_frac),
        ("host memory", seen.memory_frac),
    )
    return [f"{name} {plain(round(value, 2))}" for name, value in named if value is not None]


def _between(case: Case) -> str:
    if case.passing_rps is None:
        return f" at {rate_number(case.rate_rps)} requests/s"
    return f" from {rate_number(case.passing_rps)} to {rate_number(case.rate_rps)} requests/s"


def _from_to(before: float | None, now: float, form: str) -> str:
    return form.format(now) if before is None else f"{form.format(before)} -> {form.format(now)}"


def _times(before_s: float | None, now_s: float) -> str:
    return duration(now_s) if before_s is None else f"{duration(before_s)} -> {duration(now_s)}"


def _joined(words: Sequence[str | None]) -> str:
    return ", ".join(word for word in words if word)
