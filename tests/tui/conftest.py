"""What tests of the command line share."""

import pytest

from tui import live


@pytest.fixture
def jobs(monkeypatch: pytest.MonkeyPatch) -> list[live.Job]:
    """The runs that were asked for; none of them is done."""
    asked: list[live.Job] = []

    def take(job: live.Job) -> int:
        asked.append(job)
        return 0

    monkeypatch.setattr(live, "run", take)
    monkeypatch.setattr("tui.cli.interrupt_on_terminate", lambda: None)
    monkeypatch.delenv("KNEESCOPE_API_KEY", raising=False)
    return asked
