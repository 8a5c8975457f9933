"""The fleet as a whole: both ends of the bracket, the long answers, what it survives, what it costs, what it assumes."""

import msgspec

from core.config import FleetAsk
from core.facts import Fact, fact
from core.fleet.cost import Cost, cost_of
from core.fleet.evidence import Evidence, Held
from core.fleet.marks import Mark, marks_of
from core.fleet.sizing import FleetSize, Unit, size, unit_of
from core.records import ServerInfo
from core.results import Knee

_DUST = 1e-9
_LOSSES_SHOWN = 2

RANDOM_COST_FRAC = 0.01
"""What a router that chooses at random costs at most against an even split, as a share of the fleet's rate. In theory it
is nothing: a Poisson stream split at random is as many independent ones. Measured: four simulated replicas behind one held 1.005
times four times the rate of one, the mean of ten runs with 95 % limits of 0.993 to 1.017 (`python -m tests.benchmarks.routers`)."""


class Loss(msgspec.Struct, frozen=True, kw_only=True):
    """The peak with `lost` replicas gone: what each of the others gets, as a rate and as a share of the rate that holds.
    `floor` and `floor_rps` as in FleetSize."""

    lost: int
    per_replica_rps: float
    load_frac: float
    holds: bool
    floor: float | None = None
    floor_rps: float | None = None


class Fleet(msgspec.Struct, frozen=True, kw_only=True):
    """The fleet at both ends of the bracket; an end that is not known is None. `open_above`: rates failed, but none of them for
    sure, so the upper end is not known.

    `at_p90_output` is an estimate: were every answer as long as the 90th percentile, the rate would be r * mean/p90.
    `losses`, `marks` and `cost` are those of `at_pass`. `mean_output` and `p90_output` are in tokens.
    """

    peak_rps: float
    headroom: float
    gpus_per_endpoint: int
    layout_known: bool
    unit: Unit = Unit()
    at_pass: FleetSize | None = None
    at_fail: FleetSize | None = None
    open_above: bool = False
    at_p90_output: FleetSize | None = None
    mean_output: float | None = None
    p90_output: float | None = None
    losses: tuple[Loss, ...] = ()
    marks: tuple[Mark, ...] = ()
    cost: Cost | None = None
    assumptions: tuple[Fact, ...] = ()


def assumptions_of(seen: Evidence) -> tuple[Fact, ...]:
    """What any size rests on: every replica gets what one got while it was measured."""
    arrivals = fact("poisson_arrivals") if seen.arrival_cv == 1 else fact("gamma_arrivals", arrival_cv=seen.arrival_cv)
    if seen.recorded:
        arrivals = fact("recorded_arrivals")
    return arrivals, fact("fleet_even_split", random_cost_frac=RANDOM_COST_FRAC), _lengths(seen)


def _lengths(seen: Evidence) -> Fact:
    if not seen.natural:
        return fact("same_lengths")
    if seen.tokens is None:
        return fact("answer_lengths_unknown")
    return fact("answers_as_they_came", mean_tokens=seen.tokens.mean_output, p90_tokens=seen.tokens.p90_output)


def plan(knee: Knee, ask: FleetAsk, server: ServerInfo | None, evidence: Evidence | None = None) -> Fleet | None:
    """The fleet at both ends of the bracket, or None when no peak was given or no rate has held: a rate that is only known to
    fail sizes nothing that could be ordered.

    Without evidence, what only a run can tell is None.
    """
    peak_rps, safe_rps = ask.peak_rps, knee.pass_rps
    if peak_rps is None or safe_rps is None:
        return None
    seen = Evidence() if evidence is None else evidence
    unit = unit_of(ask, server)
    tokens = seen.tokens

    def at(replica_rps: float | None) -> FleetSize | None:
        return None if replica_rps is None else size(peak_rps, ask.headroom, replica_rps, unit.gpus)

    at_pass = _with_floor(size(peak_rps, ask.headroom, safe_rps, unit.gpus), seen.held)
    longer = tokens is not None and tokens.p90_output > tokens.mean_output
    return Fleet(
        peak_rps=peak_rps,
        headroom=ask.headroom,
        gpus_per_endpoint=unit.gpus,
        layout_known=unit.known,
        unit=unit,
        at_pass=at_pass,
        at_fail=at(knee.fail_rps),
        open_above=knee.open_above,
        at_p90_output=at(safe_rps * tokens.mean_output / tokens.p90_output) if tokens is not None and longer else None,
        mean_output=tokens.mean_output if tokens else None,
        p90_output=tokens.p90_output if tokens else None,
        losses=tuple(_loss(lost, peak_rps, at_pass, seen.held) for lost in range(1, min(_LOSSES_SHOWN, at_pass.replicas - 1) + 1)),
        marks=marks_of(ask, peak_rps, safe_rps, seen),
        cost=cost_of(ask, peak_rps, at_pass, tokens.mean_output if tokens else None),
        assumptions=assumptions_of(seen),
    )


def floor_at(rate_rps: float, held: tuple[Held, ...]) -> Held | None:
    """The measurement that speaks for a rate: the lowest rate that held and is not below it. `held` is in the order of rates."""
    return next((each for each in held if each.rate_rps >= rate_rps * (1 - _DUST)), None)


def _with_floor(fleet: FleetSize, held: tuple[Held, ...]) -> FleetSize:
    found = floor_at(fleet.per_replica_rps, held)
    return fleet if found is None else msgspec.structs.replace(fleet, floor=found.floor, floor_rps=found.rate_rps)


def _loss(lost: int, peak_rps: float, fleet: FleetSize, held: tuple[Held, ...]) -> Loss:
    each_rps = peak_rps / (fleet.replicas - lost)
    found = floor_at(each_rps, held)
    return Loss(
        lost=lost,
        per_replica_rps=each_rps,
        load_frac=each_rps / fleet.replica_rps,
        holds=each_rps <= fleet.replica_rps * (1 + _DUST),
        floor=found.floor if found else None,
        floor_rps=found.rate_rps if found else None,
    )
