"""From a tally to a verdict: what a repeat was, with the numbers of its measured window behind it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from core.facts import Fact, Said, fact, several
from core.judge import caveats, evidence, replicas, validity
from core.judge.breakdown import worst_block
from core.judge.buckets import buckets, sizes
from core.judge.evidence import errors_first
from core.judge.server_readings import Readings
from core.judge.stopping import REPORT_DELAY_S, Decision, decide_ramp, decide_step, errors, out_of_reach, window_queue, within_reach
from core.judge.tally import Tally
from core.judge.window import slo_margin, work
from core.modes import warmup_needed_s
from core.percentiles import percentiles
from core.prefixes import hit_frac
from core.records import LoadDone, LoadTick, MachineSample, Phase, RequestRecord, ServerInfo, ServerSample
from core.results import (
    Bounds,
    JudgeRules,
    Missed,
    Percentiles,
    QueueVerdict,
    RepeatResult,
    RepeatVerdict,
    ReplicaUse,
    WindowWork,
    WorkerUse,
)
from core.shared_blocks import found_frac
from core.slo import allowed_misses, e2e_s, needed_good, too_many_errors, tpot_s, ttft_s


@dataclass(frozen=True, slots=True)
class Latencies:
    """Over the requests scheduled in the window that ended ok: those that failed have no latency. In seconds."""

    ttft_s: Percentiles
    tpot_s: Percentiles
    e2e_s: Percentiles
    itl_s: Percentiles

    @classmethod
    def of(cls, ok: Sequence[RequestRecord], itl_s: Percentiles) -> "Latencies":
        """`itl_s`: of their gaps, which the tally has summed up."""
        return cls(
            ttft_s=percentiles(v for r in ok if (v := ttft_s(r)) is not None),
            tpot_s=percentiles(v for r in ok if (v := tpot_s(r)) is not None),
            e2e_s=percentiles(v for r in ok if (v := e2e_s(r)) is not None),
            itl_s=itl_s,
        )


def warmup_needed(measured: Sequence[RequestRecord]) -> float | None:
    """The warm-up in seconds that requests as long as these need; None where none ended well.

    A request that was cut off had lasted for some time: where that is longer than the mean it counts, or a pass that was certain
    before the longest answers ended would know nothing of them.
    """
    lasted_s = np.array([v for r in measured if r.ending == "ok" and (v := e2e_s(r)) is not None])
    if not lasted_s.size:
        return None
    cut_s = np.array([r.t_end - r.t_sched for r in measured if r.ending == "aborted"])
    all_s = np.append(lasted_s, cut_s[cut_s > lasted_s.mean()])
    return warmup_needed_s(all_s)


@dataclass(frozen=True, slots=True)
class Rates:
    """Per second of the window. Of a repeat that was cut short, only the part of the window that had passed counts: its
    arrivals as planned, what finished in it, what of it is good. All but `offered_rps` are 0 where no part had passed.

    Finishes are ok requests, whenever they were sent, whose last token came inside the window: so a straggler moves
    nothing. Their tokens are `output_tps`, and with the prompts (as the server counted them, else as asked) `total_tps`.
    """

    offered_rps: float
    served_rps: float
    goodput_rps: float
    output_tps: float
    total_tps: float

    @classmethod
    def of(cls, tally: Tally, planned: int, good: int, cut_at: float) -> "Rates":
        """`cut_at`: when the load was stopped; after the end of the window it does not matter."""
        start, end = tally.layout.window
        passed_s = min(cut_at, end) - start
        if passed_s <= 0:
            planned_rps = planned / (end - start) if end > start else 0.0
            return cls(offered_rps=planned_rps, served_rps=0.0, goodput_rps=0.0, output_tps=0.0, total_tps=0.0)
        until = start + passed_s
        finished = [r for r in tally.records if r.ending == "ok" and r.t_last is not None and start <= r.t_last < until]
        output = sum(r.output_tokens for r in finished)
        prompt = sum(r.asked_input if r.prompt_tokens is None else r.prompt_tokens for r in finished)
        return cls(
            offered_rps=(planned if cut_at >= end else tally.layout.due_before(cut_at)) / passed_s,
            served_rps=len(finished) / passed_s,
            goodput_rps=good / passed_s,
            output_tps=output / passed_s,
            total_tps=(prompt + output) / passed_s,
        )


__all__ = ["Decision", "decide_ramp", "decide_step", "judge_repeat"]

_WHOLE_WINDOW = ("pass", "complete", "drained")
SHOWN_S = 2.0
"""Four readings at two a second: fewer show nothing of how a server stood."""
_REFUSED = ("http", "connection", "client")
"""Endings that the server cannot have counted as a success."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Evidence:
    """Everything a verdict rests on. `ok`: measured requests that ended ok. `alike`: what all failures have in common."""

    tally: Tally
    decision: Decision | None
    rules: JudgeRules
    readings: Readings
    ticks: Sequence[LoadTick]
    done: LoadDone | None
    server: ServerInfo
    bounds: Bounds
    ok: Sequence[RequestRecord]
    latencies: Latencies
    warmup_needed_s: float | None
    queue: QueueVerdict | None
    rates: Rates
    others: float | None
    machine: Sequence[MachineSample]
    alike: Fact | None
    workers: tuple[WorkerUse, ...]
    cut_at: float

    @property
    def by_replica(self) -> bool:
        """Whether the readings are of replicas behind a gateway."""
        return any(sample.by_replica for sample in self.readings.samples)

    @property
    def replicas(self) -> tuple[ReplicaUse, ...]:
        """What each of them did in the window."""
        return replicas.replica_uses(self.readings.samples, *self.tally.layout.window)

    @property
    def closed(self) -> bool:
        """Whether every measured request counts as decided."""
        all_decided = self.bounds.good + self.bounds.bad == self.bounds.planned
        return all_decided or (self.decision is not None and self.decision.kind in ("complete", "drained"))

    @property
    def whole_window(self) -> bool:
        """Whether all of the window was offered, at one rate."""
        return self.decision is not None and self.decision.kind in _WHOLE_WINDOW and not _is_ramp(self.tally)

    @property
    def uncurtailed(self) -> bool:
        """Whether besides every request in it counts as decided."""
        return self.whole_window and self.closed

    @property
    def counted_hit_frac(self) -> float | None:
        """Prefix hits by the server's counters. They are everybody's: with others, only what it told of our own requests counts."""
        return None if self.rules.with_others else self.readings.prefix_hit_frac

    @property
    def planned_hit_frac(self) -> float | None:
        """Prefix hits as planned for the requests that the server has begun with; None where nothing is planned."""
        begun = [r for r in self.tally.records if r.t_first is not None]
        lengths, plan = [r.asked_input for r in begun], self.tally.plan
        known = plan.said_before if self.rules.prefix.kind == "turns" else plan.known_tokens
        if known is None:
            return hit_frac(self.rules.prefix, lengths, self.rules.block_tokens)
        return found_frac(known[[r.index for r in begun]], lengths, self.rules.block_tokens) if begun else None

    @property
    def planned_ok(self) -> Sequence[RequestRecord]:
        """Those of `ok` whose prompts were known beforehand: not later turns, which hold the answers that came."""
        after = self.tally.plan.after
        return self.ok if after is None else [r for r in self.ok if after[r.index] < 0]

    @property
    def loop_lags_s(self) -> list[float]:
        """The client's longest stall in each of its reports."""
        return [tick.loop_lag_max_s for tick in self.ticks]

    @property
    def loop_lag_max_s(self) -> float | None:
        """The longest of all; None without any report."""
        return max([*self.loop_lags_s, *([self.done.loop_lag_max_s] if self.done else [])], default=None)


