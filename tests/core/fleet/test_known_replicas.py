"""The memory gate on simulated replicas of which it is known what binds them, in virtual time at both ends of a bracket."""

import numpy as np
import pytest

from core.config import FleetAsk
from core.engine import BLOCK_TOKENS
from core.fleet import End, Evidence, Unit, gates, tokens_of
from core.records import RepeatOrder, Segment, ServerInfo
from core.replica.catalog import CATALOG, Replica
from core.schedule import Plan, draw
from core.twin import FastEngine
from tests.core.judge.virtual import probe_of

WINDOW_S, WARMUP_S = 60.0, 20.0


class CountingEngine(FastEngine):
    """Counts preemptions; its usage is what the server's gauge shows."""

    preemptions = 0

    def _preempt(self, r: int) -> None:
        self.preemptions += 1
        super()._preempt(r)

    @property
    def usage(self) -> float:
        return 1 - self._free / self._spec.kv_blocks


def end_of(replica: Replica, rate_rps: float) -> End:
    """A repeat of the replica's own load at a rate: the mean E2E of its window, the highest usage and the preemptions in it."""
    plan = plan_of(replica, rate_rps)
    engine, last = CountingEngine(replica.engine, plan), np.full(len(plan), np.nan)
    usage, before = 0.0, 0
    for emitted in engine.run():
        last[emitted.last] = emitted.t
        if emitted.t < WARMUP_S:
            before = engine.preemptions
        elif emitted.t < WARMUP_S + WINDOW_S:
            usage = max(usage, engine.usage)
    due = plan.offsets_s >= WARMUP_S
    return End(
        rate_rps=rate_rps,
        e2e_mean_s=float(np.mean((last - plan.offsets_s)[due])),
        kv_usage_max=usage,
        preemptions=float(engine.preemptions - before),
    )


def plan_of(replica: Replica, rate_rps: float) -> Plan:
    segment = Segment(rate_rps=rate_rps, duration_s=WARMUP_S + WINDOW_S, role="measured")
    order = RepeatOrder(order=1, phase="search", step=1, repeat=0, seed=11, segments=(segment,), start_at=0.0)
    return draw(order, probe_of(replica, 11).workload)


@pytest.mark.parametrize(
    ("name", "binds"), [("demo", "memory"), ("kvlim", "memory"), ("chat", "speed"), ("rag", "speed"), ("slot", "speed")]
)
def test_the_gate_that_binds_is_the_one_the_replica_was_built_with(name: str, binds: str) -> None:
    replica = CATALOG[name]
    assert replica.truth_rps is not None
    evidence = Evidence(
        tokens=tokens_of(probe_of(replica, 11).workload),
        at_pass=end_of(replica, 0.9 * replica.truth_rps),
        at_fail=end_of(replica, 1.3 * replica.truth_rps),
    )
    server = ServerInfo(url="http://x", kv_cache_tokens=replica.engine.kv_blocks * BLOCK_TOKENS)
    found = gates(FleetAsk(), Unit(), server, evidence)
    assert found.binds == binds, evidence
    assert found.margin is not None
    assert (found.margin > 1.3) is (binds == "speed")
