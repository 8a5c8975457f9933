"""A screen as a picture: SVG that every renderer draws alike, and PNG where resvg and a font are installed, which nothing needs."""

import asyncio
import html
import importlib.util
import os
import re
import sys
from contextlib import suppress
from pathlib import Path
from subprocess import DEVNULL, Popen

from rich.cells import cell_len

from core.units import coordinate

FONT = "DejaVu Sans Mono"
_FONT_FILE = "DejaVuSansMono.ttf"
_FOLDERS = ("/usr/share/fonts", "/usr/local/share/fonts", "~/.local/share/fonts", "~/.fonts", "/Library/Fonts", "~/Library/Fonts")
_TEXT = re.compile(r'(<text class="[^"]*-r\d+") x="([\d.]+)"( y="[\d.]+") textLength="([\d.]+)"([^>]*)>([^<]*)</text>')
_FONT_FACE = re.compile(r"@font-face \{.*?\}", re.DOTALL)
_MADE_NAME = re.compile(r"terminal-\d+")
_CHILD = f"""
import sys
sys.path.insert(0, {str(Path(__file__).resolve().parents[2])!r})
from tui.draw.picture import main
main()"""
"""Our own folder goes first, because a PYTHONPATH or a current folder may hold another `tui`."""


def straight(svg: str) -> str:
    """The same picture with the place of every character written down, an installed font, and names that do not change each time.

    Renderers stretch `textLength` differently, so that frames drift and braille leaves its cells.
    """

    def place(match: re.Match[str]) -> str:
        head, x, y, length, rest, text = match.groups()
        chars = html.unescape(text)
        cell = float(length) / max(1, cell_len(chars))
        places = " ".join(coordinate(float(x) + cell * cell_len(chars[:at])) for at in range(len(chars)))
        return f'{head} x="{places}"{y}{rest}>{text}</text>'

    named = _MADE_NAME.sub("terminal", _FONT_FACE.sub("", svg))
    return _TEXT.sub(place, named).replace("Fira Code, monospace", f"'{FONT}', monospace")


def png(svg: str, font_folders: list[str]) -> bytes:
    """A straight picture in dots. Raises ImportError where resvg is not installed, ValueError for what it cannot draw."""
    import resvg_py  # no part of the installation

    return bytes(resvg_py.svg_to_bytes(svg_string=svg, font_dirs=font_folders))


async def png_beside(svg: Path) -> Path | None:
    """Draw a saved picture into a PNG beside it; None where that cannot be done: no resvg, no font, or no room.

    In a process of its own: it takes a second in which nothing else of a process can run, and a run may be going on here.
    """
    if importlib.util.find_spec("resvg_py") is None:
        return None
    child = _started(svg)
    if child is None:
        return None
    with child:
        try:
            await asyncio.to_thread(child.wait)  # no child of the loop, which may be gone before it when the screen closes
        finally:
            child.kill()
    return svg.with_suffix(".png") if child.returncode == 0 else None


def _started(svg: Path) -> Popen[bytes] | None:
    with suppress(OSError):
        return Popen((sys.executable, "-P", "-c", _CHILD, str(svg)), stdin=DEVNULL, stdout=DEVNULL, stderr=DEVNULL)
    return None


def main() -> None:
    """The child: exit code 0 when the PNG is there."""
    with suppress(OSError):
        os.nice(10)
    path = Path(sys.argv[1])
    fonts = _fonts()
    if not fonts:  # it would be a picture without a letter
        sys.exit(1)
    path.with_suffix(".png").write_bytes(png(straight(path.read_text(encoding="utf-8")), fonts))


def _fonts() -> list[str]:
    """The folders that hold the font."""
    places = (Path(folder).expanduser() for folder in _FOLDERS)
    return [str(file.parent) for place in places if place.is_dir() for file in place.rglob(_FONT_FILE)]
