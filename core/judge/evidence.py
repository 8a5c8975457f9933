"""What a repeat leaves behind for the diagnosis: which limits were missed, lengths, and the figures of server and host."""

from collections import Counter
from collections.abc import Iterable, Sequence
from statistics import fmean

from core.config import Slo
from core.facts import Fact, fact
from core.judge.server_readings import Readings
from core.records import EngineSample, LoadDone, LoadTick, MachineSample, RequestRecord, ServerSample
from core.results import EngineUse, Gauges, MachineUse, MeanLengths, Missed, Stages
from core.slo import e2e_s, least_tpot_s, tpot_s, ttft_s

FINISHED_A_STEP = 2
"""A reading of the running sequences comes after those that a step finished have left: readings up to twice their mean number
(running / output tokens, rounded) below the highest count as being there. With 4 places and 32 tokens that is none, with
256 and 128 it is 4."""


def missed(records: Iterable[RequestRecord], slo: Slo) -> Missed:
    """Misses by limit. Requests that we cut off count where their time until then was past a limit already."""
    ttft = tpot = e2e = failed = 0
    for r in records:
        if r.ending not in ("ok", "aborted"):
            failed += 1
            continue
        late_first, late_last, slow = _past(r)
        ttft += slo.ttft_s is not None and late_first > slo.ttft_s
        e2e += slo.e2e_s is not None and late_last > slo.e2e_s
        tpot += slo.tpot_s is not None and slow > slo.tpot_s
    return Missed(ttft=ttft, tpot=tpot, e2e=e2e, failed=failed)


def mostly_failed(missed: Missed, misses: int) -> bool:
    """Whether at least half of what missed ended in errors. `misses`: all that are known to have missed; at least the errors and
    those late by the limit that was missed most."""
    late = max(missed.ttft, missed.tpot, missed.e2e)
    return missed.failed > 0 and 2 * missed.failed >= max(misses, missed.failed + late)


def errors_said(records: Iterable[RequestRecord]) -> str | None:
    """The most frequent sentence of the errors, without its full stop; None where none says anything."""
    said = Counter(r.error.rstrip(".") for r in records if r.ending not in ("ok", "aborted") and r.error)
    return said.most_common(1)[0][0] if said else None


def errors_first(records: Sequence[RequestRecord], slo: Slo) -> Fact | None:
    """How many of these requests ended in errors, and in which, where those are at least half of what missed; else None."""
    by_limit = missed(records, slo)
    if not mostly_failed(by_limit, sum(missed([r], slo) != Missed() for r in records)):
        return None
    ended = sum(r.ending != "aborted" for r in records)
    endings: dict[str, int] = dict(Counter(r.ending for r in records if r.ending not in ("ok", "aborted")))
    return fact("ended_in_errors", errors=by_limit.failed, ended=ended, said=errors_said(records), endings=endings)


def _past(r: RequestRecord) -> tuple[float, float, float]:
    """TTFT, E2E and TPOT in seconds; of a request that was cut off, the least that they can have become."""
    if r.ending == "ok":
        return ttft_s(r) or 0.0, e2e_s(r) or 0.0, least_tpot_s(r) or 0.0
    since_s = r.t_end - r.t_sched
    later = r.asked_output - r.first_tokens
    if r.t_first is None:
        return since_s, since_s, 0.0
    return r.t_first - r.t_sched, since_s, (r.t_end - r.t_first) / later if later > 0 else 0.0


def lengths(ok: Sequence[RequestRecord]) -> MeanLengths | None:
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
    )


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
    )


def gauges(samples: Sequence[ServerSample], start: float, until: float, output_tokens: float | None) -> Gauges | None:
    """The readings from `start` to `until`, which is when the load was stopped: later ones show it drain away.

    `output_tokens`: of a mean answer. None where the server shows neither running nor waiting requests.
    """
    seen = [s for s in samples if start <= s.t <= until and s.running is not None and s.waiting is not None]
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
