"""May this repeat count at all? Each rule gives None, or the fact that makes the repeat void.

Void is never evidence: it says that the client, the workload or somebody else was measured, not the server at that rate.
"""

from collections.abc import Sequence
from typing import Literal

from core.config import Slo
from core.facts import Code, Fact, fact
from core.records import NO_ERRORS, RequestRecord
from core.results import Percentiles
from core.slo import (
    MAX_HIT_FRAC,
    MAX_HIT_OFF_FRAC,
    MAX_OUTPUT_FRAC,
    MAX_PROMPT_OFF_FRAC,
    MIN_OUTPUT_FRAC,
    limits_of,
    too_long,
    too_many_errors,
    tpot_s,
)
from core.workloads import Prefix

_DUST = 1e-9

CLIENT: tuple[Code, ...] = ("client_late", "client_late_once", "client_stalled", "client_unsent", "client_failed")
"""The client's own part, not the server's."""

LATE_OK_S, LATE_OK_SHARE = 0.010, 0.05
"""Simulated: with a TTFT limit of 0.8 s, stalls with a lateness p99 of 90 ms left the attainment as it was (sd 0.2 points);
an honest client is at 1 to 6 ms. So up to 5 % of the limit nothing is said, ..."""

LATE_VOID_SHARE, LATE_VOID_S = 0.20, 0.100
"""... and from 20 % of it (0.4 s stalls moved single repeats by 0.7 points, 1 s stalls by 1 to 7) the repeat is void.
Without a TTFT limit there is nothing to take a share of: 100 ms."""

STALLED_SHARE = 0.05
"""The client reports the longest stall of its loop twice a second. One in 20 reports above the limit of lateness may be a
machine that is shared; a loop that stands still for 300 ms in every second has it in every other one."""

OTHERS_FEW, OTHERS_SHARE = 2, 0.01
"""A health probe or two, or one request in a hundred, moves no attainment."""

LULL_FRAC, ENOUGH_PLANNED = 0.5, 20.0
"""A window with less than half of the requests of its rate shows that half at best. Of twenty random ones, so few come once in two
hundred windows."""

_SHEDDING = (408, 425, 429)

CLUMP_DECODE_S, CLUMP_SHARE = 0.100, 0.2
"""No model decodes half its tokens within a millisecond of each other and takes longer than 100 ms over an answer; something
on the way (a proxy, a busy API process) holds tokens back and lets them go together, and TPOT then looks better than it is."""


def lateness_status(lateness_s: Percentiles, ttft_limit_s: float | None) -> Literal["ok", "warn", "void"]:
    """How the lateness of all sends stands against the limit on TTFT: as good as none, worth a word, or too much."""
    if lateness_s.p99 is None or lateness_s.max is None:
        return "ok"
    if lateness_s.p99 <= max(LATE_OK_S, LATE_OK_SHARE * (ttft_limit_s or 0.0)):
        return "ok"
    worst_allowed_s = LATE_VOID_S / LATE_VOID_SHARE if ttft_limit_s is None else ttft_limit_s
    return "warn" if lateness_s.p99 <= lateness_limit_s(ttft_limit_s) and lateness_s.max <= worst_allowed_s else "void"


def lateness_limit_s(ttft_limit_s: float | None) -> float:
    """The p99 of lateness above which a repeat is void, in seconds."""
    return LATE_VOID_S if ttft_limit_s is None else max(LATE_OK_S, LATE_VOID_SHARE * ttft_limit_s)


def late(lateness_s: Percentiles, ttft_limit_s: float | None) -> Fact | None:
    """Sends too late against the plan: then the client's own waiting was measured with the server's."""
    if lateness_status(lateness_s, ttft_limit_s) != "void" or lateness_s.p99 is None or lateness_s.max is None:
        return None
    limit_s = lateness_limit_s(ttft_limit_s)
    if lateness_s.p99 > limit_s:
        return fact("client_late", late_p99_s=lateness_s.p99, limit_s=limit_s)
    return fact("client_late_once", late_max_s=lateness_s.max, ttft_limit_s=ttft_limit_s)


def stalled(lags_s: Sequence[float], ttft_limit_s: float | None) -> Fact | None:
    """A client that stalled again and again, by the longest stall of its loop in each of its reports, in seconds.

    What arrives during a stall is stamped late, whatever the lateness of the sends. A single stall is not void.
    """
    limit_s = lateness_limit_s(ttft_limit_s)
    over = [lag for lag in lags_s if lag > limit_s]
    if not stalls_too_often(lags_s, ttft_limit_s):
        return None
    return fact("client_stalled", limit_s=limit_s, over=len(over), reports=len(lags_s), worst_s=max(over))


def stalls_too_often(lags_s: Sequence[float], ttft_limit_s: float | None) -> bool:
    """Whether so many of the client's reports tell of a stall longer than sends may be late that nothing counts."""
    over = sum(lag > lateness_limit_s(ttft_limit_s) for lag in lags_s)
    return over >= 2 and over > STALLED_SHARE * len(lags_s)


