"""A run's file: written line by line, refused early, read back also when it is torn."""

import errno
import fcntl
import json
import os
import re
import stat
from pathlib import Path

import pytest

from core import report
from core.errors import UserError
from core.run import is_going
from core.run import log as runs
from core.run.events import SCHEMA, Event, Note, time_of
from core.run.log import RunLog
from core.run.state import State
from tests.core.run.events import started

RECORDED = Path(__file__).parents[2] / "data" / "runs" / "vllm-0.32.0-list.jsonl"


def note(text: str) -> Note:
    return Note(t=501.0, text=text)


def written(path: Path, *events: Event) -> Path:
    log = RunLog(path)
    for event in events:
        log.append(event)
    log.close()
    return path


@pytest.fixture
def state_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state"


def test_events_come_back_in_order(tmp_path: Path) -> None:
    events: list[Event] = [started(), note("one"), note("two: ü")]

    assert list(runs.read_run(written(tmp_path / "run.jsonl", *events))) == events


def test_each_event_is_in_the_file_as_soon_as_it_is_appended(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    log = RunLog(path)
    log.append(started())
    log.append(note("not lost by a kill"))

    assert len(list(runs.read_run(path))) == 2
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    log.close()


@pytest.mark.parametrize("cut", [1, 2, 10, 30])
def test_a_torn_last_line_is_left_out(tmp_path: Path, cut: int) -> None:
    path = written(tmp_path / "run.jsonl", started(), note("whole"), note("torn"))
    whole = path.read_bytes()
    path.write_bytes(whole[:-cut])

    texts = [event.text for event in runs.read_run(path) if isinstance(event, Note)]

    assert texts == (["whole", "torn"] if cut == 1 else ["whole"])


def test_a_last_line_of_nul_bytes_is_left_out(tmp_path: Path) -> None:
    path = written(tmp_path / "run.jsonl", started(), note("whole"))
    path.write_bytes(path.read_bytes() + b"\0" * 512)

    assert len(list(runs.read_run(path))) == 2


def test_a_broken_line_in_the_middle_is_named(tmp_path: Path) -> None:
    path = written(tmp_path / "run.jsonl", started(), note("a"), note("b"))
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0] + lines[1][:20] + b"\n" + lines[2])

    with pytest.raises(UserError, match="line 2 is broken"):
        list(runs.read_run(path))


def test_a_line_that_nobody_could_have_asked_for_is_named(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    written(path, started(), started())
    bad = path.read_bytes().splitlines(keepends=True)[1].replace(b'"target":0.95', b'"target":95')
    path.write_bytes(path.read_bytes() + bad + b'{"type":"note","t":1,"text":"x"}\n')
    with pytest.raises(UserError, match="line 3 is broken"):
        list(runs.read_run(path))


@pytest.mark.parametrize("content", [b"", b"hello\n", b'{"type":"note","t":1,"text":"x"}\n', b"\xff\xfe\x00" * 100, b"[1]"])
def test_what_is_no_run_file_is_refused_at_once(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "other"
    path.write_bytes(content)

    with pytest.raises(UserError, match="not a run file") as caught:
        runs.read_run(path)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("also", [(b"", b""), (b'"config":{', b'"config":{"slo":"of another form",'), (b'"t":', b'"at":')])
def test_a_file_of_a_newer_format_is_refused_whatever_else_is_new(tmp_path: Path, also: tuple[bytes, bytes]) -> None:
    path = written(tmp_path / "run.jsonl", started())
    path.write_bytes(path.read_bytes().replace(b'"schema":%d' % SCHEMA, b'"schema":99').replace(*also, 1))

    with pytest.raises(UserError, match=f"newer kneescope .format 99, here {SCHEMA}.; update to read it") as caught:
        runs.read_run(path)
    assert caught.value.exit_code == 2


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot be read"):
        runs.read_run(tmp_path / "missing.jsonl")


def test_an_existing_file_is_refused_unless_empty(tmp_path: Path) -> None:
    full, empty = tmp_path / "full", tmp_path / "empty"
    full.write_text("mine")
    empty.touch()

    with pytest.raises(UserError, match="never overwritten"):
        RunLog(full)
    RunLog(empty).close()

    assert full.read_text() == "mine"


def test_places_where_nothing_can_be_written_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(UserError, match=r"does not exist"):
        RunLog(tmp_path / "no" / "run.jsonl")
    with pytest.raises(UserError, match="is a folder"):
        RunLog(tmp_path)
    with pytest.raises(UserError, match=r"cannot be written|not an ordinary file"):
        RunLog(tmp_path / "fifo")
    with pytest.raises(UserError, match="not an ordinary file"):
        RunLog(Path("/dev/null"))

    def refused(*_: object) -> int:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(os, "open", refused)
    with pytest.raises(UserError, match="Permission denied"):
        RunLog(tmp_path / "run.jsonl")


def test_a_full_disk_is_told_once_and_leaves_whole_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "run.jsonl"
    log = RunLog(path)
    log.append(started())
    write = os.write
    calls = []

    def half_then_full(fd: int, data: bytes) -> int:
        calls.append(data)
        if len(calls) == 1:
            return write(fd, data[:10])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", half_then_full)
    with pytest.raises(UserError, match="the disk is full") as caught:
        log.append(note("does not fit"))
    log.append(note("silent"))
    log.sync()
    log.close()

    assert caught.value.exit_code == 3
    assert len(calls) == 2
    assert path.read_bytes().endswith(b"\n")
    assert list(runs.read_run(path)) == [started()]


def test_a_write_in_pieces_is_finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: write(fd, data[:7]))

    assert len(list(runs.read_run(written(tmp_path / "run.jsonl", started(), note("in pieces"))))) == 2


def test_sync_reaches_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    log = RunLog(tmp_path / "run.jsonl")
    log.sync()
    log.close()
    log.sync()
    log.close()

    assert len(synced) == 1


def test_default_paths_are_never_the_same(state_home: Path) -> None:
    paths = [runs.default_path("org/tiny model"), runs.default_path("org/tiny model"), runs.default_path(None)]

    assert len(set(paths)) == 3
    assert all(path.parent == state_home / "kneescope" / "runs" for path in paths)
    assert "org_tiny_model" in paths[0].name
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in paths)
    RunLog(paths[0]).close()


