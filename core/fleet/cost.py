"""What a fleet costs, in the currency of the price that was given."""

import msgspec

from core.config import FleetAsk
from core.fleet.sizing import FleetSize, size

_MILLION_PER_HOUR = 3600 / 1e6


class Cost(msgspec.Struct, frozen=True, kw_only=True):
    """Of the whole fleet: per hour, and per million output tokens while the peak lasts and at the mean rate.

    At the mean rate the same fleet makes fewer tokens for the same money. `mean_replicas`, `mean_gpus`: what the mean rate
    alone needs at the same load at peak; `saved_per_hour` is what a fleet that is always scaled to it would save. None: no price,
    no mean rate, or no known length of answers.
    """

    per_hour: float | None = None
    per_million_at_peak: float | None = None
    per_million_at_mean: float | None = None
    mean_rps: float | None = None
    mean_replicas: int | None = None
    mean_gpus: int | None = None
    saved_gpus: int | None = None
    saved_per_hour: float | None = None
    saved_frac: float | None = None


def cost_of(ask: FleetAsk, peak_rps: float, fleet: FleetSize, mean_output: float | None) -> Cost | None:
    """The cost of a sized fleet; None when neither a price nor a mean rate was given."""
    price, mean_rps = ask.cost_per_gpu_h, ask.mean_rps
    if price is None and mean_rps is None:
        return None
    per_hour = None if price is None else price * fleet.gpus

    cost = Cost(
        per_hour=per_hour,
        per_million_at_peak=price_per_million(per_hour, peak_rps, mean_output),
        per_million_at_mean=price_per_million(per_hour, mean_rps, mean_output),
    )
    if mean_rps is None:
        return cost
    mean = size(min(mean_rps, peak_rps), ask.headroom, fleet.replica_rps, fleet.gpus // fleet.replicas)
    saved = fleet.gpus - mean.gpus
    return msgspec.structs.replace(
        cost,
        mean_rps=mean_rps,
        mean_replicas=mean.replicas,
        mean_gpus=mean.gpus,
        saved_gpus=saved,
        saved_per_hour=None if price is None else price * saved,
        saved_frac=saved / fleet.gpus,
    )


def price_per_million(per_hour: float | None, rate_rps: float | None, mean_output: float | None) -> float | None:
    """What a million output tokens cost at a rate, by the price of an hour of all that serves it; None where one is not known."""
    if per_hour is None or rate_rps is None or not mean_output:
        return None
    return per_hour / (rate_rps * mean_output * _MILLION_PER_HOUR)
