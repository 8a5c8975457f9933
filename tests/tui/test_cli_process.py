"""The command as a process of its own: terminals and none, closed and broken streams, signals. The session reaches no server."""

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import threading
import time
import tomllib
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import IO, ClassVar

import pytest

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-m", "tests.tui.cli_fakes"]
PROBE = [*COMMAND, "probe", "http://127.0.0.1:9"]
LIMIT_S = 30


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return {**os.environ, "TERM": "xterm-256color", "XDG_STATE_HOME": str(tmp_path), "FAKE_RUN": "bracket", "FAKE_SCREEN": "1"}


@pytest.fixture
def terminal() -> Iterator[tuple[int, int]]:
    """A pseudo terminal: what the user holds, and what the program is given."""
    ours, theirs = pty.openpty()
    yield ours, theirs
    for number in (ours, theirs):
        with suppress(OSError):
            os.close(number)


def read_all(terminal: tuple[int, int]) -> str:
    """What was written to the terminal, after its program has ended."""
    ours, theirs = terminal
    os.close(theirs)
    text = b""
    with suppress(OSError):  # end of a terminal whose other side is closed
        while chunk := os.read(ours, 65536):
            text += chunk
    return text.decode()


def run_in_terminal(terminal: tuple[int, int], env: dict[str, str], command: list[str] = PROBE) -> tuple[int, str, str]:
    theirs = terminal[1]
    done = subprocess.run(
        command, cwd=ROOT, env=env, stdin=theirs, stderr=theirs, stdout=subprocess.PIPE, timeout=LIMIT_S, check=False
    )
    return done.returncode, done.stdout.decode(), read_all(terminal)


def said_no_screen(text: str) -> list[str]:
    return [line for line in text.splitlines() if "No screen" in line]


def test_in_a_terminal_the_screen_is_shown_and_the_verdict_printed_after_it(terminal: tuple[int, int], env: dict[str, str]) -> None:
    code, out, screen = run_in_terminal(terminal, env)
    assert (code, screen) == (0, "SCREEN\r\n")
    assert out.startswith("VERDICT bracket\nlog /")


@pytest.mark.parametrize("option", ["--headless", "--quiet"])
def test_in_a_terminal_the_screen_can_be_declined(terminal: tuple[int, int], env: dict[str, str], option: str) -> None:
    code, out, err = run_in_terminal(terminal, env, [*PROBE, option])
    assert (code, out.splitlines()[0]) == (0, "VERDICT bracket")
    assert "SCREEN" not in err
    assert "No screen" not in err
    assert "\x1b" not in err


@pytest.mark.parametrize(("term", "why"), [("dumb", "TERM is dumb"), (None, "TERM is not set"), ("", "TERM is not set")])
def test_a_terminal_that_cannot_draw(terminal: tuple[int, int], env: dict[str, str], term: str | None, why: str) -> None:
    if term is None:
        del env["TERM"]
    else:
        env["TERM"] = term
    code, out, err = run_in_terminal(terminal, env)
    assert (code, out.splitlines()[0]) == (0, "VERDICT bracket")
    assert [line for line in err.splitlines() if "No screen" in line] == [
        f"No screen, because {why}; the run prints lines instead."
    ]
    assert "\x1b" not in err


@pytest.mark.parametrize(
    ("redirection", "why"),
    [
        ("</dev/null", "stdin is not a terminal"),
        ("2>{file}", "stderr is not a terminal"),
        ("<&-", "stdin is closed"),
        ("0<&- 1>&-", "stdin is closed"),
    ],
)
def test_no_terminal_on_one_side(
    terminal: tuple[int, int], env: dict[str, str], tmp_path: Path, redirection: str, why: str
) -> None:
    """The other streams are a terminal; it goes on headless, after one line that says so."""
    errors = tmp_path / "errors"
    command = f'"$@" {redirection.format(file=errors)}; echo "code $?" >>{tmp_path / "code"}'
    _, out, screen = run_in_terminal(terminal, env, ["sh", "-c", command, "sh", *PROBE])
    err = errors.read_text() if errors.exists() else screen
    assert (tmp_path / "code").read_text() == "code 0\n"
    assert [line for line in err.splitlines() if "No screen" in line] == [
        f"No screen, because {why}; the run prints lines instead."
    ]
    assert "Traceback" not in err
    assert out.startswith("VERDICT bracket") or "1>&-" in redirection


