"""From the recorded run of one replica to what is asked of a fleet of them."""

from collections.abc import Iterable

from msgspec.structs import replace

from core.config import RATES_RPS, FleetPlan, Method, Mode, ProbeConfig, Safety, Target
from core.errors import UserError
from core.facts import Fact, fact
from core.fleet_check.findings import hit_frac_at
from core.results import Knee, StepResult
from core.units import as_set, count, number, percent, rate_text


def check_of(
    one: ProbeConfig,
    knee: Knee,
    steps: Iterable[StepResult],
    *,
    replicas: int,
    target: Target,
    safety: Safety,
    mode: Mode | None = None,
    load_at_peak: float | None = None,
    lost: int = 0,
    **method: object,
) -> ProbeConfig:
    """The run that judges `replicas` behind the gateway `target`, each of which is that of the run `one` with its knee and steps.

    Requests, limits and seeds are that run's, and so is how long a rate is judged unless `mode` or fields of `method` say
    otherwise; what the load may not exceed is not: its limits were those of one replica. Raises UserError where that run tells too
    little, and where the planned load must not be sent.
    """
    refuse_fleet(one)
    if knee.pass_rps is None:
        raise UserError(
            "The run of one replica has no rate that held, so nothing can be said of several; measure one replica first.",
            exit_code=3,
        )
    if one.workload.gateway is not None:
        raise UserError(
            "In --run kneescope held requests back itself (--gateway-limit); here the fleet's own gateway does. Give a run without."
        )
    plan = FleetPlan(
        replicas=replicas,
        one_rps=knee.pass_rps,
        load_at_peak=one.fleet.headroom if load_at_peak is None else load_at_peak,
        one_hit_frac=None if one.workload.prefix.cold else hit_frac_at(knee.pass_rps, steps),
        lost=lost,
    )
    return ProbeConfig(
        target=target,
        slo=one.slo,
        workload=one.workload,
        method=_method(one.method, plan, mode, safety, method),
        safety=safety,
        fleet=replace(one.fleet, peak_rps=None, mean_rps=None, headroom=plan.load_at_peak),
    )


def refuse_fleet(config: ProbeConfig) -> None:
    """Refuse (UserError) a run whose rates are those of a fleet, where one replica is meant."""
    if config.method.fleet is not None:
        n = count(config.method.fleet.replicas, "replica")
        raise UserError(f"This run is a check of {n} behind a gateway; give the run of one replica.", exit_code=3)


def not_tried(config: ProbeConfig) -> Fact | None:
    """What the fleet could hold is not tried where --max-rps does not allow it; None where it is."""
    plan = config.method.fleet
    if plan is None or plan.full_rps in config.method.rates_rps:
        return None
    return fact("fleet_full_not_tried", full_rps=plan.full_rps, max_rps=config.safety.max_rps)


def _method(one: Method, plan: FleetPlan, mode: Mode | None, safety: Safety, given: dict[str, object]) -> Method:
    """How rates were judged in the run of one, without what was asked for there alone."""
    own: dict[str, object] = {} if mode is None else {"mode": mode, "careful": False, "repeats": None, "measure_s": None}
    own |= dict.fromkeys(("start_rps", "hold_rps", "require_rps", "budget_s", "beat_rps"))
    own |= dict.fromkeys(("between", "closed_loop", "one_draw", "reset_cache"), False)
    return replace(one, **own | given, rates_rps=_rates_rps(plan, safety), fleet=plan)


def _rates_rps(plan: FleetPlan, safety: Safety) -> tuple[float, ...]:
    most_rps = min(RATES_RPS[1], RATES_RPS[1] if safety.max_rps is None else safety.max_rps)
    if plan.planned_rps > most_rps:
        what = "what can be measured" if safety.max_rps is None else "--max-rps"
        raise UserError(
            f"The planned load of {count(plan.replicas, 'replica')} is {rate_text(plan.planned_rps)} (each holds "
            f"{number(plan.one_rps)}, {percent(plan.load_at_peak)} of it at peak), above {what}, {as_set(most_rps)}."
            f"{'' if safety.max_rps is None else ' Raise that, or lower --load-at-peak.'}"
        )
    return tuple(rate for rate in dict.fromkeys((plan.planned_rps, plan.full_rps)) if rate <= most_rps)
