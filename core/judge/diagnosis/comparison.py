"""The two repeats that a diagnosis compares, one that failed and one that held, and what follows from their figures."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from core.config import Slo
from core.facts import Fact, Figure
from core.judge.evidence import mostly_failed
from core.records import Phase, ServerInfo
from core.results import EngineUse, Idle, RepeatResult, StepResult

Limit = Literal["ttft", "tpot", "e2e"]

QUEUED_SHARE = 0.1
"""Requests that wait in one of ten readings are a queue. At half the knee of simulated replicas with 8 places they waited in at
most 2 % of them; a rate that just fails may fail by a few moments of queue."""
FEWEST_QUEUED = 3
PLATEAU_SHARE = 0.5
"""Of the readings with waiting requests, simulated replicas with 8 places showed all taken in 64 to 85 % (a step that ends a
sequence leaves a gap); those without such a limit met their own highest number in at most 33 %, ..."""
NEAR_PLATEAU = 0.85
"""... and stood at 75 % of it on average, not at 95 %."""
AT_PLATEAU = 0.95
"""A repeat whose highest reading is below this share of the run's highest number was never at a limit: half a second apart, its
readings may miss the last few places while sequences leave, and no more."""
KV_FULL_FRAC = (0.75, 0.95)
"""A cache admits nobody once the free rest is smaller than a prompt: between these, by the prompt's share of the cache."""
_KV_KEPT_FREE = 0.02
TPOT_ROOM = 0.8
LATE_SHARE = 0.25
PREEMPTED_SHARE = 0.01
"""Preemptions per request. One in a hundred recomputed moves no attainment of 95 %."""
IDLE_SHARE = 0.6
"""Of the busiest engine's running sequences (or of its KV usage): an engine that is evenly loaded at random stays above it over a
window. At 20 sequences a second of half a second each, 40 s have a standard deviation of 5 % of the mean."""
WAITS_TOO = 0.1
FEWEST_RUNNING = 1.0


