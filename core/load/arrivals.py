"""When requests are due: arrivals as absolute offsets, drawn whole before the first is sent. Pure."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from core.config import Workload
from core.records import Phase, RepeatOrder

PHASE_KEY: dict[Phase, int] = {
    "ramp": 0,
    "search": 1,
    "confirm": 2,
    "tighten": 3,
    "single": 4,
    "preflight": 5,
    "list": 6,
    "hold": 7,
}
"""First part of each repeat's spawn key, so that no two phases share a draw (method: seeds)."""


@dataclass(frozen=True, slots=True)
class Plan:
    """One repeat as drawn: request i is due at `offsets_s[i]` after the order's `start_at`, belongs to `segment[i]` of the
    order and asks for `input_tokens[i]`, `output_tokens[i]`. All arrays have the same length and are read-only."""

    offsets_s: NDArray[np.float64]
    segment: NDArray[np.int32]
    input_tokens: NDArray[np.int64]
    output_tokens: NDArray[np.int64]

    def __len__(self) -> int:
        return int(self.offsets_s.size)


def draw(order: RepeatOrder, workload: Workload) -> Plan:
    """The plan of an order; the same order and workload give the same plan in every process."""
    raise NotImplementedError
