"""What is to be known beside the size of a fleet: an open upper end, long answers, what each replica gets, what it costs."""

from collections.abc import Iterator

from core.config import DEFAULT_HEADROOM, LOW_HEADROOM, FleetAsk
from core.facts import Fact, fact
from core.fleet.cost import Cost
from core.fleet.plan import Fleet
from core.fleet.sizing import size


def notes_of(fleet: Fleet) -> tuple[Fact, ...]:
    """In the order in which they are read."""
    open_above = [fact("fleet_open_above")] if fleet.open_above else []
    return (*open_above, *_p90_answers(fleet), *_each_gets(fleet), *_low_load(fleet), *_cost(fleet.cost))


def low_load(fleet: Fleet) -> Fact | None:
    """What a low load at peak costs beside the default one; None where it is not low, or where both take as many replicas."""
    safe = fleet.at_pass
    if safe is None or fleet.headroom >= LOW_HEADROOM:
        return None
    usual = size(fleet.peak_rps, DEFAULT_HEADROOM, safe.replica_rps, fleet.gpus_per_endpoint)
    if usual.replicas == safe.replicas:
        return None
    per_hour = None if fleet.cost is None else fleet.cost.per_hour
    return fact(
        "low_load_at_peak",
        load_frac=fleet.headroom,
        usual_frac=DEFAULT_HEADROOM,
        replicas=safe.replicas,
        usual_replicas=usual.replicas,
        gpus=safe.gpus,
        usual_gpus=usual.gpus,
        per_hour=per_hour,
        usual_per_hour=None if per_hour is None else per_hour * usual.gpus / safe.gpus,
    )


def low_load_before(ask: FleetAsk) -> Fact | None:
    """The same before there is a fleet: how many times the replicas. None where the load at peak is not low."""
    if ask.headroom >= LOW_HEADROOM:
        return None
    return fact("low_load_no_peak", load_frac=ask.headroom, usual_frac=DEFAULT_HEADROOM, times=DEFAULT_HEADROOM / ask.headroom)


def _low_load(fleet: Fleet) -> Iterator[Fact]:
    if (found := low_load(fleet)) is not None:
        yield found


def _p90_answers(fleet: Fleet) -> Iterator[Fact]:
    if fleet.at_p90_output is not None:
        yield fact("p90_answers", mean_output_tokens=fleet.mean_output, p90_output_tokens=fleet.p90_output)


def _each_gets(fleet: Fleet) -> Iterator[Fact]:
    """What each replica gets at peak, with all of them and with some lost, beside what was measured there."""
    safe = fleet.at_pass
    if safe is not None:
        measured = {"floor_frac": safe.floor, "floor_rps": safe.floor_rps}
        yield fact("each_gets", lost=0, rate_rps=safe.per_replica_rps, load_frac=safe.load_frac, holds=True, **measured)
    for loss in fleet.losses:
        measured = {"floor_frac": loss.floor, "floor_rps": loss.floor_rps}
        figures = {"rate_rps": loss.per_replica_rps, "load_frac": loss.load_frac, **measured}
        yield fact("each_gets", lost=loss.lost, holds=loss.holds, **figures)


def _cost(cost: Cost | None) -> Iterator[Fact]:
    """In the currency of the price that was given."""
    if cost is None:
        return
    if cost.per_hour is not None:
        yield fact(
            "fleet_cost",
            per_hour=cost.per_hour,
            per_million_at_peak=cost.per_million_at_peak,
            per_million_at_mean=cost.per_million_at_mean,
        )
    if cost.mean_rps is not None:
        yield fact(
            "mean_rate",
            mean_rps=cost.mean_rps,
            replicas=cost.mean_replicas,
            saved_gpus=cost.saved_gpus,
            saved_frac=cost.saved_frac,
            saved_per_hour=cost.saved_per_hour,
        )
