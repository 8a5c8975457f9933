"""The five places to look at when a rate fails, in their order: client, workload, queue, stages, resources. Pure.

Each gives its figures, what was found and how it stands; which of them was the cause is `core.judge.diagnosis.causes`' to say.
"""

from core.facts import Fact, fact, says
from core.judge import validity
from core.judge.diagnosis.comparison import Case
from core.records import NO_ERRORS
from core.results import DiagnosisStep, Figures, Finding, Place, RepeatResult
from core.slo import MAX_OUTPUT_FRAC, MAX_PROMPT_OFF_FRAC, MIN_OUTPUT_FRAC
from core.units import classes


def look(case: Case) -> tuple[DiagnosisStep, ...]:
    """All five."""
    return (client(case), workload(case), queue(case), stages(case), resources(case))


def client(case: Case) -> DiagnosisStep:
    """Did it really offer the rate? Lateness, stalls of its loop, processor, requests that it could not send."""
    r = case.failing
    late = validity.lateness_status(r.lateness_s, case.slo.shortest_ttft_s)
    unsent = 0 if r.curtailed else r.planned - r.sent - (r.gateway.never_sent if r.gateway else 0)
    unsent -= r.endings.get("previous_failed", 0) + r.not_due
    own = r.endings.get("client", 0)
    seen = (
        fact("lateness_seen", p99_s=r.lateness_s.p99),
        fact("loop_stall_seen", max_s=r.loop_lag_max_s) if r.loop_lag_max_s is not None else None,
        fact("failed_here", requests=own) if own else None,
        fact("not_sent", requests=unsent) if unsent > 0 else None,
        fact("client_cpu_seen", core_frac=r.client_cpu_frac) if r.client_cpu_frac is not None else None,
    )
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
    return DiagnosisStep(place="client", verdict=finding, text=_looked("client", *seen), figures=figures)


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
    off = share > MAX_OUTPUT_FRAC or (share < MIN_OUTPUT_FRAC and seen.stop == "exact")
    return off or (seen.input is not None and abs(seen.input - seen.input_asked) > MAX_PROMPT_OFF_FRAC * seen.input_asked)


def workload(case: Case) -> DiagnosisStep:
    """Was it the work that was asked for? Lengths, stop reasons, prefix hits, failures."""
    r, seen = case.failing, case.failing.lengths
    errors = {name: n for name, n in r.endings.items() if name not in NO_ERRORS}
    common = case.common if errors and not case.mostly_failed else ()  # else it stands in what follows
    failed = fact("errors_seen", *common, endings=errors, said=r.errors_said if errors else None)
    hits, lengths = fact("prefix_hits_seen", hit_frac=r.prefix_hit_frac), _lengths(r)
    order = (failed, hits, lengths) if case.mostly_failed else (hits, lengths, failed)
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
    return DiagnosisStep(place="workload", verdict=finding, text=_looked("workload", *order), figures=figures)


def _lengths(r: RepeatResult) -> Fact:
    seen = r.lengths
    return fact(
        "lengths_seen",
        input_tokens=seen.input if seen else None,
        input_asked_tokens=seen.input_asked if seen else None,
        output_tokens=seen.output if seen else None,
        output_asked_tokens=seen.output_asked if seen else None,
        finish_reasons=dict(seen.finish_reasons) if seen else {},
        **({"natural": True} if seen and seen.stop == "natural" else {}),
    )


def queue(case: Case) -> DiagnosisStep:
    """Do requests wait in the server or before it, for how long and for what, against the rate that held?"""
    r, before = case.failing, case.passing
    now, then = r.gauges, before.gauges if before else None
    queue_s = r.stages.queue_s if r.stages else None
    before_s = before.stages.queue_s if before and before.stages else None
    deferred = now.waiting_deferred_mean if now else None
    figures: Figures = {
        "waiting_mean": now.waiting_mean if now else None,
        "waiting_mean_before": then.waiting_mean if then else None,
        "waiting_deferred_mean": deferred,
        "waiting_max": r.waiting_max,
        "queue_s": queue_s,
        "queue_s_before": before_s,
        "trend": r.queue,
    }
    before_it = _at_gateway(r)
    if now is None:
        finding: Finding = "bound" if case.gateway_binds else "unknown"
        text = _looked("queue", before_it, fact("queue_not_shown"))
        return DiagnosisStep(place="queue", verdict=finding, text=text, figures=figures)
    seen = (
        before_it,
        fact(
            "waiting_seen",
            mean=now.waiting_mean,
            before_mean=then.waiting_mean if then else None,
            rate_rps=case.rate_rps,
            passing_rps=case.passing_rps,
        ),
        fact("deferred_seen", mean=deferred) if deferred else None,
        fact("queue_time_seen", mean_s=queue_s, before_s=before_s) if not case.late_unfinished else None,
    )
    verdict: Finding = "bound" if case.queued or case.gateway_binds else "clear"
    return DiagnosisStep(place="queue", verdict=verdict, text=_looked("queue", *seen), figures=figures)


