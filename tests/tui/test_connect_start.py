"""Start while the checks run, and right after them: what waits, what is taken back, and what is not checked twice."""

from pathlib import Path

import pytest

from tests.tui.connect_fakes import (
    BUSY,
    PASSED,
    REFUSED,
    SINGLES,
    URL,
    WARNED,
    Server,
    connecting,
    form_of,
    settle,
    text_of,
    words_of,
)
from tui.connect.app import ConnectApp
from tui.connect.preflight_run import KEPT_S

PROFILE = {"url": URL, "ttft": "1s"}


@pytest.fixture(autouse=True)
def user_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.mark.parametrize("check", [PASSED, WARNED])
async def test_a_start_during_the_checks_starts_when_they_are_done(check: object) -> None:
    server = Server("tiny")
    async with connecting(server, PROFILE) as (app, pilot):
        await pilot.press("ctrl+r", "ctrl+s")
        await settle(app, pilot)
        assert "… CHECKING, THEN START" in text_of(app)
        assert "starts when the checks are done; esc takes it back" in words_of(app, "#expect")
        server.checker.say(check)  # type: ignore[arg-type]
        server.checker.end(singles=SINGLES)
        await settle(app, pilot)
        assert not app.is_running
    request = app.return_value
    assert request is not None
    assert request.found is server.checker.found
    assert len(server.checkers) == 1


async def test_esc_takes_a_start_back_and_lets_the_checks_go_on() -> None:
    server = Server("tiny")
    async with connecting(server, PROFILE) as (app, pilot):
        await pilot.press("ctrl+r", "ctrl+s", "escape")
        await settle(app, pilot)
        assert server.checker.stops == 0
        assert "ctrl+s starts when the checks are done" in words_of(app, "#expect")
        server.checker.say(PASSED)
        server.checker.end(singles=SINGLES)
        await settle(app, pilot)
        assert app.is_running
        assert "✔ READY" in text_of(app)


@pytest.mark.parametrize(("check", "mark"), [(REFUSED, "✘ REFUSED"), (BUSY, "▲ SERVING OTHERS")])
async def test_what_is_refused_or_needs_a_yes_does_not_start_by_itself(check: object, mark: str) -> None:
    server = Server("tiny")
    server.others = 3
    async with connecting(server, PROFILE) as (app, pilot):
        await pilot.press("ctrl+r", "ctrl+s")
        await settle(app, pilot)
        server.checker.say(PASSED, check)  # type: ignore[arg-type]
        server.checker.end()
        await settle(app, pilot)
        assert mark in text_of(app)
        await pilot.press("y")
        await settle(app, pilot)
        assert app.is_running
        assert form_of(app).texts["url"] == "y", "it was typed over what was selected"
        assert app.screen is app._ask, "no question comes up under somebody's fingers"


async def test_a_server_that_is_far_is_not_asked_about_out_of_the_blue() -> None:
    server = Server("tiny")
    server.is_near = False
    async with connecting(server, PROFILE) as (app, pilot):
        await pilot.press("ctrl+r", "ctrl+s")
        await settle(app, pilot)
        server.checker.say(PASSED)
        server.checker.end(singles=SINGLES)
        await settle(app, pilot)
        await pilot.press("y")
        await settle(app, pilot)
        assert (app.is_running, app.screen) == (True, app._ask)
        assert ["ctrl+s asks whether you may load it" in each.message for each in app._notifications] == [True]


async def test_other_settings_take_a_start_back() -> None:
    server = Server("tiny")
    async with connecting(server, PROFILE) as (app, pilot):
        await pilot.press("ctrl+r", "ctrl+s")
        await settle(app, pilot)
        form_of(app).control("max-rps").focus()
        await pilot.press("9")
        await settle(app, pilot)
        assert "THEN START" not in text_of(app)
        server.checker.say(PASSED)
        server.checker.end(singles=SINGLES)
        await settle(app, pilot)
        assert app.is_running


async def test_a_signal_does_not_start_what_was_waiting() -> None:
    server = Server("tiny")
    async with connecting(server, PROFILE) as (app, pilot):
        await pilot.press("ctrl+r", "ctrl+s")
        await settle(app, pilot)
        app.close()
        await settle(app, pilot)
        assert (app.is_running, app.return_value, server.open) == (False, None, 0)


@pytest.mark.parametrize(("age_s", "kept"), [(20.0, True), (KEPT_S + 1, False)])
async def test_checks_are_made_again_once_they_are_old(age_s: float, kept: bool) -> None:
    server, clock = Server("tiny"), [100.0]
    app = ConnectApp({}, PROFILE, clock=lambda: clock[0], **server.hands)
    async with app.run_test(size=(120, 36)) as pilot:
        await settle(app, pilot)
        await pilot.press("ctrl+r")
        await settle(app, pilot)
        server.checker.say(PASSED)
        server.checker.end(singles=SINGLES)
        await settle(app, pilot)
        clock[0] += age_s
        await settle(app, pilot)
        said = "starts the load; checked 20 s ago" if kept else "repeats the checks, then starts the load"
        assert f"ctrl+s {said}" in words_of(app, "#expect")
        form_of(app).control("max-rps").focus()  # on which no check depends
        await pilot.press("9", "ctrl+s")
        await settle(app, pilot)
    request = app.return_value
    assert request is not None
    assert request.config.safety.max_rps == 9
    assert (request.found is not None) is kept
