"""One run as a comparison sees it, whether it was read from its file or from the JSON of its result. Frozen, without behaviour."""

import msgspec

from core.facts import Figure
from core.records import Phase
from core.results import Knee, Outcome, Percentiles, RepeatVerdict, StepVerdict

LIMITS = ("ttft_s", "tpot_s", "e2e_s", "target", "max_error_rate")
WORKLOAD = (
    *("api", "input_tokens", "output_tokens", "length_correlation", "mix", "source", "trace", "arrival_cv"),
    *("prefix", "temperature", "stop", "gateway", "retry_after", "think_s"),
)
METHOD = ("mode", "careful", "repeats", "measure_s", "budget_s", "rates", "require_rps", "reset_cache", "between")
SEEDS = ("arrival_seed", "workload_seed")
ASKED = (*LIMITS, *WORKLOAD, *METHOD, *SEEDS)
"""What was asked for, by name; runs whose limits or workload differ measured other things, and are not compared."""


class Request(msgspec.Struct, frozen=True, gc=False):
    """One request of a window: its place in the plan, when it was due (seconds after its order began), whether it met every limit,
    its margin (`core.slo.margin`, infinite for one that failed), and its latencies in seconds."""

    index: int
    due_s: float
    good: bool
    margin: float
    ttft_s: float | None
    tpot_s: float | None
    e2e_s: float | None


class Repeat(msgspec.Struct, frozen=True, kw_only=True):
    """One repeat. `attainment`: what it can be at least and at most. `draw`: what its requests were drawn by beside the seeds, the
    same in another run where both have the same plan; None: not known. `drift_frac`: by which share steps took longer than in the
    run's first repeat. `requests`: those of the window from its beginning on that all ended by themselves; empty where they are not
    kept."""

    verdict: RepeatVerdict
    attainment: tuple[float, float]
    planned: int
    succeeded: int
    ttft_s: Percentiles
    tpot_s: Percentiles
    e2e_s: Percentiles
    draw: tuple[int | str | None, ...] | None = None
    drift_frac: float | None = None
    requests: tuple[Request, ...] = ()

    @property
    def counts(self) -> bool:
        """Whether it is evidence."""
        return self.verdict in ("pass", "fail")


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One rate that was judged, with its repeats. `floor`: the lowest attainment, as an interval; None where none counts."""

    rate_rps: float
    phase: Phase
    verdict: StepVerdict
    floor: tuple[float, float] | None
    repeats: tuple[Repeat, ...]

    @property
    def clearly_fails(self) -> bool:
        """At least two and at least half of its repeats failed."""
        judged = [repeat for repeat in self.repeats if repeat.counts]
        failed = sum(repeat.verdict == "fail" for repeat in judged)
        return failed >= 2 and 2 * failed >= len(judged)

    @property
    def surely_holds(self) -> bool:
        """It passed, by at least two repeats."""
        return self.verdict == "pass" and sum(repeat.verdict == "pass" for repeat in self.repeats) >= 2


class FleetOf(msgspec.Struct, frozen=True, kw_only=True):
    """The fleet for the peak that the run planned for: at the rate that holds, and at the one that fails (None: none is known)."""

    peak_rps: float
    load_at_peak: float
    replicas: int
    gpus: int
    replicas_at_fail: int | None
    gpus_at_fail: int | None


class Side(msgspec.Struct, frozen=True, kw_only=True):
    """One run. `asked` has the names of `ASKED`, `server` what the server told of itself, flags as `config.NAME`; None in either
    is "none" or "not told". `gpus`: those behind the address (TP x PP x DP); None where that is not known. `steps` are those of the
    answer. `required_met`: whether the required rate passed by repeats of its own; None where it was not judged. `going`: it was
    still being written when it was read."""

    label: str
    path: str
    outcome: Outcome
    required_met: bool | None = None
    held_rps: float | None = None
    asked: dict[str, Figure]
    server: dict[str, Figure]
    knee: Knee
    gpus: int | None = None
    fleet: FleetOf | None = None
    steps: tuple[Step, ...] = ()
    started_utc: str | None = None
    duration_s: float | None = None
    going: bool = False

    @property
    def low_rps(self) -> float | None:
        """The rate that holds."""
        return self.knee.pass_rps

    @property
    def high_rps(self) -> float | None:
        """The upper end of its bracket: 0 where single requests miss already, None where it is open."""
        return 0.0 if self.outcome == "infeasible" else self.knee.fail_rps

    @property
    def pass_rps_per_gpu(self) -> float | None:
        """The rate that holds, by GPU."""
        return None if self.low_rps is None or self.gpus is None else self.low_rps / self.gpus

    @property
    def voids(self) -> int:
        """Repeats that did not count."""
        return sum(repeat.verdict == "void" for step in self.steps for repeat in step.repeats)

    @property
    def speeds(self) -> tuple[float, float]:
        """How slow its server's steps were, the fastest and the slowest repeat as factors of the first."""
        drifts = [
            1 + repeat.drift_frac
            for step in self.steps
            for repeat in step.repeats
            if repeat.counts and repeat.drift_frac is not None and repeat.drift_frac > -1
        ]
        return min(drifts, default=1.0), max(drifts, default=1.0)
