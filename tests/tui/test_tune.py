"""`kneescope tune`: what is refused before anything starts, the table of settings, and that no server stays, however it ends."""

import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from core.facts import fact
from core.results import Answer, Knee
from core.run.events import RunEnded
from tests.tui.cli_fakes import FakeSession
from tui.cli import probe
from tui.cli.commands import cli
from tui.terminal.signals import SIGNALS

ROOT = Path(__file__).parents[2]
SERVED = ROOT / "tests/core/tune/served.py"
LIMIT_S = 90
SECRET = "sk-TESTSECRET"


@pytest.fixture(autouse=True)
def state(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setattr(probe, "Session", FakeSession)
    monkeypatch.setattr(FakeSession, "made", [])
    monkeypatch.setattr(FakeSession, "how", "bracket")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state/kneescope/runs"


def serve(folder: Path, kind: str = "plain", more: str = "{n}") -> str:
    folder.mkdir(exist_ok=True)
    return f"KEY={SECRET} exec {shlex.join([sys.executable, str(SERVED)])} {{port}} {shlex.quote(str(folder))} {kind} {more}"


def tune(*args: str) -> Result:
    return CliRunner().invoke(cli, ("tune", *args))


def data_of(*args: str, code: int = 0) -> dict[str, Any]:
    result = tune(*args, "--json", "-", "--quiet")
    assert result.exit_code == code, result.stderr
    data: dict[str, Any] = json.loads(result.stdout)
    assert (data["kind"], data["schema"]) == ("tune", 2)
    return data


def left(folder: Path) -> list[int]:
    """Processes of a server that are still there."""
    found = []
    for path in folder.glob("pid-*"):
        try:
            os.kill(int(path.name.removeprefix("pid-")), 0)
        except ProcessLookupError:
            continue
        found.append(int(path.name.removeprefix("pid-")))
    return found


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (("--try", "n=1,2"), "Missing option '--serve'"),
        (("--serve", "x {port} {n}"), "Missing option '--try'"),
        (("--serve", "x {port} {n}", "--try", "m=1"), "--try m would change nothing"),
        (("--serve", "x {port} {n} {m}", "--try", "n=1"), "--serve has a place {m}"),
        (("--serve", "x {port} {n}", "--try", "n=1,1"), "1 is in the list twice"),
        (("--serve", "x {n}", "--try", "n=1"), "address of the server is missing"),
        (("--serve", "x {n}", "--try", "n=1", "--url", "ftp://a"), "is not a server address"),
        (("--serve", "x {port} {n}", "--try", "n=1", "--ttft", "5"), "--ttft"),
        (("--serve", "x {port} {n}", "--try", "n=1", "--hold", "5"), "No such option"),
    ],
)
def test_what_cannot_be_tried_is_refused_before_anything_starts(args: tuple[str, ...], sentence: str) -> None:
    result = tune(*args)
    assert result.exit_code == 2
    assert sentence in result.stderr
    assert FakeSession.made == []


def test_a_dry_run_says_settings_and_time_and_starts_nothing(tmp_path: Path) -> None:
    args = ("--serve", serve(tmp_path / "s", more="{n} {m}"), "--try", "n=1,2", "--try", "m=a,b", "--dry-run")
    result = tune(*args)
    assert result.exit_code == 0
    assert result.stdout.splitlines()[:5] == ["4 settings:", "  n=1, m=a", "  n=1, m=b", "  n=2, m=a", "  n=2, m=b"]
    assert "Expected time: 10 min to 15 min for 4 settings" in result.stdout
    data = data_of(*args)
    assert data["dry_run"] is True
    assert data["message_fact"]["figures"] == {"settings": 4, "low_s": 616.0, "high_s": 884.0}
    assert [each["values"] for each in data["tried"]][1] == {"n": "1", "m": "b"}
    assert data["settings"] == []
    assert data_of(*args, "--budget", "90s")["message_fact"]["figures"]["low_s"] == 308.0
    assert FakeSession.made == []
    assert list((tmp_path / "s").iterdir()) == []


