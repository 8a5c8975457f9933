"""The Connect screen while its terminal changes its size: nothing that was typed, found or looked at is lost."""

from pathlib import Path

import pytest
from textual import events

from core.records import Check
from tests.tui.connect_fakes import PASSED, SINGLES, URL, Server, connecting, form_of, settle, text_of, words_of
from tui.connect.fields import FIELDS
from tui.connect.form import TextField, keep_end

SIZES = ((80, 24), (50, 14), (120, 36), (10, 3), (60, 16), (1, 1), (200, 60), (100, 30))
LONG = tuple(
    Check(check=f"check {at}", status="pass", message=f"This is what number {at} found, in so many words that no line holds it.")
    for at in range(30)
)


@pytest.fixture(autouse=True)
def user_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.mark.parametrize("name", ["url", "output-tokens", "more", "mode"])
async def test_fields_focus_cursor_and_checks_survive_every_size(name: str) -> None:
    server = Server("tiny")
    async with connecting(server, {"url": URL, "seed": "7", "ttft": "1s"}) as (app, pilot):
        await pilot.press("ctrl+r")
        await settle(app, pilot)
        server.checker.say(PASSED)
        server.checker.end(singles=SINGLES)
        control = form_of(app).control(name)
        control.focus()
        await settle(app, pilot)
        if isinstance(control, TextField):
            control.value = control.value or "64"
            control.cursor_position = 1
        await settle(app, pilot)
        before = form_of(app).texts, app._ask._shown.mark if app._ask._shown else None
        for size in SIZES:
            await pilot.resize_terminal(*size)
            await settle(app, pilot)
            assert app.focused is control
            assert (form_of(app).texts, app._ask._shown.mark if app._ask._shown else None) == before
            if not app._ask.too_small:
                assert app.screen.region.contains_region(control.region)
                assert control.region.height == 1
            elif size[0] > 20:
                assert f"{size[0]}x{size[1]} is too small" in text_of(app)
        assert "The server answers." in words_of(app, "#checks")
        assert len(server.checkers) == 1
        if isinstance(control, TextField):
            assert (control.cursor_position, control.selection.is_empty) == (1, True)


async def test_what_is_typed_blind_goes_nowhere() -> None:
    server = Server("tiny")
    async with connecting(server, {"url": URL}) as (app, pilot):
        await pilot.resize_terminal(40, 10)
        await settle(app, pilot)
        await pilot.press("x", "ctrl+r", "ctrl+s", "tab", "f3")
        app.post_message(events.Paste("y"))
        await settle(app, pilot)
        assert (app.is_running, server.checkers, form_of(app).texts["url"]) == (True, [], URL)
        await pilot.press("escape")
        await settle(app, pilot)
        assert not app.is_running


async def test_checks_that_are_being_read_stay_at_their_place() -> None:
    server = Server("tiny")
    async with connecting(server, {"url": URL}) as (app, pilot):
        await pilot.press("ctrl+r")
        await settle(app, pilot)
        server.checker.say(*LONG)
        server.checker.end(singles=SINGLES)
        await settle(app, pilot)
        await pilot.press("pagedown")
        await settle(app, pilot)
        panel = app.screen.query_one("#checks")
        while "check 7 " in words_of(app, "#checks") or "check 8 " not in words_of(app, "#checks"):
            await pilot.press("down")
            await settle(app, pilot)
        for size in ((80, 24), (40, 10), (200, 60), (100, 30), (120, 36)):
            await pilot.resize_terminal(*size)
            for _ in range(3):
                await settle(app, pilot)
            assert app.focused is panel
            if not app._ask.too_small and size != (200, 60):  # there all of it is seen
                seen = words_of(app, "#checks")
                one_line = panel.size.height < 3 and seen.endswith("holds it.")  # the end of one of them is all that has room
                assert "number 7 found" in seen or "check 8 " in seen or one_line, (size, panel.size, seen)
        assert "check 6 " not in words_of(app, "#checks")


@pytest.mark.parametrize("size", [(80, 24), (120, 36), (200, 60)])
async def test_models_keep_their_ends(size: tuple[int, int]) -> None:
    name = "organisation/a-family-of-models-with-a-long-name-that-no-field-holds-simulated-kvlim"
    async with connecting(Server(name, f"{name}-2"), {"url": URL, "model": name}, size=size) as (app, pilot):
        assert "…" in words_of(app, "#form")
        assert "ed-kvlim ▼" in words_of(app, "#form")
        await pilot.press("tab", "enter")
        await settle(app, pilot)
        assert "simulated-kvlim-2" in text_of(app)
        await pilot.press("escape")
        await pilot.resize_terminal(60, 16)
        await settle(app, pilot)
        assert "d-kvlim ▼" in words_of(app, "#form")


def test_a_name_is_cut_at_its_front() -> None:
    assert keep_end("simulated-kvlim", 9) == "…ed-kvlim"
    assert keep_end("tiny", 9) == "tiny"
    assert keep_end("tiny", 0) == ""


async def test_what_the_load_at_peak_leaves_to_spare_is_said() -> None:
    async with connecting(Server(), {"url": URL}) as (app, _):
        assert "load at peak 70 % (30 % spare)" in words_of(app, "#form")
    assert "headroom" not in {field.label for field in FIELDS.values()}
