"""A fleet that was held against one of its replicas: as data, and as the lines below the answer."""

from typing import Any

import msgspec

from core.fleet_check import FleetCheck, Verdict, checked
from core.results import Answer
from core.units import as_set, count, percent, rate_text
from core.view import RunView

_WORDS: dict[Verdict, str] = {"holds": "holds", "fails": "does not hold", "not_known": "not known"}
Row = tuple[str, str, str]


def fleet_check_of(view: RunView, answer: Answer) -> FleetCheck | None:
    """What the check amounts to as far as it came; None of any other run."""
    plan = view.config.method.fleet if view.config else None
    return None if plan is None else checked(plan, answer, view.steps)


def fleet_check_data(view: RunView, answer: Answer) -> dict[str, Any] | None:
    """The same as plain data."""
    check = fleet_check_of(view, answer)
    return None if check is None else msgspec.to_builtins(check)


def fleet_check_rows(view: RunView, answer: Answer) -> list[Row]:
    """What was asked of the fleet, and what came of it: a name, a figure, and what is to be said of it. Empty of any other run."""
    check = fleet_check_of(view, answer)
    if check is None:
        return []
    n = count(check.replicas, "replica")
    of_peak = f"{percent(check.load_at_peak, 2)} of what {n} would hold one by one"
    rows = [
        ("one replica", rate_text(check.pass_rps_one), "holds, by the run of one"),
        ("planned load", rate_text(check.planned_rps), f"{_WORDS[check.planned]}; {of_peak}"),
    ]
    if check.holds_rps is not None and check.ratio is not None:
        rows.append((n, rate_text(check.holds_rps), f"holds: {percent(check.ratio)} of {rate_text(check.full_rps)}"))
    if check.fails_rps is not None:
        rows.append(("", rate_text(check.fails_rps), "does not hold"))
    if check.busiest_share is not None:
        rows.append(
            ("busiest replica", f"{as_set(check.busiest_share, 2)} times", f"an even share of the requests: {check.busiest}")
        )
    if check.hit_frac is not None and check.hit_frac_one is not None:
        rows.append(("prefix hits", percent(check.hit_frac, 2), f"of one replica: {percent(check.hit_frac_one, 2)}"))
    if check.after_loss is not None:
        left = count(check.replicas - check.lost, "replica")
        rows.append((f"{count(check.lost)} lost", rate_text(check.planned_rps), f"{_WORDS[check.after_loss]} with {left}"))
    return rows


def fleet_check_lines(view: RunView, answer: Answer) -> list[str]:
    """The same in columns."""
    rows = fleet_check_rows(view, answer)
    if not rows:
        return []
    first, second = (max(len(row[at]) for row in rows) for at in (0, 1))
    return ["The fleet:", *(f"  {name:<{first}}  {figure:<{second}}  {what}" for name, figure, what in rows)]
