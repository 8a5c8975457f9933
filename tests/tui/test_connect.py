"""The Connect screen by its keys: what is sent when, what is said, and when a start is possible."""

from pathlib import Path

import pytest
from textual.widgets import Button

from core.config import Lengths
from core.errors import UserError
from tests.tui.connect_fakes import PASSED, REFUSED, SINGLES, URL, WARNED, Server, connecting, form_of, settle, text_of, words_of
from tui.cli import profiles
from tui.connect.fields import FIELDS

KEY = "sk-TESTSECRET"
PROFILE = {"url": URL, "ttft": "500ms", "input-tokens": "64", "seed": "7"}


@pytest.fixture(autouse=True)
def config_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


async def test_typing_sends_nothing_and_leaving_the_address_asks_for_its_models() -> None:
    server = Server("tiny")
    async with connecting(server, environ={"KNEESCOPE_API_KEY": KEY}) as (app, pilot):
        assert "about five single requests" in words_of(app, "#checks")
        await pilot.press(*"127.0.0.1:8000")
        await pilot.press("home", *"http://")
        await settle(app, pilot)
        assert server.lists == []
        await pilot.press("enter")
        await settle(app, pilot)
        assert server.lists == [(URL, None)]  # the key is not for an address that may be mistyped
        assert "tiny" in text_of(app)
        assert server.checkers == []


async def test_the_last_settings_are_there_and_nothing_is_sent_for_them() -> None:
    server = Server("tiny")
    async with connecting(server, PROFILE) as (app, pilot):
        assert f"URL {URL} model" in words_of(app, "#form")
        assert "TTFT 500ms TPOT none" in words_of(app, "#form")
        assert "more --seed 7" in words_of(app, "#form")
        command = words_of(app, "#command")
        assert command == f"the same as kneescope probe {URL} --input-tokens 64 --ttft 500ms --seed 7"
        assert (server.lists, server.checkers) == ([], [])
        await pilot.press("tab")
        await settle(app, pilot)
        assert server.lists == [(URL, None)]


async def test_checks_come_in_one_by_one_then_it_may_start(config_folder: Path) -> None:
    server = Server("tiny")
    async with connecting(server, PROFILE, environ={"KNEESCOPE_API_KEY": KEY}) as (app, pilot):
        assert "· NOT CHECKED" in text_of(app)
        await pilot.press("ctrl+r")
        await settle(app, pilot)
        assert "… CHECKING" in text_of(app)
        assert server.checker.api_key == KEY
        assert server.lists == [(URL, KEY)]
        server.checker.say(PASSED)
        await settle(app, pilot)
        assert "The server answers." in words_of(app, "#checks")
        assert app.is_running
        assert "ctrl+s starts when the checks are done" in words_of(app, "#expect")
        server.checker.end(singles=SINGLES)
        await settle(app, pilot)
        assert "✔ READY" in text_of(app)
        assert "about 2 min 10 s" in words_of(app, "#expect")
        assert KEY not in text_of(app)
        await pilot.press("ctrl+s")
        await settle(app, pilot)
    request = app.return_value
    assert request is not None
    assert (request.url, request.access.api_key, request.config.method.seed) == (URL, KEY, 7)
    assert request.command == f"kneescope probe {URL} --input-tokens 64 --ttft 500ms --seed 7"
    assert KEY not in repr(request)
    assert profiles.load(profiles.last_path()) == PROFILE
    assert KEY not in profiles.last_path().read_text()
    assert server.open == 0


async def test_start_before_any_check_checks_and_waits_for_another_press() -> None:
    server = Server("tiny")
    async with connecting(server, PROFILE) as (app, pilot):
        await pilot.press("ctrl+s")
        await settle(app, pilot)
        assert "… CHECKING" in text_of(app)
        server.checker.say(PASSED, WARNED)
        server.checker.end()
        await settle(app, pilot)
        assert app.is_running
        assert "▲ READY, WITH WARNINGS" in text_of(app)
        assert len(server.checkers) == 1
        app.screen.query_one(Button).focus()
        await pilot.press("enter")
        await settle(app, pilot)
    assert app.return_value is not None


async def test_enter_in_the_last_field_is_a_start() -> None:
    server = Server("tiny")
    async with connecting(server, PROFILE) as (app, pilot):
        form_of(app).control("more").focus()
        await pilot.press("enter")
        await settle(app, pilot)
        assert len(server.checkers) == 1


async def test_a_refusal_says_what_to_change_and_forbids_the_start() -> None:
    server = Server("[red]a[/red]", "b\x1b[31m")
    async with connecting(server, PROFILE) as (app, pilot):
        await pilot.press("ctrl+r")
        await settle(app, pilot)
        server.checker.say(PASSED, REFUSED)
        server.checker.end()
        await settle(app, pilot)
        assert "✘ REFUSED" in text_of(app)
        assert "choose one with --model: [red]a[/red], b." in words_of(app, "#checks")
        await pilot.press("ctrl+s")
        await settle(app, pilot)
        assert app.is_running
        assert "blocked by a check; fix what it says first" in words_of(app, "#expect")
        assert len(server.checkers) == 1


