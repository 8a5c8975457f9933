"""What a repeat leaves behind for the diagnosis: which limits were missed, what the failures have in common, lengths, and the
figures of server and host."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import takewhile
from statistics import fmean

import numpy as np

from core.config import Slo, Stop
from core.facts import Fact, Figure, fact
from core.judge.server_readings import Readings
from core.percentiles import nearest_rank, percentiles
from core.records import GATEWAY_ENDINGS, NO_ERRORS, EngineSample, LoadDone, LoadTick, MachineSample, RequestRecord, ServerSample
from core.results import EngineUse, GatewayUse, Gauges, MachineUse, MeanLengths, Missed, OutputTokens, Stages
from core.slo import e2e_s, least_tpot_s, limits_of, tpot_s, ttft_s, uncounted

FINISHED_A_STEP = 2
"""A reading of the running sequences comes after those that a step finished have left: readings up to twice their mean number
(running / output tokens, rounded) below the highest count as being there. With 4 places and 32 tokens that is none, with
256 and 128 it is 4."""

MOST_FRAC = 0.9
"""So many of the failures must have a thing in common: one in ten may have failed for another reason."""
BY_CHANCE = 1 / 200
"""A likeness that failures at random would have more often than this is none. There are five of them, looked for in up to three
groups, and failures in fewer than one of a hundred simulated repeats had any (`test_failures_at_random_are_hardly_ever_alike`)."""
AGE_FRAC, AGE_S = 0.05, 0.05
"""Ages this close to their median are one: gateways look at their timers every few milliseconds, nginx and Envoy hardly less
exactly at 15 s, and a busy client or server adds tens of milliseconds."""
LEAST_AGE_S = 0.5
"""Nobody limits an answer of a model to less; refusals at once are all of one age too, that of a round trip."""
MOMENT_S = 0.5
"""The connections of a process that ends break within milliseconds, those behind a gateway within a few hundred."""
BACKEND_OK_FRAC = 0.6
"""A backend that gave this part of the good answers is not told from the others by its failures."""
_NO_FAILURE = (*NO_ERRORS, "client")


def missed(records: Iterable[RequestRecord], slo: Slo) -> Missed:
    """Misses by limit. Requests that we cut off count where their time until then was past a limit already."""
    ttft = tpot = e2e = failed = gateway = previous = 0
    for r in records:
        if r.ending == "previous_failed":
            previous += 1
            continue
        if r.ending in GATEWAY_ENDINGS:
            gateway += 1
            continue
        if r.ending not in NO_ERRORS:
            failed += 1
            continue
        own, (late_first, late_last, slow) = limits_of(r, slo), _past(r)
        first, last = _over(late_first, own.ttft_s), _over(late_last, own.e2e_s)
        ttft += first
        e2e += last
        tpot += _over(slow, own.tpot_s)
        waited_s = r.gateway_wait_s
        gateway += (first or last) and not (_over(late_first - waited_s, own.ttft_s) or _over(late_last - waited_s, own.e2e_s))
    return Missed(ttft=ttft, tpot=tpot, e2e=e2e, failed=failed, gateway=gateway, previous=previous)


def _over(value_s: float, limit_s: float | None) -> bool:
    return limit_s is not None and value_s > limit_s


def gateway_use(limit: int, records: Sequence[RequestRecord]) -> GatewayUse:
    """What a gateway's limit did to these requests of a window."""
    endings = Counter(r.ending for r in records)
    held = [r for r in records if r.gateway_wait_s > 0 and r.ending != "rejected"]
    return GatewayUse(
        limit=limit,
        wait_s=percentiles(r.gateway_wait_s for r in records if r.ending != "rejected"),
        held=len(held),
        rejected=endings["rejected"],
        timed_out=endings["queue_timeout"],
        never_sent=sum(r.t_sent is None and (r.ending in GATEWAY_ENDINGS or r.gateway_wait_s > 0) for r in records),
    )


def mostly_failed(missed: Missed, misses: int) -> bool:
    """Whether at least half of what missed ended in errors. `misses`: all that are known to have missed; at least the errors and
    those late by the limit that was missed most. Turns behind one that failed are misses of that one's kind, and not counted."""
    late = max(missed.ttft, missed.tpot, missed.e2e)
    return missed.failed > 0 and 2 * missed.failed >= max(misses - missed.previous, missed.failed + late)


