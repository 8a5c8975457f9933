"""The knee that was measured of one replica, for comparison with what arrives at it now."""

from dataclasses import dataclass
from pathlib import Path

from core.errors import UserError
from core.fleet_check import refuse_fleet
from core.run import read_recording


@dataclass(frozen=True, slots=True)
class ReplicaKnee:
    """The highest rate that one replica held, and the lowest that it did not; `path` is the run's file. `wait_s`: the run's limit
    on TTFT, else on E2E, which no request meets that waits longer; None without either."""

    pass_rps: float
    fail_rps: float | None
    model: str | None
    path: Path
    wait_s: float | None = None


def knee_of(path: Path) -> ReplicaKnee:
    """The knee of a recorded run. Raises UserError where it has no rate that held."""
    recorded = read_recording(path)
    refuse_fleet(recorded.config)
    if recorded.knee.pass_rps is None:
        raise UserError(f"--run: no rate held in {path}, so there is no knee to compare with; give a run that found one.")
    model = recorded.server.model if recorded.server is not None else recorded.config.target.model
    slo = recorded.config.slo
    wait_s = slo.e2e_s if slo.ttft_s is None else slo.ttft_s
    return ReplicaKnee(recorded.knee.pass_rps, recorded.knee.fail_rps, model, path, wait_s)
