"""What fits into the measured server: told by it, seen in its readings, or assumed and said so."""

from collections.abc import Sequence

from core.engine import Limits
from core.records import ServerInfo, ServerSample

ASSUMED_SEQS, ASSUMED_BATCHED = 256, 2048
"""vLLM's own defaults on most GPUs."""


def limits_of(server: ServerInfo, samples: Sequence[ServerSample] = ()) -> Limits:
    """The limits of a server by what it tells and by the plateau of running requests while others waited."""
    raise NotImplementedError
