"""What the judged rates say of a fleet: how much it holds of what its replicas could, and what its gateway makes of them."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from statistics import fmean
from typing import Literal

import msgspec

from core.config import FleetPlan
from core.facts import Fact, fact
from core.results import Answer, ReplicaUse, StepResult

Verdict = Literal["holds", "fails", "not_known"]
_ANSWERED = ("bracket", "at_least", "below", "infeasible")
_TOLD = (
    *("replicas", "planned_rps", "planned", "full_rps", "holds_rps", "fails_rps", "ratio"),
    *("busiest_share", "hit_frac", "hit_frac_one"),
)
_VERDICTS: dict[str, Verdict] = {"pass": "holds", "fail": "fails", "mixed": "fails"}


class FleetCheck(msgspec.Struct, frozen=True, kw_only=True):
    """A fleet held against one replica; every rate of it was measured, and what was not is None.

    `pass_rps_one` is what one replica holds, `full_rps` as many times that, `planned_rps` the share of it that is planned at peak
    and `planned` whether that holds. `holds_rps` is the highest rate that held, `fails_rps` the lowest that failed, `ratio` the
    first as a share of `full_rps`. `busiest_share`: of the busiest replica, against an even one. `hit_frac` and `hit_frac_one`:
    prefix hits of the fleet and of the one replica, None where prompts share nothing. Both are from `seen_rps`: the rate that held,
    else the one that failed. `lost` replicas were to be taken away after that; `after_loss` is whether the planned load held then.
    """

    verdict: Verdict
    replicas: int
    pass_rps_one: float
    load_at_peak: float
    planned_rps: float
    planned: Verdict
    full_rps: float
    holds_rps: float | None = None
    fails_rps: float | None = None
    ratio: float | None = None
    seen_rps: float | None = None
    busiest: str | None = None
    busiest_share: float | None = None
    hit_frac: float | None = None
    hit_frac_one: float | None = None
    lost: int = 0
    after_loss: Verdict | None = None


def checked(plan: FleetPlan, answer: Answer, steps: Sequence[StepResult]) -> FleetCheck:
    """What the steps of a check amount to, as far as it came. An answer that is none (void, refused, interrupted) has no verdict,
    whatever was measured before it ended."""
    knee, planned = answer.knee, _judged(plan.planned_rps, steps)
    if answer.outcome == "infeasible":
        planned = "fails"
    last = _lost_step(steps)
    after: Verdict | None = None
    if plan.lost and planned != "fails":
        after = "not_known" if last is None else _VERDICTS.get(last.verdict, "not_known")
    verdict: Verdict = "not_known"
    if answer.outcome in _ANSWERED:
        verdict = planned if planned != "holds" or after is None else after
    seen_rps = knee.first_fail_rps if knee.pass_rps is None else knee.pass_rps
    busiest = _busiest(seen_rps, steps)
    return FleetCheck(
        verdict=verdict,
        replicas=plan.replicas,
        pass_rps_one=plan.one_rps,
        load_at_peak=plan.load_at_peak,
        planned_rps=plan.planned_rps,
        planned=planned,
        full_rps=plan.full_rps,
        holds_rps=knee.pass_rps,
        fails_rps=knee.first_fail_rps,
        ratio=None if knee.pass_rps is None else knee.pass_rps / plan.full_rps,
        seen_rps=seen_rps,
        busiest=None if busiest is None else busiest.name,
        busiest_share=None if busiest is None else busiest.share,
        hit_frac=None if plan.one_hit_frac is None else hit_frac_at(seen_rps, steps),
        hit_frac_one=plan.one_hit_frac,
        lost=plan.lost,
        after_loss=after,
    )


def said(check: FleetCheck) -> Fact:
    """The answer in one fact."""
    return fact("fleet_holds" if check.holds_rps is not None else "fleet_holds_none", **{n: getattr(check, n) for n in _TOLD})


def _lost_step(steps: Iterable[StepResult]) -> StepResult | None:
    """The planned load with fewer replicas; None where that was not judged."""
    return next((step for step in reversed(list(steps)) if step.phase == "lost"), None)


def hit_frac_at(rate_rps: float | None, steps: Iterable[StepResult]) -> float | None:
    """The prefix hits in the windows of a rate, as a share of the prompts' tokens; None where no server told."""
    repeats = [repeat for step in _at(rate_rps, steps) for repeat in step.repeats if repeat.verdict in ("pass", "fail")]
    shown = [repeat.prefix_hit_frac for repeat in repeats if repeat.prefix_hit_frac is not None]
    return fmean(shown) if shown else None


def _at(rate_rps: float | None, steps: Iterable[StepResult]) -> list[StepResult]:
    return [step for step in steps if step.rate_rps == rate_rps and step.phase not in ("ramp", "lost") and not step.set_aside]


def _judged(rate_rps: float, steps: Iterable[StepResult]) -> Verdict:
    verdicts = [_VERDICTS[step.verdict] for step in _at(rate_rps, steps) if step.verdict in _VERDICTS]
    return verdicts[-1] if verdicts else "not_known"


def _busiest(rate_rps: float | None, steps: Iterable[StepResult]) -> ReplicaUse | None:
    """The replica that finished most requests in the windows of a rate, with its share over all of them."""
    requests: dict[str, float] = defaultdict(float)
    for step in _at(rate_rps, steps):
        for repeat in step.repeats:
            if repeat.verdict in ("pass", "fail"):
                for use in repeat.replicas:
                    requests[use.name] += use.requests or 0.0
    total = sum(requests.values())
    if not total:
        return None
    name = max(requests, key=lambda each: requests[each])
    return ReplicaUse(name=name, requests=requests[name], share=requests[name] * len(requests) / total)