def judge_repeat(
    tally: Tally,
    decision: Decision | None,
    now: float,
    rules: JudgeRules,
    samples: Sequence[ServerSample],
    ticks: Sequence[LoadTick],
    done: LoadDone | None,
    server: ServerInfo,
    machine: Sequence[MachineSample] = (),
) -> RepeatResult:
    """The judged repeat; `decision` None means it was interrupted: unjudged. So is a ramp that is not void: its numbers are over
    all its segments, and it only says where to look.

    `now`: when it was decided, or later; on the clock of the events. `samples`: readings of the server from just before
    the repeat's start to its end, `machine` those of a GPU or host exporter. Of a repeat that was cut short the attainment is
    an interval, and requests cut off undecided are neither good nor missed.
    """
    ok = [r for r in tally.measured_records if r.ending == "ok"]
    bounds, cut_at = tally.bounds(now - REPORT_DELAY_S), _cut_at(tally, done, now)
    known = _Evidence(
        tally=tally,
        decision=decision,
        rules=rules,
        readings=Readings(samples),
        ticks=ticks,
        done=done,
        server=server,
        bounds=bounds,
        ok=ok,
        latencies=Latencies.of(ok, tally.itl_s),
        warmup_needed_s=warmup_needed(tally.measured_records),
        queue=_queue(tally, decision),
        rates=Rates.of(tally, bounds.planned, bounds.good, cut_at),
        others=_others(tally, samples),
        machine=machine,
        alike=evidence.failures_alike(tally.records),
        workers=() if tally.senders is None else tally.senders.uses(*tally.traffic.lateness_by_request, ticks),
        cut_at=cut_at,
    )
    void = tuple(reason for reason in _void_reasons(known) if reason)
    verdict, reason = _verdict(known, void)
    warnings = (*(each for each in _warnings(known, verdict) if each), *(void if verdict == "unjudged" else ()))
    return _result(known, verdict, reason, warnings, now)


