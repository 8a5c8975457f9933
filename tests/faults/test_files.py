"""A run's file that ends anywhere: whatever killed the run, what was finished is in it and is read."""

import json
from pathlib import Path

import pytest

from core.errors import UserError
from core.report import to_json, to_text
from tui.cli.recorded import Recorded

RECORDED = Path(__file__).parents[1] / "data" / "runs" / "vllm-0.32.0-list.jsonl"
WHOLE = RECORDED.read_bytes()
FIRST_LINE = WHOLE.index(b"\n") + 1
JUDGED = [i for i in range(len(WHOLE)) if WHOLE.startswith(b'{"type":"step_judged"', i)]


def report(path: Path, data: bytes) -> dict[str, object]:
    path.write_bytes(data)
    view = Recorded(str(path)).view()
    assert to_text(view, str(path)).strip()
    found = json.loads(to_json(view, str(path)), parse_constant=pytest.fail)
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize("part", range(24))
def test_a_run_cut_anywhere_is_read_with_its_finished_steps(tmp_path: Path, part: int) -> None:
    at = FIRST_LINE + (len(WHOLE) - FIRST_LINE) * part // 24 + part * 7
    found = report(tmp_path / "run.jsonl", WHOLE[:at])
    steps = found["steps"]
    assert isinstance(steps, list)
    assert len([step for step in steps if step["verdict"] != "unjudged"]) == sum(WHOLE.index(b"\n", i) < at for i in JUDGED)
    assert found["outcome"] == "interrupted"


def test_a_run_cut_in_its_first_line_is_refused_with_a_sentence(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    for at in (0, 1, 20, FIRST_LINE - 2):
        path.write_bytes(WHOLE[:at])
        with pytest.raises(UserError, match="is not a run file"):
            Recorded(str(path))


@pytest.mark.parametrize("tail", [b"\0" * 4096, b'{"type":"note","t":1e999}\n', b"{}\n", b"\xff\xfe\n", b'{"type":"ended"'])
def test_what_a_crash_leaves_behind_the_last_line_is_left_out(tmp_path: Path, tail: bytes) -> None:
    data = WHOLE[: WHOLE.rindex(b"\n", 0, len(WHOLE) // 2) + 1]
    assert report(tmp_path / "run.jsonl", data + tail)["steps"] == report(tmp_path / "other.jsonl", data)["steps"]
