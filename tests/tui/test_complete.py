"""What a shell completes, by the protocol that its script speaks: a word of the line in two variables, an answer on stdout."""

import io
import os
import shutil
import subprocess
import sys
from contextlib import redirect_stdout
from pathlib import Path

import click
import pytest
from msgspec.structs import replace

from core import history
from core.run.log import RunLog, default_path
from tests.core.run.events import started
from tui.cli.commands import cli
from tui.cli.complete import NEWEST_RUNS

ROOT = Path(__file__).parents[2]
SHELLS = ("bash", "zsh", "fish")
OF_RUNS = {"run", "runs", "a", "b", "old", "new", "others"}
"""How an argument is called that is a recorded run."""


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """A state folder with more runs than are offered."""
    runs = tmp_path / "kneescope" / "runs"
    runs.mkdir(parents=True)
    for day in range(1, 26):
        (runs / f"202601{day:02}T000000Z-m-1.jsonl").touch()
    (runs / "20260301T000000Z-a b-1.jsonl").touch()
    return tmp_path


def ask(shell: str, *words: str, state: Path, instruction: str = "complete") -> tuple[int, str]:
    """The exit code and what is answered; the last word is being typed."""
    line = [word.replace(" ", "\\ ") for word in words]
    at = line[-1] if shell == "fish" else str(len(line))
    env = {"COMP_WORDS": " ".join(["kneescope", *line]), "COMP_CWORD": at, "_KNEESCOPE_COMPLETE": f"{shell}_{instruction}"}
    raw = io.BytesIO()
    out = io.TextIOWrapper(raw, write_through=True)
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out):
        for name, value in {**env, "XDG_STATE_HOME": str(state)}.items():
            patch.setenv(name, value)
        with pytest.raises(SystemExit) as end:
            cli.main()
    assert isinstance(end.value.code, int)
    return end.value.code, raw.getvalue().decode()


def offered(shell: str, *words: str, state: Path) -> list[tuple[str, str]]:
    """Kind and value of each thing that the shell is offered."""
    code, out = ask(shell, *words, state=state)
    assert code == 0
    lines = out.splitlines()
    if shell == "zsh":
        return list(zip(lines[::3], lines[1::3], strict=False))
    return [(kind, value.split("\t")[0]) for kind, _, value in (line.partition(",") for line in lines)]


def plain(shell: str, *words: str, state: Path) -> list[str]:
    return [value for kind, value in offered(shell, *words, state=state) if kind == "plain"]


@pytest.mark.parametrize("shell", SHELLS)
def test_commands_options_and_choices(shell: str, state: Path) -> None:
    assert plain(shell, "rep", state=state) == ["replica", "report"]
    assert plain(shell, "probe", "--hea", state=state) == ["--header", "--headroom", "--headless"]
    assert plain(shell, "report", "--format", "k", state=state) == ["keda"]


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("words", [("open",), ("report",), ("what-if",), ("fleet", "--run")], ids="-".join)
def test_a_run_is_last_or_one_of_the_newest_or_any_file(shell: str, words: tuple[str, ...], state: Path) -> None:
    newest = [str(state / f"kneescope/runs/202601{day:02}T000000Z-m-1.jsonl") for day in range(25, 25 - NEWEST_RUNS, -1)]

    assert offered(shell, *words, "la", state=state) == [("file", "la"), ("plain", "last")]
    found = plain(shell, *words, str(state), state=state)
    assert found == newest[: len(found)]
    assert len(found) == NEWEST_RUNS - 1  # of the newest, one has a blank in its name


