"""Pictures of every screen from a recorded run, as SVG and PNG: python screenshots/render.py RUN.jsonl OUTDIR

Connect with the checks of the run, the ramp screen while the last step is measured, the knee and the fleet at the end, each at
80x24, 120x36 and 200x60. Needs the font DejaVu Sans Mono.
"""

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from textual.pilot import Pilot
from textual.widgets import Input

from core.access import Access
from core.config import Lengths, ProbeConfig
from core.records import Check, Hello, PromptAlphabet, RequestEnded
from core.results import Answer
from core.run import log as runs
from core.run.events import CheckDone, Event, RepeatStarted, RunStarted, ServerKnown, StepJudged, StepStarted, time_of
from core.run.found import Found
from core.run.replay import Replay
from core.run.state import State
from core.units import limit
from core.view import RunView
from tui.app import KneescopeApp, Name, RunControls
from tui.cli.argv import Texts
from tui.cli.configure import CliOptions
from tui.connect.app import ConnectApp
from tui.draw.picture import png, straight

Shot = Callable[[tuple[int, int]], Coroutine[Any, Any, str]]

SIZES = ((80, 24), (120, 36), (200, 60))
FONT_DIRS = ["/usr/share/fonts/truetype/dejavu", "/usr/share/fonts/TTF", "/Library/Fonts"]
INTO_STEP = 0.7
"""How far into a step the picture is taken: the warm-up is over, requests are open."""

_TYPED = str.maketrans("", "", " ,")


@dataclass(frozen=True)
class Still:
    """A source that stands still."""

    now: RunView

    def view(self) -> RunView:
        """The one view."""
        return self.now


class Checks:
    """The checks of a recorded run, as if they had just been made."""

    def __init__(self, events: Sequence[Event]) -> None:
        self.state = State()
        self._checks = [event.check for event in events if isinstance(event, CheckDone)]
        last = max(at for at, event in enumerate(events) if isinstance(event, CheckDone))
        for event in events[: last + 1]:
            self.state.apply(event)
        orders = [event.order.order for event in events if isinstance(event, RepeatStarted) and event.order.phase == "single"]
        ended = {event.order: event for event in events if isinstance(event, RequestEnded)}
        self.singles = tuple(ended[order] for order in orders if order in ended)
        started = next(event for event in events if isinstance(event, RunStarted))
        info = next(event.info for event in events if isinstance(event, ServerKnown))
        target, workload = started.config.target, started.config.workload
        hello = Hello(target=target, model=info.model or "", workload=workload, alphabet=PromptAlphabet(token_ids=()), nonce="")
        self.found: Found | None = Found(
            checks=tuple(self._checks), info=info, hello=hello, singles=self.singles, ended_t=time_of(events[last])
        )

    async def preflight(self) -> list[Check]:
        """All of them."""
        return self._checks

    def stop(self) -> None:
        """They are over."""


def fields_of(config: ProbeConfig) -> Texts:
    """What must stand in the fields to ask for the same."""
    slo, work = config.slo, config.workload
    limits = {"ttft": slo.ttft_s, "tpot": slo.tpot_s, "e2e": slo.e2e_s}
    texts = {"url": config.target.url, "input-tokens": _lengths(work.input_tokens), "output-tokens": _lengths(work.output_tokens)}
    texts |= {name: limit(value).translate(_TYPED) for name, value in limits.items() if value is not None}
    return texts | ({"peak-rps": f"{config.fleet.peak_rps:.12g}"} if config.fleet.peak_rps is not None else {})


def _lengths(tokens: Lengths) -> str:
    return f"lognormal:{tokens.median:g},{tokens.sigma:g},{tokens.maximum}" if tokens.sigma else f"{tokens.median:g}"


def shots(run: Path) -> dict[str, Shot]:
    """The pictures by name, each as a thing that draws it at a size."""
    events = list(runs.read_run(run))
    replay = Replay(events)
    end = replay.view(replay.length_s)
    drawn: dict[str, Shot] = {"connect": lambda size: connect(events, size)}
    starts = {event.step: event.t for event in events if isinstance(event, StepStarted) and event.phase != "ramp"}
    judged = [event for event in events if isinstance(event, StepJudged) and event.result.step in starts]
    if judged:
        start = starts[judged[-1].result.step]
        at_s = start + INTO_STEP * (judged[-1].t - start) - time_of(events[0])
        drawn["ramp"] = lambda size: screen(replay.view(at_s), "ramp", size)
    drawn["knee"] = lambda size: screen(end, "knee", size)
    drawn["fleet"] = lambda size: screen(end, "fleet", size)
    return drawn


async def screen(view: RunView, name: Name, size: tuple[int, int]) -> str:
    """A screen of a run over a view."""
    live = view.answer is None
    app = KneescopeApp(Still(view), run=never_ends if live else None, controls=RunControls(end_step=lambda: None))
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        app.action_look_at(name)
        return await picture(app, pilot)


async def never_ends() -> Answer:
    """A run that is still on."""
    forever: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
    return await forever


async def connect(events: Sequence[Event], size: tuple[int, int]) -> str:
    """The screen before a run, when its checks are through."""
    started = next(event for event in events if isinstance(event, RunStarted))

    @asynccontextmanager
    async def checking(config: ProbeConfig, access: Access, options: CliOptions) -> AsyncIterator[Checks]:
        yield Checks(events)

    async def models(url: str, access: Access, insecure: bool) -> tuple[str, ...]:
        names = [event.info.model for event in events if isinstance(event, ServerKnown)]
        return tuple(name for name in names if name is not None)[:1]

    app = ConnectApp({}, fields_of(started.config), makes=checking, lists=models, clock=lambda: started.t)
    async with app.run_test(size=size) as pilot:
        await pilot.press("ctrl+r")
        return await picture(app, pilot)


async def picture(app: KneescopeApp | ConnectApp, pilot: Pilot[Any]) -> str:
    """What the app shows once everything is drawn, as SVG."""
    for _ in range(4):
        await pilot.pause()
    for field in app.screen.query(Input):
        field.cursor_blink = False
    app.look()
    await pilot.pause()
    return straight(app.export_screenshot(title="kneescope"))


def main(run: str, folder: str) -> None:
    """Write all pictures of a run into a folder."""
    out = Path(folder)
    out.mkdir(parents=True, exist_ok=True)
    for name, draw in shots(Path(run)).items():
        for width, height in SIZES:
            svg = asyncio.run(draw((width, height)))
            path = out / f"{name}-{width}x{height}"
            path.with_suffix(".svg").write_text(svg, encoding="utf-8")
            path.with_suffix(".png").write_bytes(png(svg, [folder for folder in FONT_DIRS if Path(folder).is_dir()]))
            print(path.with_suffix(".png"))


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
