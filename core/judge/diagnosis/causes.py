"""Which cause the figures of a failing repeat fit, whether another fits as well, and which figures speak against it. Pure."""

import math
from dataclasses import dataclass
from typing import Self

from core.facts import Fact, Said, fact
from core.judge.diagnosis.comparison import KV_FULL_FRAC, Case, Limit, Uneven
from core.results import Cause

HALF = 0.5
PREFILL_LOAD = 0.4
"""Prompts that take less of the engine's time than this leave it most of its time for tokens: then they alone explain no queue."""
SMALL_PREFILL = 0.1
"""Of TTFT by the server's own times. Where prompts bind, they made up half of it just above the knee of simulated replicas."""
ONE_SIDED = 2 / 3
"""Of the growth of TPOT, in logarithms since its two factors multiply; with less than that, both causes are named. So it is with
the waiting requests that are deferred."""
IDLE_GPU = 0.5
LIGHT_PROMPTS = 0.1
"""Of the time of the engine, at most. Prompts that take less stretch TPOT by no more than a ninth: they bind nothing."""
GROWN = 1.1
"""Decode steps are what binds only where tokens are slower than on the idle server by more than runs differ by themselves."""
ENOUGH_QUEUED = 8
"""Four seconds of readings; whether a number of running sequences is a limit shows in no fewer."""
_OF_LOAD: frozenset[Cause] = frozenset({"slots", "kv", "prefill", "decode", "unknown"})
"""What a better split over the engines can take away."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """`also`: the cause that fits beside it. `doubts`: what is missing or speaks against it; none means sure."""

    cause: Cause
    also: Cause | None = None
    doubts: tuple[Said, ...] = ()

    def but(self, *doubts: Said) -> Self:
        return type(self)(self.cause, self.also, (*self.doubts, *doubts))


def verdict_of(case: Case) -> Verdict:
    """What bound the replica, by the limits that were missed."""
    if case.mostly_failed:
        return Verdict("failures")
    if case.gateway_binds:
        return Verdict("gateway", doubts=(fact("in_ramp_alone"),) if case.phase == "ramp" else ())
    limits = case.limits_missed
    if not limits:
        return Verdict("unknown", doubts=(fact("limit_missed_not_known"),))
    verdicts = [_of_limit(case, limit) for limit in limits]
    first = verdicts[0]
    others = [each for each in verdicts[1:] if each.cause not in (first.cause, first.also, "unknown")]
    if others and first.also is None:
        first = Verdict(first.cause, others[0].cause, first.doubts)
    if case.uneven is not None and first.cause in _OF_LOAD:
        first = _uneven(case, case.uneven, first)
    first = _upheld(case, first)
    first = first.but(*_against(case, first.cause))
    return first.but(fact("in_ramp_alone")) if case.phase == "ramp" else first


def _upheld(case: Case, found: Verdict) -> Verdict:
    """The verdict without a cause that a figure beside it rules out: what a reader sees there must never say the opposite."""
    also = None if found.also is None or _ruled_out(case, found.also) is not None else found.also
    no = _ruled_out(case, found.cause)
    return Verdict(found.cause, also, found.doubts) if no is None else Verdict("unknown", also, (*found.doubts, no))


def _ruled_out(case: Case, cause: Cause) -> Fact | None:
    """The figure by which it cannot be that, whatever led there; None where none says so, or the figure is not known."""
    failing, load, growth = case.failing, case.prefill_load, case.tpot_growth
    match cause:
        case "kv" if not failing.preemptions and failing.kv_usage_max is not None and failing.kv_usage_max < case.kv_full_frac:
            return fact("kv_never_full", max_frac=failing.kv_usage_max)
        case "slots" if case.plateau is None:
            return fact("places_never_full", max=failing.running_max)
        case "prefill" if load is not None and load < LIGHT_PROMPTS:
            return fact("prompts_light", at_most_frac=load)
        case "decode" if growth is not None and growth < GROWN:
            return fact("tpot_not_grown", mean_s=case.tpot_s, idle_s=case.idle.tpot_s)
        case _:
            return None


def _against(case: Case, cause: Cause) -> list[Fact]:
    """The figures that do not go with a cause."""
    failing, gauges, machine = case.failing, case.failing.gauges, case.failing.machine
    found: list[Fact] = []
    if cause == "slots" and failing.preemptions:
        found.append(fact("gave_way", preemptions=failing.preemptions))
    if cause == "kv" and failing.kv_usage_max is not None and failing.kv_usage_max < KV_FULL_FRAC[0]:
        found.append(fact("kv_never_full", max_frac=failing.kv_usage_max))
    if cause == "frontend" and gauges is not None and case.queued and _waited_s(case, gauges.waiting_mean) >= _outside_s(case):
        found.append(fact("waits_in_server", mean=gauges.waiting_mean))
    if cause in ("prefill", "decode") and machine and machine.gpu_frac is not None and machine.gpu_frac < IDLE_GPU:
        found.append(fact("gpu_hardly_busy", busy_frac=machine.gpu_frac))
    return found


def _waited_s(case: Case, waiting_mean: float) -> float:
    """The mean wait that so many waiting requests amount to, by Little's law."""
    return waiting_mean / case.rate_rps


def _outside_s(case: Case) -> float:
    return case.ttft_parts[2] if case.ttft_parts else 0.0


def _uneven(case: Case, split: Uneven, whole: Verdict) -> Verdict:
    """One engine is full while others have room: where most are full, what they are full of is named too."""
    readings = case.failing.gauges.readings if case.failing.gauges else 0
    few = (fact("few_readings", readings=readings),) if readings < ENOUGH_QUEUED else ()
    most_full = 2 * len(split.idle) < case.engines and whole.cause != "unknown"
    return Verdict("uneven", whole.cause if most_full else None, few)


