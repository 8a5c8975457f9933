"""Why a rate fails, as texts for the report and the Knee screen, and as data for the result."""

from typing import Any, Literal

import msgspec

from core import prose
from core.report.told import told, told_all
from core.results import Diagnosis, DiagnosisStep

Head = Literal["seen", "therefore", "advice", "open", "not"]


def diagnosis_parts(diagnosis: Diagnosis | None) -> list[tuple[Head, str]]:
    """What was seen, what follows, what to do, what is open and what it is not; a part that has nothing to say is left out."""
    if diagnosis is None:
        return []
    why = [step for step in diagnosis.steps if step.verdict == "bound"]
    missing = [step for step in diagnosis.steps if step.verdict == "open" or (step.verdict == "unknown" and not diagnosis.sure)]
    parts: tuple[tuple[Head, str], ...] = (
        ("seen", "; ".join(prose.text(step.text) for step in why)),
        ("therefore", prose.text(diagnosis.sentence)),
        ("advice", "" if diagnosis.advice is None else prose.text(diagnosis.advice)),
        ("open", " · ".join(prose.text(step.text) for step in missing)),
        ("not", " · ".join(map(prose.text, diagnosis.ruled_out))),
    )
    return [(head, text) for head, text in parts if text or head == "therefore"]


def diagnosis_lines(diagnosis: Diagnosis | None) -> list[str]:
    """The same as unwrapped lines for a terminal: WHY, what follows (`->`), OPEN and NOT."""
    parts = diagnosis_parts(diagnosis)
    alone = bool(parts) and parts[0][0] == "therefore"
    heads: dict[Head, str] = {
        "seen": "WHY   ",
        "therefore": f"{'WHY   ' if alone else '      '}-> ",
        "advice": "         ",
        "open": "OPEN  ",
        "not": "NOT   ",
    }
    return [heads[head] + text for head, text in parts]


def diagnosis_data(diagnosis: Diagnosis | None) -> dict[str, Any] | None:
    """Each sentence beside its fact."""
    if diagnosis is None:
        return None
    return {
        **msgspec.to_builtins(diagnosis),
        **told("sentence", diagnosis.sentence),
        **told("advice", diagnosis.advice),
        **told_all("ruled_out", diagnosis.ruled_out),
        "steps": [_step(step) for step in diagnosis.steps],
    }


def _step(step: DiagnosisStep) -> dict[str, Any]:
    return {**msgspec.to_builtins(step), **told("text", step.text)}
