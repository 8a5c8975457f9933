"""What the pages say about the product: the keys of the result, and how long the modes take."""

import re
from pathlib import Path
from typing import Any, get_args

import pytest

from core import report
from core.modes import Named, usual_time
from core.results import Diagnosis, DiagnosisStep, FailCount, KneeEstimate
from tests.core.test_report import ANSWER, view
from tests.tui import knee_samples

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
RESULT = (ROOT / "docs" / "result.md").read_text()


def section(name: str, text: str = README, level: str = "##") -> str:
    return re.split(r"\n#{2,3} ", text.split(f"\n{level} {name}\n")[1])[0]


def documented(part: str) -> set[str]:
    """The keys of the rows in the table of a part of the result, the names of what is deeper among them."""
    rows = [line for line in section(part, RESULT, "###").splitlines() if line.startswith("| `")]
    keys = [key for row in rows for key in re.findall(r"`([^`]+)`", row.split(" | ")[0])]
    assert len(keys) == len(set(keys))
    return {name.removesuffix("[]") for key in keys for name in key.split(".")}


def fields(kind: Any) -> set[str]:
    return set(kind.__struct_fields__)


def result() -> dict[str, Any]:
    return report.result(view(answer=ANSWER, steps=knee_samples.diagnosed().steps), None)


def test_every_key_of_the_result_has_its_row() -> None:
    assert set(result()) == documented("Top level")


@pytest.mark.parametrize(
    ("part", "keys"),
    [
        ("knee", set(result()["knee"]) | fields(FailCount) | fields(KneeEstimate)),
        ("required", {"rate_rps", "met"}),
        ("steps[]", set(result()["steps"][0])),
        ("steps[].repeats[]", set(result()["steps"][0]["repeats"][0])),
        ("steps[].repeats[]", {"p50", "p95", "p99", "mean", "n", "from_s", "to_s", "attainment"}),
        ("diagnosis", fields(Diagnosis) | fields(DiagnosisStep) | {"sentence_fact", "advice_fact", "ruled_out_fact", "text_fact"}),
        ("fleet", set(result()["fleet"])),
    ],
)
def test_every_key_of_a_part_is_in_its_table(part: str, keys: set[str]) -> None:
    assert keys - documented(f"`{part}`") == set()


@pytest.mark.parametrize("mode", get_args(Named))
def test_the_expected_times_are_those_of_the_help(mode: Named) -> None:
    name = "quick --careful" if mode == "careful" else mode
    (row,) = [line for line in section("How sure do you need to be?").splitlines() if line.startswith(f"| `{name}`")]
    assert row.split(" | ")[2] == usual_time(mode)