def too_few(planned: int, target: float) -> Fact | None:
    """A window of fewer than 1/(1-q) requests, where such a small one must not count; a target of 100 % allows no miss at
    any number, so there no number is too few."""
    if not planned or target >= 1 or planned * (1 - target) >= 1 - _DUST:
        return None
    return fact("too_few_requests", planned=planned, target=target)


def unsent(requests: int) -> Fact | None:
    """Planned requests that could not be sent: the load was less than its plan says."""
    return None if requests == 0 else fact("client_unsent", requests=requests)


def client_failed(records: Sequence[RequestRecord]) -> Fact | None:
    """File descriptors or ports that ran out, or whatever else failed on our own side."""
    failed = [r for r in records if r.ending == "client"]
    if not failed:
        return None
    return fact("client_failed", requests=len(failed), said=failed[0].error or None)


def refused(records: Sequence[RequestRecord], of: int, max_error_rate: float) -> Fact | None:
    """Requests refused as they would be at any rate (a key that was taken back, a model that was unloaded, prompts too long for
    it, a redirect), when they are more than the errors that a pass may have. Statuses by which servers shed load are not these."""
    found = [r for r in records if r.status is not None and 300 <= r.status < 500 and r.status not in _SHEDDING]
    if not too_many_errors(len(found), of, max_error_rate):
        return None
    return fact("refusals", requests=len(found), said=(found[0].error or "").rstrip(".") or None)


def warm_prompts(hit_frac: float | None, records: Sequence[RequestRecord]) -> Fact | None:
    """Prefix hits though cold prompts were asked for: by the server's counters, or by what it told of our own requests."""
    worst = max(hit_frac or 0.0, told_hit_frac(records) or 0.0)
    if worst < MAX_HIT_FRAC:
        return None
    return fact("warm_prompts", hit_frac=worst, limit_frac=MAX_HIT_FRAC)


def told_hit_frac(records: Sequence[RequestRecord]) -> float | None:
    """The share of their prompt tokens that the answers themselves tell to be from the prefix cache; None where none tells."""
    told = [(r.cached_tokens, r.prompt_tokens) for r in records if r.cached_tokens is not None and r.prompt_tokens]
    return sum(cached for cached, _ in told) / sum(prompt for _, prompt in told) if told else None


def _off_plan(hit_frac: float | None, planned_frac: float | None) -> bool:
    return hit_frac is not None and planned_frac is not None and abs(hit_frac - planned_frac) > MAX_HIT_OFF_FRAC


def hits_off(
    hit_frac: float | None, planned_frac: float | None, prefix: Prefix, kv_tokens: int | None, *, counted: bool
) -> Fact | None:
    """Prefix hits that are not those that were planned, where prompts share prefixes: another workload was measured. `counted`: by
    the server's counters, else by what its answers told. `kv_tokens`: what its KV cache holds."""
    if not _off_plan(hit_frac, planned_frac):
        return None
    shared = prefix.tokens * prefix.groups or None
    return fact(
        "hits_off", hit_frac=hit_frac, planned_frac=planned_frac, counted=counted, shared_tokens=shared, kv_tokens=kv_tokens
    )


def turns_hits_off(hit_frac: float | None, planned_frac: float | None, *, counted: bool) -> Fact | None:
    """The same where turns of conversations find the ones before them."""
    if not _off_plan(hit_frac, planned_frac):
        return None
    return fact("turns_hits_off", hit_frac=hit_frac, planned_frac=planned_frac, counted=counted)


def trace_hits_off(hit_frac: float | None, planned_frac: float | None, kv_tokens: int | None, *, counted: bool) -> Fact | None:
    """The same where prompts share the blocks that a trace names."""
    if not _off_plan(hit_frac, planned_frac):
        return None
    return fact("trace_hits_off", hit_frac=hit_frac, planned_frac=planned_frac, counted=counted, kv_tokens=kv_tokens)


def short_answers(ok: Sequence[RequestRecord]) -> Fact | None:
    """Answers below 95 % of the asked length on average: the server had less to do than the workload says."""
    asked, got = sum(r.asked_output for r in ok), sum(r.output_tokens for r in ok)
    if not ok or got >= MIN_OUTPUT_FRAC * asked:
        return None
    reasons: dict[str, int] = {}
    for r in ok:
        reasons[r.finish_reason or "none"] = reasons.get(r.finish_reason or "none", 0) + 1
    return fact("short_answers", tokens_mean=got / len(ok), asked_mean=asked / len(ok), finish_reasons=reasons)


