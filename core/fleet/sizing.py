"""From one replica's rate to replicas and GPUs for a peak, exact at float dust. Pure functions."""

import math

import msgspec

from core.config import FleetAsk
from core.records import ServerInfo

_DUST = 1e-9
"""Relative size of what binary fractions add to an exact quotient: 560/(0.7*80) must give 10 replicas, not 11."""


class FleetSize(msgspec.Struct, frozen=True, kw_only=True):
    """Replicas and GPUs for a peak when one replica carries `replica_rps`; `load_frac` is the share of it used at peak.

    `floor` is the lowest attainment that was measured at the lowest passing rate not below the load of each, which is `floor_rps`;
    None: not measured.
    """

    replica_rps: float
    replicas: int
    gpus: int
    per_replica_rps: float
    load_frac: float
    floor: float | None = None
    floor_rps: float | None = None


class Unit(msgspec.Struct, frozen=True, kw_only=True):
    """What one replica is: the endpoint that was measured, with all engines and devices behind its address.

    `known` False: at least one size is neither told by the server nor given, and counts as 1.
    """

    tp: int = 1
    pp: int = 1
    dp: int = 1
    known: bool = False

    @property
    def gpus(self) -> int:
        """TP * PP * DP."""
        return self.tp * self.pp * self.dp

    @property
    def engines(self) -> int:
        """Data-parallel ranks behind the one address, each with a KV cache of its own."""
        return self.dp


def ceil_dusted(quotient: float) -> int:
    """The next whole number, at least 1; what is above one only by the dust of binary fractions counts as that one."""
    return max(1, math.ceil(quotient * (1 - _DUST)))


def size(peak_rps: float, headroom: float, replica_rps: float, gpus_per_endpoint: int) -> FleetSize:
    """N = ceil(peak/(load at peak*r)), exact at float dust and at least 1; GPUs = N * GPUs of the measured endpoint.

    `replica_rps` is what one endpoint carried as it was measured, with all engines and GPUs behind its address.
    """
    replicas = ceil_dusted(peak_rps / (headroom * replica_rps))
    per_replica_rps = peak_rps / replicas
    return FleetSize(
        replica_rps=replica_rps,
        replicas=replicas,
        gpus=replicas * gpus_per_endpoint,
        per_replica_rps=per_replica_rps,
        load_frac=per_replica_rps / replica_rps,
    )


def unit_of(ask: FleetAsk, server: ServerInfo | None) -> Unit:
    """TP, PP and DP as asked, else as the server tells, else 1.

    Several engines seen in the metrics are data-parallel ranks of the one endpoint: they count as DP.
    """
    told = server if server is not None else ServerInfo(url="")
    told_dp = told.dp if told.dp is not None or told.engines == 1 else told.engines
    sizes = [_first(ask.tp, told.tp), _first(ask.pp, told.pp), _first(ask.dp, told_dp)]
    tp, pp, dp = (1 if n is None else n for n in sizes)
    return Unit(tp=tp, pp=pp, dp=dp, known=None not in sizes)


def gpus_per_endpoint(ask: FleetAsk, server: ServerInfo | None) -> tuple[int, bool]:
    """TP*PP*DP of `unit_of`; and whether it is known rather than assumed."""
    unit = unit_of(ask, server)
    return unit.gpus, unit.known


def _first(asked: int | None, told: int | None) -> int | None:
    return told if asked is None else asked
