"""What a run has found, for reading and for machines: text, Markdown, JSON, and the rule of an autoscaler."""

from core.report.fleet import fleet_data, fleet_lines, fleet_verdict, gate_lines, gates_told, mark_number, work_lines
from core.report.json import SCHEMA, answer_of, check_data, evidence_of, finite, result, to_json, while_going
from core.report.markdown import to_markdown
from core.report.scalers import Form
from core.report.scaling import scaling_text
from core.report.text import FEW, WIDTH, Remark, largest, notes, remarks, to_text
from core.report.whatif import answer_fact, change_words, explained_fact, what_if_json, what_if_text
from core.report.why import Head, diagnosis_lines, diagnosis_parts

__all__ = [
    "FEW",
    "SCHEMA",
    "WIDTH",
    "Form",
    "Head",
    "Remark",
    "answer_fact",
    "answer_of",
    "change_words",
    "check_data",
    "diagnosis_lines",
    "diagnosis_parts",
    "evidence_of",
    "explained_fact",
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
    "what_if_json",
    "what_if_text",
    "while_going",
    "work_lines",
]
