"""Why a replica's knee is where it is: five places looked at in order, what bound it, and the setting to change.

A pure function of the judged steps, the answer and what the server told; it never says more than those figures do.
"""

from collections.abc import Callable, Sequence

import msgspec

from core.config import Slo
from core.facts import Fact, Said, fact
from core.judge.diagnosis.causes import Verdict, verdict_of
from core.judge.diagnosis.comparison import Case, pick
from core.judge.diagnosis.findings import client_bound, lengths_off, look, prefix_warm
from core.records import ServerInfo
from core.results import Answer, Cause, Diagnosis, DiagnosisStep, Idle, StepResult


def diagnose(slo: Slo, answer: Answer, steps: Sequence[StepResult], server: ServerInfo | None, idle: Idle) -> Diagnosis | None:
    """What bound the replica at the lowest failing rate, or kept the run from its answer; None where no load was judged."""
    picked = pick(slo, steps, server, idle, void=answer.outcome == "void")
    if picked is None:
        return None
    case, failed = picked
    looked = look(case)
    verdict = _spoilt(case) if case.failing.verdict == "void" else verdict_of(case) if failed else Verdict("none")
    setting, advice = _remedy(case, verdict)
    return Diagnosis(
        cause=verdict.cause,
        also=verdict.also,
        sure=verdict.cause not in ("unknown", "none") and not verdict.doubts and verdict.also is None,
        sentence=_conclusion(case, verdict, setting),
        at_rps=case.rate_rps,
        setting=setting,
        advice=advice,
        steps=_marked(looked, verdict),
        ruled_out=_ruled_out(case, looked, verdict),
    )


def explained(answer: Answer, slo: Slo, steps: Sequence[StepResult], server: ServerInfo | None, idle: Idle | None) -> Answer:
    """The answer with its diagnosis; `idle` None: the run ended before its single requests."""
    return msgspec.structs.replace(answer, diagnosis=diagnose(slo, answer, steps, server, idle or Idle()))


def _spoilt(case: Case) -> Verdict:
    """Why a repeat did not count: client, then workload."""
    if client_bound(case):
        return Verdict("client")
    if prefix_warm(case):
        return Verdict("prefix")
    if lengths_off(case):
        return Verdict("lengths")
    return Verdict("unknown", doubts=(case.failing.reason,))


def _marked(looked: Sequence[DiagnosisStep], verdict: Verdict) -> tuple[DiagnosisStep, ...]:
    """Of a run that the client or the workload spoilt, what the server showed is no finding; nor is it of one without a fail."""
    if verdict.cause not in ("client", "prefix", "lengths", "none"):
        return tuple(looked)
    places = () if verdict.cause == "none" else ("client", "workload")
    return tuple(
        msgspec.structs.replace(step, verdict="clear") if step.verdict == "bound" and step.place not in places else step
        for step in looked
    )


def _ruled_out(case: Case, looked: Sequence[DiagnosisStep], verdict: Verdict) -> tuple[Said, ...]:
    """What was looked at and is not it; nothing of the server's, where its part was not measured rightly."""
    client, workload = looked[0], looked[1]
    out = [step.text for step in (client, workload) if step.verdict == "clear"]
    if verdict.cause in ("client", "prefix", "lengths", "unknown", "none"):
        return tuple(out)
    named = (verdict.cause, verdict.also)
    if "kv" not in named and _memory_free(case):
        out.append(fact("memory_free", max_frac=case.failing.kv_usage_max))
    if "slots" not in named and case.queued is False:
        out.append(fact("places_free"))
    load = case.prefill_load
    if not {"prefill", "slots", "kv"} & {*named} and load is not None:
        out.append(fact("prefill_light", at_most_frac=load))
    return tuple(out)


def _memory_free(case: Case) -> bool:
    """Whether the KV cache was surely never full: no reading shows it so, and no sequence had to give way."""
    highest = case.failing.kv_usage_max
    return case.kv_full is False and not case.failing.preemptions and highest is not None and highest < case.kv_full_frac


