"""The machines that sent, where several did: as data, and as one line."""

from collections.abc import Iterable

from core import prose
from core.results import WorkerUse
from core.units import latency
from core.view import RunView


def sent_by(view: RunView) -> str:
    """Which machines sent, and the one that was latest over all repeats; empty where this machine alone did."""
    if not view.workers:
        return ""
    latest = latest_of(use for step in view.steps for repeat in step.repeats for use in repeat.workers)
    late = "" if latest is None else f"; the latest p99 {latency(latest.lateness_p99_s)} ({latest.name})"
    return f"Sent by {prose.machines([worker.name for worker in view.workers])}{late}."


def latest_of(uses: Iterable[WorkerUse]) -> WorkerUse | None:
    """The use with the highest p99 of lateness; None where nothing was sent."""
    return max((use for use in uses if use.sent), key=lambda use: use.lateness_p99_s or 0.0, default=None)
