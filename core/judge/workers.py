"""Which of several machines sends each request of a plan, and how each of them kept up: one that does not makes a repeat void,
whatever the others do, because its share of the load did not come as planned.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from core.percentiles import percentiles
from core.records import LoadTick, WorkerInfo, WorkerTick
from core.results import WorkerUse
from core.schedule import Plan, senders


@dataclass(frozen=True, slots=True)
class Senders:
    """`of[i]` is the place in `names` of the machine that sends request i."""

    names: tuple[str, ...]
    of: NDArray[np.int64]

    @classmethod
    def among(cls, workers: Sequence[WorkerInfo], plan: Plan) -> "Senders | None":
        """Those of a plan; None where this machine alone sends."""
        return cls(tuple(worker.name for worker in workers), senders(plan, len(workers))) if workers else None

    def part_of(self, low: int, high: int) -> "Senders":
        """Those of the requests from `low` to before `high`, which are counted from 0 then."""
        return Senders(self.names, self.of[low:high])

    def counts(self, indices: NDArray[np.int64]) -> tuple[int, ...]:
        """How many of these requests each of them sends."""
        return tuple(np.bincount(self.of[indices], minlength=len(self.names)).tolist())

    def ticks(self, ticks: Sequence[LoadTick]) -> tuple[tuple[WorkerTick, ...], ...]:
        """What each of them reported of itself; nothing of reports that do not tell them apart."""
        told = [tick.workers for tick in ticks if len(tick.workers) == len(self.names)]
        return tuple(zip(*told, strict=True)) if told else ((),) * len(self.names)

    def uses(self, indices: NDArray[np.int64], lateness_s: NDArray[np.float64], ticks: Sequence[LoadTick]) -> tuple[WorkerUse, ...]:
        """What each of them did. `lateness_s`: how late each of the requests `indices` was sent."""
        of, uses = self.of[indices], []
        for at, (name, own) in enumerate(zip(self.names, self.ticks(ticks), strict=True)):
            late_s = percentiles(lateness_s[of == at])
            uses.append(
                WorkerUse(
                    name=name,
                    sent=late_s.n,
                    lateness_p99_s=late_s.p99,
                    lateness_max_s=late_s.max,
                    loop_lag_max_s=max((tick.loop_lag_max_s for tick in own), default=None),
                    client_cpu_frac=max((tick.cpu_frac for tick in own), default=None),
                )
            )
        return tuple(uses)
