"""A run is the same side of a comparison whether its file is read or the JSON of its result."""

import fcntl
import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from core.compare import Repeat, Side, Step, read_side
from core.errors import UserError
from core.history.reading import read as history_of
from core.report import to_json
from tests.docs.test_tables import RUNS
from tui.cli.recorded import Recorded

DEMO = next(path for path in RUNS if path.name == "demo.jsonl")
LIST = next(path for path in RUNS if path.name == "vllm-0.32.0-list.jsonl")


def result_of(path: Path, to: Path) -> Path:
    """The JSON that a run would have been written as."""
    to.write_text(to_json(Recorded(str(path)).view(), str(path)))
    return to


def changed(to: Path, **given: Any) -> Path:
    to.write_text(json.dumps(json.loads(to.read_text()) | given))
    return to


def without_requests(side: Side) -> Side:
    """What a result tells of it: no requests, no draws of steps that have their own, and no largest values."""

    def repeat(step: Step, each: Repeat) -> Repeat:
        figures = {name: replace(getattr(each, name), max=None) for name in ("ttft_s", "tpot_s", "e2e_s")}
        return replace(each, requests=(), draw=each.draw if step.phase in ("list", "ramp") else None, **figures)

    steps = tuple(replace(step, repeats=tuple(repeat(step, each) for each in step.repeats)) for step in side.steps)
    return replace(side, steps=steps)


@pytest.mark.parametrize("path", RUNS, ids=lambda path: path.name)
def test_both_kinds_of_file_make_the_same_side(path: Path, tmp_path: Path) -> None:
    run, result = read_side(path), read_side(result_of(path, tmp_path / "result.json"))
    assert run.duration_s == pytest.approx(result.duration_s, rel=0.02)
    same = {"label": "", "path": "", "duration_s": None}
    notes = replace(run.knee, notes=()), replace(result.knee, notes=())
    run = without_requests(replace(run, **same, knee=notes[0]))
    assert run == without_requests(replace(result, **same, knee=notes[1]))


@pytest.mark.parametrize("path", RUNS, ids=lambda path: path.name)
def test_a_run_is_called_as_in_the_list_of_runs(path: Path, tmp_path: Path) -> None:
    """By its label, or else by model and time: a file name says neither."""
    listed = history_of(path, going=False).label
    assert read_side(path).label == read_side(result_of(path, tmp_path / "result.json")).label == listed
    unlabelled = changed(tmp_path / "result.json", label=None, started_at="2026-12-01T15:54:00Z", server={"model": "org/m-1"})
    assert read_side(unlabelled).label == "m-1 2026-12-01 15:54"


def test_requests_of_a_window_are_read_up_to_its_cut() -> None:
    holds, fails, _ = read_side(LIST).steps
    requests = holds.repeats[0].requests
    assert len(requests) == holds.repeats[0].planned, "the whole window ended"
    assert [each.index for each in requests] == list(range(requests[0].index, requests[0].index + len(requests)))
    assert all(each.good and each.margin <= 1 for each in requests)
    assert 8.58 <= requests[0].due_s <= requests[-1].due_s <= 58.6, "the window begins after the warm-up"
    assert len(fails.repeats[0].requests) < fails.repeats[0].planned, "and this one was cut"


def test_a_run_that_broke_off_has_the_bracket_of_its_steps(tmp_path: Path) -> None:
    whole = DEMO.read_bytes().splitlines(keepends=True)
    ended = next(at for at, line in enumerate(whole) if b'"type":"run_ended"' in line)
    (tmp_path / "cut.jsonl").write_bytes(b"".join(line for line in whole[:ended] if b'"answer_found"' not in line))
    side = read_side(tmp_path / "cut.jsonl")
    assert (side.outcome, side.going) == ("interrupted", False)
    assert side.low_rps == read_side(DEMO).low_rps


def test_a_file_that_is_being_written_is_going(tmp_path: Path) -> None:
    copy = tmp_path / "going.jsonl"
    copy.write_bytes(DEMO.read_bytes())
    with copy.open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert read_side(copy).going
    assert not read_side(copy).going


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"kind": "what_if"}, "result of what-if, not of a run"),
        ({"schema": 99}, "newer kneescope"),
        ({"outcome": "nonsense"}, "neither a run file nor the result"),
        ({"slo": {"ttft_s": -1}}, "--ttft"),
        ({"server": {"config": 5}}, "neither a run file nor the result"),
        ({"server": {"model": [1]}}, "neither a run file nor the result"),
        ({"schema": "2"}, r"Expected `int`, got `str` - at `\$.schema`"),
    ],
)
def test_a_result_that_is_none_of_a_run_is_refused(tmp_path: Path, given: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError, match=words):
        read_side(changed(result_of(DEMO, tmp_path / "result.json"), **given))


@pytest.mark.parametrize("text", ["[]", "no JSON", "", "\x00", '{"schema": "2"}'])
def test_any_other_file_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "other").write_text(text)
    with pytest.raises(UserError, match="neither a run file nor the result of a run"):
        read_side(tmp_path / "other")


def test_a_result_of_the_first_schema_is_read(tmp_path: Path) -> None:
    """It lacks what came later: the defaults are what it meant."""
    result = result_of(DEMO, tmp_path / "old.json")
    data = json.loads(result.read_text())
    for key in ("kind", "label", "gateway", "stop", "mix", "source", "trace", "arrival_cv", "retry_after", "length_correlation"):
        data.pop(key, None)
        data["workload"].pop(key, None)
    old = read_side(changed(result, **(data | {"schema": 1})))
    assert {name: old.asked[name] for name in ("stop", "arrival_cv", "gateway")} == {
        "stop": "exact",
        "arrival_cv": 1.0,
        "gateway": None,
    }
