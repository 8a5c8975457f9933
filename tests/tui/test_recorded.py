"""Moving in a recorded run: by the clock while it plays, by keys otherwise."""

from itertools import islice
from pathlib import Path

import pytest

from core.facts import fact
from core.run import log as runs
from tests.tui.screen import settle, text_of
from tui.app import KneescopeApp
from tui.cli.recorded import SPEEDS, Recorded

RUN = str(Path("screenshots/demo.jsonl"))


class Clock:
    """Seconds that a test lets pass."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def recorded(clock: Clock) -> Recorded:
    return Recorded(RUN, clock)


def test_it_stands_at_its_end_until_somebody_plays_it(recorded: Recorded, clock: Clock) -> None:
    clock.now += 100
    assert recorded.playback.at_end
    assert not recorded.playback.playing
    assert recorded.view().answer is not None
    recorded.play()
    assert recorded.playback.at_s == 0
    clock.now += 10
    assert recorded.playback.at_s == pytest.approx(10)
    assert recorded.view().now_s == pytest.approx(10)
    recorded.hold()
    clock.now += 10
    assert recorded.playback.at_s == pytest.approx(10)


def test_it_plays_at_its_speed_and_stops_at_the_end(recorded: Recorded, clock: Clock) -> None:
    recorded.play()
    clock.now += 5
    recorded.faster(2.0)
    clock.now += 5
    assert recorded.playback.at_s == pytest.approx(15)
    clock.now += recorded.playback.length_s
    assert recorded.playback.at_end
    assert not recorded.playback.playing
    for _ in range(20):
        recorded.faster(0.5)
    assert recorded.playback.speed == SPEEDS[0]
    for _ in range(20):
        recorded.faster(2.0)
    assert recorded.playback.speed == SPEEDS[1]


def test_seeking_stays_inside(recorded: Recorded) -> None:
    recorded.seek(-3)
    assert recorded.playback.at_s == 0
    recorded.seek(1e6)
    assert recorded.playback.at_end
    recorded.seek(20)
    assert recorded.view().now_s == pytest.approx(20)


async def test_keys_play_seek_and_change_the_speed(recorded: Recorded, clock: Clock) -> None:
    app = KneescopeApp(recorded, player=recorded)
    async with app.run_test(size=(120, 36)) as pilot:
        await settle(app, pilot)
        assert "■ RECORDED" in text_of(app)
        await pilot.press("r", "space")
        clock.now += 12
        await settle(app, pilot)
        assert "▶ 1x 0:12/" in text_of(app)
        await pilot.press("right_square_bracket", "right_square_bracket", "left_square_bracket")
        await settle(app, pilot)
        assert "▶ 2x 0:12/" in text_of(app)
        await pilot.press("space")
        clock.now += 60
        await settle(app, pilot)
        assert "‖ paused at 0:12/" in text_of(app)
        before = recorded.playback.at_s
        await pilot.press("full_stop")
        assert recorded.playback.at_s == pytest.approx(before + recorded.playback.length_s / 20)
        await pilot.press("comma", "comma")
        assert recorded.playback.at_s == pytest.approx(before - recorded.playback.length_s / 20)


async def test_a_recording_has_no_load_to_stop(recorded: Recorded) -> None:
    app = KneescopeApp(recorded, player=recorded)
    async with app.run_test(size=(120, 36)) as pilot:
        await settle(app, pilot)
        assert "Stop load" not in text_of(app)
        await pilot.press("x")
        await settle(app, pilot)
        assert "STOPPED" not in text_of(app)


async def test_a_run_that_still_goes_on_is_called_recorded_so_far(tmp_path: Path, clock: Clock) -> None:
    log = runs.RunLog(tmp_path / "run.jsonl")
    for event in islice(runs.read_run(Path(RUN)), 1500):
        log.append(event)
    going = Recorded(str(log.path), clock)
    log.close()
    app = KneescopeApp(going, player=going)
    async with app.run_test(size=(120, 36)) as pilot:
        await settle(app, pilot)
        assert "recorded so far, still going" in text_of(app)
    assert going.view().answer is None
    assert going.result.answer is not None
    assert going.result.answer.message == fact("still_going")
    ended = Recorded(str(log.path), clock)
    assert not ended.playback.going
    assert ended.result == ended.view()
