"""What was set on the fleet screen is kept beside the run, and found by whatever reads that run."""

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from core.config import FleetAsk
from tui.cli import kept
from tui.cli.commands import cli
from tui.cli.recorded import Recorded

RUN = Path("screenshots/demo.jsonl")
ASK = FleetAsk(peak_rps=50.0, headroom=0.6, cost_per_gpu_h=2.5)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return Path(shutil.copy(RUN, tmp_path / "run.jsonl"))


def test_what_is_kept_is_read_again_and_the_runs_own_file_is_as_it_was(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before, view = run.read_bytes(), Recorded(str(run)).view()
    assert kept.read(run, view) is None
    kept.write(run, view, ASK)
    assert kept.read(run, view) == ASK
    assert run.read_bytes() == before
    assert (run.parent / "run.fleet.json").stat().st_mode & 0o077 == 0
    assert "run.fleet.json" in capsys.readouterr().err


def test_nothing_is_kept_where_nothing_was_set(run: Path) -> None:
    view = Recorded(str(run)).view()
    assert view.config is not None
    kept.write(run, view, None)
    kept.write(run, view, view.config.fleet)
    assert [path.name for path in run.parent.iterdir()] == ["run.jsonl"]


def test_report_and_fleet_size_by_it_and_options_come_first(run: Path) -> None:
    kept.write(run, Recorded(str(run)).view(), ASK)
    told = json.loads(CliRunner().invoke(cli, ["report", str(run), "--json", "-"]).stdout)["fleet"]
    assert (told["peak_rps"], told["headroom"]) == (50, 0.6)
    sized = json.loads(CliRunner().invoke(cli, ["fleet", "--run", str(run), "--json", "-"]).stdout)
    assert (sized["peak_rps"], sized["headroom"]) == (50, 0.6)
    own = ["fleet", "--run", str(run), "--load-at-peak", "50%", "--json", "-"]
    assert json.loads(CliRunner().invoke(cli, own).stdout)["headroom"] == 0.5


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b'{"kind": "else"}', b"\xff" * 99, b" " * 70_000], ids=range(6))
def test_a_foreign_file_is_ignored_with_a_word_and_never_replaced(
    run: Path, content: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    path, view = kept.path_beside(run), Recorded(str(run)).view()
    path.write_bytes(content)
    assert kept.read(run, view) is None
    assert "is ignored" in capsys.readouterr().err
    kept.write(run, view, ASK)
    assert path.read_bytes() == content
    assert "is not kept" in capsys.readouterr().err


def test_values_that_no_fleet_has_and_the_settings_of_another_run_are_ignored(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    view = Recorded(str(run)).view()
    kept.write(run, view, ASK)
    path = kept.path_beside(run)
    whole = path.read_text()
    path.write_text(whole.replace("50.0", "-5.0"))
    assert kept.read(run, view) is None
    assert view.started_utc is not None
    path.write_text(whole.replace(view.started_utc, "2020-01-01T00:00:00Z"))
    assert kept.read(run, view) is None
    assert "another run" in capsys.readouterr().err
