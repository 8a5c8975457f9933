"""`kneescope check`: run files and results of `--json` alike, files for a pipeline, and the exit code that it reads."""

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner, Result

from tests.core.run.rejudge import RUNS
from tui.cli.commands import cli

DEMO = str(Path(__file__).parents[2] / "screenshots/demo.jsonl")
"""A quick search of the demo: 17.5 requests/s held, 24.7 failed in the ramp."""


def check(*args: str) -> Result:
    return CliRunner().invoke(cli, ("check", *args))


def result_of(run: str, to: Path) -> str:
    assert CliRunner().invoke(cli, ("report", run, "--json", str(to))).exit_code == 0
    return str(to)


def edited(path: str, **knee: Any) -> str:
    """The result with another knee."""
    data = json.loads(Path(path).read_text())
    data["knee"] |= knee
    Path(path).write_text(json.dumps(data))
    return path


@pytest.mark.parametrize("run", RUNS, ids=lambda path: path.stem)
def test_a_run_file_and_its_result_are_the_same_to_a_check(run: Path, tmp_path: Path) -> None:
    result = result_of(str(run), tmp_path / "result.json")
    sides = [json.loads(check(each, "--require-rps", "1", "--json", "-").stdout)["new"] for each in (str(run), result)]
    assert sides[0] | {"file": None} == sides[1] | {"file": None}
    both = json.loads(check(str(run), "--against", result, "--json", "-").stdout)
    assert not any((fact := each["message_fact"])["code"] == "check_differs" for each in both["findings"]), fact


@pytest.mark.parametrize(
    ("knee", "code", "verdict"),
    [
        ({}, 0, "met"),
        ({"pass_rps": 10.0, "first_fail_rps": 12.0}, 1, "not_met"),
        ({"pass_rps": 10.0, "first_fail_rps": 24.0}, 3, "not_known"),
    ],
)
def test_exit_code_and_files_say_the_same(knee: dict[str, float], code: int, verdict: str, tmp_path: Path) -> None:
    new = edited(result_of(DEMO, tmp_path / "new.json"), **knee)
    junit, summary, out = tmp_path / "j.xml", tmp_path / "s.md", tmp_path / "out.json"
    summary.write_text("# Job\n")
    result = check(
        *(new, "--against", DEMO, "--max-drop", "10%"), *("--junit", str(junit), "--summary", str(summary), "--json", str(out))
    )
    assert result.exit_code == code, result.stderr
    assert result.stdout.startswith(f"Check: {verdict.replace('_', ' ')}\n")
    assert json.loads(out.read_text())["verdict"] == verdict
    suite = ElementTree.parse(junit).getroot()
    assert [suite.get(name) for name in ("failures", "errors")] == [str(int(code == 1)), str(int(code == 3))]
    assert summary.read_text().startswith(f"# Job\n### kneescope check: {verdict.replace('_', ' ')}\n")


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ((DEMO,), "Nothing is asked"),
        ((DEMO, "--require-rps", "3", "--max-drop", "5%"), "--against"),
        ((DEMO, "--require-rps", "0"), "--require-rps"),
        ((DEMO, "--against", DEMO, "--max-drop", "100%"), "--max-drop"),
        (("nowhere.json", "--require-rps", "3"), "There is no run"),
        ((__file__, "--require-rps", "3"), "neither a run file nor the result of a run"),
    ],
)
def test_what_cannot_be_asked_is_refused_with_2(args: tuple[str, ...], said: str) -> None:
    result = check(*args)
    assert result.exit_code == 2
    assert said in result.stderr
    assert result.stdout == ""


def test_a_file_that_cannot_be_written_is_no_verdict(tmp_path: Path) -> None:
    result = check(DEMO, "--require-rps", "3", "--junit", str(tmp_path / "no" / "j.xml"))
    assert result.exit_code == 3
    assert "--junit" in result.stderr
