"""Why a replica's knee is where it is: five places looked at in order, what bound it, and the setting to change.

A pure function of the judged steps, the answer and what the server told; it never says more than those figures do.
"""

from collections.abc import Callable, Sequence
from typing import Literal

import msgspec

from core.config import Slo
from core.facts import Said
from core.judge.diagnosis.causes import Verdict, verdict_of
from core.judge.diagnosis.comparison import Case, pick
from core.judge.diagnosis.findings import client_bound, lengths_off, look, prefix_warm
from core.records import ServerInfo
from core.results import Answer, Cause, Diagnosis, DiagnosisStep, Idle, StepResult
from core.units import duration, rate_text

NAMES: dict[Cause, str] = {
    "slots": "the number of sequences",
    "kv": "the KV cache",
    "prefill": "the time that prompts take (prefill)",
    "decode": "the speed of decode steps",
    "frontend": "something outside the engine (network, tokenising, the API process)",
    "client": "the client",
    "prefix": "prompts that the prefix cache knew",
    "lengths": "lengths other than asked for",
    "failures": "requests that failed",
    "none": "nothing",
    "unknown": "something that these figures do not show",
}


def diagnose(
    slo: Slo, answer: Answer, steps: Sequence[StepResult], server: ServerInfo | None, idle: Idle, say: Callable[[Said], str]
) -> Diagnosis | None:
    """What bound the replica at the lowest failing rate, or kept the run from its answer; None where no load was judged.

    `say` makes a sentence of the fact why a repeat did not count.
    """
    picked = pick(slo, steps, server, idle, void=answer.outcome == "void")
    if picked is None:
        return None
    case, failed = picked
    looked = look(case)
    verdict = _spoilt(case, say) if case.failing.verdict == "void" else verdict_of(case) if failed else Verdict("none")
    setting, advice = _remedy(case, verdict)
    return Diagnosis(
        cause=verdict.cause,
        also=verdict.also,
        sure=verdict.cause not in ("unknown", "none") and not verdict.doubts and verdict.also is None,
        sentence=_sentence(case, verdict, setting),
        at_rps=case.rate_rps,
        setting=setting,
        advice=advice,
        steps=_marked(looked, verdict),
        ruled_out=_ruled_out(case, looked, verdict),
    )


def explained(
    answer: Answer,
    slo: Slo,
    steps: Sequence[StepResult],
    server: ServerInfo | None,
    idle: Idle | None,
    say: Callable[[Said], str],
) -> Answer:
    """The answer with its diagnosis; `idle` None: the run ended before its single requests."""
    return msgspec.structs.replace(answer, diagnosis=diagnose(slo, answer, steps, server, idle or Idle(), say))


Head = Literal["seen", "therefore", "advice", "open", "not"]


def diagnosis_parts(diagnosis: Diagnosis | None) -> list[tuple[Head, str]]:
    """What was seen, what follows, what to do, what is open and what it is not; a part that has nothing to say is left out."""
    if diagnosis is None:
        return []
    why = [step.text for step in diagnosis.steps if step.verdict == "bound"]
    missing = [
        step.text for step in diagnosis.steps if step.verdict == "open" or (step.verdict == "unknown" and not diagnosis.sure)
    ]
    parts: tuple[tuple[Head, str], ...] = (
        ("seen", "; ".join(why)),
        ("therefore", diagnosis.sentence),
        ("advice", diagnosis.advice or ""),
        ("open", " · ".join(missing)),
        ("not", " · ".join(diagnosis.ruled_out)),
    )
    return [(head, text) for head, text in parts if text or head == "therefore"]


def diagnosis_lines(diagnosis: Diagnosis | None) -> list[str]:
    """The same as unwrapped lines for a terminal: WHY, what follows (`->`), OPEN and NOT."""
    parts = diagnosis_parts(diagnosis)
    alone = bool(parts) and parts[0][0] == "therefore"
    heads: dict[Head, str] = {
        "seen": "WHY   ",
        "therefore": f"{'WHY   ' if alone else '      '}-> ",
        "advice": "         ",
        "open": "OPEN  ",
        "not": "NOT   ",
    }
    return [heads[head] + text for head, text in parts]


def _spoilt(case: Case, say: Callable[[Said], str]) -> Verdict:
    """Why a repeat did not count: client, then workload."""
    if client_bound(case):
        return Verdict("client")
    if prefix_warm(case):
        return Verdict("prefix")
    if lengths_off(case):
        return Verdict("lengths")
    return Verdict("unknown", doubts=(say(case.failing.reason),))


def _marked(looked: Sequence[DiagnosisStep], verdict: Verdict) -> tuple[DiagnosisStep, ...]:
    """Of a run that the client or the workload spoilt, what the server showed is no finding; nor is it of one without a fail."""
    if verdict.cause not in ("client", "prefix", "lengths", "none"):
        return tuple(looked)
    places = () if verdict.cause == "none" else ("client", "workload")
    return tuple(
        msgspec.structs.replace(step, verdict="clear") if step.verdict == "bound" and step.place not in places else step
        for step in looked
    )


