"""Pictures of every screen, compared with the ones kept: rewritten with `pytest tests/tui/test_snapshots.py --snapshot-update`.

Looked at by a person each time that they change.
"""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from textual.pilot import Pilot
from textual.widgets import Input
from textual.widgets._footer import FooterKey

from core.view import RunView
from tests.faults.clock import virtual_loop
from tests.tui import connect_fakes, knee_samples, length_samples, run_samples, samples, worker_samples
from tests.tui.screen import Held, settle
from tui.app import KneescopeApp, Name, RunControls
from tui.connect.app import ConnectApp
from tui.runs.app import RunsApp

Compare = Callable[..., bool]
Before = Callable[[Pilot[Any]], Awaitable[None]]
SIZES = [(80, 24), (120, 36), (200, 60)]
USUAL = (120, 36)
MOMENTS: dict[str, tuple[Callable[[], RunView], Name]] = {
    "checks": (samples.preflight, "ramp"),
    "step": (samples.mid_step, "ramp"),
    "failing": (samples.failing, "ramp"),
    "knee": (knee_samples.finished, "knee"),
    "fleet": (knee_samples.finished, "fleet"),
    "lengths": (length_samples.finished, "knee"),
}
FIELDS = {"url": connect_fakes.URL, "ttft": "500ms", "tpot": "30ms", "input-tokens": "64", "mode": "standard", "peak-rps": "50"}


@pytest.fixture(autouse=True)
def same_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Colours do not depend on the terminal in which the tests run, nor moments on the machine."""
    for name in ("NO_COLOR", "TEXTUAL_THEME", "TEXTUAL_COLOR_SYSTEM"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLORTERM", "truecolor")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setattr(asyncio.events, "new_event_loop", virtual_loop)  # where `App.run` gets its own from


def app_at(moment: str) -> tuple[KneescopeApp, Before]:
    """The app, and what brings its screen up."""
    view, on = MOMENTS[moment]
    live = view().answer is None
    app = KneescopeApp(Held(view()), run=samples.never if live else None, controls=RunControls(end_step=lambda: None))

    async def before(pilot: Pilot[Any]) -> None:
        await settle(app, pilot)
        app.action_look_at(on)
        await settle(app, pilot)
        await stand_still(pilot)

    return app, before


async def stand_still(pilot: Pilot[Any]) -> None:
    """No cursor that blinks, and the keys are there: the footer takes its time."""
    for field in pilot.app.screen.query(Input):
        field.cursor_blink = False
    for _ in range(500):
        if pilot.app.screen.query(FooterKey):
            break
        pilot.app.screen.refresh_bindings()
        await pilot.pause(0.01)
    await pilot.pause()


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize("moment", [moment for moment in MOMENTS if moment != "lengths"])
def test_screen(moment: str, size: tuple[int, int], snap_compare: Compare) -> None:
    app, before = app_at(moment)
    assert snap_compare(app, terminal_size=size, run_before=before)


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
def test_connect(size: tuple[int, int], snap_compare: Compare) -> None:
    server = connect_fakes.Server("tiny")
    app = ConnectApp({}, FIELDS, makes=server.checking, lists=server.list_models, clock=lambda: 0.0)

    async def before(pilot: Pilot[Any]) -> None:
        await connect_fakes.settle(app, pilot)
        await pilot.press("ctrl+r")
        await connect_fakes.settle(app, pilot)
        server.checker.say(*samples.CHECKS, connect_fakes.REFUSED)
        server.checker.end(singles=connect_fakes.SINGLES)
        await connect_fakes.settle(app, pilot)
        await stand_still(pilot)

    assert snap_compare(app, terminal_size=size, run_before=before)


@pytest.mark.parametrize("moment", ["step", "knee", "fleet"])
@pytest.mark.parametrize("theme", ["kneescope-blue-orange", "textual-light"])
def test_theme(moment: str, theme: str, snap_compare: Compare) -> None:
    app, before = app_at(moment)
    app.theme = theme
    assert snap_compare(app, terminal_size=USUAL, run_before=before)


@pytest.mark.parametrize("moment", ["step", "failing", "knee"])
def test_no_color(moment: str, snap_compare: Compare, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    app, before = app_at(moment)
    assert snap_compare(app, terminal_size=USUAL, run_before=before)


@pytest.mark.parametrize("size", SIZES[:2], ids=lambda size: f"{size[0]}x{size[1]}")
def test_lengths(size: tuple[int, int], snap_compare: Compare) -> None:
    """Where they have no room beside the cliff, alone."""
    app, before = app_at("lengths")

    async def look(pilot: Pilot[Any]) -> None:
        await before(pilot)
        if size != USUAL:
            await pilot.press("6")
            await settle(app, pilot)

    assert snap_compare(app, terminal_size=size, run_before=look)


@pytest.mark.parametrize(("machines", "size"), [(3, SIZES[0]), (3, SIZES[1]), (12, SIZES[2])], ids=["80x24", "120x36", "200x60"])
def test_machines(machines: int, size: tuple[int, int], snap_compare: Compare) -> None:
    """Several send, and one of them is late."""
    app = KneescopeApp(Held(worker_samples.mid_step(machines)), run=samples.never, controls=RunControls(end_step=lambda: None))

    async def before(pilot: Pilot[Any]) -> None:
        await settle(app, pilot)
        await stand_still(pilot)

    assert snap_compare(app, terminal_size=size, run_before=before)


def test_a_server_that_is_silent(snap_compare: Compare) -> None:
    app = KneescopeApp(Held(replace(samples.failing(), sample_age_s=12.0)), run=samples.never)

    async def before(pilot: Pilot[Any]) -> None:
        await settle(app, pilot)
        await stand_still(pilot)

    assert snap_compare(app, terminal_size=USUAL, run_before=before)


@pytest.mark.parametrize("moment", ["step", "knee", "fleet"])
def test_help(moment: str, snap_compare: Compare) -> None:
    app, before = app_at(moment)

    async def explain(pilot: Pilot[Any]) -> None:
        await before(pilot)
        await pilot.press("5" if moment == "step" else "3")
        await settle(app, pilot)
        app.action_explain()
        await settle(app, pilot)
        await settle(app, pilot)

    assert snap_compare(app, terminal_size=(80, 24), run_before=explain)


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
def test_runs(size: tuple[int, int], snap_compare: Compare) -> None:
    """On a small terminal with a filter, and what is said of a run that could not be opened."""
    small = size == SIZES[0]
    note = "/nowhere/3.jsonl is not a run file: it does not begin with the start of a run." if small else ""
    app = RunsApp(run_samples.listed(), run_samples.NOW_S, note=note)

    async def before(pilot: Pilot[Any]) -> None:
        await pilot.press("down", *(["slash", *"nightly"] if small else []))
        await stand_still(pilot)

    assert snap_compare(app, terminal_size=size, run_before=before)


def test_no_picture_is_left_over(request: pytest.FixtureRequest) -> None:
    """What finds that when one process runs all tests does not look where several share them."""
    module = request.node.getparent(pytest.Module)
    assert module is not None
    drawn = {test.name for test in module.collect() if isinstance(test, pytest.Function) and "snap_compare" in test.fixturenames}
    kept = {path.stem for path in Path(__file__).with_name("__snapshots__").glob("test_snapshots/*.svg")}
    assert kept == drawn
