"""The Connect screen at every size, and when something is wrong with itself or with the settings of the last time."""

import asyncio
from pathlib import Path

import pytest

from tests.tui.connect_fakes import PASSED, REFUSED, SINGLES, URL, WARNED, Server, connecting, settle, text_of, words_of
from tui.cli import profiles
from tui.connect import app as connect_app
from tui.connect.fields import FIELDS, read
from tui.connect.form import ChoiceField

KEY = "sk-TESTSECRET"
PROFILE = {"url": URL, "ttft": "500ms", "input-tokens": "64", "seed": "7"}


@pytest.fixture(autouse=True)
def config_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("size", [(60, 16), (80, 24), (100, 30), (120, 36), (200, 60)])
async def test_what_decides_is_on_the_screen_at_every_size(size: tuple[int, int]) -> None:
    server = Server("tiny")
    async with connecting(server, PROFILE, size=size) as (app, pilot):
        await pilot.press("ctrl+r")
        await settle(app, pilot)
        server.checker.say(*[PASSED] * 9, *[WARNED] * 3, REFUSED)
        server.checker.end(singles=SINGLES)
        await settle(app, pilot)
        assert "✘ REFUSE model The server has 2" in words_of(app, "#checks")
        for needed in ("time about", "rate at most", "Start"):
            assert needed in words_of(app, "#expect")
        for needed in ("✘ REFUSED", URL, "^s Start"):
            assert needed in text_of(app)
        for row in text_of(app).splitlines():
            assert len(row) <= size[0]


async def test_every_field_can_be_reached_by_keys_alone() -> None:
    server = Server("tiny")
    async with connecting(server, PROFILE, size=(60, 16)) as (app, pilot):
        seen = []
        for _ in FIELDS:
            assert app.focused is not None
            assert app.focused.region.height == 1
            assert app.screen.region.contains_region(app.focused.region)
            seen.append(app.focused.name)
            await pilot.press("tab")
            await settle(app, pilot)
        assert seen == list(FIELDS)


async def test_too_small_says_so() -> None:
    async with connecting(Server(), PROFILE, size=(50, 14)) as (app, _):
        assert "50x14 is too small" in text_of(app)
        assert URL not in text_of(app)


async def test_an_error_of_the_screen_shows_no_key(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connect_app, "placeholders", lambda *_: 1 / 0)
    app = connect_app.ConnectApp({"KNEESCOPE_API_KEY": KEY}, PROFILE, makes=Server().checking, lists=Server().list_models)
    with pytest.raises(ZeroDivisionError):
        async with app.run_test():
            pass
    said = capfd.readouterr()
    assert "ZeroDivisionError" in said.out + said.err
    assert KEY not in said.out + said.err


@pytest.mark.parametrize(("content", "said"), [(None, None), ("ttft = 5", "cannot be used"), ('url = "http://h:1"', None)])
def test_the_settings_of_the_last_time(config_folder: Path, content: str | None, said: str | None) -> None:
    if content is not None:
        path = profiles.last_path()
        path.parent.mkdir(parents=True)
        path.write_text(content)
    profile, note = profiles.load_last()
    assert (profile or {}).get("url") == ("http://h:1" if content and "url" in content else None)
    assert (note is None) if said is None else said in (note or "")


def test_the_mode_field_knows_careful() -> None:
    field = ChoiceField(FIELDS["mode"], "careful")
    assert field.text == "careful"


async def test_a_list_of_models_that_comes_before_the_fields_waits_for_them() -> None:
    server, request = Server("tiny", "large"), read({"url": URL}, "", {})
    app = connect_app.ConnectApp({}, PROFILE, makes=server.checking, lists=server.list_models)
    async with app.run_test() as pilot:
        await app._offer(request, request.access)
        await settle(app, pilot)
        assert "choose one" in words_of(app)
    early = connect_app.ConnectApp({}, PROFILE, makes=server.checking, lists=server.list_models)
    offer = asyncio.create_task(early._offer(request, request.access))
    await asyncio.sleep(0)
    assert not offer.done()
    offer.cancel()
