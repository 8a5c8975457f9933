"""What the README says about the product: the keys of the result, and how long the modes take."""

import re
from pathlib import Path
from typing import Any, get_args

import pytest

from core import report
from core.judge.modes import Named, usual_time
from core.results import Diagnosis, DiagnosisStep, FailCount, KneeEstimate
from tests.core.test_report import ANSWER, view
from tests.tui import knee_samples

README = (Path(__file__).parents[1] / "README.md").read_text()


def section(name: str) -> str:
    return README.split(f"\n## {name}\n")[1].split("\n## ")[0]


def documented() -> dict[str, set[str]]:
    """The words of each row of the table of the result, by each key of its first column."""
    rows: dict[str, set[str]] = {}
    for line in section("Result").splitlines():
        if line.startswith("| `"):
            keys, text = line.strip("| ").split(" | ", 1)
            for key in re.findall(r"`([^`]+)`", keys):
                rows[key] = set(re.findall(r"\w+", text))
    return rows


def fields(kind: Any) -> set[str]:
    return set(kind.__struct_fields__)


def result() -> dict[str, Any]:
    return report.result(view(answer=ANSWER, steps=knee_samples.diagnosed().steps), None)


def test_every_key_of_the_result_has_its_row() -> None:
    assert set(result()) == {key for key in documented() if "[]" not in key} | {"steps"}


@pytest.mark.parametrize(
    ("row", "keys"),
    [
        ("knee", set(result()["knee"]) | fields(FailCount) | fields(KneeEstimate)),
        ("required", {"rate_rps", "met"}),
        ("steps[]", set(result()["steps"][0])),
        ("steps[].repeats[]", set(result()["steps"][0]["repeats"][0])),
        ("steps[].repeats[]", {"p50", "p95", "p99", "mean", "n", "from_s", "to_s", "attainment"}),
        ("diagnosis", fields(Diagnosis) | fields(DiagnosisStep)),
        ("fleet", set(result()["fleet"])),
    ],
)
def test_every_key_of_a_part_is_in_its_row(row: str, keys: set[str]) -> None:
    assert keys - documented()[row] == set()


@pytest.mark.parametrize("mode", get_args(Named))
def test_the_expected_times_are_those_of_the_help(mode: Named) -> None:
    name = "quick --careful" if mode == "careful" else mode
    (row,) = [line for line in section("How sure do you need to be?").splitlines() if line.startswith(f"| `{name}`")]
    assert row.split(" | ")[2] == usual_time(mode)