def waited_at_gateway(ok: Sequence[RequestRecord]) -> bool:
    """Whether these requests, which ended ok, waited longer at a gateway's limit than at the server for their first tokens."""
    return 2 * sum(r.gateway_wait_s for r in ok) > sum(ttft_s(r) or 0.0 for r in ok)


def errors_said(records: Iterable[RequestRecord]) -> str | None:
    """The most frequent sentence of the errors, without its full stop; None where none says anything."""
    said = Counter(r.error.rstrip(".") for r in records if r.ending not in NO_ERRORS and r.error)
    return said.most_common(1)[0][0] if said else None


def errors_first(records: Sequence[RequestRecord], slo: Slo) -> Fact | None:
    """How many of these requests ended in errors, and in which, where those are at least half of what missed; else None. Turns
    that were not sent because one before them had failed are left out."""
    records = [r for r in records if r.ending != "previous_failed"]
    by_limit = missed(records, slo)
    if not mostly_failed(by_limit, sum(missed([r], slo) != Missed() for r in records)):
        return None
    ended = sum(r.ending != "aborted" for r in records)
    endings: dict[str, int] = dict(Counter(r.ending for r in records if r.ending not in NO_ERRORS))
    return fact("ended_in_errors", errors=by_limit.failed, ended=ended, said=errors_said(records), endings=endings)


def failures_alike(records: Sequence[RequestRecord]) -> Fact | None:
    """What those of these requests that failed have in common (`alike`); our own failures are left out."""
    failed = [r for r in records if r.ending not in _NO_FAILURE]
    return alike(failed, [r for r in records if r.ending in ("ok", "aborted")]) if failed else None


def alike(failed: Sequence[RequestRecord], others: Sequence[RequestRecord]) -> Fact | None:
    """What failures have in common that the `others` (answered, or cut off by us) have not: the age at which they ended, the
    moment, the number of tokens, prompts above a size, the backend. None where there is nothing that chance does not explain.

    All failures are looked at, or else the broken answers and the HTTP errors each by themselves. `n` of the `errors` have it;
    a figure is None where they differ in it. `until_first`: it is the first token that may not be older than `age_s`.
    """
    sent = [r for r in failed if r.t_sent is not None]
    broken, refused = ([r for r in sent if (r.ending == "http") == http] for http in (False, True))
    for group in (sent, broken, refused):
        if found := _common(group, others):
            return fact(
                "failures_alike",
                errors=len(failed),
                n=min(n for n, _ in found),
                **_NOTHING_ALIKE | {name: value for _, figures in found for name, value in figures.items()},
            )
    return None


_Alike = tuple[int, dict[str, Figure]]
"""How many requests share it, and its figures."""
_NOTHING_ALIKE: dict[str, Figure] = {
    "age_s": None,
    "until_first": None,
    "moment_s": None,
    "tokens": None,
    "prompt_over_tokens": None,
    "backend": None,
    "backend_ok_frac": None,
}


def _common(group: Sequence[RequestRecord], others: Sequence[RequestRecord]) -> list[_Alike]:
    least = math.ceil(MOST_FRAC * len(group))
    if least < 2:
        return []
    age = _same_age(group, others, least)
    tokens = _same_tokens(group, others, least, aged=age is not None)
    moment = None if age else _same_moment(group, least)
    found = (age, moment, tokens, _long_prompts(group, others, least), _same_backend(group, others, least))
    return [each for each in found if each is not None]


