"""What does a refresh of the ramp screen cost? CPU of a look at a view that has changed, beside one at a view that has not.

python -m tests.benchmarks.screen_refresh [LOOKS]

600 points of history, a step that runs; drawn at three sizes without a terminal behind. The CPU that writing to a terminal takes
is not in it.
"""

import argparse
import asyncio
import time

from msgspec.structs import replace

from core.view import RunView
from tests.tui import samples
from tests.tui.screen import Held
from tui.app import POLL_S, KneescopeApp

SIZES = [(80, 24), (120, 36), (200, 60)]


def long_view() -> RunView:
    """A view with as many points as a run can have."""
    return replace(samples.mid_step(), series=samples.series_of([(4, 300, 0.9), (5, 300, 1.0)]), now_s=600.0)


async def cost_s(size: tuple[int, int], looks: int, *, changing: bool) -> float:
    """CPU seconds of one look."""
    held = Held(long_view())
    app = KneescopeApp(held)
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        begun = time.process_time()
        for n in range(looks):
            if changing:
                held.now = moved(held.now, n)
            app.look()
            await pilot.pause()
        return (time.process_time() - begun) / looks


def moved(view: RunView, n: int) -> RunView:
    """The next moment: time goes on, and the newest point is another one."""
    last = view.series[-1]
    newest = replace(last, in_flight=(last.in_flight or 0.0) + n % 3)
    return replace(view, version=view.version + 1, now_s=view.now_s + POLL_S, series=(*view.series[:-1], newest))


async def main(looks: int) -> None:
    for size in SIZES:
        changed, still = await cost_s(size, looks, changing=True), await cost_s(size, looks, changing=False)
        share = (changed - still) / POLL_S
        print(f"{size[0]}x{size[1]}  {1000 * changed:.1f} ms a look, {1000 * still:.1f} ms at nothing new: {share:.0%} of a core")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("looks", type=int, nargs="?", default=100)
    asyncio.run(main(parser.parse_args().looks))