@pytest.mark.parametrize("shell", SHELLS)
def test_a_run_is_offered_by_its_label_where_that_is_a_word_of_the_shell(
    shell: str, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A label may be somebody else's, and bash puts it on the line as it is: `$(...)` would be run by the next enter."""
    monkeypatch.setenv("XDG_STATE_HOME", str(state))
    for at, label in enumerate(("night-1", "night-1", "nuit-été", "night 2", "n$(touch x)", "n`x`", "n;x", "n'", "n*", "-n", "n&")):
        log = RunLog(default_path("m"))
        log.append(replace(started(), started_utc=f"2026-05-{at + 1:02}T00:00:00Z", label=label))
        log.close()
        history.add(log.path)
    assert plain(shell, "open", "n", state=state) == ["nuit-été", "night-1"]
    assert plain(shell, "open", "-n", state=state) == []


@pytest.mark.parametrize("shell", SHELLS)
def test_a_replica_is_one_of_the_built_in_ones_or_a_file(shell: str, state: Path) -> None:
    assert offered(shell, "demo", "c", state=state) == [("file", "c"), ("plain", "chat")]
    assert plain(shell, "replica", "kv", state=state) == ["kvlim"]


@pytest.mark.parametrize("shell", SHELLS)
def test_files_are_left_to_the_shell(shell: str, state: Path) -> None:
    for words in (("probe", "--profile"), ("demo", "--json"), ("report", "--json")):
        assert offered(shell, *words, "/tm", state=state) == [("file", "/tm")]


@pytest.mark.parametrize("shell", SHELLS)
def test_a_line_that_is_wrong_so_far_is_answered_with_nothing_to_read(shell: str, state: Path) -> None:
    assert plain(shell, "probe", "--ttft", "800", "--out", "x", "http://h", "--arrival-c", state=state) == ["--arrival-cv"]
    assert plain(shell, "nonsense", "x", state=state) == []


@pytest.mark.parametrize("shell", SHELLS)
def test_the_script_is_printed(shell: str, state: Path) -> None:
    code, script = ask(shell, "", state=state, instruction="source")
    assert code == 0
    assert f"_KNEESCOPE_COMPLETE={shell}_complete" in script


def test_what_no_shell_asks_for_is_an_error_without_a_word(state: Path) -> None:
    assert ask("bash", "", state=state, instruction="else") == (1, "")
    assert ask("nonsense", "", state=state) == (1, "")


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash here")
def test_bash_itself_completes(state: Path) -> None:
    script = f"""
        kneescope() {{ "{sys.executable}" -m tui "$@"; }}
        env() {{ local -x "${{@:1:$#-1}}"; kneescope; }}   # the script starts the command by its name, which here is a function
        eval "$(_KNEESCOPE_COMPLETE=bash_source kneescope)"
        COMP_WORDS=(kneescope open la) COMP_CWORD=2
        _kneescope_completion kneescope 2>/dev/null
        echo "${{COMPREPLY[@]}}"
    """
    done = subprocess.run(
        ["bash", "--norc", "-c", script],
        cwd=ROOT,
        env={**os.environ, "XDG_STATE_HOME": str(state)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout == "last\n", done.stderr


def test_a_completion_imports_neither_the_screen_nor_numpy(state: Path) -> None:
    """It runs at each press of Tab."""
    code = """if True:
        import sys
        from tui.cli.commands import cli
        try:
            cli.main()
        except SystemExit:
            print(sorted({"textual", "rich", "numpy", "httpx", "plotext"} & set(sys.modules)))
    """
    line = {"COMP_WORDS": "kneescope demo c", "COMP_CWORD": "2", "_KNEESCOPE_COMPLETE": "bash_complete"}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env={**os.environ, **line}, capture_output=True, text=True, timeout=30, check=True
    )
    assert done.stdout.splitlines() == ["file,c", "plain,chat", "[]"]


def test_runs_are_looked_for_where_they_are_written(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(state))
    path = default_path("m")
    assert str(path) in plain("bash", "open", str(state), state=state)


def test_every_argument_that_is_a_run_completes_runs() -> None:
    arguments = [
        (command, param)
        for command in cli.commands.values()
        for param in command.params
        if isinstance(param, click.Argument) and param.name in OF_RUNS
    ]
    assert arguments
    for command, param in arguments:
        found = param.shell_complete(click.Context(command), "la")
        assert [item.value for item in found if item.type == "plain"] == ["last"], f"{param.name} of {command.name}"
