"""A terminal that changes its size: what stands on the screen is then as if it had been opened so."""

import pytest

from core.view import RunView
from tests.tui import knee_samples, samples
from tests.tui.screen import lines_of, settle, shown
from tui.app import Name

SMALL, MIDDLE, LARGE = (80, 24), (120, 36), (200, 60)


@pytest.mark.parametrize(("before", "after"), [(LARGE, SMALL), (SMALL, LARGE), (LARGE, MIDDLE)])
@pytest.mark.parametrize(
    ("on", "view"),
    [("ramp", samples.mid_step()), ("knee", knee_samples.finished()), ("fleet", knee_samples.finished())],
    ids=["ramp", "knee", "fleet"],
)
async def test_a_view_that_stands_follows_the_size(
    on: Name, view: RunView, before: tuple[int, int], after: tuple[int, int]
) -> None:
    async with shown(view, after, on=on) as (app, pilot, _):
        await settle(app, pilot)
        opened_so = lines_of(app)
    async with shown(view, before, on=on) as (app, pilot, _):
        await pilot.resize_terminal(*after)
        for _ in range(3):
            await settle(app, pilot)
        assert lines_of(app) == opened_so