@dataclass(frozen=True, slots=True)
class Uneven:
    """The engine with the longest queue, else with the most sequences, and those that have room meanwhile."""

    busiest: EngineUse
    idle: tuple[EngineUse, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """`failing`: the repeat to be explained (of a run in which none failed, the highest that held), at `rate_rps`; `passing`: the
    highest one below it that held. `highest_running`: over all repeats of the run; of the `queued_at_all` readings with waiting
    requests in those that got there, `at_highest` showed it."""

    slo: Slo
    phase: Phase
    rate_rps: float
    failing: RepeatResult
    passing_rps: float | None
    passing: RepeatResult | None
    server: ServerInfo | None
    idle: Idle
    highest_running: float | None
    at_highest: int = 0
    queued_at_all: int = 0

    # --- where the time went ---

    @property
    def ttft_parts(self) -> tuple[float, float, float] | None:
        """Mean seconds of queue, prefill and what lies outside the engine (network, tokenising, the API process), without the wait
        at a gateway's limit."""
        stages = self.failing.stages
        if stages is None or stages.queue_s is None or stages.prefill_s is None or stages.ttft_s is None:
            return None
        return stages.queue_s, stages.prefill_s, max(0.0, self.server_ttft_s - stages.queue_s - stages.prefill_s)

    @property
    def server_ttft_s(self) -> float:
        """Mean TTFT of the requests that ended meanwhile, without their wait at a gateway's limit; 0 where none did."""
        stages = self.failing.stages
        return max(0.0, (stages.ttft_s or 0.0) - (stages.gateway_s or 0.0)) if stages is not None else 0.0

    @property
    def gateway_binds(self) -> bool:
        """Whether at least half of what missed did so by a gateway's limit alone; where nothing did and the queue rose, whether
        most requests waited there."""
        use, missed = self.failing.gateway, self.failing.missed
        if use is None or missed is None:
            return False
        most = max(missed.gateway, missed.ttft, missed.tpot, missed.e2e, missed.failed)
        if not most:
            return self.failing.queue == "rising" and 2 * use.held >= self.failing.planned
        return missed.gateway > 0 and 2 * missed.gateway >= max(most, self.failing.misses - missed.previous)

    @property
    def tpot_s(self) -> float | None:
        """Mean TPOT at the failing rate: of the window's requests, else of those that ended meanwhile (in a ramp only those
        belong to the rate that failed)."""
        stages, mean_s = self.failing.stages, self.failing.tpot_s.mean
        if (mean_s is None or self.phase == "ramp") and stages is not None:
            return stages.tpot_s
        return mean_s

    @property
    def late_unfinished(self) -> bool:
        """Whether the requests that ended had far better first tokens than the limit, though others missed it: a repeat that was
        cut short early. The server's histograms hold requests only when they have ended, so they know nothing of those."""
        stages, missed, limit_s = self.failing.stages, self.failing.missed, self.slo.shortest_ttft_s
        if stages is None or stages.ttft_s is None or missed is None or limit_s is None or not missed.ttft:
            return False
        return self.failing.curtailed and stages.ttft_s < LATE_SHARE * limit_s

    @property
    def engines(self) -> int:
        """How many engines the figures of the server are summed over."""
        seen = len(self.failing.gauges.engines) if self.failing.gauges else 0
        return max(1, seen, self.server.engines if self.server else 1)

    @property
    def prefill_load(self) -> float | None:
        """The share of the engine's time that prompts of the failing rate take by themselves: at most so much, by the lower of two
        bounds. At the idle server's speed, in which the network, the API process and a wait for anything else are too; and by the
        server's own prefill times, in which prompts of the same step and the tokens beside them are too."""
        bounds = [each for each in (self._idle_prefill_load, self._own_prefill_load) if each is not None]
        return min(bounds, default=None)

    @property
    def _idle_prefill_load(self) -> float | None:
        lengths, token_s = self.failing.lengths, self.idle.prefill_token_s
        if lengths is None or token_s is None:
            return None
        cold = 1 - (self.failing.prefix_hit_frac or 0.0)
        prompt_tokens = lengths.input_asked if lengths.input is None else lengths.input
        return self.rate_rps * prompt_tokens * cold * token_s / self.engines

    @property
    def _own_prefill_load(self) -> float | None:
        prefill_s = self.failing.stages.prefill_s if self.failing.stages else None
        return None if prefill_s is None else self.rate_rps * prefill_s / self.engines

    @property
    def prefill_frac(self) -> float | None:
        """The share of prefill in TTFT by the server's own times; None where these know nothing of what was late."""
        parts = self.ttft_parts
        if parts is None or self.late_unfinished or sum(parts) <= 0:
            return None
        return parts[1] / sum(parts)

    @property
    def engine_tpot_frac(self) -> float | None:
        """The share of our TPOT that the engine's own decode time of the same requests makes up."""
        stages, lengths = self.failing.stages, self.failing.lengths
        if stages is None or stages.decode_s is None or not stages.tpot_s or lengths is None or lengths.output <= 1:
            return None
        return stages.decode_s / (lengths.output - 1) / stages.tpot_s

    @property
    def tpot_growth(self) -> float | None:
        """TPOT at the failing rate over that of the idle server."""
        tpot_s, idle_s = self.tpot_s, self.idle.tpot_s
        return tpot_s / idle_s if tpot_s is not None and idle_s else None

    @property
    def tpot_room(self) -> bool | None:
        """Whether TPOT is far enough from its limit for more sequences beside each other; None where that is not known."""
        p95_s, limit_s = self.failing.tpot_s.p95, self.slo.shortest_tpot_s
        return None if p95_s is None or limit_s is None else p95_s < TPOT_ROOM * limit_s

    # --- what kept requests out ---

    @property
    def queued(self) -> bool | None:
        """Whether requests waited in the server; None without readings of it."""
        gauges = self.failing.gauges
        if gauges is None:
            return None
        return gauges.queued >= FEWEST_QUEUED and gauges.queued >= QUEUED_SHARE * gauges.readings

    @property
    def plateau(self) -> int | None:
        """The number of running sequences that all of the run never exceeded and mostly stood at while requests waited, the
        failing repeat too: a limit. None where there is none."""
        gauges, highest = self.failing.gauges, self.highest_running
        if gauges is None or gauges.queued_running_mean is None or not self.queued or not highest:
            return None
        own = self.failing.running_max
        if own is not None and own < AT_PLATEAU * highest:
            return None
        there = self.at_highest >= PLATEAU_SHARE * self.queued_at_all and gauges.queued_running_mean >= NEAR_PLATEAU * highest
        return round(highest) if there else None

    @property
    def kv_full_frac(self) -> float:
        """From which usage on a KV cache has no room for another prompt."""
        low, high = KV_FULL_FRAC
        lengths, tokens = self.failing.lengths, self.server.kv_cache_tokens if self.server else None
        if lengths is None or not tokens:
            return high
        return min(high, max(low, 1 - _KV_KEPT_FREE - lengths.input_asked * self.engines / tokens))

    @property
    def kv_full(self) -> bool | None:
        """Whether the KV cache was full while requests waited, or made sequences give way; None where its usage is not known."""
        gauges = self.failing.gauges
        if self.preempting:
            return True
        if gauges is None or gauges.kv_usage_mean is None:
            return None
        known = [each for each in (gauges.queued_kv_usage_mean, self.failing.kv_usage_max) if each is not None]
        return bool(self.queued) and gauges.queued_kv_usage_mean is not None and min(known) >= self.kv_full_frac

    @property
    def preempted_share(self) -> float | None:
        """Preemptions per request that was sent in the window."""
        if self.failing.preemptions is None or not self.failing.sent:
            return None
        return self.failing.preemptions / self.failing.sent

    @property
    def preempting(self) -> bool:
        return (self.preempted_share or 0.0) >= PREEMPTED_SHARE

    @property
    def deferred_frac(self) -> float | None:
        """Of the waiting requests those that wait for a transfer of their KV cache or a LoRA; None where none waits, or the server
        does not tell."""
        gauges = self.failing.gauges
        if gauges is None or gauges.waiting_deferred_mean is None or not gauges.waiting_mean:
            return None
        return min(1.0, gauges.waiting_deferred_mean / gauges.waiting_mean)

    @property
    def of_replicas(self) -> dict[str, Figure]:
        """What a fact about several engines says beside them, where they are replicas behind a gateway."""
        return {"of_replicas": True} if self.failing.replicas else {}

    @property
    def uneven(self) -> Uneven | None:
        """Whether one of several engines had a queue, a full cache or slow tokens while others had room; else None."""
        engines = self.failing.gauges.engines if self.failing.gauges else ()
        if len(engines) < 2:
            return None
        busiest = max(engines, key=lambda each: (each.waiting_mean, each.running_mean))
        kv_full = (busiest.kv_usage_mean or 0.0) >= self.kv_full_frac
        idle = tuple(each for each in engines if each is not busiest and _has_room(each, busiest, kv_full))
        pressed = self.queued or kv_full or self.preempting or self.limits_missed[:1] == ("tpot",)
        return Uneven(busiest, idle) if idle and pressed and busiest.running_mean >= FEWEST_RUNNING else None

    # --- what was missed ---

    @property
    def limits_missed(self) -> tuple[Limit, ...]:
        """The limits that were missed, the one missed most first; a queue that failed the rate before one was counts as TTFT.
        One that a fifth or fewer of the misses concern is left out."""
        missed = self.failing.missed
        if missed is None:
            return ()
        counts: dict[Limit, int] = {"ttft": missed.ttft, "tpot": missed.tpot, "e2e": missed.e2e}
        most = max(counts.values())
        if not most:
            return ("ttft",) if self.failing.queue == "rising" or (self.failing.verdict == "fail" and self.queued) else ()
        return tuple(name for name in sorted(counts, key=lambda name: -counts[name]) if 5 * counts[name] > most)

    @property
    def common(self) -> tuple[Fact, ...]:
        """What the failures have in common, if there is any such thing."""
        alike = self.failing.failures_alike
        return () if alike is None else (alike,)

    @property
    def mostly_failed(self) -> bool:
        """Whether at least half of what missed ended in an error. Of a repeat that was decided in its warm-up, whose misses are
        counted by limit alone, those of the limit that was missed most stand for all that were late."""
        missed = self.failing.missed
        return missed is not None and mostly_failed(missed, self.failing.misses)


def _has_room(engine: EngineUse, busiest: EngineUse, kv_full: bool) -> bool:
    if engine.waiting_mean > WAITS_TOO * busiest.waiting_mean:
        return False
    kv_free = engine.kv_usage_mean is not None and engine.kv_usage_mean <= IDLE_SHARE * (busiest.kv_usage_mean or 0.0)
    return engine.running_mean <= IDLE_SHARE * busiest.running_mean or (kv_full and kv_free)


def pick(
    slo: Slo, steps: Sequence[StepResult], server: ServerInfo | None, idle: Idle, *, void: bool = False
) -> tuple[Case, bool] | None:
    """The case of a run, and whether it failed at all; None where nothing was measured.

    `void`: the run ended because a repeat did not count, and that one is looked at. The lowest failing rate counts, of the
    search before the ramp, whose figures are over all its rates. What was set aside is not looked at.
    """
    steps = [step for step in steps if not step.set_aside]
    full = [step for step in steps if step.phase != "ramp" and step.repeats]
    ramps = [step for step in steps if step.phase == "ramp" and step.repeats]
    failed = [s for s in full if s.verdict in ("fail", "mixed")] or [s for s in ramps if s.verdict == "fail"]
    passed = sorted((step for step in full if step.verdict == "pass"), key=lambda step: step.rate_rps)
    voided = [step for step in (*ramps, *full) if step.verdict == "void"] if void else []
    if not (voided or failed or passed):
        return None
    step = voided[-1] if voided else min(failed, key=lambda step: step.rate_rps) if failed else passed[-1]
    failing = next((r for r in step.repeats if r.verdict == "fail"), step.repeats[-1])
    below = [other for other in passed if other.rate_rps < step.rate_rps]
    running = [r for other in steps for r in other.repeats if r.running_max is not None]
    highest = max((r.running_max for r in running if r.running_max is not None), default=None)
    there = [r.gauges for r in running if r.running_max == highest and r.gauges is not None]
    case = Case(
        slo=slo,
        phase=step.phase,
        rate_rps=step.rate_rps,
        failing=step.repeats[-1] if voided else failing,
        passing_rps=below[-1].rate_rps if below else None,
        passing=below[-1].repeats[-1] if below else None,
        server=server,
        idle=idle,
        highest_running=highest,
        at_highest=sum(gauges.plateau for gauges in there),
        queued_at_all=sum(gauges.queued for gauges in there),
    )
    return case, bool(voided or failed)