_NO_LUCK: frozenset[Phase] = frozenset({"ramp", "hold"})
"""Segments of a ramp are no windows; a held rate has so many that some are always lucky."""


def _is_ramp(tally: Tally) -> bool:
    return tally.order.phase == "ramp"


def _queue(tally: Tally, decision: Decision | None) -> QueueVerdict | None:
    """Of the whole window at one rate, and of what a repeat was lengthened by; anything less has no verdict."""
    if decision is None or decision.kind not in _WHOLE_WINDOW or _is_ramp(tally):
        return None
    return window_queue(tally, decision.queue_until)


def _void_reasons(e: _Evidence) -> Iterable[Fact | None]:
    tally, layout, slo = e.tally, e.tally.layout, e.rules.slo
    rate_rps = layout.segments[tally.measured[0]].rate_rps if tally.measured else 0.0
    yield validity.nothing_planned(e.bounds.planned, layout.length_s("measured"), rate_rps)
    if e.rules.strict and not _is_ramp(tally):
        yield validity.too_few(e.bounds.planned, slo.target)
    yield validity.client_failed(tally.records)
    yield validity.refused(tally.records, max(e.bounds.planned, tally.sent_count), slo.max_error_rate)
    # What waited for a gateway's limit, or was turned away there, is a miss of its own and among `bounds.sent`.
    # So is a turn of a conversation that was not due yet: it waits for an answer that takes too long.
    drained = e.decision is not None and e.decision.kind == "drained"
    never_sent = e.bounds.planned - e.bounds.sent - tally.not_due() if drained else 0
    yield _unsent(e, max(never_sent, e.done.unsent if e.done else 0))
    # Of several machines the one that is too late is too late whatever the rest of them do, and is named.
    yield validity.worker_late(e.workers, slo.shortest_ttft_s) or validity.late(tally.lateness_s, slo.shortest_ttft_s)
    yield _stalled(e)
    yield replicas.changed(e.readings.samples) if e.by_replica else validity.restarted(e.readings.breaks, tally.records)
    if e.rules.prefix.cold:
        yield validity.warm_prompts(e.counted_hit_frac, e.ok)
    elif e.rules.prefix.kind != "turns" and not e.rules.hits_told:
        yield _hits_off(e)
    if e.rules.stop == "exact":
        yield validity.short_answers(e.ok)
    yield validity.long_answers(tally.records, slo)
    if not e.rules.estimated:
        yield validity.prompt_length_off(e.planned_ok)
    if not e.rules.with_others:
        yield validity.others_took_part(e.others, tally.sent_count)
    yield validity.in_clumps(e.ok, slo, e.readings.mean("decode_time_s"))
    yield validity.tpot_undecidable(e.ok, slo)


def _unsent(e: _Evidence, requests: int) -> Fact | None:
    """`requests`: how many could not be sent, whoever was to send them."""
    senders, until = e.tally.senders, min(e.cut_at, e.tally.layout.window[1])
    if not requests or senders is None:
        return validity.unsent(requests)
    left = senders.counts(e.tally.left_out(until))
    return validity.worker_unsent(dict(zip(senders.names, left, strict=True))) or validity.unsent(requests)


