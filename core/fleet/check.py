"""The speed gate as a check before load: a limit that the device cannot meet is refused while nothing is lost yet."""

from collections.abc import Sequence
from statistics import median

from core.config import ProbeConfig
from core.facts import Code, Said, fact, in_turn
from core.fleet.evidence import Evidence
from core.fleet.lengths import tokens_of
from core.fleet.sizing import unit_of
from core.fleet.speed import SpeedGate, speed_gate
from core.records import Check, CheckStatus, RequestRecord, ServerInfo
from core.slo import tpot_s

SPEED = "speed"
FLOOR: tuple[Code, ...] = ("tpot_floor", "limit_under_floor")
"""What the check says of the limit."""


def speed_check(config: ProbeConfig, server: ServerInfo, singles: Sequence[RequestRecord]) -> Check | None:
    """None where weights or bandwidth were not given. `singles`: the judged requests that had the server for themselves.

    Where the floor rests on a share of the bandwidth that they show to be too low, they win and the limit is not refused.
    """
    if config.fleet.hardware.weights_bytes is None or config.fleet.hardware.bandwidth_gbs is None:
        return None
    tpots_s = [tpot for record in singles if record.ending == "ok" and (tpot := tpot_s(record)) is not None]
    evidence = Evidence(
        tokens=None if config.workload.natural else tokens_of(config.workload),
        tpot_limit_s=config.limits.longest_tpot_s,
        single_tpot_s=median(tpots_s) if tpots_s else None,
    )
    gate = speed_gate(config.fleet, unit_of(config.fleet, server), evidence)
    return None if gate is None else Check(check=SPEED, status=_status(gate), message=_found(gate))


def _status(gate: SpeedGate) -> CheckStatus:
    if gate.refuses:
        return "refuse"
    return "pass" if gate.contradiction is None else "warn"


def _found(gate: SpeedGate) -> Said:
    code: Code = "limit_under_floor" if gate.refuses else "tpot_floor"
    floor = fact(code, gate.message, floor_s=gate.floor_s, limit_s=gate.limit_s, eta_frac=gate.eta)
    found = [floor]
    if gate.contradiction is not None:
        found.append(fact("floor_contradicted", gate.contradiction, measured_s=gate.measured_s, eta_reached_frac=gate.eta_reached))
    elif gate.eta_reached is not None:
        found.append(fact("bandwidth_reached", measured_s=gate.measured_s, eta_reached_frac=gate.eta_reached))
    if gate.helps:
        found.append(fact("limit_helps", *gate.helps))
    return in_turn(*found)
