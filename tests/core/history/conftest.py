"""A state folder of its own for each test, and run files in it."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from core.results import Answer, Knee, Outcome
from core.run import RunLog
from core.run.events import RunEnded
from core.run_files import runs_folder
from tests.core.run.events import started

Make = Callable[..., Path]


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    runs_folder().mkdir(parents=True)
    return tmp_path / "state" / "kneescope"


def make(
    name: str,
    day: int = 1,
    *,
    label: str | None = None,
    outcome: Outcome | None = "bracket",
    knee: Knee | None = None,
    folder: Path | None = None,
) -> Path:
    """A run of that day of January 2026, written on that day; `outcome` None: it broke off."""
    path = (folder or runs_folder()) / f"{name}.jsonl"
    log = RunLog(path)
    log.append(replace(started(), started_utc=f"2026-01-{day:02d}T08:30:00Z", label=label))
    if outcome is not None:
        found = knee or Knee(pass_rps=8.0, first_fail_rps=10.0, upper_rps=10.0)
        log.append(RunEnded(t=900.0, answer=Answer(outcome=outcome, message="As told.", knee=found)))
    log.close()
    os.utime(path, (1_767_225_600 + 86_400 * day,) * 2)
    return path


@pytest.fixture
def run() -> Make:
    return make
