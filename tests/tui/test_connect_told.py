"""What the Connect screen says: its help, why nothing happened, what has been sent, and every check in whole sentences."""

from pathlib import Path

import pytest

from core import prose
from core.records import Check
from tests.tui.connect_fakes import REFUSED, SINGLES, URL, Server, connecting, form_of, settle, text_of, words_of
from tui import keys
from tui.connect import help
from tui.connect.app import ConnectApp
from tui.connect.fields import FIELDS

LONG = tuple(
    Check(check=f"check {at}", status="pass", message=f"This is what number {at} found, in so many words that no line holds it.")
    for at in range(15)
)


@pytest.fixture(autouse=True)
def config_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.chdir(tmp_path)


def notices(app: ConnectApp) -> list[str]:
    return [notice.message for notice in app._notifications]


@pytest.mark.parametrize("size", [(80, 24), (120, 100)])
async def test_the_help_has_all_keys_what_is_sent_and_all_fields(size: tuple[int, int]) -> None:
    async with connecting(Server(), {"url": URL}, size=size) as (app, pilot):
        assert "f1 Explain" in text_of(app)
        await pilot.press("f1")
        await settle(app, pilot)
        await settle(app, pilot)
        for words in ("ctrl+r check the server: about five single requests, no load", "typing sends nothing"):
            assert words in words_of(app)
        if size[1] < 50:
            assert "↑ ↓ for more" in text_of(app)
        else:
            said = words_of(app)
            told = (*keys.connect_help(), *help.SENT, *help.CHECKS)
            for name, meaning in (*told, *((field.label, field.help) for field in FIELDS.values())):
                assert " ".join(f"{name} {meaning}".split()) in said
        await pilot.press("escape")
        await settle(app, pilot)
        assert "is it safe" in text_of(app)
        assert app.is_running


async def test_a_question_mark_is_a_character_in_a_field_and_a_question_elsewhere() -> None:
    async with connecting(Server("tiny"), {"url": URL}) as (app, pilot):
        await pilot.press("end", "question_mark")
        await settle(app, pilot)
        assert form_of(app).texts["url"] == f"{URL}?"
        form_of(app).control("mode").focus()
        await pilot.press("question_mark")
        await settle(app, pilot)
        assert "What is sent, and when" in text_of(app)


async def test_while_the_help_is_open_nothing_begins() -> None:
    server = Server("tiny")
    async with connecting(server, {"url": URL}) as (app, pilot):
        await pilot.press("f1")
        await settle(app, pilot)
        await pilot.press("ctrl+s", "ctrl+r", "ctrl+o")
        await settle(app, pilot)
        assert (server.checkers, server.lists) == ([], [])
        assert "What is sent" in text_of(app)


async def test_the_palette_offers_the_keys() -> None:
    async with connecting(Server(), {}) as (app, _):
        offered = {command.title for command in app.get_system_commands(app.screen)}
        told = {"Check", "Start", "Save", "Explain", "Read checks", "Leave", "Theme", "Recent", "Demo", "Watch", "Limits"}
        assert told == offered


@pytest.mark.parametrize(("key", "what"), [("ctrl+o", "Nothing was saved"), ("ctrl+r", "Nothing was checked")])
async def test_a_field_that_is_wrong_is_named_each_time_that_it_stands_in_the_way(key: str, what: str) -> None:
    async with connecting(Server(), {"url": URL, "ttft": "5"}) as (app, pilot):
        for _ in range(2):
            await pilot.press(key)
            await settle(app, pilot)
            assert app.focused is form_of(app).control("ttft")
            (said,) = notices(app)
            assert said.startswith(f"{what}; fix TTFT first: ")
            assert "'5'" in said


async def test_settings_that_are_wrong_only_together_are_said_too() -> None:
    async with connecting(Server(), {"url": URL, "hold": "6", "max-rps": "5"}) as (app, pilot):
        await pilot.press("ctrl+o")
        await settle(app, pilot)
        (said,) = notices(app)
        assert said.startswith("Nothing was saved; fix ")
        assert "--max-rps" in said


async def test_what_has_been_sent_is_told_as_it_is() -> None:
    server = Server("tiny")
    async with connecting(server, {}) as (app, pilot):
        assert "Nothing has been sent. The checks send about five" in words_of(app, "#checks")
        await pilot.press(*"http://127.0.0.1:8000", "tab")
        await settle(app, pilot)
        assert server.lists
        assert "Nothing has been sent but one request for the list of models." in words_of(app, "#checks")


@pytest.mark.parametrize("size", [(80, 24), (120, 36)])
async def test_checks_that_have_no_room_can_be_read_whole(size: tuple[int, int]) -> None:
    server = Server("tiny")
    async with connecting(server, {"url": URL}, size=size) as (app, pilot):
        await pilot.press("ctrl+r")
        await settle(app, pilot)
        server.checker.say(*LONG, REFUSED)
        server.checker.end(singles=SINGLES)
        await settle(app, pilot)
        glance = words_of(app, "#checks")
        assert prose.sentence(REFUSED.message).split(":")[0] in glance
        assert "pgdn: in full" in glance
        assert prose.sentence(LONG[0].message) not in glance
        await pilot.press("pagedown")
        seen = ""
        for _ in range(40):
            await settle(app, pilot)
            seen += words_of(app, "#checks")
            await pilot.press("down")
        for check in LONG:
            assert f"number {check.check.removeprefix('check ')} found" in seen
        assert "that no line holds it." in seen
        assert "…" not in seen
        await pilot.press("shift+tab")
        await settle(app, pilot)
        assert prose.sentence(REFUSED.message).split(":")[0] in words_of(app, "#checks")


async def test_where_there_is_room_for_some_the_last_checks_are_whole() -> None:
    server = Server("tiny")
    async with connecting(server, {"url": URL}, size=(120, 36)) as (app, pilot):
        await pilot.press("ctrl+r")
        await settle(app, pilot)
        server.checker.say(*LONG[:11])
        server.checker.end(singles=SINGLES)
        await settle(app, pilot)
        said = words_of(app, "#checks")
        assert prose.sentence(LONG[10].message) in said
        assert prose.sentence(LONG[0].message) not in said
