"""Pictures of many requests are drawn once a second, and at once where they show something else."""

import pytest
from textual.app import App
from textual.pilot import Pilot
from textual.widgets import Static

from tui.widgets.calm import CALM_S, Calm


class Counted(App[None]):
    """Takes (name, count)."""

    def __init__(self) -> None:
        super().__init__()
        self.taken: list[tuple[str, int]] = []
        self._static = Static()
        self.calm = Calm[tuple[str, int]](self._static, self.taken.append, lambda before, now: before[0] == now[0])

    def compose(self) -> list[Static]:
        return [self._static]


async def waited(pilot: Pilot[None], seconds: float) -> None:
    await pilot.pause(seconds)
    await pilot.pause()


async def test_more_of_the_same_waits_for_a_second_and_the_newest_of_it_is_drawn() -> None:
    app = Counted()
    async with app.run_test() as pilot:
        for count in range(3):
            app.calm.offer(("a", count))
        assert app.taken == [("a", 0)]
        await waited(pilot, CALM_S)
        assert app.taken == [("a", 0), ("a", 2)]
        await waited(pilot, 2 * CALM_S)
        assert len(app.taken) == 2, "nothing new, nothing drawn"
        app.calm.offer(("a", 3))
        assert app.taken[-1] == ("a", 3), "it had waited long enough"


async def test_another_thing_is_drawn_at_once_and_more_of_it_waits_from_then_on() -> None:
    app = Counted()
    async with app.run_test() as pilot:
        app.calm.offer(("a", 0))
        await waited(pilot, CALM_S / 2)
        app.calm.offer(("b", 0))
        app.calm.offer(("b", 1))
        assert app.taken == [("a", 0), ("b", 0)]
        await waited(pilot, 0.6 * CALM_S)
        assert app.taken[-1] == ("b", 0), "a second from the last picture, not from the one before"
        await waited(pilot, CALM_S / 2)
        assert app.taken[-1] == ("b", 1)


@pytest.mark.parametrize("times", [1, 4])
async def test_what_is_offered_again_is_not_drawn_again(times: int) -> None:
    app = Counted()
    async with app.run_test() as pilot:
        one = ("a", 0)
        for _ in range(times):
            app.calm.offer(one)
            await waited(pilot, 2 * CALM_S)
        assert app.taken == [one]
