"""One look at a run with its twin: where its knee is, and how far from it each window was."""

from collections.abc import Sequence

import msgspec

from core.config import Slo, Workload
from core.engine import Limits
from core.records import RepeatOrder, RequestRecord, ServerSample
from core.results import TwinReading


class TwinWindow(msgspec.Struct, frozen=True, kw_only=True):
    """A judged window: whose plan, from when to when in it (seconds), and its figure. `repeat`: its index among the results of its
    step. `x`: ln of its margin at the target, None where it was cut; `least`: what X is at least, then."""

    order: RepeatOrder
    repeat: int
    from_s: float
    to_s: float
    x: float | None
    least: float = 0.0


def read(
    windows: Sequence[TwinWindow],
    records: Sequence[RequestRecord],
    samples: Sequence[ServerSample],
    workload: Workload,
    slo: Slo,
    limits: Limits,
    near_rps: float,
    cpu_s: float,
) -> TwinReading | None:
    """Fit the twin, find its knee and the shift of each window, in about `cpu_s` of processor time; None where nothing fits."""
    raise NotImplementedError
