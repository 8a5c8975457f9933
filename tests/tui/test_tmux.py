"""The command in a real terminal: keys are sent and the screen is read back under tmux, while a simulated replica is loaded."""

import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed: no terminal to read back")

ROOT = Path(__file__).parents[2]
LIMIT_S = 90.0
"""How long a machine that is busy with other work may take for what an idle one does in a second."""


class Tmux:
    """A server of its own with one window, in which a shell runs the command and then says how it ended."""

    def __init__(self, socket: Path, command: str, columns: int = 120, rows: int = 36) -> None:
        self._base = ["tmux", "-S", str(socket), "-f", "/dev/null"]
        shell = f"{command}; echo CODE=$?; stty -a | grep -o -- '-*echo '; sleep 600"
        self._do("new-session", "-d", "-x", str(columns), "-y", str(rows), "sh", "-c", shell)

    def keys(self, *names: str) -> None:
        self._do("send-keys", *names)

    def resize(self, columns: int, rows: int) -> None:
        self._do("resize-window", "-x", str(columns), "-y", str(rows))

    def text(self) -> str:
        return self._do("capture-pane", "-p")

    def wait(self, *words: str, gone: str = "") -> str:
        """The screen, as soon as it holds all words (and no longer `gone`). Fails with the screen when that takes too long."""
        return self.until(lambda text: all(word in text for word in words) and not (gone and gone in text), f"{words} not seen")

    def until(self, seen: Callable[[str], bool], what: str) -> str:
        end = time.monotonic() + LIMIT_S
        while not seen(text := self.text()):
            assert time.monotonic() < end, f"{what} in:\n{text}"
            time.sleep(0.05)
        return text

    def cursor_is_shown(self) -> bool:
        return self._do("display-message", "-p", "#{cursor_flag} #{alternate_on}").split() == ["1", "0"]

    def pid(self) -> int:
        """Of the command: the one child of the shell."""
        shell = self._do("display-message", "-p", "#{pane_pid}").strip()
        return int(subprocess.run(["pgrep", "-P", shell], capture_output=True, text=True, check=True).stdout)

    def close(self) -> None:
        subprocess.run([*self._base, "kill-server"], capture_output=True, check=False)

    def _do(self, *words: str) -> str:
        return subprocess.run([*self._base, *words], capture_output=True, text=True, check=True).stdout


Start = Callable[[str], Tmux]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    windows: list[Tmux] = []

    def begin(arguments: str) -> Tmux:
        command = f"cd {shlex.quote(str(ROOT))} && TERM=screen-256color {shlex.quote(sys.executable)} -m tui {arguments}"
        windows.append(Tmux(tmp_path / f"s{len(windows)}", command))
        return windows[-1]

    yield begin
    for window in windows:
        window.close()


def test_start_pause_resize_stop_and_quit(start: Start, tmp_path: Path) -> None:
    log = tmp_path / "run.jsonl"
    window = start(f"demo --out {log}")
    window.wait("● LOADING", "2 attainment floor", "4 TPOT")
    window.keys("Space")
    window.wait(", the load goes on", "● LOADING")
    window.keys("Space")
    window.wait("● LOADING", gone="VIEW at")
    window.resize(80, 24)
    window.wait("2 attainment floor", "TPOT p95", gone="4 TPOT")
    window.resize(50, 10)
    window.wait("50x10 is too small", "LOADING")
    window.resize(120, 36)
    window.wait("4 TPOT")
    window.keys("x")
    window.wait("■ STOPPED")
    window.keys("q")
    text = window.wait("CODE=130")
    assert "-echo" not in text
    assert window.cursor_is_shown()
    assert '"outcome":"interrupted"' in log.read_text().splitlines()[-1]


def test_sigterm_stops_the_load_and_leaves_a_whole_terminal(start: Start, tmp_path: Path) -> None:
    log = tmp_path / "run.jsonl"
    window = start(f"demo --out {log}")
    window.wait("● LOADING")
    pid = window.pid()
    os.kill(pid, signal.SIGTERM)
    text = window.wait("CODE=130")
    assert "-echo" not in text
    assert window.cursor_is_shown()
    assert '"outcome":"interrupted"' in log.read_text().splitlines()[-1]
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_recorded_run_plays_in_the_same_screens(start: Start) -> None:
    window = start("open screenshots/demo.jsonl")
    window.wait("■ RECORDED", "HOLDS at 17.5 requests/s")
    window.keys("r", ",", ",")
    window.wait("‖ paused at", "2 attainment floor")
    window.keys("Space")
    window.wait("▶ 1x")
    window.keys("f")
    window.wait("peak")
    window.keys("q")
    window.wait("CODE=0")
