"""A recorded run at any moment equals the live one at that moment."""

import random
from pathlib import Path

import pytest

from core.run import log as runs
from core.run.events import Event, time_of
from core.run.replay import CHECKPOINTS, Replay
from core.run.state import State
from core.view import RunView

RUNS = [*sorted(Path("tests/data/runs").glob("*.jsonl")), Path("screenshots/demo.jsonl")]
MOMENTS = 40


def live_views(events: list[Event], every: int) -> list[tuple[float, RunView]]:
    """(seconds since the start, view) as a reader saw them while the events came in."""
    state, views = State(), []
    start = now = time_of(events[0])
    for n, event in enumerate(events, start=1):
        state.apply(event)
        now = max(now, time_of(event))
        later = n == len(events) or time_of(events[n]) > now
        if n % every == 0 and later:  # of events at the same moment a reader of the file sees all or none
            views.append((now - start, state.view(now)))
    return views


@pytest.mark.parametrize("path", RUNS, ids=lambda path: path.stem)
def test_every_moment_equals_the_live_one_in_whatever_order_it_is_looked_at(path: Path) -> None:
    events = list(runs.read_run(path))
    views = live_views(events, max(1, len(events) // MOMENTS))
    assert len(views) > MOMENTS // 3
    random.Random(3).shuffle(views)
    replay = Replay(events)
    for at_s, view in views:
        assert replay.view(at_s) == view


@pytest.fixture(scope="module")
def replay() -> Replay:
    """Of one run, at its end; each test may move in it."""
    replay = Replay(runs.read_run(RUNS[0]))
    replay.view(replay.length_s)
    return replay


def test_moments_beyond_the_ends_are_the_ends(replay: Replay) -> None:
    assert replay.view(-5.0) == replay.view(0.0)
    assert replay.view(1e9) == replay.view(replay.length_s)
    assert replay.view(replay.length_s).answer is not None
    assert replay.view(0.0).answer is None


def test_going_back_starts_at_a_copy_on_the_way(replay: Replay) -> None:
    replay.view(0.99 * replay.length_s)
    assert CHECKPOINTS <= len(replay._checkpoints) <= CHECKPOINTS + 2
    replay.view(0.9 * replay.length_s)
    assert replay._applied > 0


def test_nothing_is_copied_for_who_only_looks_at_the_end() -> None:
    replay = Replay(runs.read_run(RUNS[0]))
    replay.view(replay.length_s)
    assert replay._checkpoints == []
