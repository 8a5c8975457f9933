"""The speed gate: how fast one stream can decode at best, because all weights are read once for each token."""

import math

import msgspec

from core.config import FleetAsk
from core.facts import Code, Fact, Said, fact, several
from core.fleet.evidence import Evidence
from core.fleet.sizing import Unit
from core.hardware import ACCELERATORS, DEFAULT_WEIGHT_BITS

DEFAULT_ETA = 0.7
"""Share of the peak bandwidth that a decode step reaches where nothing better is known; 0.6 to 0.8 is what is seen."""

PREFILL_RATIO = 10.0
"""Prompts so many times as long as answers are most of the work. At the knee of the simulated chat replica a prompt token costs
a seventh of a decoded one: 0.045 ms beside 35 ms over 107 streams."""

_BITS = (8.0, 4.0)
_NAMED = 3
_DUST = 1e-9
_GIGA = 1e9


class SpeedGate(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the TPOT limit is possible at all on this device. `floor_s` is at `eta`, `fastest_s` at the full bandwidth.

    `feasible` None: there is no TPOT limit. A measured single stream outranks the paper: `eta_reached` is the share that it
    shows (above 1: what was entered cannot be right), and `contradiction` is what that comes to. `helps`: what would make the
    limit possible, each by itself. `prefill_bound`: prompts are most of the work, of which the floor says nothing.
    """

    floor_s: float
    fastest_s: float
    tokens_per_s: float
    eta: float
    eta_assumed: bool
    bytes_per_token: float
    bandwidth_gbs: float
    tp: int
    limit_s: float | None = None
    feasible: bool | None = None
    measured_s: float | None = None
    eta_reached: float | None = None
    prefill_bound: bool = False
    contradiction: Fact | None = None
    helps: tuple[Fact, ...] = ()

    @property
    def message(self) -> Said:
        """The floor, and what it means for the limit."""
        floor = fact(
            "stream_floor",
            floor_s=self.floor_s,
            read_bytes=self.bytes_per_token,
            eta_frac=self.eta,
            eta_assumed=self.eta_assumed,
            bandwidth_bytes_per_s=self.bandwidth_gbs * _GIGA,
            tp=self.tp,
        )
        if self.limit_s is not None:
            forbids: Code = "stream_floor_forbids" if self.contradiction is None else "stream_floor_doubted"
            floor = fact("stream_floor_allows" if self.feasible else forbids, floor, limit_s=self.limit_s)
        return several(floor, fact("prefill_bound")) if self.prefill_bound else floor

    @property
    def refuses(self) -> bool:
        """Whether the limit is out of reach. A single stream that is faster than the floor at a guessed share of the bandwidth
        shows that the guess was wrong; one that is faster than the whole bandwidth, that the entries are."""
        return self.feasible is False and (self.contradiction is None or (self.eta_reached or 0.0) > 1)


def tpot_floor_s(bytes_per_token: float, bandwidth_gbs: float, eta: float, tp: int = 1) -> float:
    """(W + KV bytes of this stream)/(eta * bandwidth): what is read for each token, by `tp` devices at the same time.

    Each layer adds an all-reduce to that, so TP = 2 is less than twice as fast; pipeline stages are read one after another
    and data-parallel ranks by different requests, so neither makes a stream faster.
    """
    return bytes_per_token / (eta * bandwidth_gbs * 1e9 * tp)


def speed_gate(ask: FleetAsk, unit: Unit, evidence: Evidence) -> SpeedGate | None:
    """The gate, or None when weights or bandwidth are not known."""
    hardware = ask.hardware
    weights, bandwidth_gbs = hardware.weights_bytes, hardware.bandwidth_gbs
    if weights is None or bandwidth_gbs is None:
        return None
    eta = DEFAULT_ETA if hardware.eta is None else hardware.eta
    own_kv = 0.0
    if hardware.kv_bytes_per_token is not None and evidence.tokens is not None:
        own_kv = hardware.kv_bytes_per_token * (evidence.tokens.mean_total or evidence.tokens.mean_output)
    read = weights + own_kv
    floor_s, fastest_s = (tpot_floor_s(read, bandwidth_gbs, share, unit.tp) for share in (eta, 1.0))
    limit_s, measured_s = evidence.tpot_limit_s, evidence.single_tpot_s
    gate = SpeedGate(
        floor_s=floor_s,
        fastest_s=fastest_s,
        tokens_per_s=1 / floor_s,
        eta=eta,
        eta_assumed=hardware.eta is None,
        bytes_per_token=read,
        bandwidth_gbs=bandwidth_gbs,
        tp=unit.tp,
        limit_s=limit_s,
        feasible=None if limit_s is None else limit_s >= floor_s * (1 - _DUST),
        measured_s=measured_s,
        eta_reached=None if not measured_s else eta * floor_s / measured_s,
        prefill_bound=_prefills(evidence),
    )
    gate = msgspec.structs.replace(gate, contradiction=_contradiction(gate))
    if gate.feasible is False and gate.contradiction is None:  # what would help is reckoned from the entries, too
        return msgspec.structs.replace(gate, helps=_helps(gate, own_kv, ask))
    return gate


def _prefills(evidence: Evidence) -> bool:
    tokens = evidence.tokens
    return tokens is not None and tokens.mean_input is not None and tokens.mean_input >= PREFILL_RATIO * tokens.mean_output


def _contradiction(gate: SpeedGate) -> Fact | None:
    reached, measured_s = gate.eta_reached, gate.measured_s
    if reached is None or measured_s is None or measured_s >= gate.floor_s * (1 - _DUST):
        return None
    if reached > 1:
        return fact("stream_beats_bandwidth", measured_s=measured_s, floor_s=gate.floor_s, fastest_s=gate.fastest_s)
    return fact(
        "stream_beats_floor",
        measured_s=measured_s,
        floor_s=gate.floor_s,
        eta_reached_frac=reached,
        eta_frac=gate.eta,
        eta_assumed=gate.eta_assumed,
    )


def _helps(gate: SpeedGate, own_kv: float, ask: FleetAsk) -> tuple[Fact, ...]:
    """What would bring the floor under the limit, each by itself."""
    assert gate.limit_s is not None
    allowed = gate.limit_s * gate.eta * gate.bandwidth_gbs * _GIGA * gate.tp
    weights = gate.bytes_per_token - own_kv
    tp = 1 << max(0, math.ceil(math.log2(gate.tp * gate.bytes_per_token / allowed * (1 - _DUST))))
    needed_gbs = gate.bandwidth_gbs * gate.bytes_per_token / allowed
    faster = sorted((each for each in ACCELERATORS if each.bandwidth_gbs >= needed_gbs), key=lambda each: each.bandwidth_gbs)
    named = {each.name: round(each.bandwidth_gbs * _GIGA) for each in faster[:_NAMED]}
    return (
        *([_lighter(weights, allowed - own_kv, ask)] if allowed > own_kv else []),
        fact("help_tp", tp=tp, floor_s=gate.floor_s * gate.tp / tp),
        fact("help_device", least_bytes_per_s=needed_gbs * _GIGA, devices_bytes_per_s=named),
        fact("help_limit", floor_s=gate.floor_s),
    )


def _lighter(weights: float, allowed: float, ask: FleetAsk) -> Fact:
    """Fewer bytes to read: quantised weights, where how many bits they have is known."""
    bits = ask.hardware.weight_bits or (DEFAULT_WEIGHT_BITS if ask.hardware.params_b is not None else None)
    fitting = None if bits is None else next((n for n in _BITS if n < bits and weights * n / bits <= allowed), None)
    return fact("help_weights", most_bytes=allowed, weights_bytes=weights, weight_bits=bits, fitting_bits=fitting)