def _ruled_out(case: Case, looked: Sequence[DiagnosisStep], verdict: Verdict) -> tuple[str, ...]:
    """What was looked at and is not it; nothing of the server's, where its part was not measured rightly."""
    client, workload = looked[0], looked[1]
    out = [step.text for step in (client, workload) if step.verdict == "clear"]
    if verdict.cause in ("client", "prefix", "lengths", "unknown", "none"):
        return tuple(out)
    named = (verdict.cause, verdict.also)
    highest = case.failing.kv_usage_max
    if "kv" not in named and case.kv_full is False and highest is not None and highest < case.kv_full_frac:
        out.append(f"memory: KV peak {100 * highest:.0f} %")
    if "slots" not in named and case.queued is False:
        out.append("the number of sequences: requests hardly wait for a place")
    load = case.prefill_load
    if not {"prefill", "slots", "kv"} & {*named} and load is not None:
        out.append(f"the prompts' prefill: up to {100 * min(load, 1.0):.0f} % of the engine's time")
    return tuple(out)


def _sentence(case: Case, verdict: Verdict, setting: str | None) -> str:
    """One sentence: what, at which rate, how sure, and the setting."""
    at = rate_text(case.rate_rps)
    if verdict.cause == "none":
        return f"No rate that was tried failed (up to {at}), so what binds this replica first was not seen"
    if case.failing.verdict == "void":
        why = NAMES[verdict.cause] if verdict.cause != "unknown" else verdict.doubts[0]
        return f"The run has no answer because of {why}, at {at}; what binds the replica was not seen"
    name = NAMES[verdict.cause]
    doubts = "; ".join(verdict.doubts)
    if verdict.cause == "unknown":
        maybe = f"{NAMES[verdict.also]} perhaps, " if verdict.also else ""
        return f"What binds at {at} is not certain ({maybe}{doubts})"
    change = f": the setting to change is {setting}" if setting else ""
    if verdict.cause == "failures":
        said = case.failing.errors_said
        return f"At {at} most of what missed ended in errors{f' ({said})' if said else ''}, which is no limit of latency"
    if verdict.also is not None:
        but = f" ({doubts})" if doubts else ""
        return f"At {at} two causes fit, {name} first and {NAMES[verdict.also]}{but}{change}"
    likely = f", most likely ({doubts})" if doubts else ""
    return f"At {at} {name} {_bind(verdict.cause)}{likely}{change}"


def _bind(cause: Cause) -> str:
    return "binds, not memory" if cause == "slots" else "binds"


# --- the setting to change ---------------------------------------------------------------------------------------


def _remedy(case: Case, verdict: Verdict) -> tuple[str | None, str | None]:
    """The server's option, and a sentence of advice."""
    remedies: dict[Cause, Callable[[Case], tuple[str | None, str | None]]] = {
        "slots": _slots,
        "kv": _kv,
        "prefill": _prefill,
        "decode": _decode,
        "frontend": lambda _: ("--api-server-count", "More API processes, or a client nearer to the server; then run again."),
        "client": lambda _: (None, "Give the client more CPU, or a machine of its own, and run again."),
        "prefix": lambda _: (None, "Find out what makes prompts known to the server (its own system prompt?) and run again."),
        "lengths": lambda _: (None, "Ask for lengths that the server gives, and run again."),
        "failures": lambda _: (None, "See to the errors first: no setting of the scheduler helps against those."),
    }
    return remedies[verdict.cause](case) if verdict.cause in remedies else (None, None)


def _slots(case: Case) -> tuple[str, str]:
    tpot_s, limit_s = case.failing.tpot_s.p95, case.slo.tpot_s
    text = f"Try --max-num-seqs above {case.plateau}"
    if tpot_s is None or limit_s is None:
        return "--max-num-seqs", f"{text}; each token gets slower with more sequences."
    room = "has room" if case.tpot_room else "has hardly any room"
    return "--max-num-seqs", f"{text}: TPOT {room} for more (p95 {duration(tpot_s)} of {duration(limit_s)})."


def _kv(case: Case) -> tuple[str, str]:
    override = case.server.config.get("num_gpu_blocks_override") if case.server else None
    if override:
        return "--num-gpu-blocks-override", f"The server was started with only {override} KV blocks: raise that or leave it out."
    share = case.server.config.get("gpu_memory_utilization") if case.server else None
    now = f" above {share}" if share else ""
    return "--gpu-memory-utilization", f"Raise it{now}, try --kv-cache-dtype fp8, or spread the model over more GPUs."


def _prefill(case: Case) -> tuple[str, str]:
    if case.limits_missed[:1] == ("tpot",):
        text = "Smaller chunks of prompt between the tokens help TPOT, and TTFT pays for it; shorter or shared prompts help both."
    else:
        text = "A larger budget a step lets prompts in sooner, and TPOT pays for it; shorter or shared prompts help both."
    return "--max-num-batched-tokens", text


def _decode(case: Case) -> tuple[str, str]:
    gauges = case.failing.gauges
    now = f" below the {gauges.running_mean:.0f} that run on average here" if gauges and gauges.running_mean >= 2 else ""
    return "--max-num-seqs", (
        f"Set it{now} to keep each token fast, and requests queue instead; --tensor-parallel-size and quantised weights make "
        "steps faster."
    )
