"""What a run has found, for reading and for machines: text, Markdown, JSON, and the rule of an autoscaler."""

from core.report.json import answer_of, evidence_of, finite, result, to_json, while_going
from core.report.markdown import to_markdown
from core.report.scalers import Form
from core.report.scaling import scaling_text
from core.report.text import FEW, WIDTH, Remark, largest, notes, remarks, to_text

__all__ = [
    "FEW",
    "WIDTH",
    "Form",
    "Remark",
    "answer_of",
    "evidence_of",
    "finite",
    "largest",
    "notes",
    "remarks",
    "result",
    "scaling_text",
    "to_json",
    "to_markdown",
    "to_text",
    "while_going",
]