async def test_two_models_to_choose_from_are_shown_as_they_are() -> None:
    server = Server("[red]a[/red]", "b\x1b[31m")
    async with connecting(server, PROFILE) as (app, pilot):
        await pilot.press("tab")
        await settle(app, pilot)
        assert "▲ The server has 2 models: choose one." in words_of(app, "#checks")
        assert "choose one ▼" in words_of(app)
        await pilot.press("enter", "down")
        await settle(app, pilot)
        assert "[red]a[/red]" in text_of(app)
        assert "\x1b" not in text_of(app)
        await pilot.press("enter")
        await settle(app, pilot)
        assert form_of(app).texts["model"] == "[red]a[/red]"
        await pilot.press("enter", "b", "enter")  # typing looks for it
        await settle(app, pilot)
        assert form_of(app).texts["model"] == "b\x1b[31m"
        assert server.checkers == []


async def test_a_model_that_the_server_does_not_list_stays_chosen() -> None:
    server = Server("a", "b")
    async with connecting(server, {**PROFILE, "model": "old"}) as (app, pilot):
        await pilot.press("tab")
        await settle(app, pilot)
        assert form_of(app).texts["model"] == "old"
        assert server.checkers == []


async def test_other_settings_make_the_checks_stale_and_run_them_again() -> None:
    server = Server("tiny")
    async with connecting(server, PROFILE) as (app, pilot):
        await pilot.press("ctrl+r")
        await settle(app, pilot)
        server.checker.say(PASSED)
        server.checker.end(singles=SINGLES)
        await settle(app, pilot)
        form_of(app).control("input-tokens").focus()
        await pilot.press("end", "0")
        await settle(app, pilot)
        assert "▲ CHANGED SINCE THE CHECKS" in text_of(app)
        assert "for earlier settings" in text_of(app)
        assert app.screen.query_one("#checks").has_class("-stale")
        assert len(server.checkers) == 1  # still typing
        await pilot.press("backspace")
        await settle(app, pilot)
        assert "✔ READY" in text_of(app)
        await pilot.press("0", "tab")
        await settle(app, pilot)
        assert len(server.checkers) == 2
        assert server.checker.config.workload.input_tokens == Lengths(median=640)
        form_of(app).control("ttft").focus()
        await pilot.press("end", "backspace", "backspace", "0", "m", "s", "tab")  # while it checks
        await settle(app, pilot)
        assert [checker.stops for checker in server.checkers] == [0, 1, 0]
        assert server.checker.config.slo.ttft_s == 5.0
        assert server.open == 1


async def test_what_the_checks_do_not_depend_on_leaves_them_as_they_are() -> None:
    server = Server("tiny")
    async with connecting(server, PROFILE) as (app, pilot):
        await pilot.press("ctrl+r")
        await settle(app, pilot)
        server.checker.say(PASSED)
        server.checker.end(singles=SINGLES)
        form_of(app).control("max-rps").focus()
        await pilot.press("2", "0", "tab", "5", "0", "tab")
        await settle(app, pilot)
        assert "✔ READY" in text_of(app)
        assert "never above 20.0 requests/s" in words_of(app, "#expect")
        assert len(server.checkers) == 1


async def test_another_address_is_not_checked_unasked() -> None:
    server = Server("tiny")
    async with connecting(server, PROFILE) as (app, pilot):
        await pilot.press("ctrl+r")
        await settle(app, pilot)
        server.checker.end()
        await pilot.press("end", "/", "x", "tab")
        await settle(app, pilot)
        assert len(server.checkers) == 1
        assert server.lists[-1] == (f"{URL}/x", None)
        assert "▲ CHANGED SINCE THE CHECKS" in text_of(app)


@pytest.mark.parametrize("key", ["escape", "ctrl+c", "ctrl+q"])
async def test_leaving_stops_the_checks_first(key: str) -> None:
    server = Server("tiny")
    async with connecting(server, PROFILE) as (app, pilot):
        await pilot.press("ctrl+r")
        await settle(app, pilot)
        await pilot.press(key)
        await settle(app, pilot)
        assert (app.is_running, server.checker.stops, server.open) == (True, 1, 0)
        assert "■ CHECKS STOPPED" in text_of(app)
        await pilot.press(key)
        await settle(app, pilot)
        assert not app.is_running
    assert app.return_value is None


async def test_a_signal_leaves_when_the_checks_have_ended() -> None:
    server = Server("tiny")
    async with connecting(server, PROFILE) as (app, pilot):
        await pilot.press("ctrl+r")
        await settle(app, pilot)
        app.close()
        await settle(app, pilot)
        assert (server.checker.stops, server.open, app.is_running) == (1, 0, False)


async def test_a_server_that_is_not_there() -> None:
    server = Server()
    server.problem = f"{URL} cannot be reached: nothing listens there (connection refused)."
    async with connecting(server, PROFILE) as (app, pilot):
        await pilot.press("tab")
        await settle(app, pilot)
        assert f"✘ {server.problem}" in words_of(app, "#checks")


