"""The Connect screen under fast fingers: what is typed or pasted without a pause lands where it was meant."""

from pathlib import Path

import pytest
from textual import events

from tests.tui.connect_fakes import PASSED, SINGLES, URL, Server, connecting, form_of, settle, text_of, words_of
from tui.cli import profiles
from tui.connect.app import ConnectApp
from tui.connect.form import pasted

CHARS = {"tab": "\t", "enter": "\r"}


@pytest.fixture(autouse=True)
def user_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)


def typed(app: ConnectApp, *keys: str) -> None:
    """All at once, as a terminal hands on what came in one read."""
    for key in keys:
        app.post_message(events.Key(key, key if len(key) == 1 else CHARS.get(key)))


async def landed(app: ConnectApp, pilot: object) -> None:
    for _ in range(20):
        if not app._inputs and app._awaited is None:
            break
        await settle(app, pilot)  # type: ignore[arg-type]
    await settle(app, pilot)  # type: ignore[arg-type]


@pytest.mark.parametrize("key", ["tab", "enter"])
async def test_digits_behind_a_key_that_moves_on_are_the_next_fields(key: str) -> None:
    async with connecting(Server("tiny"), {"url": URL}) as (app, pilot):
        form_of(app).control("input-tokens").focus()
        await settle(app, pilot)
        typed(app, *"200", key, *"64", key, *"500ms", "shift+tab", *"32")
        await landed(app, pilot)
        texts = form_of(app).texts
        assert (texts["input-tokens"], texts["output-tokens"], texts["ttft"]) == ("200", "32", "500ms")
        assert words_of(app, "#command").endswith("--input-tokens 200 --output-tokens 32 --ttft 500ms")


async def test_a_whole_form_at_once_while_the_list_of_models_arrives() -> None:
    server = Server("a-model", "b-model")
    async with connecting(server, {}) as (app, pilot):
        typed(app, *"127.0.0.1:8000", "tab", "enter", "down", "enter", "tab", "tab", *"200", "tab", *"64", "tab", *"1s")
        await landed(app, pilot)
        texts = form_of(app).texts
        assert (texts["url"], texts["input-tokens"], texts["output-tokens"], texts["ttft"]) == ("127.0.0.1:8000", "200", "64", "1s")
        assert app.focused is form_of(app).control("ttft")
        assert server.lists == [(URL, None)]


async def test_an_open_list_keeps_its_place_when_the_same_models_are_offered_again() -> None:
    server = Server("a-model", "b-model", "c-model")
    async with connecting(server, {"url": URL}) as (app, pilot):
        typed(app, "tab")
        await landed(app, pilot)
        typed(app, "enter", "down", "down")
        await landed(app, pilot)
        form_of(app).offer_models(server.models)
        typed(app, "enter", "tab", "tab", *"7")
        await landed(app, pilot)
        assert form_of(app).texts["model"] == "b-model"
        assert form_of(app).texts["input-tokens"] == "7"


async def test_typing_while_the_checks_run_and_end_stays_in_its_field() -> None:
    server = Server("tiny")
    async with connecting(server, {"url": URL}) as (app, pilot):
        form_of(app).control("more").focus()
        await settle(app, pilot)
        typed(app, "ctrl+r", *"--se")
        await landed(app, pilot)
        server.checker.say(PASSED)
        typed(app, *"ed")
        server.checker.end(singles=SINGLES)
        typed(app, *" 7")
        await landed(app, pilot)
        assert form_of(app).texts["more"] == "--seed 7"
        assert app.focused is form_of(app).control("more")


async def test_the_button_keeps_the_focus_when_the_checks_run_again() -> None:
    server = Server("tiny")
    async with connecting(server, {"url": URL}) as (app, pilot):
        app.screen.query_one("#start").focus()
        await settle(app, pilot)
        typed(app, "ctrl+r", "x")
        await landed(app, pilot)
        assert app.focused is app.screen.query_one("#start")
        assert "x" not in form_of(app).texts.values()


async def test_a_path_typed_right_behind_the_key_that_asks_for_it(tmp_path: Path) -> None:
    async with connecting(Server("tiny"), {"url": URL}) as (app, pilot):
        typed(app, "ctrl+o", *"prod", "enter", "end", *"/x")
        await landed(app, pilot)
        assert profiles.load(tmp_path / "prod.toml") == {"url": URL}
        assert form_of(app).texts["url"] == f"{URL}/x"


@pytest.mark.parametrize(
    ("name", "text", "taken"),
    [
        ("url", "\n  http://127.0.0.1:8000/v1 \n", "http://127.0.0.1:8000/v1"),
        ("url", '"http://127.0.0.1:8000",', "http://127.0.0.1:8000"),
        ("ttft", "500ms\r\n", "500ms"),
        ("input-tokens", "200\n64\n", "200"),
        ("key", " sk-1 \n", "sk-1"),
        ("more", "--rates 2,4 \\\n  --seed 7\n", "--rates 2,4 --seed 7"),
        ("url", "\n", ""),
    ],
)
def test_what_a_field_takes_of_a_pasted_text(name: str, text: str, taken: str) -> None:
    assert pasted(name, text) == taken


async def test_a_paste_goes_to_the_field_behind_the_tab_before_it() -> None:
    async with connecting(Server("tiny"), {"url": URL}) as (app, pilot):
        form_of(app).control("input-tokens").focus()
        await settle(app, pilot)
        typed(app, "tab")
        app.post_message(events.Paste("\n64\n128\n"))
        typed(app, "tab", *"1s")
        await landed(app, pilot)
        texts = form_of(app).texts
        assert (texts["input-tokens"], texts["output-tokens"], texts["ttft"]) == ("", "64", "1s")
        assert [each.message for each in app._notifications] == ["Only the first line was pasted."]


async def test_what_an_address_was_understood_as_is_said_beside_it() -> None:
    async with connecting(Server("tiny"), {}) as (app, pilot):
        app.post_message(events.Paste("127.0.0.1:8000/v1/chat/completions\n"))
        await landed(app, pilot)
        assert f"→ {URL} Address" in words_of(app, "#hint")
        assert words_of(app, "#command") == f"the same as kneescope probe {URL}"
        form_of(app).control("url").value = URL
        await settle(app, pilot)
        assert "→" not in text_of(app)
