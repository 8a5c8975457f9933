"""A rate whose server was faster or slower than in the run's first repeat has a mark, and each repeat its step time."""

import pytest

from core.results import RepeatResult, RepeatSteps
from tests import builders
from tests.tui import samples
from tui.widgets import knee_step, steps_table


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
