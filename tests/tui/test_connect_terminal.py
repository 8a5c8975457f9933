"""`kneescope` alone in a real pseudo terminal: from the fields to the run, and every way of leaving."""

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.tui.test_cli_screen import Terminal
from tui.cli import profiles


class Asking(Terminal):
    """kneescope without arguments; its session ends as `how` says."""

    def __init__(self, folder: Path, how: str) -> None:
        environ = {"XDG_CONFIG_HOME": str(folder / "config"), "XDG_STATE_HOME": str(folder / "state")}
        super().__init__(folder, how, words=(), environ=environ)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[[str], Asking]]:
    opened: list[Asking] = []

    def begin(how: str) -> Asking:
        opened.append(Asking(tmp_path, how))
        opened[-1].shown(b"NOT CHECKED")
        opened[-1].shown(b"^o")  # the footer comes last
        return opened[-1]

    yield begin
    for terminal in opened:
        terminal.close()


def test_from_the_fields_to_the_answer(start: Callable[[str], Asking], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = start("bracket")
    os.write(terminal.ours, b"http://127.0.0.1:9\t")
    terminal.shown(b"nothing listens")
    os.write(terminal.ours, b"\x12")  # ctrl+r
    terminal.shown(b"READY")
    os.write(terminal.ours, b"\x13")  # ctrl+s
    terminal.shown(b"and that was all")
    os.write(terminal.ours, b"q")
    code, out = terminal.ended()
    assert (code, out.splitlines()[0]) == (0, "VERDICT bracket")
    assert terminal.whole()
    run_file = Path(out.splitlines()[1].removeprefix("log "))
    assert '"command":"kneescope probe http://127.0.0.1:9"' in run_file.read_text()
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    assert profiles.load(profiles.last_path()) == {"url": "http://127.0.0.1:9"}


@pytest.mark.parametrize("key", [b"\x1b", b"\x03", b"\x11"])
def test_keys_leave(start: Callable[[str], Asking], key: bytes) -> None:
    terminal = start("bracket")
    os.write(terminal.ours, key)
    assert terminal.ended() == (130, "")
    assert terminal.whole()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals_leave(start: Callable[[str], Asking], number: signal.Signals) -> None:
    terminal = start("bracket")
    terminal.process.send_signal(number)
    assert terminal.ended() == (130, "")
    assert terminal.whole()
