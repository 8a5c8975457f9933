"""How long a step of the measured server takes, fitted from the records of its requests."""

from collections.abc import Sequence

from core.engine import StepModel
from core.records import RequestRecord, ServerSample

LEAST_REQUESTS = 150
"""With fewer, the constants follow the noise."""


def fit(records: Sequence[RequestRecord], samples: Sequence[ServerSample] = ()) -> StepModel | None:
    """The constants of a step by the decode times of these requests, of one or more orders; None where fewer than LEAST_REQUESTS
    tell, or where no constants explain them. `samples`: readings of /metrics of the same time."""
    raise NotImplementedError