def _stalled(e: _Evidence) -> Fact | None:
    """Of several machines each by its own reports: what they report together has the worst of them, and of many that are good one
    or the other has its forgivable stall all the time."""
    senders, limit_s = e.tally.senders, e.rules.slo.shortest_ttft_s
    told = () if senders is None else senders.ticks(e.ticks)
    if senders is None or not any(told):
        return validity.stalled(e.loop_lags_s, limit_s)
    lags_s = [[tick.loop_lag_max_s for tick in own] for own in told]
    return validity.worker_stalled(dict(zip(senders.names, lags_s, strict=True)), limit_s)


def _hits_off(e: _Evidence) -> Fact | None:
    """Prefix hits off the plan: that of the very requests that the server has begun with, since few of them are no average."""
    counted, told = e.counted_hit_frac, validity.told_hit_frac(e.ok)
    planned, kv_tokens = e.planned_hit_frac, e.server.kv_cache_tokens
    hits = told if counted is None else counted
    if e.rules.prefix.kind == "turns":
        return validity.turns_hits_off(hits, planned, counted=counted is not None)
    if e.rules.prefix.kind == "trace":
        return validity.trace_hits_off(hits, planned, kv_tokens, counted=counted is not None)
    return validity.hits_off(hits, planned, e.rules.prefix, kv_tokens, counted=counted is not None)


def _others(tally: Tally, samples: Sequence[ServerSample]) -> float | None:
    """At least how many requests of others the server had meanwhile."""
    refused = [r.t_end for r in tally.records if r.ending in _REFUSED and tally.traffic.has_left(r.index)]
    return Readings(samples).others(tally.traffic.sent_at, np.array(refused), tally.stopped_at)


def _others_rps(e: _Evidence) -> float | None:
    """Without those that they had there before: however long these run, they came once."""
    samples, traffic = e.readings.samples, e.tally.traffic
    over_s = samples[-1].t - samples[0].t if samples else 0.0
    if e.others is None or over_s <= 0:
        return None
    first = samples[0]
    ours = int(np.count_nonzero(traffic.sent_at <= first.t)) - int(np.count_nonzero(traffic.ended_at <= first.t))
    standing = max(0.0, (first.running or 0.0) + (first.waiting or 0.0) - ours)
    return max(0.0, e.others - standing) / over_s


def _verdict(e: _Evidence, void: tuple[Fact, ...]) -> tuple[RepeatVerdict, Said]:
    """Void before fail before pass."""
    if e.decision is None:
        return "unjudged", fact("undecided")
    if void:
        return "void", several(*void)
    if _is_ramp(e.tally):
        return "unjudged", fact("ramp_hint", e.decision.reason)
    slo, planned = e.rules.slo, e.bounds.planned
    first, lost = errors_first(e.tally.measured_records, slo), e.bounds.bad > allowed_misses(planned, slo.target)
    if lost and not e.closed:
        return "fail", _after(first, out_of_reach(e.bounds, slo.target))  # with what came in since the decision
    if e.decision.kind == "overload":
        return "fail", _after(errors_first(e.tally.records, slo), e.decision.reason)
    if e.decision.kind == "fail":
        return "fail", _after(first if lost else None, e.decision.reason)
    attained = _attained(e, e.decision)
    if e.bounds.good < needed_good(planned, slo.target):
        return "fail", _after(first, attained)
    if too_many_errors(e.tally.measured_errors, planned, slo.max_error_rate):
        return "fail", errors(e.tally, planned, slo.max_error_rate)
    if e.queue == "rising":
        return "fail", fact("gateway_queue_rising" if evidence.waited_at_gateway(e.ok) else "queue_rising", attained)
    if (lull := _lull(e)) is not None:
        return "void", lull
    return "pass", attained


def _lull(e: _Evidence) -> Fact | None:
    """Whether a recording brought too little to pass by. A held rate goes on through its lulls."""
    tally, layout = e.tally, e.tally.layout
    if tally.order.parts is None or tally.order.phase in _NO_LUCK:
        return None
    return validity.recorded_lull(e.bounds.planned, layout.length_s("measured"), layout.segments[tally.measured[0]].rate_rps)


def _after(first: Fact | None, reason: Fact) -> Said:
    """The reason of a fail; where it was errors, they are named first."""
    return reason if first is None else several(first, reason)


