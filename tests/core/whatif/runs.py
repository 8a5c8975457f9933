"""Runs of simulated replicas for the tests of what-if, each made once in virtual time, and what is true of a replica."""

from dataclasses import dataclass, field
from functools import lru_cache

from msgspec.structs import replace

from core.config import Method
from core.engine import Limits
from core.records import Phase, RepeatOrder, Segment, ServerInfo
from core.replica.catalog import CATALOG, Replica
from core.run import Recording
from core.schedule import fresh_draw
from core.twin import Twin
from core.whatif import Change, Explained, Setting, changed, explain
from tests.core.judge.virtual import Play, Serve, VirtualRun, batching, probe_of
from tests.core.twin.windows import constants

FRACTIONS = (0.8, 0.95, 1.05)
"""Rates of the list that is judged, as shares of the true knee."""


@dataclass
class Kept(VirtualRun):
    """A run whose orders and requests are kept."""

    sent: list[RepeatOrder] = field(default_factory=list)
    plays: list[Play] = field(default_factory=list)

    def _play(self, phase: Phase, repeat: int, segments: tuple[Segment, ...], offsets_s: tuple[float, ...] | None = None) -> Play:
        play = super()._play(phase, repeat, segments, offsets_s)
        self.plays.append(play)
        self.sent.append(
            RepeatOrder(
                order=self.orders,
                phase=phase,
                step=self.steps,
                repeat=repeat,
                seed=self.config.method.seed_of_requests,
                arrival_seed=self.config.method.seed_of_arrivals,
                draw=fresh_draw(phase, self.steps),
                segments=segments,
                offsets_s=offsets_s,
                start_at=0.0,
            )
        )
        return play


@lru_cache
def run_of(name: str, serve: Serve | None = None, seed: int = 3, fractions: tuple[float, ...] = FRACTIONS) -> Recording:
    """Rates around the true knee of a replica, two repeats each; `serve`: by another server of the same lengths and limits."""
    replica = CATALOG[name]
    rates = tuple(round(fraction * (replica.truth_rps or 1.0), 3) for fraction in fractions)
    run = Kept(probe_of(replica, seed, Method(rates_rps=rates, repeats=2, measure_s=40.0)), serve or batching(replica))
    answer = run.answer()
    return Recording(
        config=run.config,
        server=ServerInfo(url="http://127.0.0.1:8000", kv_cache_tokens=replica.engine.kv_tokens),
        orders=tuple(run.sent),
        records=tuple(record for play in run.plays for record in play.tally.records),
        samples=(),
        steps=tuple(run.results),
        knee=answer.knee,
        ended=True,
    )


@lru_cache
def explained(name: str) -> Explained:
    """The run of a replica with its twin, which explains it."""
    run = explain(run_of(name))
    assert isinstance(run, Explained)
    return run


def true_knee(replica: Replica, change: Change) -> float:
    """Where the knee of the changed replica is, by long runs of its own engine, with other draws than the twin's."""
    engine, config = replica.engine, probe_of(replica, 1)
    limits = Limits(max_seqs=engine.max_seqs, max_batched_tokens=engine.max_batched_tokens, kv_tokens=engine.kv_tokens)
    setting = changed(Setting(slo=config.slo, workload=config.workload, limits=limits), change)
    twin = Twin(constants(engine), setting.limits)
    near_rps = replica.truth_rps or 1.0
    found = twin.knee(setting.workload, setting.slo, near_rps, requests=24_000, seed=5)
    assert found is not None
    return found.rate_rps


def slowed(run: Recording, factor: float, orders: frozenset[int]) -> Recording:
    """The run as if its server had been slower during these orders: what came after a request was due took so much longer."""
    records = tuple(
        replace(
            record,
            t_first=None if record.t_first is None else record.t_sched + factor * (record.t_first - record.t_sched),
            t_last=None if record.t_last is None else record.t_sched + factor * (record.t_last - record.t_sched),
        )
        if record.order in orders
        else record
        for record in run.records
    )
    return replace(run, records=records)
