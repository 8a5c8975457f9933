"""Which cause the figures of a failing repeat fit, and whether another fits as well. Pure."""

import math
from dataclasses import dataclass
from typing import Self

from core.judge.diagnosis.comparison import Case, Limit
from core.results import Cause

HALF = 0.5
PREFILL_LOAD = 0.4
"""Prompts that take less of the engine's time than this leave it most of its time for tokens: then they alone explain no queue."""
ONE_SIDED = 2 / 3
"""Of the growth of TPOT, in logarithms since its two factors multiply; with less than that, both causes are named."""
IDLE_GPU = 0.5
ENOUGH_QUEUED = 8
"""Four seconds of readings; whether a number of running sequences is a limit shows in no fewer."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """`also`: the cause that fits beside it. `doubts`: what is missing or speaks against it, one clause each; none means sure."""

    cause: Cause
    also: Cause | None = None
    doubts: tuple[str, ...] = ()

    def but(self, *doubts: str) -> Self:
        return type(self)(self.cause, self.also, (*self.doubts, *doubts))


def verdict_of(case: Case) -> Verdict:
    """What bound the replica, by the limits that were missed."""
    if case.mostly_failed:
        return Verdict("failures")
    limits = case.limits_missed
    if not limits:
        return Verdict("unknown", doubts=("which limit was missed is not known",))
    verdicts = [_of_limit(case, limit) for limit in limits]
    first = verdicts[0]
    others = [each for each in verdicts[1:] if each.cause not in (first.cause, first.also, "unknown")]
    if others and first.also is None:
        first = Verdict(first.cause, others[0].cause, first.doubts)
    if case.phase == "ramp":
        first = first.but("seen in the ramp alone")
    machine = case.failing.machine
    if first.cause in ("prefill", "decode") and machine and machine.gpu_frac is not None and machine.gpu_frac < IDLE_GPU:
        first = first.but(f"the GPU was busy only {100 * machine.gpu_frac:.0f} % of the time: look at the host's processor")
    return first


def _of_limit(case: Case, limit: Limit) -> Verdict:
    if limit == "ttft":
        return _first_token(case)
    return _slow_tokens(case) if limit == "tpot" else _whole_answer(case)


def _first_token(case: Case) -> Verdict:
    """TTFT: queue, prefill, or outside the engine, whichever is the largest part of it."""
    parts = case.ttft_parts
    if parts is None:
        if case.queued:
            return _kept_out(case).but("the server's queue and prefill times are not known")
        return Verdict("unknown", doubts=("the server shows no queue and prefill times, so a late first token has no address",))
    if case.late_unfinished:
        return _kept_out(case) if case.queued else _prefill(case).but("no late request had ended, so its time is not split")
    queue_s, prefill_s, outside_s = parts
    if outside_s >= HALF * sum(parts):
        return Verdict("frontend")
    if queue_s >= prefill_s:
        return _kept_out(case)
    return _prefill(case)


def _kept_out(case: Case) -> Verdict:
    """What keeps requests in the queue: the number of sequences, the KV cache, or else the tokens of a step."""
    if case.queued is None:
        return Verdict("unknown", doubts=("running and waiting requests are not known",))
    if case.kv_full:
        if case.plateau is None or case.preempting:
            return Verdict("kv")
        return Verdict("kv", "slots", (f"the running sequences stood at {case.plateau} as well, and none had to give way",))
    if case.plateau is None:
        return _prefill(case)
    if case.kv_full is None:
        return Verdict("slots", "kv", ("the KV usage is not known",))
    if case.tpot_room is False:
        return Verdict("slots", "decode", ("with more of them TPOT would miss its limit, which it nearly does already",))
    if case.queued_at_all < ENOUGH_QUEUED:
        return Verdict("slots", doubts=(f"requests waited in only {case.queued_at_all} readings",))
    return Verdict("slots")


def _prefill(case: Case) -> Verdict:
    load = case.prefill_load
    if case.kv_full:
        return Verdict("kv")
    if load is None:
        return Verdict("prefill", doubts=("what a prompt costs on the idle server is not known",))
    if load >= PREFILL_LOAD:
        return Verdict("prefill")
    if case.queued and case.queued_at_all < ENOUGH_QUEUED:
        return Verdict("unknown", doubts=(f"requests waited in only {case.queued_at_all} readings, too few to say for what",))
    text = f"prompts take at most {100 * load:.0f} % of the engine's time, and neither its places nor its KV cache were full"
    return Verdict("unknown", "prefill", (text,))


def _slow_tokens(case: Case) -> Verdict:
    """TPOT: sequences that had to give way, else prompts computed between the tokens or the steps themselves."""
    if case.preempting:
        return Verdict("kv")
    share = prefill_share(case)
    if share is None:
        return Verdict(
            "decode", "prefill", ("the idle server's TPOT or prompt time is not known, so the two cannot be told apart",)
        )
    if share >= ONE_SIDED:
        return Verdict("prefill")
    if share <= 1 - ONE_SIDED:
        return Verdict("decode")
    text = f"of the growth of TPOT {100 * share:.0f} % is prompts computed in between, the rest slower steps"
    return Verdict("prefill", "decode", (text,)) if share > HALF else Verdict("decode", "prefill", (text,))


def prefill_share(case: Case) -> float | None:
    """The part that prompts have in the growth of TPOT since idle: steps get 1 - load of the engine's time, so prompts stretch
    TPOT by 1/(1 - load), and what is left of the growth is slower steps. None where a figure is missing."""
    load, growth = case.prefill_load, case.tpot_growth
    if load is None or growth is None:
        return None
    if load >= 1:
        return 1.0
    return min(1.0, -math.log(1 - load) / math.log(growth)) if growth > 1 else None


def _whole_answer(case: Case) -> Verdict:
    """E2E: what grew most since the passing rate, else since the idle server."""
    stages = case.failing.stages
    if stages is None or stages.queue_s is None or stages.prefill_s is None or stages.decode_s is None:
        return Verdict("unknown", doubts=("the server shows no queue, prefill and decode times, so a slow answer has no address",))
    queue_s, prefill_s, decode_s = _stages_before(case)
    grew = {"queue": stages.queue_s - queue_s, "prefill": stages.prefill_s - prefill_s, "decode": stages.decode_s - decode_s}
    match max(grew, key=lambda name: grew[name]):
        case "queue":
            return _kept_out(case)
        case "prefill":
            return _prefill(case)
        case _:
            return _slow_tokens(case)


def _stages_before(case: Case) -> tuple[float, float, float]:
    """Queue, prefill and decode time at the passing rate, each of the idle server where that is not known; 0 where neither is."""
    before, lengths, idle = case.passing.stages if case.passing else None, case.failing.lengths, case.idle
    known = (before.queue_s, before.prefill_s, before.decode_s) if before else (None, None, None)
    prompt = (lengths.input_asked if lengths.input is None else lengths.input) if lengths else 0.0
    later = max(0.0, lengths.output - 1) if lengths else 0.0
    alone = (0.0, (idle.prefill_token_s or 0.0) * prompt, (idle.tpot_s or 0.0) * later)
    queue_s, prefill_s, decode_s = (rest if seen is None else seen for seen, rest in zip(known, alone, strict=True))
    return queue_s, prefill_s, decode_s