def test_closed_streams_do_not_become_files(env: dict[str, str], tmp_path: Path) -> None:
    """With 0, 1 and 2 closed, the run file would otherwise be number 0 to 2, and output would go into it."""
    path = tmp_path / "run.jsonl"
    shell = f'"$@" <&- >&- 2>&-; echo "code $?" >{tmp_path / "code"}'
    subprocess.run(["sh", "-c", shell, "sh", *PROBE, "--out", str(path)], cwd=ROOT, env=env, timeout=LIMIT_S, check=True)
    assert (tmp_path / "code").read_text() == "code 0\n"
    assert [json.loads(line)["type"] for line in path.read_text().splitlines()] == [*("run_started", "check", "note", "run_ended")]


@pytest.mark.parametrize("setting", ["</dev/null", "<&-", "TERM=dumb", "TERM="])
def test_open_without_a_terminal_is_one_line(terminal: tuple[int, int], env: dict[str, str], tmp_path: Path, setting: str) -> None:
    prefix, suffix = (f"env {setting}", "") if "=" in setting else ("", setting)
    command = f'{prefix} "$@" {suffix}; echo "code $?" >{tmp_path / "code"}'
    _, out, err = run_in_terminal(terminal, env, ["sh", "-c", command, "sh", *COMMAND, "open", "last"])
    assert (out, (tmp_path / "code").read_text()) == ("", "code 2\n")
    assert re.fullmatch(r"Error: open needs a terminal, but (stdin|TERM) is [a-z ]+; `kneescope report last` [^\r\n]*\r\n", err)


@pytest.mark.parametrize("args", [["--help"], ["probe", "--help"], ["--version"]])
def test_a_reader_of_the_help_that_left_causes_no_traceback(env: dict[str, str], args: list[str]) -> None:
    assert into_broken_pipe([*COMMAND, *args], env) == (3, "")


def test_a_reader_of_the_verdict_that_left_changes_nothing(env: dict[str, str]) -> None:
    for options in ([], ["--json", "-"]):
        assert into_broken_pipe([*PROBE, "--quiet", *options], env) == (0, "")


LEAVES_WORDS_UNSAID = """
import sys
import click
from tui.cli.group import Group, run_and_exit

@click.command()
def command() -> int:
    sys.stdout.write("unsaid")
    return 1

run_and_exit(Group("kneescope", commands={"command": command}))
"""