def _same_age(group: Sequence[RequestRecord], others: Sequence[RequestRecord], least: int) -> _Alike | None:
    """Ended at one age that no other request got past: a limit of time on the way. Where none of them had a token, others may have
    got older with theirs. Two that were sent and broke together are of one age too; then something else must have lived on."""
    aged = [r for r in group if r.output_tokens < r.asked_output]
    if len(aged) < least:
        return None
    ages = sorted(map(_age_s, aged))
    low = _closest(ages, least)
    age_s, spread_s = ages[low + least // 2], ages[low + least - 1] - ages[low]
    near_s = max(AGE_S, AGE_FRAC * age_s)
    same = [r for r in aged if abs(_age_s(r) - age_s) <= near_s]
    if age_s < LEAST_AGE_S or len(same) < least or not _outlived(same, group, others):
        return None
    lived = [_age_s(r) for r in others if r.t_sent is not None]
    until_first = max(lived, default=0.0) > age_s + near_s
    if until_first:
        if any(r.t_first is not None for r in same):
            return None
        lived = [_age_s(r) if r.t_first is None else r.t_first - r.t_sent for r in others if r.t_sent is not None]
    if max(lived, default=0.0) > age_s + near_s:
        return None
    n = len(same)
    oldest = _drawn(n + len(lived), n, n, n)
    if _within(len(group), least, spread_s / age_s) * oldest >= BY_CHANCE:
        return None
    return n, {"age_s": age_s, "until_first": until_first}


def _outlived(same: Sequence[RequestRecord], group: Sequence[RequestRecord], others: Sequence[RequestRecord]) -> bool:
    """Whether these ended at more than one moment, or something that was open before it was still open after it."""
    first, last = min(r.t_end for r in same), max(r.t_end for r in same)
    return last - first > MOMENT_S or any(r.t_sent is not None and r.t_sent < first and r.t_end > last for r in (*group, *others))


def _same_moment(group: Sequence[RequestRecord], least: int) -> _Alike | None:
    """Ended together, though they were sent apart."""
    by_end = sorted(group, key=lambda r: r.t_end)
    low = _closest([r.t_end for r in by_end], least)
    together = by_end[low : low + least]
    sent = [r.t_sent for r in together if r.t_sent is not None]
    spread_s, sent_s = together[-1].t_end - together[0].t_end, max(sent) - min(sent)
    if spread_s > MOMENT_S or sent_s <= 0 or _within(len(group), least, spread_s / sent_s) >= BY_CHANCE:
        return None
    return least, {"moment_s": spread_s}


def _same_tokens(group: Sequence[RequestRecord], others: Sequence[RequestRecord], least: int, *, aged: bool) -> _Alike | None:
    """Ended after one number of tokens, fewer than asked for and more than came at once. Where answers have one speed, those that
    are cut at one age have that too: if others got more tokens, it is the age."""
    short = Counter(r.output_tokens for r in group if r.first_tokens < r.output_tokens < r.asked_output)
    if not short:
        return None
    tokens, n = short.most_common(1)[0]
    possible = min(r.asked_output for r in group) - 1
    if n < least or math.comb(len(group), n) * possible ** (1 - n) >= BY_CHANCE:
        return None
    if aged and any(r.output_tokens > tokens for r in others):
        return None
    return n, {"tokens": tokens}


def _long_prompts(group: Sequence[RequestRecord], others: Sequence[RequestRecord], least: int) -> _Alike | None:
    """All of a prompt longer than any that was answered."""
    served = [r.asked_input for r in others if r.t_first is not None]
    over = max(served, default=0)
    n = sum(r.asked_input > over for r in group)
    if not served or n < least or _drawn(len(group) + len(served), n, len(group), n) >= BY_CHANCE:
        return None
    return n, {"prompt_over_tokens": over}


def _same_backend(group: Sequence[RequestRecord], others: Sequence[RequestRecord], least: int) -> _Alike | None:
    """All from one of several backends, which most of the good answers did not come from."""
    failed = Counter(r.backend for r in group if r.backend is not None)
    served = Counter(r.backend for r in others if r.t_first is not None and r.backend is not None)
    if not failed or not served:
        return None
    backend, n = failed.most_common(1)[0]
    ok, all_ok, all_failed = served[backend], served.total(), failed.total()
    by_chance = len(failed | served) * _drawn(all_failed + all_ok, n + ok, all_failed, n)
    if n < least or ok >= BACKEND_OK_FRAC * all_ok or by_chance >= BY_CHANCE:
        return None
    return n, {"backend": backend, "backend_ok_frac": ok / all_ok}


def _age_s(r: RequestRecord) -> float:
    return r.t_end - (r.t_sched if r.t_sent is None else r.t_sent)


def _closest(values: Sequence[float], n: int) -> int:
    """Where in these sorted values the `n` begin that lie nearest to each other."""
    return min(range(len(values) - n + 1), key=lambda low: values[low + n - 1] - values[low])


def _within(n: int, least: int, frac: float) -> float:
    """At most how likely `least` of `n` values spread evenly over a range lie within this part of it."""
    return min(1.0, math.comb(n, least) * least * min(1.0, frac) ** (least - 1))


def _drawn(total: int, marked: int, drawn: int, least: int) -> float:
    """How likely at least `least` of `drawn` are marked ones, where `marked` of `total` are (hypergeometric)."""
    most, whole = min(drawn, marked), log_comb(total, drawn)
    fewest = max(least, drawn + marked - total)
    return sum(math.exp(log_comb(marked, i) + log_comb(total - marked, drawn - i) - whole) for i in range(fewest, most + 1))


def _past(r: RequestRecord) -> tuple[float, float, float]:
    """TTFT, E2E and TPOT in seconds; of a request that was cut off, the least that they can have become."""
    if r.ending == "ok":
        return ttft_s(r) or 0.0, e2e_s(r) or 0.0, least_tpot_s(r) or 0.0
    since_s = r.t_end - r.t_sched
    later = r.asked_output - r.first_tokens
    if r.t_first is None:
        return since_s, since_s, 0.0
    return r.t_first - r.t_sched, since_s, (r.t_end - r.t_first) / later if later > 0 else 0.0


def lengths(ok: Sequence[RequestRecord], stop: Stop = "exact") -> MeanLengths | None:
    """None where nothing ended ok. The mean prompt is None where the server counted none."""
    if not ok:
        return None
    prompts = [r.prompt_tokens for r in ok if r.prompt_tokens is not None]
    return MeanLengths(
        input=fmean(prompts) if prompts else None,
        input_asked=fmean(r.asked_input for r in ok),
        output=fmean(r.output_tokens for r in ok),
        output_asked=fmean(r.asked_output for r in ok),
        finish_reasons=dict(Counter(r.finish_reason or "none" for r in ok)),
        stop=stop,
    )


def answered(records: Iterable[RequestRecord], planned: Iterable[int]) -> list[RequestRecord]:
    """The ok answers to the first of the requests with these indices, up to one that had not ended by itself when the load was
    stopped: of all that had ended by then too many are short, since the long ones were still open."""
    ended = {r.index: r for r in records if r.ending != "aborted"}
    whole = takewhile(ended.__contains__, planned)
    return [ended[index] for index in whole if ended[index].ending == "ok"]


def output_tokens(answers: Sequence[RequestRecord]) -> OutputTokens | None:
    """How long these answers were; None without any, and where one was counted by events that may hold more than one token."""
    if not answers or any(map(uncounted, answers)):
        return None
    tokens = np.sort(np.array([r.output_tokens for r in answers], dtype=np.float64))
    return OutputTokens(
        mean=float(tokens.mean()),
        sd=float(tokens.std(ddof=1)) if tokens.size > 1 else 0.0,
        p50=nearest_rank(tokens, 0.50),
        p90=nearest_rank(tokens, 0.90),
        p95=nearest_rank(tokens, 0.95),
        n=int(tokens.size),
    )


def stopped_frac(answers: Sequence[RequestRecord]) -> float | None:
    """The share of these answers that a stop condition ended; one without a finish reason is whole by its count."""
    return fmean(r.finish_reason not in ("length", None) for r in answers) if answers else None


def stages(readings: Readings, records: Sequence[RequestRecord]) -> Stages | None:
    """`records`: all of the repeat's. None where the server has no such histograms, was not read twice, or finished nothing
    meanwhile."""
    finished = max(readings.count("queue_time_s"), readings.count("prefill_time_s"), readings.count("decode_time_s"))
    if not finished:
        return None
    begin, end = readings.samples[0].t, readings.samples[-1].t
    ended = [r for r in records if r.ending == "ok" and begin < r.t_end <= end]
    return Stages(
        finished=finished,
        queue_s=readings.mean("queue_time_s"),
        prefill_s=readings.mean("prefill_time_s"),
        decode_s=readings.mean("decode_time_s"),
        ttft_s=_mean(map(ttft_s, ended)),
        tpot_s=_mean(map(tpot_s, ended)),
        gateway_s=_mean(r.gateway_wait_s for r in ended) if any(r.gateway_wait_s for r in ended) else None,
    )


def gauges(samples: Sequence[ServerSample], start: float, until: float, output_tokens: float | None) -> Gauges | None:
    """The readings from `start` to `until`, which is when the load was stopped: later ones show it drain away.

    `output_tokens`: of a mean answer. None where the server shows neither running nor waiting requests.
    """
    seen = [s for s in samples if start <= s.t <= until and s.running is not None and s.waiting is not None]
    most = max((len(s.by_engine or ()) for s in seen), default=0)
    seen = [s for s in seen if not s.by_replica or len(s.by_engine or ()) == most]  # a sum of fewer is no less of work
    if not seen:
        return None
    queued = [s for s in seen if (s.waiting or 0.0) >= 1]
    highest = max(s.running or 0.0 for s in seen)
    leaving = round(FINISHED_A_STEP * highest / output_tokens) if output_tokens else 0
    return Gauges(
        readings=len(seen),
        waiting_mean=fmean(s.waiting or 0.0 for s in seen),
        running_mean=fmean(s.running or 0.0 for s in seen),
        kv_usage_mean=_mean(_kv(s) for s in seen),
        queued=len(queued),
        queued_running_mean=_mean(s.running for s in queued),
        queued_kv_usage_mean=_mean(_kv(s) for s in queued),
        plateau=sum((s.running or 0.0) >= highest - leaving for s in queued),
        waiting_deferred_mean=_mean(s.waiting_deferred for s in seen),
        engines=engines(seen),
    )


def engines(samples: Sequence[ServerSample]) -> tuple[EngineUse, ...]:
    """Each engine that these readings show, in their order; empty where there is one."""
    rows = [row for s in samples for row in s.by_engine or () if row.running is not None and row.waiting is not None]
    by_name: dict[str, list[EngineSample]] = {}
    for row in rows:
        by_name.setdefault(row.name, []).append(row)
    found = tuple(
        EngineUse(
            name=name,
            running_mean=fmean(row.running or 0.0 for row in each),
            waiting_mean=fmean(row.waiting or 0.0 for row in each),
            kv_usage_mean=_mean(row.kv_usage_frac for row in each),
        )
        for name, each in by_name.items()
    )
    return found if len(found) > 1 else ()


def client_cpu(ticks: Sequence[LoadTick], done: LoadDone | None) -> float | None:
    """The highest share of one core that the load generator reported to use; None without any report."""
    return max([*(tick.cpu_frac for tick in ticks), *([done.cpu_frac] if done else [])], default=None)


def machine(samples: Sequence[MachineSample], start: float, until: float) -> MachineUse | None:
    """Means over the exporter's readings from `start` to `until`; None without any."""
    seen = [s for s in samples if start <= s.t <= until]
    if not seen:
        return None
    known = [s.cpu_s for s in seen if s.cpu_s is not None]
    busy, whole = (known[-1][0] - known[0][0], known[-1][1] - known[0][1]) if len(known) > 1 else (0.0, 0.0)
    return MachineUse(
        gpus=max((s.gpus for s in seen if s.gpus is not None), default=None),
        gpu_frac=_mean(s.gpu_frac for s in seen),
        dram_frac=_mean(s.dram_frac for s in seen),
        tensor_frac=_mean(s.tensor_frac for s in seen),
        gpu_memory_frac=max((s.gpu_memory_frac for s in seen if s.gpu_memory_frac is not None), default=None),
        cpu_frac=min(1.0, busy / whole) if whole > 0 and busy >= 0 else None,
        memory_frac=_mean(s.memory_frac for s in seen),
    )


def _kv(sample: ServerSample) -> float | None:
    return sample.kv_usage_frac if sample.kv_usage_max_frac is None else sample.kv_usage_max_frac


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None


def log_comb(n: int, k: int) -> float:
    """The logarithm of how many ways there are to choose k of n, which is a float for any n."""
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