async def test_a_server_that_goes_away_between_two_checks() -> None:
    server = Server("tiny")
    async with connecting(server, PROFILE) as (app, pilot):
        await pilot.press("ctrl+r")
        await settle(app, pilot)
        server.checker.say(PASSED)
        server.checker.end(UserError("The load generator ended [oh]."))
        await settle(app, pilot)
        assert "✘ CHECKS FAILED TO RUN" in text_of(app)
        assert "The load generator ended [oh]." in words_of(app, "#checks")
        await pilot.press("ctrl+s")
        await settle(app, pilot)
        assert (app.is_running, len(server.checkers), server.open) == (True, 2, 1)


@pytest.mark.parametrize(
    ("name", "typed", "sentence"),
    [
        ("url", "ftp://x", "'ftp://x' is not a server address"),
        ("ttft", "800", "--ttft: '800' is not a duration"),
        ("target", "0", "--target: 0 must be above 0"),
        ("key", "two words", "API key: this does not hold an API key"),
        ("more", "--ttft 1s", "--ttft has a field of its own (TTFT)"),
    ],
)
async def test_nonsense_is_said_when_the_field_is_left(name: str, typed: str, sentence: str) -> None:
    server = Server("tiny")
    async with connecting(server, {"url": URL}) as (app, pilot):
        control = form_of(app).control(name)
        control.focus()
        control.value = typed
        await settle(app, pilot)
        assert "✘" not in text_of(app)
        await pilot.press("shift+tab" if name == "more" else "tab")
        await settle(app, pilot)
        assert sentence in words_of(app, "#checks")
        assert f"✘ {FIELDS[name].label}" in text_of(app)
        assert "✘ INVALID SETTINGS" in text_of(app)
        await pilot.press("ctrl+r")
        await settle(app, pilot)
        assert server.checkers == []
        assert app.focused is control
        await pilot.press("ctrl+s")
        await settle(app, pilot)
        assert (app.is_running, server.checkers) == (True, [])
        assert sentence in words_of(app, "#hint")


async def test_fields_that_are_wrong_only_together() -> None:
    server = Server("tiny")
    async with connecting(server, {"url": URL, "hold": "6"}) as (app, pilot):
        form_of(app).control("max-rps").focus()
        await pilot.press("5", "ctrl+r")
        await settle(app, pilot)
        assert "--hold 6 is above --max-rps 5" in words_of(app, "#checks")
        assert server.checkers == []


async def test_the_key_is_hidden_and_wins(config_folder: Path) -> None:
    (config_folder / "key").write_text("sk-FILE")
    server = Server("tiny")
    profile = {**PROFILE, "api-key-file": "key"}
    async with connecting(server, profile, environ={"KNEESCOPE_API_KEY": "sk-VARIABLE"}) as (app, pilot):
        assert "API key variable is set" in words_of(app, "#form")
        await pilot.press("ctrl+r")
        await settle(app, pilot)
        assert server.checker.api_key == "sk-FILE"
        server.checker.end()
        key = form_of(app).control("key")
        key.focus()
        await pilot.press(*KEY, "home", "shift+end", "ctrl+x")
        assert (key.value, app.clipboard) == ("", "")
        await pilot.press(*KEY, "tab")
        await settle(app, pilot)
        assert server.checker.api_key == KEY
        assert KEY not in text_of(app)
        assert "•" * len(KEY) in text_of(app)


async def test_a_profile_is_saved_from_the_screen(config_folder: Path) -> None:
    server = Server("tiny")
    async with connecting(server, {**PROFILE, "between": "docker SECRET"}) as (app, pilot):
        assert "SECRET" not in words_of(app, "#command")
        await pilot.press("ctrl+o", "enter")
        await settle(app, pilot)
        assert "Give the path of a file" in words_of(app)
        await pilot.press(*"prod", "enter")
        await settle(app, pilot)
        assert [each.message for each in app._notifications] == [f"Saved as {config_folder / 'prod.toml'}, without between."]
    assert profiles.load(config_folder / "prod.toml") == PROFILE
    async with connecting(server, PROFILE) as (app, pilot):
        await pilot.press("tab", "tab", "tab", *"99", "ctrl+o", *"prod.toml", "enter")
        await settle(app, pilot)
        assert "already exists" in words_of(app)
        assert "Press enter again to replace it" in words_of(app)
        await pilot.press("x", "backspace", "enter")
        await settle(app, pilot)
        assert profiles.load(config_folder / "prod.toml") == PROFILE
        await pilot.press("enter")
        await settle(app, pilot)
        assert profiles.load(config_folder / "prod.toml")["input-tokens"] == "99"
        await pilot.press("ctrl+o", *"no/where", "enter")
        await settle(app, pilot)
        assert "cannot be written: No such file" in words_of(app)
        await pilot.press("escape")
        await settle(app, pilot)
        assert app.is_running
        assert "is it safe" in text_of(app)
