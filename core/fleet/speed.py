"""The speed gate: how fast one stream can decode at best, because all weights are read once for each token."""

import math

import msgspec

from core.config import FleetAsk
from core.fleet.evidence import Evidence
from core.fleet.sizing import Unit
from core.hardware import ACCELERATORS, DEFAULT_WEIGHT_BITS
from core.units import as_set, data_size, latency, limit, number, percent, plain

DEFAULT_ETA = 0.7
"""Share of the peak bandwidth that a decode step reaches where nothing better is known; 0.6 to 0.8 is what is seen."""

PREFILL_RATIO = 10.0
"""Prompts so many times as long as answers are most of the work. At the knee of the simulated chat replica a prompt token costs
a seventh of a decoded one: 0.045 ms beside 35 ms over 107 streams."""

PREFILLS = " Long prompts with short answers are bound by prefill, of which this floor says nothing."

_BITS = (8.0, 4.0)
_NAMED = 3
_DUST = 1e-9


class SpeedGate(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the TPOT limit is possible at all on this device. `floor_s` is at `eta`, `fastest_s` at the full bandwidth.

    `feasible` None: there is no TPOT limit. A measured single stream outranks the paper: `eta_reached` is the share that it
    shows (above 1: what was entered cannot be right), and `contradiction` is the sentence for it. `helps`: what would make
    the limit possible.
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
    contradiction: str | None = None
    helps: tuple[str, ...] = ()
    message: str = ""

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
    )
    gate = msgspec.structs.replace(gate, contradiction=_contradiction(gate))
    if gate.feasible is False and gate.contradiction is None:  # what would help is reckoned from the entries, too
        gate = msgspec.structs.replace(gate, helps=_helps(gate, own_kv, ask))
    return msgspec.structs.replace(gate, message=_message(gate) + (PREFILLS if _prefills(evidence) else ""))


def _prefills(evidence: Evidence) -> bool:
    tokens = evidence.tokens
    return tokens is not None and tokens.mean_input is not None and tokens.mean_input >= PREFILL_RATIO * tokens.mean_output


def _contradiction(gate: SpeedGate) -> str | None:
    reached, measured_s = gate.eta_reached, gate.measured_s
    if reached is None or measured_s is None or measured_s >= gate.floor_s * (1 - _DUST):
        return None
    single = f"a single stream has a TPOT of {latency(measured_s)}, less than the floor of {latency(gate.floor_s)}"
    if reached > 1:
        return (
            f"{single} and than the full bandwidth allows ({latency(gate.fastest_s)}): the weights, the device or TP are not as "
            "entered, or a step makes several tokens; correct them or leave them out"
        )
    guessed = "guessed" if gate.eta_assumed else "entered"
    return f"{single}: eta was {guessed} too low, it is {percent(reached, 2)} and not {plain(gate.eta)}"


def _helps(gate: SpeedGate, own_kv: float, ask: FleetAsk) -> tuple[str, ...]:
    """What would bring the floor under the limit, each by itself."""
    assert gate.limit_s is not None
    allowed = gate.limit_s * gate.eta * gate.bandwidth_gbs * 1e9 * gate.tp
    weights = gate.bytes_per_token - own_kv
    helps = []
    if allowed > own_kv:
        helps.append(_lighter(weights, allowed - own_kv, ask))
    tp = 1 << max(0, math.ceil(math.log2(gate.tp * gate.bytes_per_token / allowed * (1 - _DUST))))
    helps.append(f"TP {tp} (at best {latency(gate.floor_s * gate.tp / tp)}; each layer's all-reduce adds to that)")
    needed_gbs = gate.bandwidth_gbs * gate.bytes_per_token / allowed
    faster = sorted((each for each in ACCELERATORS if each.bandwidth_gbs >= needed_gbs), key=lambda each: each.bandwidth_gbs)
    named = ", ".join(f"{each.name} has {as_set(each.bandwidth_gbs)}" for each in faster[:_NAMED])
    helps.append(f"a device with at least {number(needed_gbs, math.ceil)} GB/s{f' ({named})' if named else ''}")
    helps.append(f"a TPOT limit of at least {latency(gate.floor_s, math.ceil)}")
    return tuple(helps)


def _lighter(weights: float, allowed: float, ask: FleetAsk) -> str:
    """Fewer bytes to read: quantised weights."""
    text = f"weights of at most {data_size(allowed, math.floor)} in place of {data_size(weights)}"
    bits = ask.hardware.weight_bits or (DEFAULT_WEIGHT_BITS if ask.hardware.params_b is not None else None)
    if bits is None:
        return f"{text} (fewer bits a weight, or a smaller model)"
    fitting = next((fewer for fewer in _BITS if fewer < bits and weights * fewer / bits <= allowed), None)
    return text + (" (a smaller model)" if fitting is None else f" ({as_set(fitting)} bits a weight in place of {as_set(bits)})")


def _message(gate: SpeedGate) -> str:
    share = f"{plain(gate.eta)} of {as_set(gate.bandwidth_gbs)} GB/s{', a guess' if gate.eta_assumed else ''}"
    read = f"{data_size(gate.bytes_per_token)} read for each token at {share}; TP {gate.tp}"
    floor = f"the TPOT floor is {latency(gate.floor_s)}, about {number(gate.tokens_per_s)} tokens/s for one stream ({read})"
    if gate.limit_s is None:
        return f"{floor}."
    if gate.feasible:
        return f"{floor}: a TPOT limit of {limit(gate.limit_s)} is possible."
    if gate.contradiction is not None:
        return f"{floor}: at that share a TPOT limit of {limit(gate.limit_s)} would not be possible."
    return f"{floor}: a TPOT limit of {limit(gate.limit_s)} is not possible, and no number of replicas changes that."
