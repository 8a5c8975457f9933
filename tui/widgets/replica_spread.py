"""How a figure is spread over the replicas behind a gateway: the lowest, the median and the highest."""

from collections.abc import Callable
from statistics import median

from core.records import EngineSample, ServerSample
from core.units import as_set, count
from tui.widgets.pieces import Piece

Text = Callable[[float], str]


def spread(sample: ServerSample | None, value: Callable[[EngineSample], float | None], text: Text, *, whole: bool = False) -> str:
    """What stands behind the sum, with a blank before it; empty where no replicas were named. `whole`: with how many there are."""
    if sample is None or not sample.by_replica:
        return ""
    values = [each for row in sample.by_engine or () if (each := value(row)) is not None]
    if not values:
        return ""
    three = " / ".join(text(each) for each in (min(values), median(values), max(values)))
    return f" ({three} of {_how_many(sample)})" if whole else f" ({three})"


def kv_spread(sample: ServerSample | None) -> str:
    """The same of the KV caches, in percent."""
    told = spread(sample, lambda row: row.kv_usage_frac, lambda frac: count(round(100 * frac)))
    return f"{told[:-1]} %)" if told else ""


def share(busiest: float | None, rank: int) -> tuple[Piece, ...]:
    """How many times its share the busiest replica got; nothing where that is not known."""
    return () if busiest is None else (Piece(f"busiest {as_set(busiest, 2)}x its share", "plain", rank),)


def _how_many(sample: ServerSample) -> str:
    read, late = len(sample.by_engine or ()), len(sample.unread)
    return f"{count(read, 'replica')}, {count(late)} late" if late else count(read, "replica")
