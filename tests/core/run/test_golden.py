"""Recorded runs, judged again from their logged requests: the verdicts and numbers of the golden files.

`python -m tests.core.run.rejudge --write` rewrites those after a change of the rules that is meant.
"""

import json
from pathlib import Path

import pytest

from core.records import RequestEnded
from core.run import log as runs
from tests.core.run.rejudge import RUNS, Rejudge, golden_path, judged_again


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.stem)
def test_a_recorded_run_is_judged_as_its_golden_file_says(run: Path) -> None:
    assert judged_again(run) == json.loads(golden_path(run).read_text())


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.stem)
def test_a_recorded_run_is_small(run: Path) -> None:
    assert run.stat().st_size < 1_200_000


def test_other_requests_give_another_verdict() -> None:
    """The golden file is about the logged requests, not about the logged verdicts."""
    again = Rejudge()
    for event in runs.read_run(RUNS[-1]):
        if isinstance(event, RequestEnded) and event.ending == "ok":
            continue
        again.feed(event)

    assert again.golden()["knee"]["pass_rps"] is None
