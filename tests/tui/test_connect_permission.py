"""Permission to load a server: what the Connect screen asks at Start, and that only a yes is one."""

from pathlib import Path

import pytest

from tests.tui.connect_fakes import BUSY, PASSED, REFUSED, SINGLES, URL, Server, connecting, form_of, settle, text_of, words_of
from tui.cli import profiles

PROFILE = {"url": URL, "seed": "7"}
FAR = f"{URL} is neither on this machine nor in a private network. Are you allowed to load it, and do you want to?"


@pytest.fixture(autouse=True)
def config_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


async def test_a_server_that_is_far_is_checked_unasked_and_loaded_after_a_yes_alone() -> None:
    server = Server("tiny")
    server.is_near = False
    async with connecting(server, PROFILE) as (app, pilot):
        await pilot.press("ctrl+r")
        await settle(app, pilot)
        assert server.checker.config.safety.public_ok, "single requests need no permission"
        server.checker.say(PASSED)
        server.checker.end(singles=SINGLES)
        await settle(app, pilot)
        for no in ("n", "escape", "enter"):
            await pilot.press("ctrl+s")
            await settle(app, pilot)
            assert FAR in words_of(app)
            await pilot.press("ctrl+s", "ctrl+r", no)
            await settle(app, pilot)
            assert app.is_running
            assert FAR not in words_of(app)
        assert len(server.checkers) == 1
        await pilot.press("ctrl+s")
        await settle(app, pilot)
        await pilot.press("y")
        await settle(app, pilot)
    request = app.return_value
    assert request is not None
    assert (request.config.safety.public_ok, request.config.safety.with_others) == (True, False)
    assert profiles.load(profiles.last_path()) == PROFILE, "the next run is asked about again"


async def test_permission_that_was_given_beforehand_is_not_asked_for() -> None:
    server = Server("tiny")
    server.is_near = False
    async with connecting(server, PROFILE) as (app, pilot):
        form_of(app).control("more").value = "--yes"
        await pilot.press("ctrl+r")
        await settle(app, pilot)
        server.checker.end(singles=SINGLES)
        server.checker.say(PASSED)
        await settle(app, pilot)
        await pilot.press("ctrl+s")
        await settle(app, pilot)
    assert app.return_value is not None
    assert app.return_value.config.safety.public_ok
    assert profiles.load(profiles.last_path()) == {"url": URL}


async def test_a_server_that_serves_others_is_asked_about_and_then_checked_on() -> None:
    server = Server("tiny")
    server.others = 3
    async with connecting(server, PROFILE) as (app, pilot):
        await pilot.press("ctrl+r")
        await settle(app, pilot)
        server.checker.say(PASSED, BUSY)
        server.checker.end()
        await settle(app, pilot)
        assert "▲ SERVING OTHERS" in text_of(app)
        await pilot.press("ctrl+s")
        await settle(app, pilot)
        assert "The server has 3 requests from other clients. Load slows them down" in words_of(app)
        await pilot.press("n")
        await settle(app, pilot)
        assert len(server.checkers) == 1
        await pilot.press("ctrl+s")
        await settle(app, pilot)
        await pilot.press("y")
        await settle(app, pilot)
        assert [checker.config.safety.with_others for checker in server.checkers] == [False, True]
        server.checker.say(PASSED)
        server.checker.end(singles=SINGLES)
        await settle(app, pilot)
        assert "✔ READY" in text_of(app)
        form_of(app).control("url").focus()
        await pilot.press("end", "/", "x", "tab", "ctrl+r")
        await settle(app, pilot)
        assert not server.checker.config.safety.with_others, "permission is for one server"
        server.checker.end()
        await settle(app, pilot)
        await pilot.press("shift+tab", "end", "backspace", "backspace", "tab", "ctrl+r")
        await settle(app, pilot)
        server.checker.say(PASSED)
        server.checker.end(singles=SINGLES)
        await settle(app, pilot)
        await pilot.press("ctrl+s")
        await settle(app, pilot)
    assert app.return_value is not None
    assert app.return_value.config.safety.with_others
    assert profiles.load(profiles.last_path()) == PROFILE


async def test_others_that_have_left_are_not_asked_about() -> None:
    server = Server("tiny")
    async with connecting(server, PROFILE) as (app, pilot):
        await pilot.press("ctrl+r")
        await settle(app, pilot)
        server.checker.say(PASSED, BUSY)
        server.checker.end()
        await settle(app, pilot)
        await pilot.press("ctrl+s")
        await settle(app, pilot)
        assert [checker.config.safety.with_others for checker in server.checkers] == [False, False]


async def test_permission_helps_against_no_other_refusal() -> None:
    server = Server("tiny")
    server.others = 3
    async with connecting(server, PROFILE) as (app, pilot):
        await pilot.press("ctrl+r")
        await settle(app, pilot)
        server.checker.say(REFUSED, BUSY)
        server.checker.end()
        await settle(app, pilot)
        assert "✘ REFUSED" in text_of(app)
        await pilot.press("ctrl+s")
        await settle(app, pilot)
        assert "Load slows them down" not in words_of(app)


async def test_what_excludes_others_is_said_in_place_of_a_start() -> None:
    server = Server("tiny")
    server.others = 1
    async with connecting(server, {**PROFILE, "reset-cache": True}) as (app, pilot):
        await pilot.press("ctrl+r")
        await settle(app, pilot)
        server.checker.say(BUSY)
        server.checker.end()
        await settle(app, pilot)
        await pilot.press("ctrl+s")
        await settle(app, pilot)
        assert "The server has 1 request from other clients." in words_of(app)
        await pilot.press("y")
        await settle(app, pilot)
        assert "disturb the other users" in words_of(app, "#checks")
        assert len(server.checkers) == 1
