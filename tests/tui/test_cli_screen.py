"""The screen in a real pseudo terminal: every way of ending leaves the terminal whole, and the verdict after it."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
LIMIT_S = 30.0


class Terminal:
    """A pseudo terminal with kneescope in it, and everything that was written to it."""

    def __init__(
        self,
        folder: Path,
        how: str,
        *options: str,
        size: tuple[int, int] = (80, 24),
        term: str = "xterm-256color",
        words: Sequence[str] | None = None,
        environ: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.ours, self.theirs = pty.openpty()
        fcntl.ioctl(self.theirs, termios.TIOCSWINSZ, struct.pack("HHHH", size[1], size[0], 0, 0))
        self.line_mode: list[Any] = termios.tcgetattr(self.theirs)
        self.written = b""
        self.log = folder / "run.jsonl"
        command = ["probe", "http://127.0.0.1:9", "--out", str(self.log), *options] if words is None else words
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.tui.cli_fakes", *command],
            cwd=ROOT,
            env={**os.environ, "TERM": term, "COLORTERM": "", "FAKE_RUN": how, "KNEESCOPE_API_KEY": "sk-TESTSECRET", **environ},
            stdin=self.theirs,
            stderr=self.theirs,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )

    def read_until(self, there: Callable[[], bool]) -> None:
        """Take in what is written until `there`; fails when that never comes."""
        deadline = time.monotonic() + LIMIT_S
        while not there():
            assert time.monotonic() < deadline, self.written[-2000:]
            if select.select([self.ours], [], [], 0.05)[0]:
                with suppress(OSError):
                    self.written += os.read(self.ours, 65536)

    def open(self) -> None:
        """Show the run that was recorded."""
        command = [sys.executable, "-m", "tests.tui.cli_fakes", "open", str(self.log)]
        self.written = b""
        env = {**os.environ, "TERM": "xterm-256color"}
        self.process = subprocess.Popen(
            command, cwd=ROOT, env=env, stdin=self.theirs, stderr=self.theirs, stdout=subprocess.PIPE, start_new_session=True
        )

    def shown(self, text: bytes) -> None:
        self.read_until(lambda: text in self.written)

    def ended(self) -> tuple[int, str]:
        """Exit code and stdout, once the process has ended and its last output is read."""
        self.read_until(lambda: self.process.poll() is not None)
        while select.select([self.ours], [], [], 0)[0]:
            self.written += os.read(self.ours, 65536)
        assert self.process.stdout is not None
        with self.process.stdout as stdout:
            return self.process.returncode, stdout.read().decode()

    def whole(self) -> bool:
        """Whether every mode that was switched on is off again, the cursor is back, and the line mode is as before."""
        modes = {int(number): state for number, state in re.findall(rb"\x1b\[\?(\d+)([hl])", self.written)}
        assert modes.get(1049), "no screen was shown"
        cursor, wrap = modes.pop(25), modes.pop(7, b"h")
        return set(modes.values()) == {b"l"} and cursor == wrap == b"h" and termios.tcgetattr(self.theirs) == self.line_mode

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()
        for number in (self.ours, self.theirs):
            with suppress(OSError):
                os.close(number)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Terminal]]:
    """Starts kneescope with a session that ends as told, and waits until its screen shows a line of the run."""
    opened: list[Terminal] = []

    def begin(how: str, *options: str, **terminal: Any) -> Terminal:
        opened.append(Terminal(tmp_path, how, *options, **terminal))
        return opened[-1]

    yield begin
    for terminal in opened:
        terminal.close()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_stops_the_load_and_leaves(start: Callable[..., Terminal], number: signal.Signals) -> None:
    terminal = start("hang")
    terminal.shown(b"still loading")
    terminal.process.send_signal(number)
    assert terminal.ended() == (130, f"VERDICT interrupted\nlog {terminal.log}\n")
    assert terminal.whole()
    assert '"interrupted"' in terminal.log.read_text().splitlines()[-1]


def test_interrupting_twice_leaves(start: Callable[..., Terminal]) -> None:
    terminal = start("stubborn")
    terminal.shown(b"still loading")
    terminal.process.send_signal(signal.SIGINT)
    terminal.shown(b"stop was asked")
    terminal.process.send_signal(signal.SIGINT)
    assert terminal.ended() == (130, "")
    assert terminal.whole()


@pytest.mark.parametrize("key", [b"q", b"\x03"])
def test_keys_leave(start: Callable[..., Terminal], key: bytes) -> None:
    terminal = start("hang")
    terminal.shown(b"still loading")
    os.write(terminal.ours, key)
    code, out = terminal.ended()
    assert (code, out.splitlines()[0]) == (130, "VERDICT interrupted")
    assert terminal.whole()


def test_after_the_answer_q_leaves_with_its_code(start: Callable[..., Terminal]) -> None:
    terminal = start("bracket")
    terminal.shown(b"and that was all")
    os.write(terminal.ours, b"q")
    assert terminal.ended() == (0, f"VERDICT bracket\nlog {terminal.log}\n")
    assert terminal.whole()


def test_json_on_stdout_beside_the_screen(start: Callable[..., Terminal]) -> None:
    terminal = start("bracket", "--json", "-")
    terminal.shown(b"and that was all")
    os.write(terminal.ours, b"q")
    assert terminal.ended() == (0, '{"outcome": "bracket"}\n')
    assert terminal.whole()
    assert b"VERDICT bracket" in terminal.written


def test_a_run_that_breaks_off_leaves_the_screen_usable(start: Callable[..., Terminal]) -> None:
    terminal = start("breaks")
    terminal.shown(b"generator could not be")
    assert terminal.process.poll() is None
    os.write(terminal.ours, b"q")
    code, out = terminal.ended()
    assert (code, out.splitlines()[0]) == (3, "VERDICT none")
    assert terminal.whole()
    assert terminal.written.endswith(b"Error: The generator could not be started.\r\n")


def test_a_screen_that_fails_stops_the_load_and_keeps_the_results(start: Callable[..., Terminal]) -> None:
    terminal = start("crash")
    code, out = terminal.ended()
    assert (code, out.splitlines()[0]) == (3, "VERDICT interrupted")
    assert terminal.whole()
    assert b"RuntimeError" in terminal.written
    assert b"sk-TESTSECRET" not in terminal.written


def test_a_terminal_that_goes_away_ends_the_run(start: Callable[..., Terminal]) -> None:
    """No SIGHUP comes here: the program is the leader of a session without a controlling terminal."""
    terminal = start("hang")
    terminal.shown(b"still loading")
    os.close(terminal.theirs)
    os.close(terminal.ours)
    assert terminal.process.wait(LIMIT_S) == 130
    assert '"interrupted"' in terminal.log.read_text().splitlines()[-1]


def test_a_recorded_run_is_shown(start: Callable[..., Terminal]) -> None:
    terminal = start("bracket")
    terminal.shown(b"and that was all")
    os.write(terminal.ours, b"q")
    terminal.ended()
    terminal.open()
    terminal.shown(b"and that was all")
    os.write(terminal.ours, b"q")
    assert terminal.ended() == (0, "")
    assert terminal.whole()


def test_the_screen_has_the_size_of_the_terminal_and_not_of_stdout(start: Callable[..., Terminal]) -> None:
    """stdout is a pipe here, which has no size."""
    terminal = start("hang", size=(120, 36))
    terminal.shown(b"still loading")
    terminal.written = b""
    terminal.shown(b"\x1b[35;")  # the event line, whose clock goes on, is the last row but one
    os.write(terminal.ours, b"q")
    assert terminal.ended()[0] == 130


def set_peak(terminal: Terminal, peak: bytes) -> None:
    """Types it once the screen with the field is there, as people do."""
    os.write(terminal.ours, b"f")
    terminal.shown(b"fewer replicas")
    os.write(terminal.ours, peak)
    terminal.shown(peak + b".0")  # of what stands there only the words that changed are written again


def test_a_fleet_that_was_set_on_the_screen_is_in_the_results(start: Callable[..., Terminal]) -> None:
    terminal = start("bracket")
    terminal.shown(b"and that was all")
    set_peak(terminal, b"80")
    os.write(terminal.ours, b"q")
    assert terminal.ended() == (0, f"VERDICT bracket\nlog {terminal.log}\npeak 80\n")
    terminal.open()
    terminal.shown(b"and that was all")
    set_peak(terminal, b"90")
    os.write(terminal.ours, b"q")
    assert terminal.ended() == (0, f"VERDICT bracket\nlog {terminal.log}\npeak 90\n")


@pytest.mark.parametrize(
    ("term", "green"),
    [("xterm", rb"\x1b\[1;92;[0-9;]*m.{0,20}HOLDS"), ("xterm-256color", rb"38;5;\d+[0-9;]*m.{0,20}HOLDS")],
)
def test_what_holds_has_a_colour_on_every_terminal(start: Callable[..., Terminal], term: str, green: bytes) -> None:
    terminal = start("bracket", term=term)
    terminal.shown(b"HOLDS")
    assert re.search(green, terminal.written)
    os.write(terminal.ours, b"q")
    assert terminal.ended()[0] == 0


@pytest.mark.parametrize("term", ["xterm", "xterm-256color"])
def test_where_no_color_is_set_no_colour_is_sent_and_what_it_told_apart_still_is(start: Callable[..., Terminal], term: str) -> None:
    terminal = start("bracket", term=term, environ={"NO_COLOR": "1", "COLORTERM": "truecolor"})
    terminal.shown(b"HOLDS")
    os.write(terminal.ours, b"f")
    terminal.shown(b"fewer replicas")
    os.write(terminal.ours, b"q")
    assert terminal.ended()[0] == 0
    assert sent_styles(terminal) == {0, 1, 2, 7}


def test_nor_before_a_run(start: Callable[..., Terminal], tmp_path: Path) -> None:
    terminal = start("bracket", words=(), environ={"NO_COLOR": "1", "XDG_CONFIG_HOME": str(tmp_path), "COLORTERM": "truecolor"})
    terminal.shown(b"NOT CHECKED")
    terminal.shown(b"^o")
    os.write(terminal.ours, b"\x03")
    terminal.ended()
    assert sent_styles(terminal) <= {0, 1, 2, 7}


def sent_styles(terminal: Terminal) -> set[int]:
    """Every number that was sent to set how text looks: 1 bold, 2 dim, 7 reversed; colours are 30 to 49 and 90 to 107."""
    found: list[bytes] = re.findall(rb"\x1b\[([0-9;:]*)m", terminal.written)
    return {int(number) for numbers in found for number in re.split(rb"[;:]", numbers) if number}