def _at_gateway(r: RepeatResult) -> Fact | None:
    use = r.gateway
    if use is None:
        return None
    return fact(
        "gateway_waits_seen",
        limit=use.limit,
        held=use.held,
        planned=r.planned,
        wait_p95_s=use.wait_s.p95,
        rejected=use.rejected,
        timed_out=use.timed_out,
    )


def stages(case: Case) -> DiagnosisStep:
    """What TTFT and TPOT are made of: queue, prefill and what lies outside the engine; steps and the prompts between them."""
    r, before = case.failing, case.passing
    parts, load, growth = case.ttft_parts, case.prefill_load, case.tpot_growth
    late = case.limits_missed
    seen: list[Fact | None] = [_ttft(case)] if late != ("tpot",) else []
    if case.tpot_s is not None and late != ("ttft",):
        held_s = before.tpot_s.mean if before else None
        seen.append(fact("tpot_seen", mean_s=case.tpot_s, before_s=case.idle.tpot_s if held_s is None else held_s))
    if load is not None and (late != ("ttft",) or not case.queued or case.plateau is None):
        seen.append(fact("prompts_take", at_most_frac=load))
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
    text = _looked("stages", *(seen if any(seen) else [fact("no_latency")]))
    return DiagnosisStep(place="stages", verdict=verdict, text=text, figures=figures)


def _ttft(case: Case) -> Fact | None:
    parts, mean_s = case.ttft_parts, case.failing.ttft_s.mean
    if case.late_unfinished and case.failing.missed is not None:
        return fact("late_not_ended", requests=case.failing.missed.ttft)
    if parts is not None and sum(parts) > 0:
        waited_s = case.failing.stages.gateway_s if case.failing.stages else None
        before = {} if waited_s is None else {"gateway_s": waited_s}
        return fact("ttft_split", queue_s=parts[0], prefill_s=parts[1], outside_s=parts[2], **before)
    return fact("ttft_not_split", mean_s=mean_s) if mean_s is not None else None


def resources(case: Case) -> DiagnosisStep:
    """What was full: places for sequences, KV cache, GPU, host; and whether of all engines."""
    r, gauges, machine = case.failing, case.failing.gauges, case.failing.machine
    figures: Figures = {
        "plateau": case.plateau,
        "running_mean": gauges.running_mean if gauges else None,
        "running_max": r.running_max,
        "kv_usage_mean": gauges.kv_usage_mean if gauges else None,
        "kv_usage_max": r.kv_usage_max,
        "kv_usage_while_queued": gauges.queued_kv_usage_mean if gauges else None,
        "preemptions": r.preemptions,
        "engines": case.engines,
        "gpu_frac": machine.gpu_frac if machine else None,
        "dram_frac": machine.dram_frac if machine else None,
        "gpu_memory_frac": machine.gpu_memory_frac if machine else None,
        "cpu_frac": machine.cpu_frac if machine else None,
    }
    if gauges is None:
        text = _looked("resources", fact("running_not_shown"), _machine(case))
        return DiagnosisStep(place="resources", verdict="unknown", text=text, figures=figures)
    seen = (
        _running(case),
        _engines(case),
        fact(
            "kv_seen",
            mean_frac=gauges.kv_usage_mean,
            max_frac=r.kv_usage_max,
            engines=case.engines,
            queued_frac=gauges.queued_kv_usage_mean if case.queued else None,
            full_frac=case.kv_full_frac if case.kv_full and not case.preempting else None,
        ),
        fact("preemptions_seen", preemptions=r.preemptions),
        _machine(case),
    )
    full = case.plateau is not None or case.kv_full or case.uneven is not None
    verdict: Finding = "bound" if full else "unknown" if case.kv_full is None else "clear"
    return DiagnosisStep(place="resources", verdict=verdict, text=_looked("resources", *seen), figures=figures)


def _running(case: Case) -> Fact | None:
    gauges, engines = case.failing.gauges, case.engines
    if case.plateau is not None:
        return fact("running_limit", sequences=case.plateau, engines=engines)
    return fact("running_seen", mean=gauges.running_mean, max=case.failing.running_max, engines=engines) if gauges else None


def _engines(case: Case) -> Fact | None:
    engines = case.failing.gauges.engines if case.failing.gauges else ()
    if not engines:
        return None
    running, waiting = ([each.running_mean for each in engines], [each.waiting_mean for each in engines])
    return fact("engines_seen", running_mean=running, waiting_mean=waiting, **case.of_replicas)


def _machine(case: Case) -> Fact | None:
    seen = case.failing.machine
    if seen is None:
        return None
    shares = {
        "gpu_frac": seen.gpu_frac,
        "dram_frac": seen.dram_frac,
        "tensor_frac": seen.tensor_frac,
        "gpu_memory_frac": seen.gpu_memory_frac,
        "cpu_frac": seen.cpu_frac,
        "memory_frac": seen.memory_frac,
    }
    return fact("machine_seen", **shares) if any(share is not None for share in shares.values()) else None


def _looked(place: Place, *seen: Fact | None) -> Fact:
    return fact("looked_at", *(each for each in seen if each is not None), place=place)