def _of_limit(case: Case, limit: Limit) -> Verdict:
    if limit == "ttft":
        return _first_token(case)
    return _slow_tokens(case) if limit == "tpot" else _whole_answer(case)


def _first_token(case: Case) -> Verdict:
    """TTFT: queue, prefill, or outside the engine, whichever is the largest part of it."""
    parts = case.ttft_parts
    if parts is None or sum(parts) <= 0:
        if case.queued:
            return _kept_out(case).but(fact("stage_times_not_known"))
        return Verdict("unknown", doubts=(fact("late_token_unexplained"),))
    if case.late_unfinished:
        not_ended = fact("late_not_ended", requests=case.failing.missed.ttft if case.failing.missed else 0)
        return _kept_out(case) if case.queued else _prefill(case).but(not_ended)
    queue_s, prefill_s, outside_s = parts
    if outside_s >= HALF * sum(parts):
        return Verdict("frontend")
    if queue_s >= prefill_s:
        return _kept_out(case)
    return _prefill(case)


def _kept_out(case: Case) -> Verdict:
    """What keeps requests in the queue: a transfer or LoRA that they need, or what the scheduler gives them no place for."""
    if case.queued is None:
        return Verdict("unknown", doubts=(fact("running_not_known"),))
    deferred = case.deferred_frac or 0.0
    if not case.queued or deferred <= 1 - ONE_SIDED:
        return _no_place(case)
    if deferred >= ONE_SIDED:
        queued = case.failing.gauges.queued if case.failing.gauges else 0
        few = (fact("few_queued_readings", readings=queued, shows_limit=True),) if queued < ENOUGH_QUEUED else ()
        return Verdict("deferred", "kv" if case.preempting else None, few)
    rest, part = _no_place(case), fact("deferred_part", deferred_frac=deferred)
    if rest.cause == "unknown":
        return Verdict("deferred", doubts=(part,))
    return Verdict("deferred", rest.cause, (part,)) if deferred >= HALF else Verdict(rest.cause, "deferred", (*rest.doubts, part))


def _no_place(case: Case) -> Verdict:
    """What the scheduler lacks for a waiting request: a number of sequences, KV cache, or else tokens of a step."""
    if case.kv_full:
        if case.plateau is None or case.preempting:
            return Verdict("kv")
        stood = fact("places_full_too", sequences=case.plateau, preemptions=case.failing.preemptions)
        return Verdict("kv", "slots", (stood,))
    if case.plateau is None:
        return _prefill(case)
    if case.kv_full is None:
        return Verdict("slots", "kv", (fact("kv_not_known"),))
    if case.tpot_room is False:
        return Verdict("slots", "decode", (fact("tpot_without_room"),))
    if case.queued_at_all < ENOUGH_QUEUED:
        return Verdict("slots", doubts=(fact("few_queued_readings", readings=case.queued_at_all, shows_limit=True),))
    return Verdict("slots")


def _prefill(case: Case) -> Verdict:
    """Prompts that take the engine's time. The server's own times come first: where prompts are a small part of TTFT by those,
    they do not bind, whatever their number of tokens lets expect."""
    load, share = case.prefill_load, case.prefill_frac
    if case.preempting:
        return Verdict("kv")
    if case.kv_full:
        return Verdict("kv", "prefill", (fact("prefill_dominates"),))
    small = share if share is not None and share < SMALL_PREFILL else None
    if small is not None and (load is None or load >= PREFILL_LOAD):
        return Verdict("unknown", doubts=(fact("prefill_hardly_seen", prefill_frac=small),))
    if load is None or (load >= PREFILL_LOAD and case.idle.prefill_token_s is None):
        return Verdict("prefill", doubts=(fact("prompt_cost_not_known"),))
    if load >= PREFILL_LOAD:
        return Verdict("prefill")
    if case.queued and case.queued_at_all < ENOUGH_QUEUED:
        return Verdict("unknown", doubts=(fact("few_queued_readings", readings=case.queued_at_all, shows_limit=False),))
    nothing = fact("nothing_full", at_most_frac=load, kv_known=case.kv_full is not None)
    return Verdict("unknown", "prefill" if small is None else None, (nothing,))


def _slow_tokens(case: Case) -> Verdict:
    """TPOT: sequences that had to give way, tokens that are slow only on their way, else prompts computed between the tokens or
    the steps themselves."""
    if case.preempting:
        return Verdict("kv")
    if case.engine_tpot_frac is not None and case.engine_tpot_frac < HALF:
        return Verdict("frontend")
    if (growth := case.tpot_growth) is not None and growth < GROWN:
        return Verdict("unknown", doubts=(fact("tpot_not_grown", mean_s=case.tpot_s, idle_s=case.idle.tpot_s),))
    share = prefill_share(case)
    if share is None:
        return Verdict("decode", "prefill", (fact("idle_not_known"),))
    if share >= ONE_SIDED:
        return Verdict("prefill")
    if share <= 1 - ONE_SIDED:
        return Verdict("decode")
    part = fact("prompts_part_of_tpot", prompts_frac=share)
    return Verdict("prefill", "decode", (part,)) if share > HALF else Verdict("decode", "prefill", (part,))


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
        return Verdict("unknown", doubts=(fact("slow_answer_unexplained"),))
    queue_s, prefill_s, decode_s = _stages_before(case)
    grew = {"queue": stages.queue_s - queue_s, "prefill": stages.prefill_s - prefill_s, "decode": stages.decode_s - decode_s}
    if max(grew.values()) <= 0:
        return Verdict("unknown", doubts=(fact("no_stage_grew"),))
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