def _conclusion(case: Case, verdict: Verdict, setting: str | None) -> Fact:
    """What bound, at which rate, how sure that is, and the setting."""
    at, cause, also, doubts = case.rate_rps, verdict.cause, verdict.also, verdict.doubts
    if cause == "none":
        return fact("none_failed", rate_rps=at)
    if case.failing.verdict == "void":
        return fact("not_measured", *doubts, rate_rps=at, cause=cause)
    if cause == "unknown":
        return fact("not_certain", *doubts, rate_rps=at, also=also)
    if cause == "failures":
        return fact("errors_bind", *case.common, rate_rps=at, said=case.failing.errors_said)
    if also is not None:
        return fact("two_causes", *doubts, rate_rps=at, cause=cause, also=also, setting=setting)
    if cause == "deferred":
        return fact("deferred_binds", *doubts, rate_rps=at, deferred_frac=case.deferred_frac)
    if cause == "uneven" and (split := case.uneven) is not None:
        return fact(
            "uneven_binds",
            *doubts,
            rate_rps=at,
            engines=len(case.failing.replicas) or case.engines,
            **case.of_replicas,
            busiest=split.busiest.name,
            running_mean=split.busiest.running_mean,
            waiting_mean=split.busiest.waiting_mean,
            idle=len(split.idle),
            idle_running_mean=sum(each.running_mean for each in split.idle) / len(split.idle),
        )
    if cause == "gateway" and (use := case.failing.gateway) is not None:
        return fact("gateway_binds", *doubts, rate_rps=at, limit=use.limit)
    memory_free = cause == "slots" and _memory_free(case)
    return fact("binds", *doubts, rate_rps=at, cause=cause, setting=setting, memory_free=memory_free)


# --- the setting to change ---------------------------------------------------------------------------------------

Remedy = tuple[str | None, Fact | None]
"""The server's option, and how to change it or what else to do."""


def _remedy(case: Case, verdict: Verdict) -> Remedy:
    remedies: dict[Cause, Callable[[Case], Remedy]] = {
        "slots": _slots,
        "kv": _kv,
        "prefill": _prefill,
        "decode": _decode,
        "deferred": lambda _: (None, fact("kv_transfer")),
        "uneven": lambda case: (None, fact("even_split", **case.of_replicas)),
        "frontend": lambda _: ("--api-server-count", fact("nearer_client")),
        "client": lambda _: (None, fact("stronger_client")),
        "prefix": lambda _: (None, fact("find_prefix")),
        "lengths": lambda _: (None, fact("lengths_given")),
        "failures": _failures,
        "gateway": _gateway,
    }
    return remedies[verdict.cause](case) if verdict.cause in remedies else (None, None)


def _slots(case: Case) -> Remedy:
    """The option counts the sequences of one engine."""
    each = None if case.plateau is None else case.plateau / case.engines
    return "--max-num-seqs", fact(
        "more_sequences",
        sequences=each,
        engines=case.engines,
        tpot_p95_s=case.failing.tpot_s.p95,
        tpot_limit_s=case.slo.shortest_tpot_s,
        room=case.tpot_room,
    )


def _failures(case: Case) -> Remedy:
    """What to look for by what the failures have in common; else the errors themselves."""
    alike = case.failing.failures_alike
    return None, fact("errors_first") if alike is None else fact("common_cause", **alike.figures)


def _gateway(case: Case) -> Remedy:
    use, seen = case.failing.gateway, case.failing
    limit = None if use is None else use.limit
    figures = {"limit": limit, "tpot_p95_s": seen.tpot_s.p95, "tpot_limit_s": case.slo.shortest_tpot_s}
    return None, fact("gateway_higher", **figures, room=case.tpot_room)


def _kv(case: Case) -> Remedy:
    config = case.server.config if case.server else {}
    if blocks := config.get("num_gpu_blocks_override"):
        return "--num-gpu-blocks-override", fact("more_kv_blocks", blocks=blocks)
    return "--gpu-memory-utilization", fact("more_kv_memory", utilization=config.get("gpu_memory_utilization"))


def _prefill(case: Case) -> Remedy:
    return "--max-num-batched-tokens", fact("prompt_budget", smaller=case.limits_missed[:1] == ("tpot",))


def _decode(case: Case) -> Remedy:
    gauges, engines = case.failing.gauges, case.engines
    running = gauges.running_mean / engines if gauges else None
    return "--max-num-seqs", fact("fewer_sequences", running_mean=running, engines=engines)
