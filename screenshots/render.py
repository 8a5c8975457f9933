"""Pictures of the screen from a recorded run, as SVG and PNG: python screenshots/render.py RUN.jsonl OUTDIR

Draws the last full step in its measured part and the end of the run, each at 80x24 and 160x50. Needs the font DejaVu Sans Mono.
"""

import asyncio
import html
import re
import sys
from dataclasses import dataclass
from pathlib import Path

import resvg_py
from rich.cells import cell_len

from core.run import log as runs
from core.run.events import Event, StepJudged, StepStarted, time_of
from core.run.state import State
from core.run.view import RunView
from tui.app import KneescopeApp

SIZES = ((80, 24), (160, 50))
FONT = "DejaVu Sans Mono"
FONT_DIRS = ["/usr/share/fonts/truetype/dejavu", "/usr/share/fonts/TTF", "/Library/Fonts"]
INTO_STEP = 0.7
"""How far into a step the picture is taken: the warm-up is over, requests are open."""

_TEXT = re.compile(r'(<text class="[^"]*-r\d+") x="([\d.]+)"( y="[\d.]+") textLength="([\d.]+)"([^>]*)>([^<]*)</text>')
_FONT_FACE = re.compile(r"@font-face \{.*?\}", re.DOTALL)


@dataclass(frozen=True)
class Still:
    """A source that stands still."""

    now: RunView

    def view(self) -> RunView:
        """The one view."""
        return self.now


def view_at(events: list[Event], t: float) -> RunView:
    """The run as it was at monotonic time `t`."""
    state = State()
    for event in events:
        if time_of(event) > t:
            break
        state.apply(event)
    return state.view(t)


def moments(events: list[Event]) -> dict[str, RunView]:
    """The views worth a picture, by name."""
    views = {"end": view_at(events, max(time_of(event) for event in events))}
    starts = {event.step: event.t for event in events if isinstance(event, StepStarted) and event.phase != "ramp"}
    ends = [event for event in events if isinstance(event, StepJudged) and event.result.step in starts]
    if ends:
        start, end = starts[ends[-1].result.step], ends[-1].t
        views["step"] = view_at(events, start + INTO_STEP * (end - start))
    return views


async def picture(view: RunView, size: tuple[int, int]) -> str:
    """The screen over a view, as SVG."""
    app = KneescopeApp(Still(view))
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        return straight(app.export_screenshot(title="kneescope"))


def straight(svg: str) -> str:
    """The same picture with the place of every character written down and an installed font.

    Renderers stretch `textLength` differently, so that frames drift and braille leaves its cells.
    """

    def place(match: re.Match[str]) -> str:
        head, x, y, length, rest, text = match.groups()
        chars = html.unescape(text)
        cell = float(length) / max(1, cell_len(chars))
        places = " ".join(f"{float(x) + cell * cell_len(chars[:at]):.2f}" for at in range(len(chars)))
        return f'{head} x="{places}"{y}{rest}>{text}</text>'

    return _TEXT.sub(place, _FONT_FACE.sub("", svg)).replace("Fira Code, monospace", f"'{FONT}', monospace")


def main(run: str, folder: str) -> None:
    """Write all pictures of a run into a folder."""
    out = Path(folder)
    out.mkdir(parents=True, exist_ok=True)
    for name, view in moments(list(runs.read(Path(run)))).items():
        for width, height in SIZES:
            svg = asyncio.run(picture(view, (width, height)))
            path = out / f"{name}-{width}x{height}"
            path.with_suffix(".svg").write_text(svg, encoding="utf-8")
            png = resvg_py.svg_to_bytes(svg_string=svg, font_dirs=[folder for folder in FONT_DIRS if Path(folder).is_dir()])
            path.with_suffix(".png").write_bytes(bytes(png))
            print(path.with_suffix(".png"))


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
