"""The table of cases is true: 73 of them, and every test that it names is there."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
TABLE = (Path(__file__).parent / "CASES.md").read_text()
CASE = re.compile(r"^\| ([A-Z]{2}-\d\d) \|.*\|$", re.M)
TEST = re.compile(r"`(tests/\S+\.py)::(\w+)`")


def test_every_case_is_in_the_table_once_with_its_tests() -> None:
    rows = CASE.findall(TABLE)
    assert len(rows) == len(set(rows)) == 75
    assert all(TEST.search(row[0]) for row in CASE.finditer(TABLE))


def test_every_test_of_the_table_exists() -> None:
    named = TEST.findall(TABLE)
    missing = [f"{path}::{name}" for path, name in named if not re.search(rf"def {name}\(", (ROOT / path).read_text())]
    assert missing == []
