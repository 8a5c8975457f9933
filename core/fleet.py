"""From the bracket to a fleet: replicas and GPUs for a peak, with headroom. Pure functions."""

from core.config import FleetAsk
from core.records import Fleet, FleetSize, Knee, ServerInfo


def size(peak_rps: float, headroom: float, replica_rps: float, gpus_per_endpoint: int) -> FleetSize:
    """N = ceil(peak/(headroom*r)), exact at float dust; GPUs = N * GPUs of the measured endpoint."""
    raise NotImplementedError


def gpus_per_endpoint(ask: FleetAsk, server: ServerInfo | None) -> tuple[int, bool]:
    """TP*PP*DP as asked, else as the server tells, else 1; and whether it is known rather than assumed."""
    raise NotImplementedError


def plan(knee: Knee, ask: FleetAsk, server: ServerInfo | None) -> Fleet | None:
    """The fleet at both ends of the bracket, or None when no peak was given."""
    raise NotImplementedError
