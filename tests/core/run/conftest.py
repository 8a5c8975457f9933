"""Fixtures of this room's tests."""

from pathlib import Path

import pytest


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where a run is recorded."""
    return tmp_path / "run.jsonl"


@pytest.fixture
def short_orders(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a held rate: half a million requests are drawn and queued for nothing in a run of minutes."""
    monkeypatch.setattr("core.modes.HOLD_REQUESTS", 3000)
