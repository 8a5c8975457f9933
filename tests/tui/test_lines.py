"""The lines that are always there take no more rows than they need, and what has no room is seen to be cut."""

import pytest
from msgspec.structs import replace

from core.view import RunView
from tests.tui import samples
from tests.tui.screen import shown
from tui.widgets import checks
from tui.widgets.status import StatusStrip


@pytest.mark.parametrize(
    ("view", "rows"),
    [(samples.preflight(), 1), (samples.mid_step(), 2), (replace(samples.mid_step(), current=None), 2), (samples.finished(), 1)],
)
async def test_the_status_has_a_second_line_only_where_there_is_something_to_say(view: RunView, rows: int) -> None:
    async with shown(view, (80, 24)) as (app, _, _):
        assert app.screen.query_one(StatusStrip).size.height == rows


def refused() -> RunView:
    """One warning and one refusal among many that passed."""
    last = replace(samples.CHECKS[-1], status="refuse")
    return replace(samples.preflight(), checks=(*samples.CHECKS[:-1], last))


def test_of_the_checks_what_passed_gives_way_and_is_seen_to_be_cut() -> None:
    lines = checks.content(refused(), 100, 3).plain.splitlines()
    assert len(lines) == 3
    assert lines[0].startswith("✘ REFUSE")
    assert lines[1].startswith("▲ WARN")
    assert lines[2].startswith("✔ pass: reachable")
    assert lines[2].endswith("…")


def test_without_a_row_for_what_passed_only_the_others_are_there() -> None:
    assert len(checks.content(refused(), 100, 2).plain.splitlines()) == 2
