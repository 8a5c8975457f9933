"""The theme that is chosen is there the next time, and no file of it can stop a run."""

from pathlib import Path
from typing import Any

import pytest
from textual.app import App

from tests.tui import samples
from tests.tui.screen import Held
from tui.app import KneescopeApp
from tui.terminal import theme


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("COLORTERM", "truecolor")
    monkeypatch.delenv("NO_COLOR", raising=False)


def app() -> App[Any]:
    return KneescopeApp(Held(samples.finished()))


def chosen(name: str) -> None:
    one = app()
    with theme.remembered(one):
        one.theme = name


def test_what_was_chosen_is_there_the_next_time() -> None:
    chosen("textual-light")
    one = app()
    with theme.remembered(one):
        assert one.theme == "textual-light"


def test_nothing_is_written_where_nothing_was_chosen() -> None:
    with theme.remembered(app()):
        pass
    assert not theme.path().exists()


@pytest.mark.parametrize("content", [b"", b"theme = 7", b"theme = 'nosuch'", b"{", b"\xff\xfe", b"theme = 'x" * 9999])
def test_a_file_that_says_nothing_is_ignored(content: bytes) -> None:
    theme.path().parent.mkdir(parents=True)
    theme.path().write_bytes(content)
    one = app()
    usual = one.theme
    with theme.remembered(one):
        assert one.theme == usual


@pytest.mark.parametrize("poor", [{"NO_COLOR": "1"}, {"COLORTERM": "", "TERM": "xterm"}], ids=["none", "16 colours"])
def test_a_poor_terminal_keeps_its_own_theme(monkeypatch: pytest.MonkeyPatch, poor: dict[str, str]) -> None:
    chosen("textual-light")
    with monkeypatch.context() as changed:
        for name, value in poor.items():
            changed.setenv(name, value)
        one = app()
        usual = one.theme
        with theme.remembered(one):
            assert one.theme == usual
            one.theme = "textual-dark"
    with theme.remembered(again := app()):
        assert again.theme == "textual-light"
