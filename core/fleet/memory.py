"""The memory gate: how many streams the KV cache holds beside how many the knee needs, and which gate binds there."""

import math
from typing import Literal

import msgspec

from core.config import FleetAsk
from core.facts import Fact, Said, fact, several
from core.fleet.evidence import End, Evidence
from core.fleet.sizing import Unit
from core.fleet.speed import SpeedGate, speed_gate
from core.records import ServerInfo

DEFAULT_UTILIZATION = 0.9
"""vLLM's own default of --gpu-memory-utilization for most of its releases."""
DEFAULT_ACTIVATIONS_GB = 2.0
"""Activations, CUDA graphs and the runtime of one device: 1 to 3 GB are seen. Only for the estimate on paper."""

FULL_FRAC = 0.95
"""From here on a KV cache counts as full: the next prompt of a few blocks waits."""
FILLS_FRAC = 0.8
"""A cache that was full at the failing end binds only if the passing end's usage, grown with the rate, comes near full by
itself; otherwise it filled up because requests had become slow."""
_APART = 0.1

Source = Literal["server", "paper"]


class MemoryGate(msgspec.Struct, frozen=True, kw_only=True):
    """Streams that fit, by the whole length L + O of a request (mean and p90), over all engines of the endpoint.

    `needed` is rate times mean E2E at the passing end (Little's law; those that wait are in it). `kv_usage_max` and
    `preemptions` were seen there, at `rate_rps`. `binds` None: neither of both is known.
    """

    source: Source | None
    capacity_tokens: int | None
    paper_tokens: int | None
    tokens_mean: float
    tokens_p90: float
    fits_mean: float | None
    fits_p90: float | None
    needed: float | None = None
    used_frac: float | None = None
    kv_usage_max: float | None = None
    preemptions: float | None = None
    rate_rps: float | None = None
    binds: bool | None = None
    notes: tuple[Fact, ...] = ()

    @property
    def seen(self) -> Fact | None:
        """What the server told of its cache; None where it told nothing."""
        if self.kv_usage_max is None and self.preemptions is None:
            return None
        return fact("fleet_kv_seen", kv_usage_max_frac=self.kv_usage_max, preemptions=self.preemptions)

    @property
    def message(self) -> Said:
        """What fits, what is needed, what was seen, with its rate; at least one of them is known."""
        found: list[Fact] = []
        if self.fits_mean is not None and self.fits_p90 is not None:
            streams = {"fits_mean": self.fits_mean, "mean_tokens": self.tokens_mean, "fits_p90": self.fits_p90}
            found.append(fact("kv_streams", capacity_tokens=self.capacity_tokens, **streams, p90_tokens=self.tokens_p90))
        if self.needed is not None:
            found.append(fact("kv_needed", streams=self.needed, used_frac=self.used_frac))
        if (seen := self.seen) is not None:
            found.append(seen if self.rate_rps is None else fact(seen.code, **seen.figures, rate_rps=self.rate_rps))
        return several(*found)


class Gates(msgspec.Struct, frozen=True, kw_only=True):
    """What limits one replica. `binds` at the knee, with `margin`: how many times what the knee needs the memory holds
    (memory binds at about 1 and below). None: not known."""

    speed: SpeedGate | None = None
    memory: MemoryGate | None = None
    binds: Literal["memory", "speed"] | None = None
    margin: float | None = None
    message: Fact | None = None


def paper_tokens(ask: FleetAsk, unit: Unit, server: ServerInfo | None) -> int | None:
    """(u*V - W - activations)/KV bytes per token over the devices of one engine, times the engines; None where a part is missing.

    V is the memory of one device, u the share of it that the server may use. It knows nothing of fragmentation, sliding
    windows or what else lies in memory, so it is for want of the server's own figure only.
    """
    hardware = ask.hardware
    weights, kv_bytes, memory_gb = hardware.weights_bytes, hardware.kv_bytes_per_token, hardware.memory_gb
    if weights is None or kv_bytes is None or memory_gb is None:
        return None
    devices = unit.tp * unit.pp
    used_gb = _utilization(ask, server) * memory_gb - _activations_gb(ask)
    return max(0, math.floor((used_gb * 1e9 * devices - weights) / kv_bytes)) * unit.dp


def memory_gate(ask: FleetAsk, unit: Unit, server: ServerInfo | None, evidence: Evidence) -> MemoryGate | None:
    """The gate, or None when the lengths are not known or neither capacity nor usage is."""
    tokens, end = evidence.tokens, evidence.at_pass
    told, paper = server.kv_cache_tokens if server else None, paper_tokens(ask, unit, server)
    capacity = paper if told is None else told
    if (
        tokens is None
        or tokens.mean_total is None
        or tokens.p90_total is None
        or (capacity is None and (end is None or end.kv_usage_max is None))
    ):
        return None
    needed = end.rate_rps * end.e2e_mean_s if end is not None and end.e2e_mean_s is not None else None
    fits_mean = None if capacity is None else capacity / tokens.mean_total
    used_frac = needed / fits_mean if needed is not None and fits_mean else None
    gate = MemoryGate(
        source=None if capacity is None else "paper" if told is None else "server",
        capacity_tokens=capacity,
        paper_tokens=paper,
        tokens_mean=tokens.mean_total,
        tokens_p90=tokens.p90_total,
        fits_mean=fits_mean,
        fits_p90=None if capacity is None else capacity / tokens.p90_total,
        needed=needed,
        used_frac=used_frac,
        kv_usage_max=end.kv_usage_max if end else None,
        preemptions=end.preemptions if end else None,
        rate_rps=end.rate_rps if end else None,
    )
    gate = msgspec.structs.replace(gate, binds=_binds(gate, evidence))
    return msgspec.structs.replace(gate, notes=_notes(gate, ask, server))


