"""A rate whose server was faster or slower than in the run's first repeat has a mark, and each repeat its step time; the run has a
line of them."""

import pytest
from msgspec.structs import replace

from core.results import RepeatResult, RepeatSteps
from core.view import RunView
from tests import builders
from tests.tui import samples
from tests.tui.screen import settle, shown, text_of
from tui.widgets import knee_step, step_time, steps_table


def repeat(drift_frac: float | None) -> RepeatResult:
    return builders.repeat("pass", step_model=RepeatSteps(drift_frac=drift_frac))


def rows(*repeats: RepeatResult) -> list[str]:
    step = builders.step(9.0, "pass", *repeats)
    return [str(row) for block in knee_step.blocks(samples.finished(), step, 116) for row in block]


def test_the_chosen_step_tells_the_step_time_of_each_repeat() -> None:
    assert "step time at equal batch +0 %, +38 %, \N{EN DASH}" in rows(repeat(0.0), repeat(0.384), repeat(None))
    assert "step time at equal batch -3 %" in rows(repeat(-0.03))
    assert not [row for row in rows(repeat(None), builders.repeat("pass")) if "step time" in row]


@pytest.mark.parametrize(
    ("drifts", "reason"),
    [
        ((0.0, 0.09, -0.08), "in time"),
        ((0.0, 0.38, 0.381), "step time +38 %; in time"),
        ((-0.28, 0.38), "step time -28 % +38 %; in time"),
        ((None,), "in time"),
    ],
)
def test_a_rate_that_drifted_is_marked_in_the_table(drifts: tuple[float | None, ...], reason: str) -> None:
    step = builders.step(9.0, "pass", *map(repeat, drifts), reason="in time")

    assert steps_table.judged(step, 0.95).reason == reason


def test_a_repeat_without_a_step_time_has_no_mark() -> None:
    assert not steps_table.drifted(builders.repeat("pass"))


def run_of(*steps: tuple[float, tuple[float | None, ...]]) -> RunView:
    """A run whose repeats at these rates took so much longer than the first one."""
    told = [replace(builders.step(rate, "pass", *map(repeat, drifts)), step=at) for at, (rate, drifts) in enumerate(steps, 1)]
    return replace(samples.finished(), steps=tuple(told))


SLOW = (8.0, (0.0,)), (11.3, (0.02, 0.38)), (12.4, (0.4, None, 0.01))


def test_the_step_time_is_a_line_over_the_repeats_of_the_run() -> None:
    plot = step_time.of(run_of(*SLOW), chosen=2)

    assert plot is not None
    assert [*plot.curves[0].points] == [(0.0, 0.0), (1.0, 0.02), (2.0, 0.38), (3.0, 0.4), (4.0, 0.01)]
    assert plot.rule == pytest.approx(0)
    assert [(at, text) for at, text in plot.x_labels] == [(0, "8.00 req/s"), (1, "11.3"), (3, "12.4")]
    assert [(dot.x, dot.y) for dot in plot.dots] == [(1, 0.02), (2, 0.38)], "the chosen step"
    assert plot.y_range[0] < 0.0 < 0.4 < plot.y_range[1]


def test_a_steady_server_has_a_line_without_slopes() -> None:
    """Its scale does not blow up what is noise."""
    plot = step_time.of(run_of((8.0, (0.0, 0.004)), (9.0, (-0.003,))), chosen=1)

    assert plot is not None
    assert plot.y_range[0] < -0.09
    assert plot.y_range[1] > 0.1


def test_one_repeat_makes_no_line() -> None:
    assert step_time.of(run_of((8.0, (0.0, None))), chosen=1) is None
    assert step_time.line(run_of((8.0, (None,))), 1, 80) == []


async def test_the_knee_screen_draws_it() -> None:
    async with shown(run_of(*SLOW), (120, 36), on="knee") as (app, pilot, _):
        await pilot.press("3")
        await settle(app, pilot)
        drawn = text_of(app)

    assert "step time at equal batch, repeat by repeat" in drawn
    assert "+40 % " in drawn
