"""What a run has found, for reading and for machines: text, Markdown, JSON, and the rule of an autoscaler."""

from core.report.fleet import fleet_data, fleet_lines, fleet_verdict, gate_lines, gates_told, mark_number, work_lines
from core.report.markdown import to_markdown
from core.report.scalers import Form
from core.report.scaling import scaling_text
from core.report.text import (
    FEW,
    SCHEMA,
    WIDTH,
    Remark,
    answer_of,
    evidence_of,
    finite,
    largest,
    notes,
    remarks,
    result,
    to_json,
    to_text,
    while_going,
)

__all__ = [
    "FEW",
    "SCHEMA",
    "WIDTH",
    "Form",
    "Remark",
    "answer_of",
    "evidence_of",
    "finite",
    "fleet_data",
    "fleet_lines",
    "fleet_verdict",
    "gate_lines",
    "gates_told",
    "largest",
    "mark_number",
    "notes",
    "remarks",
    "result",
    "scaling_text",
    "to_json",
    "to_markdown",
    "to_text",
    "while_going",
    "work_lines",
]