def _attained(e: _Evidence, decision: Decision) -> Fact:
    if not e.closed:
        return within_reach(e.bounds, e.rules.slo.target)
    missed = (decision.reason,) if decision.kind == "drained" else ()  # what was open then counts as missed
    share, planned = e.bounds.good / e.bounds.planned, e.bounds.planned
    return fact("attainment", *missed, attained_frac=share, planned=planned, target=e.rules.slo.target)


def _warnings(e: _Evidence, verdict: RepeatVerdict) -> Iterable[Fact | None]:
    slo, layout = e.rules.slo, e.tally.layout
    late = caveats.worker_lateness(e.workers, slo.shortest_ttft_s)
    yield late or caveats.lateness(e.tally.lateness_s, slo.shortest_ttft_s)
    if _stalled(e) is None:
        yield caveats.loop_lag(e.loop_lag_max_s or 0.0, slo.shortest_ttft_s)
    if e.decision is not None:  # without a verdict nothing rests on what would have gone unseen
        yield caveats.unread(len(e.readings.samples), e.server.has_metrics)
    if not e.rules.prefix.cold:
        if e.rules.prefix.kind == "turns" and not e.rules.hits_told:
            yield _hits_off(e)
        if e.decision is not None and e.counted_hit_frac is None and validity.told_hit_frac(e.ok) is None:
            yield caveats.hits_unseen()
    yield caveats.several_processes(e.readings.mixed if e.by_replica else e.readings.breaks > 1)
    yield replicas.uneven(e.replicas)
    yield replicas.unused(e.replicas)
    yield replicas.unseen(e.readings.samples, e.tally.records)
    yield caveats.what_failed(e.tally.records, e.alike)
    yield caveats.resent(e.tally.records)
    yield caveats.turned_away(e.tally.measured_records)
    yield caveats.retried(e.tally.records)
    yield caveats.no_usage(e.ok)
    yield caveats.no_finish_reason(e.ok)
    yield caveats.no_tpot(e.ok, slo)
    yield caveats.tpot_unknown(e.ok, slo)
    if (brought := _work(e)) is not None and e.tally.order.phase not in _NO_LUCK:
        yield caveats.luck(verdict, brought.more_frac, e.tally.order.offsets_s is not None)
    if not e.whole_window:
        return
    yield caveats.few_requests(e.bounds.planned, slo.target)
    yield caveats.short_window(layout.length_s("measured"), e.latencies.e2e_s.mean)
    yield caveats.short_warmup(layout.length_s("warmup"), e.warmup_needed_s)
    if verdict == "pass" and e.closed:
        yield caveats.by_one_request(e.bounds.good, e.bounds.planned, slo.target)
    elif verdict == "pass":
        ended = len(e.ok) + e.tally.measured_errors + e.tally.never_sent
        yield caveats.left_open(e.bounds.planned - ended, e.bounds.planned)
    until = e.decision.queue_until if e.decision else None
    yield caveats.lengthened(None if until is None else until - layout.window[1])
    yield caveats.queue_undecided(e.queue)
    yield caveats.no_success(len(e.ok), e.bounds.planned)
    yield caveats.few_values(e.latencies.e2e_s.n)
    if e.latencies.tpot_s.n != e.latencies.e2e_s.n:
        yield caveats.few_values(e.latencies.tpot_s.n, "TPOT")
    if e.closed:
        yield caveats.token_rate_off(e.rates.output_tps, [r.output_tokens for r in e.ok], e.rates.served_rps)


