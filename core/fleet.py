"""From the bracket to a fleet: replicas and GPUs for a peak, with headroom. Pure functions."""

import math

import msgspec

from core.config import FleetAsk
from core.records import ServerInfo
from core.results import Knee

_DUST = 1e-9
"""Relative size of what binary fractions add to an exact quotient: 560/(0.7*80) must give 10 replicas, not 11."""


class FleetSize(msgspec.Struct, frozen=True, kw_only=True):
    """Replicas and GPUs for a peak when one replica carries `replica_rps`; `load_frac` is the share of it used at peak."""

    replica_rps: float
    replicas: int
    gpus: int
    per_replica_rps: float
    load_frac: float


class Fleet(msgspec.Struct, frozen=True, kw_only=True):
    """The fleet at both ends of the bracket; an end that is not known is None."""

    peak_rps: float
    headroom: float
    gpus_per_endpoint: int
    layout_known: bool
    at_pass: FleetSize | None = None
    at_fail: FleetSize | None = None


def size(peak_rps: float, headroom: float, replica_rps: float, gpus_per_endpoint: int) -> FleetSize:
    """N = ceil(peak/(headroom*r)), exact at float dust and at least 1; GPUs = N * GPUs of the measured endpoint.

    `replica_rps` is what one endpoint carried as it was measured, with all engines and GPUs behind its address.
    """
    replicas = max(1, math.ceil(peak_rps / (headroom * replica_rps) * (1 - _DUST)))
    per_replica_rps = peak_rps / replicas
    return FleetSize(
        replica_rps=replica_rps,
        replicas=replicas,
        gpus=replicas * gpus_per_endpoint,
        per_replica_rps=per_replica_rps,
        load_frac=per_replica_rps / replica_rps,
    )


def gpus_per_endpoint(ask: FleetAsk, server: ServerInfo | None) -> tuple[int, bool]:
    """TP*PP*DP as asked, else as the server tells, else 1; and whether it is known rather than assumed.

    Several engines seen in the metrics are data-parallel ranks of the one endpoint: they count as DP.
    """
    told = server if server is not None else ServerInfo(url="")
    told_dp = told.dp if told.dp is not None or told.engines == 1 else told.engines
    sizes = [_first(ask.tp, told.tp), _first(ask.pp, told.pp), _first(ask.dp, told_dp)]
    return math.prod(1 if n is None else n for n in sizes), None not in sizes


def _first(asked: int | None, told: int | None) -> int | None:
    return told if asked is None else asked


def plan(knee: Knee, ask: FleetAsk, server: ServerInfo | None) -> Fleet | None:
    """The fleet at both ends of the bracket, or None when no peak was given or no rate has held: a rate that is only known to
    fail sizes nothing that could be ordered.

    The failing end is the clear fail where there is one, else the first fail.
    """
    if ask.peak_rps is None or knee.pass_rps is None:
        return None
    peak_rps = ask.peak_rps
    gpus, known = gpus_per_endpoint(ask, server)

    def at(replica_rps: float | None) -> FleetSize | None:
        return None if replica_rps is None else size(peak_rps, ask.headroom, replica_rps, gpus)

    return Fleet(
        peak_rps=peak_rps,
        headroom=ask.headroom,
        gpus_per_endpoint=gpus,
        layout_known=known,
        at_pass=at(knee.pass_rps),
        at_fail=at(knee.first_fail_rps if knee.clear_fail_rps is None else knee.clear_fail_rps),
    )