def gates(ask: FleetAsk, unit: Unit, server: ServerInfo | None, evidence: Evidence) -> Gates:
    """Both gates, and which of them binds at the knee."""
    speed, memory = speed_gate(ask, unit, evidence), memory_gate(ask, unit, server, evidence)
    if memory is None or evidence.at_pass is None:
        return Gates(speed=speed, memory=memory)
    rate_rps, margin, seen = evidence.at_pass.rate_rps, _margin(memory), [] if memory.seen is None else [memory.seen]
    if memory.binds is None:
        message = None if evidence.at_fail else fact("neither_binds", *seen, rate_rps=rate_rps)
        return Gates(speed=speed, memory=memory, margin=margin, message=message)
    if memory.binds:
        why = _why_memory(memory, evidence.at_fail)
        message = fact("memory_binds", *([] if why is None else [why]), rate_rps=rate_rps)
        return Gates(speed=speed, memory=memory, binds="memory", margin=margin, message=message)
    message = fact("speed_binds", *seen, rate_rps=rate_rps, margin=margin)
    return Gates(speed=speed, memory=memory, binds="speed", margin=margin, message=message)


def _binds(gate: MemoryGate, evidence: Evidence) -> bool | None:
    """What was seen outranks what was reckoned."""
    if _full(gate.kv_usage_max, gate.preemptions):
        return True
    if gate.kv_usage_max is None:
        return None if gate.used_frac is None else gate.used_frac >= 1
    held, failed = evidence.at_pass, evidence.at_fail
    if failed is None:  # nothing was seen to break, so neither was seen to bind
        return None
    if held is None or not _full(failed.kv_usage_max, failed.preemptions):
        return False
    return gate.kv_usage_max * failed.rate_rps / held.rate_rps >= FILLS_FRAC


def _why_memory(gate: MemoryGate, failed: End | None) -> Fact | None:
    """The figures that say that memory binds: of the passing end where the cache was full there, else of both ends, since it is
    the failing one where it was. None: by arithmetic alone."""
    if _full(gate.kv_usage_max, gate.preemptions):
        return gate.seen
    if failed is None or gate.kv_usage_max is None:
        return None
    return fact(
        "fleet_kv_fills",
        kv_usage_max_frac=gate.kv_usage_max,
        fail_rps=failed.rate_rps,
        fail_kv_usage_max_frac=failed.kv_usage_max,
        fail_preemptions=failed.preemptions,
    )


def _full(usage: float | None, preemptions: float | None) -> bool:
    return (usage is not None and usage >= FULL_FRAC) or (preemptions is not None and preemptions > 0)


def _margin(gate: MemoryGate) -> float | None:
    if gate.kv_usage_max:
        return 1 / gate.kv_usage_max
    return 1 / gate.used_frac if gate.used_frac else None


def _notes(gate: MemoryGate, ask: FleetAsk, server: ServerInfo | None) -> tuple[Fact, ...]:
    notes: list[Fact] = []
    capacity, paper = gate.capacity_tokens, gate.paper_tokens
    if gate.source == "paper":
        taken = {"utilization_frac": _utilization(ask, server), "activations_bytes": _activations_gb(ask) * 1e9}
        notes.append(fact("kv_on_paper", paper_tokens=paper, **taken))
    elif capacity is not None and paper is not None and abs(paper - capacity) > _APART * capacity:
        notes.append(fact("kv_told", told_tokens=capacity, paper_tokens=paper))
    if gate.used_frac is not None and gate.used_frac >= 1 and gate.binds is False:
        notes.append(fact("kv_not_full_length"))
    return tuple(notes)


def _utilization(ask: FleetAsk, server: ServerInfo | None) -> float:
    """As given, else as the server's configuration says, else the default."""
    if ask.hardware.memory_utilization is not None:
        return ask.hardware.memory_utilization
    try:
        told = float(server.config.get("gpu_memory_utilization", "")) if server else DEFAULT_UTILIZATION
    except ValueError:
        return DEFAULT_UTILIZATION
    return told if 0 < told <= 1 else DEFAULT_UTILIZATION


def _activations_gb(ask: FleetAsk) -> float:
    return DEFAULT_ACTIVATIONS_GB if ask.hardware.activations_gb is None else ask.hardware.activations_gb
