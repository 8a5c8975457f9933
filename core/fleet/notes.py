"""What is to be known beside the size of a fleet: an open upper end, long answers, what each replica gets, what it costs."""

from collections.abc import Iterator

from core.facts import Fact, fact
from core.fleet.cost import Cost
from core.fleet.plan import Fleet


def notes_of(fleet: Fleet) -> tuple[Fact, ...]:
    """In the order in which they are read."""
    open_above = [fact("fleet_open_above")] if fleet.open_above else []
    return (*open_above, *_p90_answers(fleet), *_each_gets(fleet), *_cost(fleet.cost))


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
