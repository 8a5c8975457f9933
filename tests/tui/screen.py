"""The app over a view that a test holds in its hand, and its screen as text."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from textual.pilot import Pilot

from core.results import Answer
from core.view import RunView
from tui.app import Beside, KneescopeApp, Name, Player, RunControls


class Held:
    """A source that gives whatever view the test has put there."""

    def __init__(self, view: RunView) -> None:
        self.now = view

    def view(self) -> RunView:
        """The view that is there."""
        return self.now


def lines_of(app: KneescopeApp) -> list[str]:
    """The rows of the screen that is on top, as shown."""
    return ["".join(segment.text for segment in strip) for strip in app.screen._compositor.render_strips()]


def text_of(app: KneescopeApp) -> str:
    """All rows as one text."""
    return "\n".join(lines_of(app))


@asynccontextmanager
async def shown(
    view: RunView,
    size: tuple[int, int] = (120, 36),
    *,
    run: Callable[[], Awaitable[Answer]] | None = None,
    controls: RunControls | None = None,
    player: Player | None = None,
    beside: Beside | None = None,
    on: Name = "ramp",
) -> AsyncIterator[tuple[KneescopeApp, Pilot[Answer | None], Held]]:
    """The app, its pilot and its source, with the first view drawn on the screen of that name."""
    held = Held(view)
    app = KneescopeApp(held, run=run, controls=controls, player=player, beside=beside)
    async with app.run_test(size=size) as pilot:
        await settle(app, pilot)
        if on != app.current_mode:
            app.action_look_at(on)
            await settle(app, pilot)
        yield app, pilot, held


async def settle(app: KneescopeApp, pilot: Pilot[Answer | None]) -> None:
    """Look at the source now, and let everything be drawn."""
    app.look()
    await pilot.pause()
    await pilot.pause()


async def rendered(view: RunView, size: tuple[int, int], on: Name = "ramp") -> str:
    """What a view looks like at a size."""
    async with shown(view, size, on=on) as (app, _, _):
        return text_of(app)
