"""What a run has measured, as far as a fleet can be reasoned from it: the two ends of the bracket in a few numbers."""

from collections.abc import Iterable, Sequence

import msgspec

from core.config import ProbeConfig
from core.fleet.lengths import Tokens, tokens_of
from core.results import Knee, RepeatResult, StepResult


class Held(msgspec.Struct, frozen=True, kw_only=True):
    """A rate at which every repeat passed, and the floor of attainment there."""

    rate_rps: float
    floor: float


class End(msgspec.Struct, frozen=True, kw_only=True):
    """What the server and the requests were like at one end of the bracket; the highest over its repeats, None: not seen."""

    rate_rps: float
    e2e_mean_s: float | None = None
    running_max: float | None = None
    kv_usage_max: float | None = None
    preemptions: float | None = None


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """`single_tpot_s`: of a request that has the server for itself. `held` is in the order of rates."""

    tokens: Tokens | None = None
    target: float = 0.95
    tpot_limit_s: float | None = None
    single_tpot_s: float | None = None
    held: tuple[Held, ...] = ()
    at_pass: End | None = None
    at_fail: End | None = None


def evidence_of(config: ProbeConfig, knee: Knee, steps: Sequence[StepResult], single_tpot_s: float | None = None) -> Evidence:
    """The evidence of a run: its configuration, its knee, its judged steps, and the TPOT of its single requests."""
    return Evidence(
        tokens=tokens_of(config.workload),
        target=config.slo.target,
        tpot_limit_s=config.slo.tpot_s,
        single_tpot_s=single_tpot_s,
        held=_held(steps, knee),
        at_pass=_end(steps, knee.pass_rps),
        at_fail=_end(steps, knee.fail_rps),
    )


def _held(steps: Sequence[StepResult], knee: Knee) -> tuple[Held, ...]:
    """Rates up to the knee that passed as full steps; of a rate judged more than once the lowest floor."""
    if knee.pass_rps is None:
        return ()
    floors: dict[float, float] = {}
    for step in steps:
        if step.phase != "ramp" and step.verdict == "pass" and step.floor is not None and step.rate_rps <= knee.pass_rps:
            floors[step.rate_rps] = min(step.floor[0], floors.get(step.rate_rps, 1.0))
    return tuple(Held(rate_rps=rate_rps, floor=floors[rate_rps]) for rate_rps in sorted(floors))


def _end(steps: Sequence[StepResult], rate_rps: float | None) -> End | None:
    if rate_rps is None:
        return None
    repeats = [
        repeat for step in steps if step.rate_rps == rate_rps for repeat in step.repeats if repeat.verdict in ("pass", "fail")
    ]
    return End(
        rate_rps=rate_rps,
        e2e_mean_s=_mean(repeats),
        running_max=_highest(repeat.running_max for repeat in repeats),
        kv_usage_max=_highest(repeat.kv_usage_max for repeat in repeats),
        preemptions=_highest(repeat.preemptions for repeat in repeats),
    )


def _mean(repeats: Sequence[RepeatResult]) -> float | None:
    """Mean E2E over the requests of all repeats that ended ok."""
    known = [(repeat.e2e_s.mean, repeat.e2e_s.n) for repeat in repeats if repeat.e2e_s.mean is not None and repeat.e2e_s.n]
    return sum(mean * n for mean, n in known) / sum(n for _, n in known) if known else None


def _highest(values: Iterable[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)
