"""The list of runs: what it says of each, that it reads no file twice, and that a number never moves."""

import json
import multiprocessing
import os
import shutil
import stat
import tempfile
from pathlib import Path

import pytest

from core import RUN_FILE_SCHEMA, history
from core.history import index, reading
from core.history.reading import Read, read
from core.results import FailCount, Knee
from core.run import RunLog
from core.run_files import runs_folder
from tests.core.history.conftest import Make, make
from tests.core.run.events import started

ROOT = Path(__file__).parents[3]


def numbers() -> dict[str, int]:
    return {run.place.name: run.number for run in history.runs()}


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the files that were read."""
    seen: list[str] = []

    def counted(path: Path, *, going: bool) -> Read:
        seen.append(path.name)
        return read(path, going=going)

    monkeypatch.setattr(index, "read", counted)
    return seen


def test_a_run_is_listed_with_what_it_was_asked_and_found(run: Make) -> None:
    run("a", knee=Knee(pass_rps=8.0, clear_fail_rps=10.0, clear_fail=FailCount(failed=2, run=2), upper_rps=10.0))
    (found,) = history.runs()
    assert (found.number, found.label, found.outcome) == (1, "run 2026-01-01 08:30", "bracket")
    assert (found.pass_rps, found.fail_rps, found.clear, found.mode, found.way) == (8.0, 10.0, True, "quick", "search")
    assert found.slo == history.Limits(ttft_s=0.5, tpot_s=0.05, target=0.95)
    assert not found.is_going
    assert not found.elsewhere


def test_a_check_of_a_fleet_is_not_listed_as_rates_of_one_replica(run: Make) -> None:
    path = run("a", knee=Knee(pass_rps=8.0))
    begun, *rest = path.read_bytes().splitlines(keepends=True)
    line = json.loads(begun)
    line["config"]["method"] |= {"rates_rps": [6.3, 9.0], "fleet": {"replicas": 3, "one_rps": 3.0}}
    path.write_bytes(json.dumps(line, separators=(",", ":")).encode() + b"\n" + b"".join(rest))
    (found,) = history.runs()
    assert (found.way, found.replicas) == ("fleet_check", 3)


@pytest.mark.parametrize(
    "name",
    [
        "screenshots/demo.jsonl",
        "tests/data/schema_1/run.jsonl",
        "tests/data/schema_2/run.jsonl",
        "tests/data/runs/vllm-0.32.0-list.jsonl",
    ],
)
def test_recorded_runs_are_listed_as_the_whole_file_tells(name: str) -> None:
    from tui.cli.recorded import Recorded

    shutil.copy(ROOT / name, runs_folder())
    (found,) = history.runs()
    view = Recorded(str(ROOT / name)).whole
    assert view.answer is not None
    assert view.config is not None
    assert view.server is not None
    knee = view.answer.knee
    assert (found.outcome, found.pass_rps, found.fail_rps) == (view.answer.outcome, knee.pass_rps, knee.fail_rps)
    assert (found.label, found.model, found.clear) == (history.label_of(view), view.server.model, knee.clearly_fails)
    assert found.slo is not None
    assert (found.slo.ttft_s, found.slo.target) == (view.config.slo.ttft_s, view.config.slo.target)


def test_a_file_is_read_once_and_again_when_it_has_changed(run: Make, reads: list[str]) -> None:
    run("a")
    run("b", 2)
    assert [found.place.name for found in history.runs()] == ["b.jsonl", "a.jsonl"]
    assert sorted(reads) == ["a.jsonl", "b.jsonl"]
    history.runs()
    assert len(reads) == 2
    os.utime(runs_folder() / "a.jsonl", (9, 9))
    assert numbers() == {"b.jsonl": 2, "a.jsonl": 1}
    assert reads[2:] == ["a.jsonl"]


def test_a_number_never_moves_and_is_given_once(run: Make) -> None:
    for day, name in enumerate("abc", 1):
        run(name, day)
    assert numbers() == {"a.jsonl": 1, "b.jsonl": 2, "c.jsonl": 3}
    (runs_folder() / "c.jsonl").unlink()
    assert numbers() == {"a.jsonl": 1, "b.jsonl": 2}
    run("d", 1)
    run("c", 9)  # another run of the same name
    assert numbers() == {"a.jsonl": 1, "b.jsonl": 2, "d.jsonl": 4, "c.jsonl": 5}
    (runs_folder() / "a.jsonl").unlink()
    run("a", 20)
    assert numbers()["a.jsonl"] == 6


def test_another_run_in_the_file_of_one_has_a_number_of_its_own(run: Make) -> None:
    path = run("a", 1)
    assert numbers() == {"a.jsonl": 1}
    path.unlink()
    run("a", 2)
    assert numbers() == {"a.jsonl": 2}


def test_a_run_recorded_elsewhere_is_listed_by_its_path(run: Make, tmp_path: Path) -> None:
    elsewhere = run("mine", folder=tmp_path)
    assert history.runs() == ()
    history.add(elsewhere)
    (found,) = history.runs()
    assert (found.path, found.elsewhere, found.number) == (str(elsewhere), True, 1)
    elsewhere.unlink()
    assert history.runs() == ()


def test_a_disk_that_comes_back_has_its_numbers_still(run: Make, tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    history.add(run("mine", folder=tmp_path / "disk"))
    (tmp_path / "disk").rename(tmp_path / "away")
    run("a", 2)
    assert numbers() == {"a.jsonl": 2}
    (tmp_path / "away").rename(tmp_path / "disk")
    assert numbers() == {"a.jsonl": 2, "mine.jsonl": 1}


def test_a_run_that_is_going_says_so_until_it_ends() -> None:
    path = runs_folder() / "a.jsonl"
    log = RunLog(path)
    history.add(path)
    assert history.runs() == ()  # it has not begun
    log.append(started())
    (found,) = history.runs()
    assert (found.number, found.is_going, found.outcome) == (1, True, None)
    log.close()
    (found,) = history.runs()
    assert (found.number, found.is_going, found.outcome) == (1, False, None)


def test_what_was_read_before_the_lock_was_given_back_is_read_again(run: Make) -> None:
    path = run("a")
    whole = path.read_bytes()
    path.unlink()
    log = RunLog(path)
    os.write(log._fd, whole)
    (found,) = history.runs()
    assert found.is_going
    log.close()
    (found,) = history.runs()
    assert found.outcome == "bracket"


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"hello\n", "foreign"),
        (b"\xff\xfe\x00" * 100, "foreign"),
        (b'{"type":"note","t":1,"text":"x"}\n', "foreign"),
        (b'{"type":"run_started","t":1}\n', "foreign"),
        (b"[" * 100_000, "foreign"),
        (b'{"type":"run_started","schema":99,"when":[]}\n', "newer"),
    ],
)
def test_what_is_no_run_has_a_row_that_says_so(run: Make, content: bytes, problem: str) -> None:
    run("a", 2)
    (runs_folder() / "odd.jsonl").write_bytes(content)
    assert {found.place.name: found.problem for found in history.runs()} == {"a.jsonl": None, "odd.jsonl": problem}
    assert [found.label for found in history.runs() if found.problem] == ["odd.jsonl"]


def test_what_a_newer_version_wrote_is_said_and_read_once_that_is_known(run: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its figures may mean something else by then."""
    path = run("a")
    path.write_bytes(path.read_bytes().replace(b'"schema":%d' % RUN_FILE_SCHEMA, b'"schema":%d' % (RUN_FILE_SCHEMA + 1), 1))
    (found,) = history.runs()
    assert (found.problem, found.label, found.outcome, found.pass_rps) == ("newer", "run 2026-01-01 08:30", None, None)
    monkeypatch.setattr(reading, "RUN_FILE_SCHEMA", RUN_FILE_SCHEMA + 1)
    (found,) = history.runs()
    assert (found.problem, found.number, found.outcome) == (None, 1, "bracket")


