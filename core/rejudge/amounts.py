"""What a run that was judged again amounts to: each rate then and now, the bracket of what is decided, and what is not."""

from collections.abc import Sequence
from typing import Literal

import msgspec

from core.config import Slo
from core.facts import Fact, Figure, Said, fact, in_turn, several
from core.judge import Bracket, Interval, floor_of, held, held_verdict, step_over, step_verdict, why_infeasible
from core.records import Phase
from core.results import Knee, RepeatResult, StepResult, StepVerdict
from core.run import RepeatAgain, RunAgain, StepAgain
from core.singles import JUDGED
from core.slo import floor

Outcome = Literal["bracket", "at_least", "below", "infeasible", "held"]
Now = StepVerdict | Literal["undecided"]

_COUNTED = ("pass", "fail")


class Rate(msgspec.Struct, frozen=True, kw_only=True):
    """One rate that was measured, as it was judged and as it is now. `rate_rps` of a ramp: the rate that failed now, where one did.
    `floor` intervals are over the repeats that counted then; those of now may be wider, where load was cut short."""

    step: int
    phase: Phase
    rate_then_rps: float
    rate_rps: float
    then: StepVerdict
    now: Now
    why: Said
    floor_then: Interval | None
    floor_now: Interval | None
    repeats: tuple[RepeatAgain, ...]


class Rejudged(msgspec.Struct, frozen=True, kw_only=True):
    """What the stored requests of a run say by other limits. `outcome` None: they decide nothing. `undecided_rps`: rates between
    the ends of the bracket whose requests do not tell."""

    then: Slo
    now: Slo
    knee_then: Knee
    outcome: Outcome | None
    message: Said
    knee: Knee
    rates: tuple[Rate, ...]
    undecided_rps: tuple[float, ...]


def rejudged(run: RunAgain) -> Rejudged:
    """What a run amounts to by the limits of now. Rates that it never sent are not known by other limits either."""
    told = [(step, _rate(step)) for step in run.steps]
    rates = tuple(rate for _, rate in told)
    outcome: Outcome | None
    undecided: tuple[float, ...] = ()
    if run.config.method.hold_rps is not None:
        outcome, message = _held(rates)
        knee = Knee()
    else:
        same = run.limits == run.config.limits and all(rate.now == rate.then for rate in rates)
        decided = [_as_step(step, rate) for step, rate in told if rate.now in ("pass", "fail", "mixed")]
        knee = run.knee if same else _knee(run, decided)
        undecided = _between(rates, knee)
        outcome, message = _amounts_to(run, knee, undecided)
    return Rejudged(
        then=run.config.limits,
        now=run.limits,
        knee_then=run.knee,
        outcome=outcome,
        message=message,
        knee=knee,
        rates=rates,
        undecided_rps=undecided,
    )


# --- one rate -----------------------------------------------------------------------------------------------------


def _rate(step: StepAgain) -> Rate:
    then = step.then
    now, why, rate_rps = _ramp(step) if then.phase == "ramp" else (*_judged(step), then.rate_rps)
    return Rate(
        step=then.step,
        phase=then.phase,
        rate_then_rps=then.rate_rps,
        rate_rps=rate_rps,
        then=then.verdict,
        now=now,
        why=why,
        floor_then=then.floor,
        floor_now=_ramp_floor(step) if then.phase == "ramp" else _floor(step),
        repeats=step.repeats,
    )


def _ramp(step: StepAgain) -> tuple[Now, Said, float]:
    then = step.then
    if then.verdict not in _COUNTED:
        return then.verdict, then.reason, then.rate_rps
    if step.ramp is None:
        return "undecided", fact("again_ramp_undecided"), then.rate_rps
    failed_rps = step.ramp.failed_rps
    return ("pass", step.ramp.reason, then.rate_rps) if failed_rps is None else ("fail", step.ramp.reason, failed_rps)