def long_answers(records: Sequence[RequestRecord], slo: Slo) -> Fact | None:
    """Answers above 105 % of the asked length on average, warm-up included, or one that was cut off and had got longer.

    The server had more to do than the workload says; and a bound on TPOT that holds only for the asked length took for late what
    may still have been in time.
    """
    ok = [r for r in records if r.ending == "ok"]
    asked, got = sum(r.asked_output for r in ok), sum(r.output_tokens for r in ok)
    if got > MAX_OUTPUT_FRAC * asked:
        return fact("long_answers", tokens_mean=got / len(ok), asked_mean=asked / len(ok))
    longest = max((r for r in records if r.ending == "aborted" and _outran(r, slo)), key=_excess, default=None)
    if longest is None:
        return None
    return fact("answer_outran", tokens=longest.output_tokens, asked=longest.asked_output)


def _excess(record: RequestRecord) -> int:
    return record.output_tokens - record.asked_output


def _outran(record: RequestRecord, slo: Slo) -> bool:
    """Whether a request that was cut off shows that its length was not kept: by 5 %, or by more than the one token that a server
    may count besides, with a TPOT still within its limit, which is whom the bound takes for late."""
    if too_long(record):
        return True
    tpot, limit_s = tpot_s(record), limits_of(record, slo).tpot_s
    return _excess(record) > 1 and limit_s is not None and tpot is not None and tpot <= limit_s


def prompt_length_off(ok: Sequence[RequestRecord]) -> Fact | None:
    """Prompts that the server counts more than 2 % longer or shorter than asked, on average."""
    known = [(r.prompt_tokens, r.asked_input) for r in ok if r.prompt_tokens is not None]
    got, asked = sum(prompt for prompt, _ in known), sum(wanted for _, wanted in known)
    if not known or abs(got - asked) <= MAX_PROMPT_OFF_FRAC * asked:
        return None
    return fact("prompt_length_off", tokens_mean=got / len(known), asked_mean=asked / len(known))


def restarted(breaks: int, records: Sequence[RequestRecord]) -> Fact | None:
    """One break in the server's counters. More are several processes behind one address, which is said elsewhere. Where none of our
    requests broke with it, it may be that, too."""
    if breaks != 1:
        return None
    unbroken = bool(records) and all(record.ending in NO_ERRORS for record in records)
    return fact("server_restarted", unbroken=True) if unbroken else fact("server_restarted")


def others_took_part(others: float | None, ours: int) -> Fact | None:
    """More requests of others than a probe or two; None others: the counters cannot tell."""
    if others is None or others <= max(OTHERS_FEW, OTHERS_SHARE * ours):
        return None
    return fact("others_took_part", others=others, ours=ours)


def in_clumps(ok: Sequence[RequestRecord], slo: Slo, server_decode_s: float | None) -> Fact | None:
    """Tokens that arrive in clumps, where TPOT is to be judged.

    Of the answers that decode longer than 100 ms, more than a fifth came with at least half their gaps under 1 ms. A
    clumped answer shows too little decode time here: `server_decode_s`, the server's own mean, then says how long it took.
    Where that is None, one that came all at once counts by its E2E.
    """
    judged = [r for r in ok if limits_of(r, slo).tpot_s is not None]
    long = [r for r in judged if r.output_tokens > 1 and _decode_s(r, server_decode_s) > CLUMP_DECODE_S]
    clumped = [r for r in long if _clumped(r)]
    if len(clumped) <= CLUMP_SHARE * len(long):
        return None
    return fact("tokens_in_clumps", clumped=len(clumped), answers=len(long))


def _clumped(record: RequestRecord) -> bool:
    if record.gaps.n == 0:
        return tpot_s(record) is None
    return 2 * record.gaps.under_1ms >= record.gaps.n


def _decode_s(record: RequestRecord, server_decode_s: float | None) -> float:
    if record.t_first is None or record.t_last is None:
        return 0.0
    seen_s = record.t_last - record.t_first
    if not _clumped(record):
        return seen_s
    if server_decode_s is not None:
        return max(seen_s, server_decode_s)
    all_at_once = record.gaps.n == record.gaps.under_1ms
    return record.t_last - record.t_sched if all_at_once else seen_s


def tpot_undecidable(ok: Sequence[RequestRecord], slo: Slo) -> Fact | None:
    """TPOT is the only limit and no answer has one: nothing was judged."""
    only_tpot = all(own.ttft_s is None and own.e2e_s is None for own in (limits_of(r, slo) for r in ok))
    if not only_tpot or not ok or any(tpot_s(r) is not None for r in ok):
        return None
    return fact("tpot_undecidable")


def nothing_planned(planned: int, measure_s: float, rate_rps: float) -> Fact | None:
    """A window without arrivals, which low rates can have, shows nothing."""
    if planned:
        return None
    return fact("nothing_planned", measure_s=measure_s, rate_rps=rate_rps)


def recorded_lull(planned: int, measure_s: float, rate_rps: float) -> Fact | None:
    """A stretch of a recording in which hardly anything came: what it passed was not the rate."""
    expected = rate_rps * measure_s
    if expected < ENOUGH_PLANNED or planned >= LULL_FRAC * expected:
        return None
    return fact("recorded_lull", planned=planned, measure_s=measure_s, rate_rps=rate_rps, expected=expected)