def test_a_damaged_end_is_said_and_a_torn_one_is_a_run_that_broke_off(run: Make) -> None:
    whole = run("a").read_bytes()
    (runs_folder() / "junk.jsonl").write_bytes(whole + b"what is this\n")
    (runs_folder() / "torn.jsonl").write_bytes(whole[:-20])
    (runs_folder() / "answer.jsonl").write_bytes(whole.replace(b'"outcome":"bracket"', b'"outcome":7'))
    found = {run.place.stem: (run.problem, run.outcome) for run in history.runs()}
    assert found == {"a": (None, "bracket"), "junk": ("damaged", None), "torn": (None, None), "answer": ("damaged", None)}


def test_what_is_no_file_is_passed_over(run: Make) -> None:
    run("a")
    (runs_folder() / "z.jsonl").symlink_to("nowhere")
    (runs_folder() / "y.jsonl").mkdir()
    (runs_folder() / "empty.jsonl").touch()
    (runs_folder() / "a.redacted.jsonl").write_text("{}")
    os.mkfifo(runs_folder() / "x.jsonl")
    assert numbers() == {"a.jsonl": 1}


def test_the_index_is_the_users_alone_and_made_anew_when_it_is_damaged(run: Make, state: Path) -> None:
    run("a")
    assert numbers() == {"a.jsonl": 1}
    assert stat.S_IMODE((state / "runs.json").stat().st_mode) == 0o600
    for content in ("", "{", '{"schema":99}', "[]"):
        (state / "runs.json").write_text(content)
        assert numbers() == {"a.jsonl": 1}


def test_numbers_outlive_an_index_of_another_version(run: Make, state: Path) -> None:
    for day in range(1, 4):
        run(f"{day}", day)
    before = numbers()
    (runs_folder() / "1.jsonl").unlink()
    data = json.loads((state / "runs.json").read_text())
    (state / "runs.json").write_text(json.dumps(data | {"schema": 99, "more": 1}))
    assert numbers() == {name: number for name, number in before.items() if name != "1.jsonl"}
    assert all(found.outcome for found in history.runs()), "and the rest of it is read anew"
    run("4", 4)
    assert numbers()["4.jsonl"] == 4


def test_a_list_needs_no_place_to_write(run: Make, state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object, **__: object) -> tuple[int, str]:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(tempfile, "mkstemp", refused)
    run("a")
    assert numbers() == {"a.jsonl": 1}
    history.add(run("b", 2))
    assert not (state / "runs.json").exists()


def _add(names: list[str], folder: Path) -> None:
    for name in names:
        history.add(make(name, folder=folder))


def test_runs_that_end_at_once_all_get_a_number_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    names = [[f"{worker}-{n}" for n in range(10)] for worker in range(4)]
    fork = multiprocessing.get_context("spawn")
    workers = [fork.Process(target=_add, args=(each, tmp_path / "mine")) for each in names]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert sorted(numbers().values()) == list(range(1, 41))


def test_an_answer_before_a_closed_loop_that_broke_off_stands(run: Make) -> None:
    path = run("a")
    content = path.read_bytes().replace(b'"type":"run_ended"', b'"type":"answer_found"')
    path.write_bytes(content)
    with path.open("ab") as file:
        file.write(b'{"type":"note","t":901.0,"text":"a closed loop"}\n')
    (found,) = history.runs()
    assert (found.outcome, found.pass_rps) == ("bracket", 8.0)
