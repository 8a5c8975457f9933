"""What is one key away on the Connect screen: recent servers, usual limits, the demo."""

import dataclasses
import json
from pathlib import Path

import pytest

from core.access import Access
from core.records import ServerInfo
from core.run import Found
from core.server import Places
from tests.tui import cli_fakes
from tests.tui.connect_fakes import PASSED, SINGLES, URL, Server, connecting, form_of, hello_for, settle, words_of
from tui.cli import commands, probe, prompts
from tui.cli.configure import CliOptions
from tui.cli.watch import Job
from tui.connect import app as connect_app
from tui.connect import recent
from tui.connect.fields import read
from tui.connect.presets import PRESETS
from tui.connect.recent import Recent


@pytest.fixture(autouse=True)
def user_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


async def test_a_server_that_was_checked_is_one_key_away_the_next_time() -> None:
    server = Server("tiny")
    profile = {"url": f"{URL}/v1", "api-key-file": "", "seed": "7"}
    async with connecting(server, profile, environ={"KNEESCOPE_API_KEY": "sk-SECRET"}) as (app, pilot):
        form_of(app).control("more").value = "--header 'X-A: SECRET'"
        await pilot.press("ctrl+r")
        await settle(app, pilot)
        server.checker.say(PASSED)
        server.checker.end(singles=SINGLES)
        await settle(app, pilot)
    assert recent.load() == (Recent(URL, "tiny"),)
    assert json.loads(recent.path().read_text()) == [{"url": URL, "model": "tiny"}]
    assert recent.path().stat().st_mode & 0o077 == 0
    recent.remember("http://127.0.0.1:9000", "large")
    again = Server("tiny", "large")
    async with connecting(again, {}) as (app, pilot):
        await pilot.press("down")  # in an empty address
        await settle(app, pilot)
        assert f"{URL} tiny" in words_of(app)
        await pilot.press("down", "enter")
        await settle(app, pilot)
        assert (form_of(app).texts["url"], form_of(app).texts["model"]) == (URL, "tiny")
        assert again.lists == [(URL, None)]
        assert again.checkers == []
        await pilot.press("f2", "escape")
        await settle(app, pilot)
        assert app.is_running


async def test_without_any_the_key_says_so() -> None:
    async with connecting(Server(), {}) as (app, pilot):
        await pilot.press("f2")
        await settle(app, pilot)
        assert [each.message for each in app._notifications] == ["No server has been checked from this screen yet."]


def test_no_secret_is_kept_and_no_file_breaks_it() -> None:
    for url in ("http://user:pw@host:1", "http://host:1?key=SECRET", "http://host:1#SECRET", "nonsense"):
        recent.remember(url, "m")
    assert not recent.path().exists()
    recent.path().parent.mkdir(parents=True, exist_ok=True)
    secret = '[{"url": "http://u:p@h:1", "model": "m"}, {"url": "http://h:1", "model": 5}]'
    for content in ("{", "[1, null]", '{"url": 1}', secret, "["):
        recent.path().write_text(content)
        assert recent.load() == ()
    for port in range(1, 15):
        recent.remember(f"http://127.0.0.1:{port}", None)
    recent.remember("http://127.0.0.1:14", "")
    assert [each.url.rsplit(":", 1)[1] for each in recent.load()] == [str(port) for port in range(14, 4, -1)]


def test_the_numbers_of_the_limits() -> None:
    assert {each.name: each.texts for each in PRESETS} == {
        "interactive": {"ttft": "500ms", "tpot": "50ms", "e2e": "none"},
        "long-context": {"ttft": "3s", "tpot": "50ms", "e2e": "none"},
        "code completion": {"ttft": "none", "tpot": "none", "e2e": "1s"},
        "batch": {"ttft": "none", "tpot": "none", "e2e": "60s"},
    }


async def test_usual_limits_are_shown_with_their_numbers_and_fill_the_fields() -> None:
    async with connecting(Server("tiny"), {"url": URL, "ttft": "9s"}) as (app, pilot):
        await pilot.press("f4")
        await settle(app, pilot)
        for each in PRESETS:
            assert f"{each.name} {each.told}" in words_of(app)
        await pilot.press("down", "down", "enter")
        await settle(app, pilot)
        assert words_of(app, "#command").endswith("--ttft none --tpot none --e2e 1s")
        assert "TTFT none TPOT none" in words_of(app, "#form")


async def test_the_demo_is_one_key_away_and_not_while_something_is_sent() -> None:
    server = Server("tiny")
    async with connecting(server, {"url": URL}) as (app, pilot):
        assert "f3 runs against a simulated one" in words_of(app, "#checks")
        await pilot.press("ctrl+r", "f3")
        await settle(app, pilot)
        assert app.is_running
        server.checker.say(PASSED)
        server.checker.end()
        await pilot.press("f3")
        await settle(app, pilot)
    assert (app.instead, app.return_value, app._exit) == (connect_app.Demo(), None, True)


def test_the_demo_runs_as_the_command_does(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[tuple[str, str]] = []

    def run(name: str, options: CliOptions, command: str, access: Access) -> int:
        ran.append((name, command))
        return 7

    monkeypatch.setattr(connect_app, "ask", lambda environ: connect_app.Demo())
    monkeypatch.setattr("tui.cli.demo.run", run)
    assert commands._connect() == 7
    assert ran == [("demo", "kneescope demo")]


def test_what_the_checks_found_goes_into_the_run_and_nothing_is_asked_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(probe, "Session", cli_fakes.FakeSession)
    monkeypatch.setattr(prompts, "can_ask", lambda: True)
    monkeypatch.setattr(prompts, "settle", lambda *_: pytest.fail("it was settled on the screen"))
    request = read({"url": URL, "more": f"--out {tmp_path / 'run.jsonl'}"}, "", {})
    found = Found(checks=(PASSED,), info=ServerInfo(url=URL), hello=hello_for(request.config), singles=SINGLES, ended_t=0.0)
    monkeypatch.setattr(connect_app, "ask", lambda environ: dataclasses.replace(request, found=found))
    assert commands._connect() == 0
    assert cli_fakes.FakeSession.made[-1].given is found
    assert "8.00 requests/s" in capsys.readouterr().out


async def test_a_watch_is_one_key_away_with_the_typed_access() -> None:
    async with connecting(Server("tiny"), {"url": URL, "metrics-url": "http://m:9/metrics"}) as (app, pilot):
        assert "f5 only watches the server" in words_of(app, "#checks")
        app._ask.form.control("key").value = "sk-TESTSECRET"
        await settle(app, pilot)
        await pilot.press("f5")
        await settle(app, pilot)
    assert isinstance(app.instead, connect_app.Watch)
    job = app.instead.job
    assert (job.places.urls, job.metrics_url, job.access.api_key) == ((URL,), "http://m:9/metrics", "sk-TESTSECRET")
    assert "TESTSECRET" not in repr(app.instead)


async def test_nothing_is_watched_without_an_address() -> None:
    async with connecting(Server("tiny"), {}) as (app, pilot):
        await pilot.press("f5")
        await settle(app, pilot)
        assert app.is_running
        assert "Nothing is watched; fix URL first" in next(iter(app._notifications)).message


def test_a_watch_from_the_screen_is_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = connect_app.Watch(Job(places=Places((URL,))))
    ran: list[object] = []

    def run(job: object) -> int:
        ran.append(job)
        return 0

    monkeypatch.setattr(connect_app, "ask", lambda environ: asked)
    monkeypatch.setattr("tui.cli.watch.run", run)
    assert commands._connect() == 0
    assert ran == [asked.job]