def _judged(step: StepAgain) -> tuple[Now, Said]:
    """The verdict that its repeats have whatever the undecided ones would have come to; else why there is none."""
    then, counted = step.then, _counted(step)
    if then.verdict not in ("pass", "fail", "mixed") and then.phase != "hold":
        return then.verdict, then.reason  # void, or ended by the user: no part of the answer, whatever the limits
    if not counted:
        return then.verdict, then.reason
    verdict_of = held_verdict if then.phase == "hold" else step_verdict
    best, why = verdict_of(_taken(counted, "pass"))
    worst, _ = verdict_of(_taken(counted, "fail"))
    open_ = [each.undecided for each in counted if each.undecided is not None]
    if best != worst:
        return "undecided", several(*open_)
    complete = then.phase == "hold" or step_over(_taken(counted, "pass"), "first_fail", step.planned)
    if best == "pass" and not complete:
        return "undecided", fact("again_few_repeats", judged=len(counted), planned=step.planned)
    return best, why


def _counted(step: StepAgain) -> list[RepeatAgain]:
    """The repeats that counted then: those that were void, or run again, are no evidence now either."""
    return [each for each in step.repeats if each.then.verdict in _COUNTED]


def _taken(repeats: Sequence[RepeatAgain], as_: Literal["pass", "fail"]) -> list[RepeatResult]:
    """The results, with every undecided one taken as this."""
    return [
        each.now if each.undecided is None else msgspec.structs.replace(each.now, verdict=as_, reason=each.undecided)
        for each in repeats
    ]


def _floor(step: StepAgain) -> Interval | None:
    return floor(each.now.attainment_interval for each in _counted(step) if each.now.verdict != "void")


def _ramp_floor(step: StepAgain) -> Interval | None:
    return None if step.ramp is None else step.ramp.floor


# --- all rates ----------------------------------------------------------------------------------------------------


def _as_step(step: StepAgain, rate: Rate) -> StepResult:
    """The step as the judge would have it by the limits of now."""
    assert rate.now != "undecided"
    repeats = tuple(each.now for each in step.repeats)
    return msgspec.structs.replace(
        step.then, rate_rps=rate.rate_rps, verdict=rate.now, reason=rate.why, floor=floor_of(repeats), repeats=repeats
    )


def _knee(run: RunAgain, steps: list[StepResult]) -> Knee:
    """The bracket, by the rules of the run's own mode; what a twin said of the limits of then is no help here."""
    return Bracket.of(run.config.method, steps, target=run.slo.target).knee()


def _between(rates: tuple[Rate, ...], knee: Knee) -> tuple[float, ...]:
    low, high = knee.pass_rps or 0.0, knee.fail_rps
    found = {rate.rate_rps for rate in rates if rate.now == "undecided" and rate.phase != "ramp"}
    return tuple(sorted(rate for rate in found if rate > low and (high is None or rate < high)))


def _amounts_to(run: RunAgain, knee: Knee, undecided: tuple[float, ...]) -> tuple[Outcome | None, Said]:
    beside = (fact("again_not_decided", rates_rps=list(undecided)),) if undecided else ()
    if knee.pass_rps is None and (why := _infeasible(run)) is not None:
        return "infeasible", fact("again_infeasible", why)
    if knee.pass_rps is None and knee.first_fail_rps is None:
        return None, in_turn(fact("again_nothing"), *beside)
    fail_rps = knee.fail_rps if knee.pass_rps is not None else knee.first_fail_rps
    ends: dict[str, Figure] = {"pass_rps": knee.pass_rps, "first_fail_rps": knee.first_fail_rps, "fail_rps": fail_rps}
    said = fact("again_bracket", **ends, clearly=knee.clearly_fails)
    outcome: Outcome = "below" if knee.pass_rps is None else "at_least" if knee.first_fail_rps is None else "bracket"
    return outcome, in_turn(said, *beside)


def _infeasible(run: RunAgain) -> Fact | None:
    """Why no rate can be right by these limits: all single requests before the load miss them."""
    return why_infeasible(run.singles, run.limits) if len(run.singles) >= JUDGED else None


def _held(rates: tuple[Rate, ...]) -> tuple[Outcome | None, Said]:
    """Of held rates what their segments say."""
    told = [(rate.rate_rps, [each.now for each in rate.repeats]) for rate in rates]
    if not any(repeat.verdict in _COUNTED for _, repeats in told for repeat in repeats):
        return None, fact("again_nothing")
    return "held", held(told)[1]