def test_each_setting_has_its_server_its_run_file_and_the_same_draw(
    tmp_path: Path, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = data_of("--serve", serve(tmp_path / "s"), "--try", "n=1,2", "--seed", "5", "--cost", "2", "--tp", "2")
    first, second = (session.config for session in FakeSession.made)
    assert [config.method.one_draw for config in (first, second)] == [True, True]
    assert (first.method.seed, second.method.seed) == (5, 5)
    assert (first.method.beat_rps, second.method.beat_rps) == (None, 4.0), "what each GPU of the best carries"
    assert first.target.url != second.target.url
    assert left(tmp_path / "s") == []
    assert [each["label"] for each in data["settings"]] == ["n=1", "n=2"]
    one = data["settings"][0]
    assert (one["pass_rps"], one["gpus"], one["pass_per_gpu_rps"], one["against_best"]) == (8.0, 2, 4.0, "best")
    assert one["price_per_hour"] == 4.0
    assert one["ready_s"] is not None
    assert data["settings"][1]["against_best"] == "not_apart"
    files = sorted(state.glob("*.jsonl"))
    assert sorted(each["run_log"] for each in data["settings"]) == list(map(str, files))
    assert {path.name.split("-")[1] for path in files} == {"n_1", "n_2"}


def test_the_command_is_written_down_nowhere(tmp_path: Path, state: Path) -> None:
    file = tmp_path / "result.json"
    result = tune("--serve", serve(tmp_path / "s"), "--try", "n=1", "--json", str(file))
    assert result.exit_code == 0
    texts = [result.output, file.read_text(), *(path.read_text() for path in state.iterdir())]
    assert len(texts) == 3
    assert not any(SECRET in text or "served.py" in text for text in texts)
    assert FakeSession.made[0].command.startswith("kneescope tune --serve '...' --try n=1")


def test_a_size_that_is_tried_is_the_size_of_the_replica(tmp_path: Path) -> None:
    data = data_of("--serve", serve(tmp_path / "s", more="{tp}"), "--try", "tp=1,2")
    assert [(each["label"], each["gpus"], each["pass_per_gpu_rps"]) for each in data["settings"]] == [
        ("tp=1", 1, 8.0),
        ("tp=2", 2, 4.0),
    ]
    assert data["best"] == "tp=1"


def test_a_command_that_ends_is_told_with_its_last_words_on_the_screen_alone(tmp_path: Path, state: Path) -> None:
    result = tune("--serve", serve(tmp_path / "s", "ends"), "--try", "n=1,2")
    assert result.exit_code == 3
    assert "  no  [31mroom" in result.stderr
    assert "\x1b" not in result.output
    assert "None of 2 settings has an answer" in result.stdout
    assert "n=2: the command of --serve ended with exit code 7 before its server answered" in result.stdout
    assert "room" not in result.stdout
    assert not state.exists()


def test_a_server_that_is_lost_while_it_is_measured_has_no_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FakeSession, "how", "hang")
    data = data_of("--serve", serve(tmp_path / "s", "once"), "--try", "n=1,2", code=3)
    assert [each["outcome"] for each in data["settings"]] == ["server_lost", "server_lost"]
    assert data["settings"][0]["message_fact"] == {"code": "serve_lost", "figures": {"exit_code": 5}, "of": []}


def test_a_server_that_was_there_before_is_not_taken_for_a_setting(tmp_path: Path) -> None:
    folder = tmp_path / "other"
    folder.mkdir()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    other = subprocess.Popen([sys.executable, str(SERVED), str(port), str(folder), "plain"])
    try:
        wait_for(lambda: (folder / "listening").exists())
        result = tune("--serve", "true {n}", "--url", f"http://127.0.0.1:{port}", "--try", "n=1")
    finally:
        other.kill()
        other.wait()
    assert result.exit_code == 3
    assert f"Something answers at http://127.0.0.1:{port} before" in result.stderr
    assert FakeSession.made == []


def test_the_table_has_the_best_first_and_says_who_is_not_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    knees = {"1": (2.0, 2.84), "2": (4.0, 5.68), "3": (4.0, 8.0)}

    async def run(self: FakeSession) -> Answer:
        self._start()
        low, high = knees[str(len(FakeSession.made))]
        notes = (fact("beaten", fail_rps=2.84, best_rps=4.0),) if low == 2.0 else ()
        answer = Answer(outcome="bracket", message="As told.", knee=Knee(pass_rps=low, first_fail_rps=high, notes=notes))
        self._emit(RunEnded(t=time.monotonic(), answer=answer))
        return answer

    monkeypatch.setattr(FakeSession, "run", run)
    result = tune("--serve", serve(tmp_path / "s"), "--try", "n=1,2,3", "--cost", "3.6")
    lines = result.stdout.splitlines()
    assert lines[0].split("  ")[1] == "setting"
    assert [line.split()[0] for line in lines[1:4]] == ["n=3", "n=2", "n=1"]
    assert [line.split("  ")[-1] for line in lines[1:4]] == ["best", "not told apart", "worse"]
    assert "n=3 is the best: it holds 4.00 requests/s and fails at 8.00; not told apart from it: n=2." in result.stdout
    assert "· n=1: dropped: it fails at 2.84 requests/s, and the best so far holds 4.00" in result.stdout


def wait_for(true: Callable[[], bool]) -> None:
    until = time.monotonic() + LIMIT_S
    while not true():
        assert time.monotonic() < until
        time.sleep(0.01)


@pytest.mark.parametrize(
    ("number", "kind"),
    [
        *((number, kind) for number in (*SIGNALS, signal.SIGKILL) for kind in ("plain", "hush")),
        (signal.SIGKILL, "family"),  # its grace takes ten seconds; tests/core/tune/test_server.py has the others with a short one
    ],
)
def test_no_server_stays_behind_whatever_ends_it(tmp_path: Path, number: signal.Signals, kind: str) -> None:
    """While it is measured, and while it is still waited for (hush)."""
    folder = tmp_path / "s"
    env = {**os.environ, "XDG_STATE_HOME": str(tmp_path), "FAKE_RUN": "hang"}
    command = [sys.executable, "-m", "tests.tui.cli_fakes", "tune", "--serve", serve(folder, kind), "--try", "n=1,2"]
    with (tmp_path / "said").open("wb") as said:
        process = subprocess.Popen(
            command, cwd=ROOT, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=said, start_new_session=True
        )
    try:
        begun = b"still loading" if kind != "hush" else b"setting 1 of 2"
        wait_for(lambda: begun in (tmp_path / "said").read_bytes() and bool(left(folder)))
        os.killpg(process.pid, number)
        out, _ = process.communicate(timeout=LIMIT_S)
    finally:
        process.kill()
    wait_for(lambda: not left(folder))
    if number is not signal.SIGKILL:
        assert process.returncode == 130
        assert len(list(folder.glob("pid-*"))) == 1, "the second setting was not started"
        assert (b"n=2: not run" in out) == (kind != "hush")
