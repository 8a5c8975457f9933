"""`s` saves a screen as SVG, and as PNG where that can be drawn; where it cannot, nothing is missed and nothing is said."""

import asyncio
import importlib.util
from fnmatch import fnmatch
from pathlib import Path

import pytest

from tests.tui import samples
from tests.tui.screen import settle, shown
from tests.tui.test_keys import notices
from tui.draw import picture

SVG = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 40 20"><text class="a-r1" x="1" y="15" textLength="12">x</text></svg>'


async def pressed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, found: Path | None) -> str:
    """What the screen says once a picture was saved, of which the PNG is `found`."""
    asked: list[Path] = []

    async def beside(svg: Path) -> Path | None:
        asked.append(svg)
        return found

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tui.app.png_beside", beside)
    async with shown(samples.mid_step()) as (app, pilot, _):
        await pilot.press("s")
        await app.workers.wait_for_complete()
        await settle(app, pilot)
        said = notices(app)
    (svg,) = asked
    assert svg.is_file()
    return said


async def test_the_png_beside_a_picture_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = await pressed(tmp_path, monkeypatch, tmp_path / "kneescope-ramp-1.png")
    assert "Saved beside it: kneescope-ramp-1.png" in said


async def test_without_a_png_nothing_more_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = await pressed(tmp_path, monkeypatch, None)
    assert "Saved in the current folder: kneescope-ramp-" in said
    assert "beside" not in said


async def test_where_resvg_is_not_installed_no_process_is_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(picture, "Popen", None)
    assert await picture.png_beside(tmp_path / "a.svg") is None


def test_a_png_is_drawn_and_what_is_no_picture_is_not(tmp_path: Path) -> None:
    pytest.importorskip("resvg_py", reason="resvg draws the PNG, and is not installed here")
    if not picture._fonts():
        pytest.skip(f"{picture.FONT} is not installed here, and a picture needs its letters")
    (tmp_path / "a.svg").write_text(SVG)
    (tmp_path / "b.svg").write_text("no picture")
    assert asyncio.run(picture.png_beside(tmp_path / "a.svg")) == tmp_path / "a.png"
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    assert asyncio.run(picture.png_beside(tmp_path / "b.svg")) is None


def test_pngs_are_no_part_of_the_repository() -> None:
    patterns = Path(__file__, "../../../.gitignore").resolve().read_text().split()
    assert any(fnmatch("kneescope-ramp-20260301-142855-000000.png", pattern) for pattern in patterns)
