"""The speed gate as a check before load: a limit that the device cannot meet is refused while nothing is lost yet."""

from collections.abc import Sequence
from statistics import median

from core import prose
from core.config import ProbeConfig
from core.fleet.evidence import Evidence
from core.fleet.lengths import tokens_of
from core.fleet.sizing import unit_of
from core.fleet.speed import SpeedGate, speed_gate
from core.records import Check, CheckStatus, RequestRecord, ServerInfo
from core.slo import tpot_s

SPEED = "speed"


def speed_check(config: ProbeConfig, server: ServerInfo, singles: Sequence[RequestRecord]) -> Check | None:
    """None where weights or bandwidth were not given. `singles`: the judged requests that had the server for themselves.

    Where the floor rests on a share of the bandwidth that they show to be too low, they win and the limit is not refused.
    """
    if config.fleet.hardware.weights_bytes is None or config.fleet.hardware.bandwidth_gbs is None:
        return None
    tpots_s = [tpot for record in singles if record.ending == "ok" and (tpot := tpot_s(record)) is not None]
    evidence = Evidence(
        tokens=tokens_of(config.workload),
        tpot_limit_s=config.slo.tpot_s,
        single_tpot_s=median(tpots_s) if tpots_s else None,
    )
    gate = speed_gate(config.fleet, unit_of(config.fleet, server), evidence)
    return None if gate is None else Check(check=SPEED, status=_status(gate), message=_sentences(gate))


def _status(gate: SpeedGate) -> CheckStatus:
    if gate.refuses:
        return "refuse"
    return "pass" if gate.contradiction is None else "warn"


def _sentences(gate: SpeedGate) -> str:
    parts = [_capital(f"{prose.text(gate.message)}.")]
    if gate.contradiction is not None:
        parts.append(f"{_capital(prose.text(gate.contradiction))}.")
    elif gate.eta_reached is not None:
        parts.append(f"A single stream shows that {100 * gate.eta_reached:.0f} % of the bandwidth is reached.")
    if gate.refuses:
        parts.append(f"What would help, each by itself: {'; '.join(map(prose.text, gate.helps))}.")
    return " ".join(parts)


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