def test_what_nobody_reads_any_more_changes_no_exit_code() -> None:
    ours, theirs = os.pipe()
    os.close(ours)
    with os.fdopen(theirs, "wb") as broken:
        words, env = [sys.executable, "-c", LEAVES_WORDS_UNSAID, "command"], {**os.environ, "PYTHONUNBUFFERED": ""}
        done = subprocess.run(words, stdout=broken, stderr=subprocess.PIPE, cwd=ROOT, env=env, check=False)
    assert (done.returncode, done.stderr) == (1, b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_verdict_that_a_full_disk_does_not_take_is_an_error_and_the_json_is_written(env: dict[str, str], tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    for options in (["--json", str(path)], ["--json", "-"]):
        with open("/dev/full", "wb") as full:
            command = [*PROBE, "--quiet", *options]
            done = subprocess.run(command, cwd=ROOT, env=env, stdout=full, stderr=subprocess.PIPE, timeout=LIMIT_S, check=False)
        assert done.returncode == 3
        assert done.stderr.decode().startswith(
            "Error: The result could not be written to stdout (No space left on device); `kneescope report RUN"
        )
    assert json.loads(path.read_text()) == {"outcome": "bracket"}


def into_broken_pipe(command: list[str], env: dict[str, str]) -> tuple[int, str]:
    read_end, write_end = os.pipe()
    os.close(read_end)
    try:
        done = subprocess.run(
            command,
            cwd=ROOT,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=write_end,
            stderr=subprocess.PIPE,
            timeout=LIMIT_S,
            check=False,
        )
    finally:
        os.close(write_end)
    return done.returncode, done.stderr.decode()


def loading(env: dict[str, str], how: str, *options: str) -> tuple[subprocess.Popen[bytes], IO[bytes]]:
    """A headless run that is in the middle of its load, and its stderr."""
    process = subprocess.Popen(
        [*PROBE, "--headless", *options],
        cwd=ROOT,
        env=env | {"FAKE_RUN": how},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stderr is not None
    while b"still loading" not in (line := process.stderr.readline()):
        assert line, "it ended before it loaded"
    return process, process.stderr


def test_nobody_reads_the_progress_any_more_so_the_load_is_stopped(env: dict[str, str], tmp_path: Path) -> None:
    """A run that nobody watches must not go on: `kneescope probe ... 2>&1 | head` ends it."""
    process, errors = loading(env, "hang", "--out", str(tmp_path / "run.jsonl"))
    errors.close()
    assert process.stdout is not None
    out = process.stdout.read().decode()
    assert (process.wait(LIMIT_S), out.splitlines()[0]) == (130, "VERDICT interrupted")
    process.stdout.close()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_stops_the_load_and_keeps_what_is_there(env: dict[str, str], tmp_path: Path, number: signal.Signals) -> None:
    log, result = tmp_path / "run.jsonl", tmp_path / "result.json"
    process, _ = loading(env, "hang", "--out", str(log), "--json", str(result))
    process.send_signal(number)
    out, err = process.communicate(timeout=LIMIT_S)
    assert (process.returncode, out.decode()) == (130, f"VERDICT interrupted\nlog {log}\n")
    assert b"Traceback" not in err
    assert json.loads(log.read_text().splitlines()[-1])["answer"]["outcome"] == "interrupted"
    assert json.loads(result.read_text()) == {"outcome": "interrupted"}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_second_signal_leaves_at_once(env: dict[str, str], number: signal.Signals) -> None:
    process, errors = loading(env, "stubborn")
    process.send_signal(number)
    while b"stop was asked for" not in (line := errors.readline()):  # two signals of one kind can merge into one
        assert line
    process.send_signal(number)
    out, err = process.communicate(timeout=LIMIT_S)
    assert (process.returncode, out) == (130, b"")
    assert b"Traceback" not in err


def test_a_hangup_that_the_caller_ignores_is_ignored(env: dict[str, str]) -> None:
    """nohup: the run goes on when the terminal has gone."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        process, errors = loading(env, "hang")
    finally:
        signal.signal(signal.SIGHUP, before)
    process.send_signal(signal.SIGHUP)
    for _ in range(5):
        assert b"still loading" in errors.readline()
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=LIMIT_S)[0].startswith(b"VERDICT interrupted\n")


def report_of(log: Path, env: dict[str, str]) -> str:
    """What the real command says of a run's file."""
    command = [sys.executable, "-m", "tui", "report", str(log)]
    return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, timeout=LIMIT_S, check=True).stdout.decode()


def test_a_run_that_is_going_is_reported_as_such_and_one_that_was_killed_is_not(env: dict[str, str], tmp_path: Path) -> None:
    log = tmp_path / "run.jsonl"
    process, _ = loading(env, "hang", "--out", str(log))
    assert report_of(log, env).startswith("The run is still going; this is its state so far.")
    process.kill()
    process.communicate(timeout=LIMIT_S)
    assert process.returncode == -signal.SIGKILL
    assert report_of(log, env).startswith("The run ended without an answer and without a reason")


def test_a_disk_that_fills_up_ends_the_run_and_keeps_what_is_there(env: dict[str, str], tmp_path: Path) -> None:
    """A limit on the size of files fails a write as a full disk does."""
    log = tmp_path / "run.jsonl"
    shell = ["sh", "-c", 'ulimit -f 8; exec "$@"', "sh", *PROBE, "--headless", "--out", str(log)]
    done = subprocess.run(shell, cwd=ROOT, env=env | {"FAKE_RUN": "hang"}, capture_output=True, timeout=LIMIT_S, check=False)
    assert done.returncode == 3
    assert f"The run could not be written to {log} any more: the disk is full." in done.stderr.decode()
    assert log.read_bytes().endswith(b"\n")
    assert report_of(log, env)


def test_a_run_whose_first_line_could_not_be_written_names_no_file(env: dict[str, str], tmp_path: Path) -> None:
    log = tmp_path / "run.jsonl"
    shell = ["sh", "-c", 'ulimit -f 0; exec "$@"', "sh", *PROBE, "--headless", "--out", str(log)]
    done = subprocess.run(shell, cwd=ROOT, env=env, capture_output=True, timeout=LIMIT_S, check=False)
    assert done.returncode == 3
    assert "the disk is full" in done.stderr.decode()
    assert not log.exists()
    assert str(log) not in done.stdout.decode()


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere")
def test_a_folder_that_cannot_be_written_is_refused_before_anything_is_sent(env: dict[str, str], tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    done = subprocess.run(
        [*PROBE, "--headless", "--out", str(tmp_path / "run.jsonl")], cwd=ROOT, env=env, capture_output=True, check=False
    )
    tmp_path.chmod(0o700)
    assert done.returncode == 2
    assert b"cannot be written: Permission denied" in done.stderr


class Gateway(BaseHTTPRequestHandler):
    """A server that lets nobody in without the key, and keeps what it was shown."""

    shown: ClassVar[list[str | None]] = []

    def do_GET(self) -> None:
        self.shown.append(self.headers["Authorization"])
        let_in = self.headers["Authorization"] == "Bearer sk-TESTSECRET"
        body = b'{"data": [{"id": "one"}, {"id": "two"}]}' if let_in else b'{"error": "Unauthorized"}'
        self.send_response(200 if let_in else 401)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


def test_key_and_model_are_asked_for_in_a_terminal_which_never_shows_the_key(
    terminal: tuple[int, int], env: dict[str, str], tmp_path: Path
) -> None:
    ours, theirs = terminal
    log = tmp_path / "run.jsonl"
    Gateway.shown.clear()
    env.pop("KNEESCOPE_API_KEY", None)
    with ThreadingHTTPServer(("127.0.0.1", 0), Gateway) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        command = [*COMMAND, "probe", f"http://127.0.0.1:{server.server_port}", "--out", str(log)]
        process = subprocess.Popen(command, cwd=ROOT, env=env, stdin=theirs, stderr=theirs, stdout=subprocess.PIPE)
        said = read_until(ours, b"go on without one)") + b"|"
        os.write(ours, b"sk-TESTSECRET\n")
        said += read_until(ours, b"Number of the model")
        os.write(ours, b"2\n")
        out, _ = process.communicate(timeout=LIMIT_S)
        server.shutdown()
    said += read_all(terminal).encode()
    assert (process.returncode, out.decode().splitlines()[0]) == (0, "VERDICT bracket")
    assert b"requires an API key (401)" in said
    assert b"TESTSECRET" not in said + out + log.read_bytes()
    assert Gateway.shown[0] is None
    assert "Bearer sk-TESTSECRET" in Gateway.shown
    assert '"model":"two"' in log.read_text()


def read_until(descriptor: int, words: bytes) -> bytes:
    text, deadline = b"", time.monotonic() + LIMIT_S
    while words not in text:
        assert time.monotonic() < deadline, text[-2000:]
        if select.select([descriptor], [], [], 0.05)[0]:
            text += os.read(descriptor, 65536)
    return text


INTERRUPTED_BY_IMPORT = """
import os, signal, sys

class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == moment:
            os.kill(os.getpid(), number)

moment, number = sys.argv.pop(1), int(sys.argv.pop(1))
sys.meta_path.insert(0, Interrupt())
from tui.__main__ import main
main()
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("module", ["tui.cli.commands", "click", "core.errors", "tui.cli.options", "tui.cli.probe"])
def test_an_interrupt_while_it_is_still_being_imported_is_quiet(env: dict[str, str], module: str, number: int) -> None:
    command = [sys.executable, "-c", INTERRUPTED_BY_IMPORT, module, str(int(number)), "probe", "http://127.0.0.1:9"]
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_an_interrupt_that_the_caller_ignores_stays_ignored(env: dict[str, str]) -> None:
    command = [sys.executable, "-c", INTERRUPTED_BY_IMPORT, "click", str(int(signal.SIGINT)), "--version"]
    ignoring = "import signal, os, sys; signal.signal(signal.SIGINT, signal.SIG_IGN); os.execv(sys.argv[1], sys.argv[1:])"
    done = subprocess.run(
        [sys.executable, "-c", ignoring, *command], cwd=ROOT, env=env, capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    assert (done.returncode, done.stdout[:10], done.stderr) == (0, "kneescope ", "")


def test_the_installed_command_is_the_one_that_is_quiet() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert project["project"]["scripts"] == {"kneescope": "tui.__main__:main"}
