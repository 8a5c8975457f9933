"""From a run's view to what people and scripts read: the result as JSON, the verdict as text."""

from typing import Any

from core.run.view import RunView


def result(view: RunView, run_log: str | None) -> dict[str, Any]:
    """The result as plain data with every key of README.md "Result" always there, null where not known."""
    raise NotImplementedError


def to_json(view: RunView, run_log: str | None) -> str:
    """`result` as strict JSON text; no NaN or infinity can get in."""
    raise NotImplementedError


def to_text(view: RunView, run_log: str | None) -> str:
    """The verdict for a terminal or a log: answer, zones with repeats, fleet, notes, where the log is."""
    raise NotImplementedError