@pytest.mark.parametrize("model", ["../../etc/passwd", "..", "", "a" * 500, "\n\0x", "-rf"])
def test_a_model_name_cannot_leave_the_folder(state_home: Path, model: str) -> None:
    path = runs.default_path(model)

    assert path.resolve().parent == (state_home / "kneescope" / "runs").resolve()
    assert path.exists()


def test_a_state_folder_that_cannot_be_made_is_refused(state_home: Path) -> None:
    state_home.write_text("a file in the way")

    with pytest.raises(UserError, match="--out"):
        runs.default_path("tiny")


def test_a_run_that_is_going_is_told_from_one_that_has_ended(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    log = RunLog(path)
    log.append(started())
    assert is_going(path)
    assert len(list(runs.read_run(path))) == 1
    log.close()
    assert not is_going(path)
    assert not is_going(tmp_path / "missing")


def test_a_file_into_which_a_run_writes_is_not_taken_by_another(tmp_path: Path) -> None:
    first = RunLog(tmp_path / "run.jsonl")
    with pytest.raises(UserError, match="being written by another run"):
        RunLog(tmp_path / "run.jsonl")
    first.close()
    RunLog(tmp_path / "run.jsonl").close()


def test_a_folder_without_locks_is_written_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", none)
    path = written(tmp_path / "run.jsonl", started())
    assert not is_going(path)


def test_a_run_that_was_killed_at_any_byte_is_reported(tmp_path: Path) -> None:
    """What a SIGKILL, a full disk or a power cut leaves: the beginning of the file, cut anywhere."""
    whole = RECORDED.read_bytes()
    lines = whole.splitlines(keepends=True)
    judged = [sum(map(len, lines[: i + 1])) for i, line in enumerate(lines) if b'"type":"step_judged"' in line]
    first = len(lines[0])
    cuts = sorted({first, first + 1, *range(first, len(whole), len(whole) // 9), *judged, *(end - 2 for end in judged), len(whole)})
    for cut in cuts:
        path = tmp_path / f"{cut}.jsonl"
        path.write_bytes(whole[:cut])
        state, last = State(), 0.0
        for event in runs.read_run(path):
            state.apply(event)
            last = time_of(event)
        view = state.view(last)
        assert len(view.steps) == sum(end - 1 <= cut for end in judged)  # the newline may be missing
        assert report.to_text(view, str(path))
        assert json.loads(report.to_json(view, None))["steps"] == report.result(view, None)["steps"]


@pytest.mark.parametrize("rate", ["5e-324", "-1e308", "0.0", "1e300"])
@pytest.mark.parametrize("kind", ["step_judged", "run_ended"])
def test_a_rate_that_nobody_can_have_measured_is_damage(tmp_path: Path, kind: str, rate: str) -> None:
    """A fleet of it would have a size, or end in an overflow."""
    lines = RECORDED.read_text().splitlines(keepends=True)
    at = max(number for number, line in enumerate(lines) if f'"type":"{kind}"' in line)
    damaged = re.sub(r'"(rate_rps|pass_rps)":[0-9.]+', rf'"\1":{rate}', lines[at], count=1)
    assert damaged != lines[at]
    path = tmp_path / "run.jsonl"
    path.write_text("".join([*lines[:at], damaged, "{}\n"]))

    with pytest.raises(UserError, match=r"is broken \(.* requests/s was never measured"):
        list(runs.read_run(path))


def test_a_folder_that_cannot_be_looked_into_takes_no_run_file(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="does not exist"):
        RunLog(tmp_path / ("x" * 300) / "run.jsonl")
