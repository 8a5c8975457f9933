"""`kneescope report RUN --format html|csv|jsonl|prom`: on stdout, whole, and with a sentence where a file is damaged."""

import csv
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from prometheus_client.parser import text_string_to_metric_families

from core.report import ROW_COLUMNS
from core.run import Replay, read_run
from tui.cli import kept
from tui.cli.commands import cli

DEMO = "screenshots/demo.jsonl"
REQUESTS = 1072


def report(*args: str) -> Result:
    return CliRunner().invoke(cli, ["report", *args])


def test_a_page() -> None:
    result = report(DEMO, "--format", "html")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.startswith("<!doctype html>\n")
    assert result.stdout.endswith("</html>\n")
    assert "Holds at 17.5 requests/s, fails at 24.7 requests/s." in result.stdout


def test_rows_of_requests() -> None:
    table = report(DEMO, "--format", "csv")
    assert (table.exit_code, table.stderr) == (0, "")
    rows = list(csv.DictReader(table.stdout.splitlines()))
    assert len(rows) == REQUESTS
    assert tuple(rows[0]) == ROW_COLUMNS
    lines = report(DEMO, "--format", "jsonl").stdout.splitlines()
    assert [json.loads(line)["index"] for line in lines] == [int(row["index"]) for row in rows]


def test_figures_for_a_push() -> None:
    result = report(DEMO, "--format", "prom")
    assert result.exit_code == 0
    names = {family.name for family in text_string_to_metric_families(result.stdout)}
    assert {"kneescope_pass_rps", "kneescope_floor", "kneescope_ttft_seconds", "kneescope_fleet_replicas"} <= names


def test_the_fleet_that_was_set_on_the_screen_counts(tmp_path: Path) -> None:
    run = tmp_path / "run.jsonl"
    run.write_bytes(Path(DEMO).read_bytes())
    replay = Replay(read_run(run))
    view = replay.view(replay.length_s)
    assert view.config is not None
    ask = type(view.config.fleet)(peak_rps=1000.0)
    kept.write(run, view, ask)
    assert "kneescope_peak_rps 1000.0" in report(str(run), "--format", "prom").stdout
    assert "for a peak of 1,000 requests/s" in report(str(run), "--format", "html").stdout


@pytest.mark.parametrize("form", ["html", "csv", "jsonl", "prom"])
def test_the_result_as_json_goes_to_a_file_beside_it(form: str, tmp_path: Path) -> None:
    refused = report(DEMO, "--format", form, "--json", "-")
    assert (refused.exit_code, refused.stdout) == (2, "")
    path = tmp_path / "r.json"
    assert report(DEMO, "--format", form, "--json", str(path)).exit_code == 0
    assert json.loads(path.read_text())["outcome"] == "bracket"


@pytest.mark.parametrize("form", ["html", "csv", "jsonl", "prom"])
def test_a_damaged_file_is_refused_before_anything_is_printed(form: str, tmp_path: Path) -> None:
    lines = Path(DEMO).read_bytes().splitlines(keepends=True)
    torn = tmp_path / "torn.jsonl"
    torn.write_bytes(b"".join([*lines[:-10], b"{broken\n", *lines[-10:]]))
    result = report(str(torn), "--format", form)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "is broken" in result.stderr
    assert "Traceback" not in result.stderr


def test_a_torn_last_line_and_a_run_that_was_killed_are_read(tmp_path: Path) -> None:
    killed = tmp_path / "killed.jsonl"
    killed.write_bytes(b"".join(Path(DEMO).read_bytes().splitlines(keepends=True)[:900])[:-20])
    for form in ("html", "csv", "jsonl", "prom"):
        result = report(str(killed), "--format", form)
        assert (result.exit_code, result.stderr) == (0, "")
        assert result.stdout
