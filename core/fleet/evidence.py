"""What a run has measured, as far as a fleet can be reasoned from it: the two ends of the bracket in a few numbers."""

import math
from collections.abc import Iterable, Sequence

import msgspec

from core.config import ProbeConfig, Workload
from core.fleet.lengths import Tokens, tokens_of, tokens_that_came
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
    """`single_tpot_s`: of a request that has the server for itself. `held` is in the order of rates. `arrival_cv`: of the gaps
    between the arrivals that it was measured with; 1 is Poisson. `natural`: answers stopped by themselves, and `tokens` are those
    of the passing end; None where their lengths are not known there. `recorded`: the arrivals were those of a trace."""

    tokens: Tokens | None = None
    target: float = 0.95
    tpot_limit_s: float | None = None
    single_tpot_s: float | None = None
    held: tuple[Held, ...] = ()
    at_pass: End | None = None
    at_fail: End | None = None
    arrival_cv: float = 1.0
    natural: bool = False
    recorded: bool = False


def evidence_of(config: ProbeConfig, knee: Knee, steps: Sequence[StepResult], single_tpot_s: float | None = None) -> Evidence:
    """The evidence of a run: its configuration, its knee, its judged steps, and the TPOT of its single requests."""
    return Evidence(
        tokens=_came(config.workload, steps, knee.pass_rps) if config.workload.natural else tokens_of(config.workload),
        target=config.slo.target,
        tpot_limit_s=config.limits.longest_tpot_s,
        single_tpot_s=single_tpot_s,
        held=_held(steps, knee),
        at_pass=_end(steps, knee.pass_rps),
        at_fail=_end(steps, knee.fail_rps),
        arrival_cv=config.workload.arrival_cv,
        natural=config.workload.natural,
        recorded=config.workload.trace is not None,
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


def _came(workload: Workload, steps: Sequence[StepResult], rate_rps: float | None) -> Tokens | None:
    """What came back in the windows of the rate that holds, each by the number of its answers. None where one does not tell."""
    repeats = [] if rate_rps is None else _judged(steps, rate_rps)
    known = [each for repeat in repeats if (each := repeat.output_tokens) is not None]
    if not known or len(known) < len(repeats):
        return None
    answers = sum(each.n for each in known)
    mean, p90, squares = (
        sum(figure * each.n for figure, each in zip(figures, known, strict=True)) / answers
        for figures in (
            [each.mean for each in known],
            [each.p90 for each in known],
            [each.sd**2 + each.mean**2 for each in known],
        )
    )
    return tokens_that_came(workload, mean, p90, math.sqrt(max(0.0, squares - mean**2)))


def _judged(steps: Sequence[StepResult], rate_rps: float) -> list[RepeatResult]:
    return [repeat for step in steps if step.rate_rps == rate_rps for repeat in step.repeats if repeat.verdict in ("pass", "fail")]


def _end(steps: Sequence[StepResult], rate_rps: float | None) -> End | None:
    if rate_rps is None:
        return None
    repeats = _judged(steps, rate_rps)
    return End(
        rate_rps=rate_rps,
        e2e_mean_s=_mean(repeats),
        running_max=_highest(repeat.running_max for repeat in repeats),
        kv_usage_max=_highest(repeat.kv_usage_max for repeat in repeats),
        preemptions=_highest(repeat.preemptions for repeat in repeats),
    )


def _mean(repeats: Sequence[RepeatResult]) -> float | None:
    """Mean E2E over the requests of all repeats that ended ok, without their wait at a gateway's limit: while it waits, a request
    is no stream of the server."""
    known = [
        (repeat.e2e_s.mean - ((repeat.gateway.wait_s.mean or 0.0) if repeat.gateway else 0.0), repeat.e2e_s.n)
        for repeat in repeats
        if repeat.e2e_s.mean is not None and repeat.e2e_s.n
    ]
    return sum(mean * n for mean, n in known) / sum(n for _, n in known) if known else None


def _highest(values: Iterable[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)
