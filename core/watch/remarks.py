"""What there is to say of a row, as facts."""

from collections.abc import Iterable

from core.facts import Fact, fact
from core.watch.growth import BIN_S, FEWEST, Growth
from core.watch.replica import Load, Row
from core.watch.table import Imbalance

LATE_S = 3.0
"""A reading that takes longer is told of; that of a busy server takes a second or two."""


def row_notes(row: Row) -> tuple[Fact, ...]:
    """The most important first."""
    found = []
    match row.state:
        case "unread":
            found.append(fact("watch_unread"))
        case "failing":
            found.append(fact("watch_failing", since_s=row.since_s, said=row.why))
        case "gone":
            found.append(fact("watch_gone", since_s=row.since_s))
        case "ok" if row.unanswered_s is not None and row.unanswered_s > LATE_S:
            found.append(fact("watch_late", age_s=row.unanswered_s))
    if row.load is not None and row.figures is not None:
        if row.load.by == "stalled":
            found.append(fact("watch_stalled", stalled_s=row.figures.stalled_s))
        elif row.load.by == "waiting" and row.growth is not None:  # only with a knee: else the column of waiting requests says it
            found.append(fact("watch_queue", wait_s=row.figures.wait_s))
    if row.several:
        found.append(fact("watch_several"))
    elif row.restarted_s is not None:
        found.append(fact("watch_restarted", ago_s=row.restarted_s))
    if row.joined_s is not None:
        found.append(fact("watch_joined", ago_s=row.joined_s))
    if row.other_model is not None and row.model is not None:
        found.append(fact("watch_other_model", model=row.model, run_model=row.other_model))
    if row.growth is not None and row.growth.state in ("above", "rising"):
        found.append(growth_fact(row.growth))
    return tuple(found)


def stuck_fact(rows: Iterable[Row]) -> Fact | None:
    """Which replicas are stuck; None where none is."""
    stuck = [row.url for row in rows if row.load is not None and row.load.by == "stalled"]
    return fact("watch_stuck", *stuck) if stuck else None


def growth_fact(growth: Growth) -> Fact:
    """Which way the rate goes, and when it is at the knee."""
    match growth.state:
        case "unknown":
            return fact("watch_growth_unknown", least_s=BIN_S * FEWEST)
        case "rising":
            return fact("watch_rising", eta_s=growth.eta_s)
        case "above":
            return fact("watch_above_knee")
        case "falling":
            return fact("watch_falling")
        case "steady":
            return fact("watch_steady")


def load_fact(load: Load) -> Fact:
    """What the load of a replica was taken from."""
    return fact("watch_load", load_frac=load.frac, by=load.by)


def imbalance_fact(imbalance: Imbalance) -> Fact:
    """Who is busiest, and how much more than its share that is."""
    return fact("watch_imbalance", url=imbalance.url, ratio=imbalance.ratio, by=imbalance.by)
