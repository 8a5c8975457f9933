"""`kneescope runs`: the table, the JSON, the screen to choose from, and what removes and copies runs."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from msgspec.structs import replace
from rich.cells import cell_len
from textual.widgets import Input, OptionList

from core import RESULT_SCHEMA, history
from core.results import Knee
from core.run import RunLog
from core.run_files import runs_folder
from tests.core.history.conftest import make
from tests.core.run.events import started
from tests.tui.cli_fakes import FakeSession
from tests.tui.run_samples import NOW_S, listed
from tui import run_list
from tui.cli import probe, runs
from tui.cli.commands import cli
from tui.cli.kept import path_beside
from tui.runs.app import RunsApp

URL = "http://127.0.0.1:8000"


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(probe, "Session", FakeSession)
    monkeypatch.setattr(FakeSession, "how", "bracket")
    monkeypatch.setattr("tui.cli.commands.interrupt_on_terminate", lambda: None)
    runs_folder().mkdir(parents=True)


def kneescope(*args: str, says: str = "") -> Result:
    return CliRunner().invoke(cli, args, input=says)


def rows() -> list[run_list.Row]:
    return [run_list.row(run, NOW_S) for run in listed()]


# --- the names of runs ---


def test_a_run_has_the_label_that_it_was_given_everywhere(tmp_path: Path) -> None:
    result = kneescope("probe", URL, "--label", " 16 places ", "--json", str(tmp_path / "a.json"))
    assert result.exit_code == 0
    assert json.loads((tmp_path / "a.json").read_text())["label"] == "16 places"
    assert json.loads((tmp_path / "a.json").read_text())["kind"] == "probe"
    (run,) = history.runs()
    assert (run.label, run.number) == ("16 places", 1)
    assert kneescope("report", "16 places").stdout == kneescope("report", "1").stdout == kneescope("report", "last").stdout
    elsewhere = tmp_path / "mine.jsonl"
    assert kneescope("probe", URL, "--out", str(elsewhere)).exit_code == 0
    assert {run.path: run.label for run in history.runs()}[str(elsewhere)] == "run 2026-01-01 00:00"


@pytest.mark.parametrize("label", ["", "a\nb", "x" * 81])
def test_what_is_no_label_is_refused_before_anything_is_sent(label: str) -> None:
    result = kneescope("probe", URL, "--label", label)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "--label" in result.stderr
    assert list(runs_folder().iterdir()) == []


def test_a_run_into_which_nothing_was_written_is_not_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FakeSession, "_start", lambda _: None)
    monkeypatch.setattr(FakeSession, "how", "breaks")
    monkeypatch.setattr(FakeSession, "_emit", lambda *_: None)
    assert kneescope("probe", URL).exit_code == 3
    assert history.runs() == ()
    make("next", 2)
    assert [run.number for run in history.runs()] == [2]


# --- the table ---


def test_the_table_has_every_kind_of_row() -> None:
    assert [row.bracket for row in rows()] == [
        "17.5 to 24.7",
        "15.0 to 17.3",
        "at least 120",
        "below 0.250",
        "infeasible",
        "held",
        "unfinished",
        "not a run file",
        "damaged file",
        "interrupted, at least 3.00",
    ]
    assert rows()[0].limits == "TTFT 800 ms, TPOT 50 ms, 95 %"
    assert rows()[3].limits == "E2E 10 s, 99.9 %"
    assert rows()[0].age == "9 h"
    assert rows()[-1].age == "38 d"


def test_a_fleet_that_was_checked_is_not_taken_for_one_replica() -> None:
    fleet = replace(listed()[2], way="fleet_check", replicas=8)
    assert run_list.row(fleet, NOW_S).bracket == "fleet of 8, at least 120"
    assert run_list.row(replace(fleet, outcome=None), NOW_S).bracket == "fleet of 8, unfinished"


def test_columns_give_way_to_the_width() -> None:
    whole = run_list.table(rows())
    assert whole[0].split() == ["run", "label", "model", "limits", "bracket,", "req/s", "age"]
    assert max(map(len, whole)) > 160
    for width in (160, 120, 80):
        assert max(map(len, run_list.table(rows(), width))) <= width
    assert "model" in run_list.table(rows(), 200)[0]
    narrow = run_list.table(rows(), 80)
    assert narrow[0].split() == ["run", "label", "bracket,", "req/s", "age"]
    assert run_list.table(rows(), 118)[0].split() == ["run", "label", "limits", "bracket,", "req/s", "age"]
    assert "before the update of the gatew" in narrow[3]
    assert "…" in narrow[3]


def test_a_label_of_wide_characters_moves_no_column() -> None:
    """Each takes two cells of a terminal."""
    wide = rows()[0]._replace(label="夜間バッチ😀")
    told = [wide, *rows()]
    lines = run_list.table(told)[1:]
    ages = {cell_len(line.removesuffix(row.age)) for line, row in zip(lines, told, strict=True)}
    assert len(ages) == 1
    assert max(cell_len(line) for line in run_list.table([wide._replace(label="夜" * 80)], 80)) <= 80


def test_a_run_that_is_going_says_so() -> None:
    log = RunLog(runs_folder() / "a.jsonl")
    log.append(started())
    assert "still going" in kneescope("runs").stdout
    log.close()
    assert "unfinished" in kneescope("runs").stdout


def test_without_a_terminal_the_list_is_printed_and_always_on_stdout() -> None:
    assert kneescope("runs").stdout.startswith("No run is recorded in ")
    make("a", 1, label="first")
    make("b", 2, label="second")
    (runs_folder() / "odd.jsonl").write_text("no run")
    result = kneescope("runs")
    assert (result.exit_code, result.stderr) == (0, "")
    assert [line.split()[1] for line in result.stdout.splitlines()] == ["label", "second", "first", "odd.jsonl"]
    assert kneescope("runs", "--table").stdout == result.stdout


def test_the_json_has_what_the_table_has_and_more(tmp_path: Path) -> None:
    make("a", 1, label="first")
    (runs_folder() / "odd.jsonl").write_text("no run")
    result = kneescope("runs", "--json", "-")
    told = json.loads(result.stdout)
    assert (told["schema"], told["kind"]) == (RESULT_SCHEMA, "runs")
    first, odd = told["runs"]
    assert (first["number"], first["label"], first["pass_rps"], first["fail_rps"], first["going"]) == (1, "first", 8.0, 10.0, False)
    assert first["slo"] == {"ttft_s": 0.5, "tpot_s": 0.05, "e2e_s": None, "target": 0.95}
    assert (odd["problem"], odd["slo"], odd["outcome"]) == ("foreign", None, None)
    both = kneescope("runs", "--json", str(tmp_path / "runs.json"))
    assert json.loads((tmp_path / "runs.json").read_text()) == told
    assert both.stdout.startswith("run  label")


# --- pruning and redacting ---


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_list_that_a_full_disk_does_not_take_is_made_again_by_its_own_command() -> None:
    """Not by `report`, which prints a run."""
    result = kneescope("runs", "--json", "/dev/full")
    assert result.exit_code == 3
    assert result.stderr.endswith("(No space left on device); run the command again when there is room.\n")


def test_prune_asks_first_and_needs_somebody_or_yes(monkeypatch: pytest.MonkeyPatch) -> None:
    for day in (1, 2, 3):
        make(str(day), day)
    refused = kneescope("runs", "prune", "--keep", "1")
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "2 runs" in refused.stderr
    assert "--yes" in refused.stderr
    monkeypatch.setattr(runs, "why_no_screen", lambda *_: None)
    assert kneescope("runs", "prune", "--keep", "1", says="n\n").exit_code == 2
    assert len(history.runs()) == 3
    asked = kneescope("runs", "prune", "--keep", "2", says="y\n")
    assert asked.exit_code == 0
    assert "Remove this run for good?" in asked.stderr
    assert asked.stdout.startswith("Removed 1 run:\nrun  label")
    assert [run.number for run in history.runs()] == [3, 2]


def test_prune_says_what_went_and_takes_the_fleet_along(tmp_path: Path) -> None:
    old = make("old", 1)
    path_beside(old).write_text("{}")
    make("new", 2)
    result = kneescope("runs", "prune", "--older", "1d", "--keep", "1", "--yes", "--json", "-")
    told = json.loads(result.stdout)
    assert (told["kind"], [each["path"] for each in told["removed"]], told["kept"]) == ("runs", [str(old)], [])
    assert sorted(path.name for path in runs_folder().iterdir()) == ["new.jsonl"]
    assert kneescope("runs", "prune", "--keep", "1", "--yes").stdout == "No run was removed.\n"


@pytest.mark.parametrize("args", [[], ["--keep", "-1"], ["--older", "90"], ["--older", "0d"], ["--older", "1e9d"], ["--yes"]])
def test_prune_needs_to_know_which(args: list[str]) -> None:
    make("a", 1)
    result = kneescope("runs", "prune", *args)
    assert (result.exit_code, result.stdout) == (2, "")
    assert len(history.runs()) == 1


def test_redact_writes_a_copy_that_can_be_opened(tmp_path: Path) -> None:
    path = make("a", 1, label="falcon", knee=Knee(pass_rps=8.0))
    result = kneescope("runs", "redact", "falcon")
    copy = runs_folder() / "a.redacted.jsonl"
    assert (result.exit_code, result.stdout) == (0, f"{copy}\n")
    assert "falcon" not in copy.read_text()
    assert kneescope("report", str(copy)).stdout.splitlines()[0] == kneescope("report", str(path)).stdout.splitlines()[0]
    assert kneescope("runs", "redact", "1").exit_code == 2  # it is there
    told = json.loads(kneescope("runs", "redact", "1", "--out", str(tmp_path / "b.jsonl"), "--json", "-").stdout)
    assert (told["kind"], told["redacted"]) == ("runs", str(tmp_path / "b.jsonl"))


# --- the screen ---


async def test_the_list_is_filtered_and_ends_with_what_was_chosen() -> None:
    app = RunsApp(listed(), NOW_S)
    async with app.run_test(size=(120, 36)) as pilot:
        shown = app.query_one(OptionList)
        assert shown.option_count == 10
        await pilot.press("down", "down", "slash", *"70b night")
        assert shown.option_count == 2
        await pilot.press("q")  # a letter of the filter
        assert shown.option_count == 0
        await pilot.press("backspace", "enter", "down", "enter")
    assert app.return_value == Path("/nowhere/6.jsonl")


async def test_the_cursor_stays_on_its_run_and_escape_shows_all() -> None:
    app = RunsApp(listed(), NOW_S, at=Path("/nowhere/7.jsonl"))
    async with app.run_test(size=(80, 24)) as pilot:
        shown = app.query_one(OptionList)
        assert shown.highlighted == 3
        await pilot.press("slash", *"nightly")
        assert (shown.option_count, shown.highlighted) == (2, 0)
        await pilot.press("escape")
        assert (shown.option_count, shown.highlighted) == (10, 3)
        assert not app.query_one("#filter", Input).display
        await pilot.press("q")
    assert (app.return_value, app.return_code) == (None, 0)


async def test_ctrl_c_leaves_while_a_filter_is_typed() -> None:
    app = RunsApp(listed(), NOW_S)
    async with app.run_test() as pilot:
        await pilot.press("slash", "a", "ctrl+c")
    assert app.return_value is None
