"""What looks at a virtual run with its twin, after each step, as a run's own does."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec

from core.engine import Limits
from core.records import RequestRecord
from core.replica.catalog import Replica
from core.results import TwinReading
from core.twin import LONG_REQUESTS, Reader, TwinTask, TwinWindow
from tests.core.judge.virtual import probe_of
from tests.core.twin.windows import limits_of


@dataclass
class Looking:
    """For one run. `limits`: those that are taken for the server's; None: its own."""

    replica: Replica
    seed: int
    limits: Limits | None = None
    long_requests: int = LONG_REQUESTS
    readings: list[TwinReading] = field(default_factory=list)
    _reader: Reader = field(default_factory=Reader)
    _told: int = 0

    def __call__(self, windows: Sequence[TwinWindow], records: Sequence[RequestRecord], near_rps: float) -> TwinReading | None:
        self._reader.seen(records[self._told :])
        self._told = len(records)
        probe, last = probe_of(self.replica, self.seed), windows[-1]
        task = TwinTask(
            windows=tuple(windows),
            workload=probe.workload,
            slo=probe.slo,
            limits=self.limits or limits_of(self.replica.engine),
            near_rps=near_rps,
            warmup_s=last.from_s,
            measure_s=last.to_s - last.from_s,
            seed=self.seed,
            long_requests=self.long_requests,
        )
        reading = self._reader.read(task)
        self.readings += [reading] if reading is not None else []
        return reading


def assumed(replica: Replica) -> Limits:
    """What is taken for the limits of a server that tells its cache alone."""
    return msgspec.structs.replace(limits_of(replica.engine), max_seqs=256, max_batched_tokens=2048)
