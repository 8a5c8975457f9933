"""Which runs may go, and what goes with them."""

from pathlib import Path

from core import history
from core.run import RunLog
from core.run_files import runs_folder
from tests.core.history.conftest import Make
from tests.core.run.events import started

DAY_S = 86_400.0
NOW_S = 1_767_225_600.0 + 9 * DAY_S
"""The tenth of January 2026."""


def beside(path: Path) -> Path:
    return path.with_suffix(".fleet.json")


def days(found: tuple[history.Run, ...]) -> list[str]:
    return [run.place.stem for run in found]


def test_those_beyond_the_newest_or_older_or_with_both_what_both_let_go(run: Make) -> None:
    for day in (3, 1, 4, 2):
        run(str(day), day)
    assert days(history.prunable(1, None, NOW_S)) == ["1", "2", "3"]
    assert days(history.prunable(0, None, NOW_S)) == ["1", "2", "3", "4"]
    assert days(history.prunable(9, None, NOW_S)) == []
    assert days(history.prunable(None, 7 * DAY_S, NOW_S)) == ["1", "2"]
    assert days(history.prunable(3, 7 * DAY_S, NOW_S)) == ["1"]
    assert days(history.prunable(1, 7 * DAY_S, NOW_S)) == ["1", "2"]


def test_what_is_elsewhere_or_no_run_or_still_going_stays(run: Make, tmp_path: Path) -> None:
    history.add(run("mine", 1, folder=tmp_path))
    (runs_folder() / "odd.jsonl").write_text("no run")
    going = RunLog(runs_folder() / "going.jsonl")
    going.append(started())
    run("broke off", 2, outcome=None)
    assert days(history.prunable(0, None, NOW_S)) == ["broke off"]
    going.close()


def test_what_is_kept_beside_a_run_goes_with_it_and_numbers_stay(run: Make) -> None:
    old, new = run("old", 1), run("new", 2)
    for path in (old, new):
        beside(path).write_text("{}")
    history.redact(old, None)
    gone, stayed = history.remove(history.prunable(1, None, NOW_S), beside)
    assert ([each.number for each in gone], stayed) == ([1], [])
    assert sorted(path.name for path in runs_folder().iterdir()) == ["new.fleet.json", "new.jsonl"]
    assert [(each.number, each.place) for each in history.runs()] == [(2, new)]


def test_a_run_that_was_begun_since_is_not_removed(run: Make) -> None:
    path = run("a", 1)
    doomed = history.prunable(0, None, NOW_S)
    path.unlink()
    log = RunLog(path)
    gone, stayed = history.remove(doomed, beside)
    log.close()
    assert (gone, [why for _, why in stayed]) == ([], ["it is still being written"])
    assert path.exists()
    path.unlink()
    assert history.remove(doomed, beside) == ([], []), "somebody else removed it"
