"""A RUN is a path, then last, then a label, then a number."""

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from core import history
from core.errors import UserError
from core.run_files import runs_folder
from tests.core.history.conftest import Make


def test_a_path_comes_before_everything_else(run: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run("a", 1, label="base")
    monkeypatch.chdir(tmp_path)
    for name in ("last", "base", "1"):
        assert history.resolve(name).parent == runs_folder()
        Path(name).write_text("x")
        assert history.resolve(name) == Path(name)


def test_last_is_the_newest_run_wherever_it_is(run: Make, tmp_path: Path) -> None:
    old, new = run("z", 1), run("a", 2)
    (runs_folder() / "empty.jsonl").touch()
    (runs_folder() / "odd.jsonl").write_text("no run")
    assert history.resolve("last") == new
    newest = run("mine", 3, folder=tmp_path)
    assert history.resolve("last") == new
    history.add(newest)
    assert history.resolve("last") == newest
    assert history.resolve(str(old)) == old


def test_a_label_is_the_newest_run_that_has_it_and_comes_before_a_number(run: Make) -> None:
    run("a", 1, label="base")
    newer, numbered = run("b", 3, label="base"), run("c", 2, label="1")
    assert history.resolve("base") == newer
    assert history.resolve("1") == numbered
    unnamed = run("d", 4)
    assert history.resolve("run 2026-01-04 08:30") == unnamed
    with pytest.raises(UserError, match="There is no run 'Base'; give the path of a run file, last, a label, or a number"):
        history.resolve("Base")


def test_a_number_is_that_of_the_list(run: Make) -> None:
    first, second = run("a", 1), run("b", 2)
    history.runs()
    assert (history.resolve("1"), history.resolve("2")) == (first, second)
    first.unlink()
    assert history.resolve("2") == second
    for gone in ("1", "0", "77", "9" * 5000):
        with pytest.raises(UserError, match=f"There is no run {gone[:200]}"):
            history.resolve(gone)


@pytest.mark.parametrize("name", ["nowhere.jsonl", "-1", "1.0", "²", "", "x" * 300, "a\0b"])
def test_what_is_no_run_is_refused_in_a_sentence(run: Make, name: str) -> None:
    run("a")
    with pytest.raises(UserError, match=r"There is no run .*; give the path of a run file") as caught:
        history.resolve(name)
    assert caught.value.exit_code == 2


def test_without_runs_there_is_no_last() -> None:
    with pytest.raises(UserError, match=r"There is no run in .* yet"):
        history.resolve("last")


@pytest.mark.parametrize("name", ["x" * 300, "shut/run.jsonl"])
def test_a_path_that_cannot_be_looked_at_is_refused_in_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(Path, "stat", _shut(Path.stat))
    with pytest.raises(UserError, match=r"cannot be read: (File name too long|Permission denied)"):
        history.resolve(str(tmp_path / name))


def _shut(stat_of: Callable[..., os.stat_result]) -> Callable[..., os.stat_result]:
    """As for a user whom a folder `shut` does not let in; tests may run as root."""

    def stat(path: Path, **options: bool) -> os.stat_result:
        if "shut" in path.parts:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return stat_of(path, **options)

    return stat


def test_what_is_there_and_is_no_file_is_named_as_what_it_is(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for place, what in ((tmp_path, "a folder"), (tmp_path / "pipe", "no ordinary file")):
        with pytest.raises(UserError, match=f"is {what}; give the path of a run file"):
            history.resolve(str(place))
