"""The running account of one repeat: which requests are good, bad, open or not yet sent, at any moment."""

import numpy as np
from numpy.typing import NDArray

from core.config import Slo
from core.records import Bounds, RepeatOrder, RequestEnded, RequestFirst, RequestRecord, RequestSent


class Tally:
    """Counts one repeat as its events come in. Owned by the run's state, which is the only writer."""

    def __init__(
        self,
        order: RepeatOrder,
        offsets_s: NDArray[np.float64],
        segment: NDArray[np.int32],
        output_tokens: NDArray[np.int64],
        slo: Slo,
    ) -> None:
        raise NotImplementedError

    def sent(self, event: RequestSent) -> None:
        raise NotImplementedError

    def first(self, event: RequestFirst) -> None:
        raise NotImplementedError

    def ended(self, event: RequestEnded) -> None:
        raise NotImplementedError

    def bounds(self, now: float, segment: int | None = None) -> Bounds:
        """Good, bad (sure misses at `now` included) and open of the measured requests, or of one segment."""
        raise NotImplementedError

    @property
    def records(self) -> list[RequestRecord]:
        """Everything that ended so far."""
        raise NotImplementedError