def _result(e: _Evidence, verdict: RepeatVerdict, reason: Said, warnings: tuple[Fact, ...], now: float) -> RepeatResult:
    """One line per field of the result."""
    tally, bounds, readings, start_at = e.tally, e.bounds, e.readings, e.tally.order.start_at
    attainment = bounds.good / bounds.planned if e.closed and bounds.planned else None
    rates = e.rates
    shown_s = _shown(e, e.cut_at)
    lengths = evidence.lengths(e.ok or [r for r in tally.records if r.ending == "ok"], e.rules.stop)
    answers = evidence.answered(tally.measured_records, tally.measured_indices.tolist())
    missed = evidence.missed(tally.measured_records, e.rules.slo)
    if not e.closed and missed == Missed():  # over before one of the window's could miss: what missed in its warm-up
        missed = evidence.missed(tally.records, e.rules.slo)
    stretch = readings.since(shown_s[0]) if _is_ramp(tally) else readings
    return RepeatResult(
        index=tally.order.repeat,
        order=tally.order.order,
        verdict=verdict,
        reason=reason,
        attainment=attainment,
        attainment_interval=bounds.end if attainment is None else (attainment, attainment),
        planned=bounds.planned,
        sent=tally.measured_sent,
        succeeded=len(e.ok),
        good=bounds.good,
        misses=bounds.planned - bounds.good if e.closed else bounds.bad,
        errors=tally.measured_errors,
        error_rate=tally.measured_errors / bounds.planned if bounds.planned else 0.0,
        endings=dict(tally.measured_endings),
        errors_said=evidence.errors_said(tally.measured_records),
        failures_alike=e.alike,
        lateness_s=tally.lateness_s,
        queue=e.queue,
        offered_rps=rates.offered_rps,
        served_rps=rates.served_rps,
        goodput_rps=rates.goodput_rps,
        output_tps=rates.output_tps,
        total_tps=rates.total_tps,
        ttft_s=e.latencies.ttft_s,
        tpot_s=e.latencies.tpot_s,
        e2e_s=e.latencies.e2e_s,
        itl_s=e.latencies.itl_s,
        margin=tally.margin,
        output_tokens=evidence.output_tokens(answers),
        stopped_frac=evidence.stopped_frac(answers),
        slo_margin=None
        if _is_ramp(tally)
        else slo_margin(tally, bounds.planned, drained=e.decision is not None and e.decision.kind == "drained"),
        work=None if _is_ramp(tally) else _work(e),
        kv_usage_max=readings.highest("kv_usage_max_frac", "kv_usage_frac", since=shown_s[0]),
        preemptions=readings.delta("preemptions_total"),
        waiting_max=readings.highest("waiting", since=shown_s[0]),
        running_max=readings.highest("running", since=start_at),
        prefix_hit_frac=readings.prefix_hit_frac,
        planned_hit_frac=e.planned_hit_frac,
        worst_block=worst_block(tally, e.latencies.e2e_s.mean) if e.uncurtailed else None,
        buckets=buckets(tally, e.rules.classes, closed=e.closed),
        sizes=sizes(e.ok),
        loop_lag_max_s=e.loop_lag_max_s,
        others_rps=_others_rps(e),
        client_cpu_frac=evidence.client_cpu(e.ticks, e.done),
        client_memory_peak_bytes=e.done.memory_peak_bytes if e.done else None,
        missed=missed,
        gateway=evidence.gateway_use(e.rules.gateway.limit, tally.measured_records) if e.rules.gateway else None,
        retried=sum(r.retries > 0 for r in tally.measured_records),
        not_due=tally.not_due() if e.closed else 0,
        workers=e.workers,
        lengths=lengths,
        stages=evidence.stages(stretch, tally.records),
        gauges=evidence.gauges(readings.samples, *shown_s, lengths.output if lengths else None),
        machine=evidence.machine(e.machine, *shown_s),
        replicas=replicas.replica_uses(readings.samples, *shown_s),
        warmup_s=tally.layout.length_s("warmup"),
        warmup_needed_s=e.warmup_needed_s,
        measure_s=tally.layout.length_s("measured"),
        curtailed=not e.closed,
        duration_s=max(0.0, now - start_at),
        warnings=warnings,
    )


def _work(e: _Evidence) -> WindowWork | None:
    seen = e.latencies
    return work(e.tally, e.rules.costs, (seen.ttft_s.mean, seen.tpot_s.mean, seen.e2e_s.mean))


def _shown(e: _Evidence, cut_at: float) -> tuple[float, float]:
    """From when to when readings show the rate that was judged: from the window's begin (of a ramp that failed, from that of
    the segment that did) to the end of the load. Of a repeat that was over before, or hardly later, from the load's begin."""
    layout, start_at = e.tally.layout, e.tally.order.start_at
    begin = layout.window[0]
    if _is_ramp(e.tally) and e.decision is not None and e.decision.segment is not None:
        begin = start_at + sum(segment.duration_s for segment in layout.segments[: e.decision.segment])
    return (begin if cut_at - begin >= SHOWN_S else start_at), cut_at


def _cut_at(tally: Tally, done: LoadDone | None, now: float) -> float:
    """When the load was stopped: at the verdict, at the first request that was cut off, or when the generator was done."""
    known = (now, tally.stopped_at, done.t if done else None)
    return min(t for t in known if t is not None)
