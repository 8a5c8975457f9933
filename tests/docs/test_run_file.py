"""The schema of the run file is that of the code and of recorded runs, and every field in it has a meaning."""

import json
import typing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from core.run.events import SCHEMA, RunStarted, decode
from tests.docs import run_file, run_file_meanings
from tests.docs.tables import DOCS
from tui.cli.recorded import Recorded

ROOT = Path(__file__).parents[2]
RUNS = sorted([*(ROOT / "tests/data").glob("*/*.jsonl"), ROOT / "screenshots/demo.jsonl"])
RUNS = [path for path in RUNS if path.read_bytes().startswith(b'{"type":"run_started"')]
KINDS = {kind.__struct_config__.tag: kind for kind in run_file.events()}

FORMER = {2: {"fact"}}
"""Fields that only that version had: they are not read any more."""

recorded = pytest.mark.parametrize("path", RUNS, ids=lambda path: f"{path.parent.name}/{path.name}")


def schemas() -> set[int]:
    firsts = [decode(path.read_bytes().split(b"\n")[0]) for path in RUNS]
    return {first.schema for first in firsts if isinstance(first, RunStarted)}


def test_there_is_a_recorded_run_of_every_version_before_this_one() -> None:
    assert set(range(1, SCHEMA)) <= schemas()


@recorded
def test_a_recorded_run_of_any_version_opens(path: Path) -> None:
    view = Recorded(str(path)).whole
    assert view.answer is not None
    assert view.steps


@recorded
def test_every_line_is_an_event_of_the_schema_with_its_fields_alone(path: Path) -> None:
    former = FORMER.get(json.loads(path.read_bytes().split(b"\n")[0])["schema"], set())
    for line in path.read_bytes().splitlines():
        data = json.loads(line)
        kind = KINDS[data.pop("type")]
        assert isinstance(decode(line), kind)
        required = {field.encode_name for field in msgspec.structs.fields(kind) if field.required}
        assert required <= set(data) <= {*kind.__struct_encode_fields__, *former}


def test_every_event_and_every_value_has_a_table_of_all_its_fields() -> None:
    chapters = {chapter.split("\n")[0]: chapter for chapter in run_file.run_file_tables().split("\n#### ")}
    for title, kind in [
        *((f'`"type": "{tag}"`', kind) for tag, kind in KINDS.items()),
        *((k.__name__, k) for k in run_file.parts()),
    ]:
        rows = [line for line in chapters[title].splitlines() if line.startswith("| `")]
        assert [row.split("`")[1] for row in rows] == list(kind.__struct_encode_fields__)


@pytest.mark.parametrize(
    ("name", "hint", "said"),
    [
        ("ttft_s", float | None, "number or null, s"),
        ("t_sched", float, "number, s"),
        ("kv_usage_frac", float, "number, share, 0 to 1"),
        ("bins", tuple[tuple[int, int], ...], "list of [integer, integer]"),
        ("config", dict[str, str], "object: text to text"),
        ("level", typing.Literal["a", "b"], "`a`, `b`"),
        ("reason", str, "text"),
    ],
)
def test_a_type_is_told_with_the_unit_of_its_name(name: str, hint: Any, said: str) -> None:
    assert run_file._typed(name, hint) == said


def test_a_field_without_a_meaning_and_a_meaning_without_a_field_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = dict(run_file_meanings.RUN_FILE_MEANINGS)
    del texts["RequestEnded.t_last"]
    monkeypatch.setattr(run_file, "RUN_FILE_MEANINGS", {**texts, "RequestEnded.gone": "x"})
    with pytest.raises(
        ValueError, match=r"without a meaning \['RequestEnded.t_last'\], .* without a field \['RequestEnded.gone'\]"
    ):
        run_file.run_file_tables()


def test_the_json_schema_has_every_event_and_stays_small() -> None:
    text = (DOCS / "run-file.schema.json").read_text()
    assert len(text) < 100_000
    schema = json.loads(text)
    assert set(schema["discriminator"]["mapping"]) == set(KINDS)
    assert {part.__name__ for part in run_file.parts()} <= set(schema["$defs"])
