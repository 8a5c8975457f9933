"""What a run has found, for reading and for machines: text, Markdown, HTML, JSON, rows of requests, metrics, scalers."""

from core.percentiles import FEW
from core.report.buckets import HEADS, bucket_cells
from core.report.check import CheckSides, check_json, check_junit, check_markdown, check_text
from core.report.closed import closed_fact
from core.report.compare import (
    Table,
    brackets_table,
    compare_json,
    compare_markdown,
    compare_text,
    headlines,
    sides_table,
    table_lines,
    tables_against,
)
from core.report.exposition import live_exposition, to_exposition
from core.report.fleet import fleet_data, fleet_lines, fleet_verdict, gate_lines, gates_told, mark_number, work_lines
from core.report.fleet_check import fleet_check_of, fleet_check_rows
from core.report.html import (
    to_html,
)
from core.report.json import (
    answer_of,
    check_data,
    evidence_of,
    finite,
    result,
    to_json,
    while_going,
)
from core.report.markdown import to_markdown
from core.report.rejudge import rejudge_json, rejudge_text
from core.report.requests import ROW_COLUMNS, request_text
from core.report.requests import Form as RowForm
from core.report.scalers import Form
from core.report.scaling import scaling_text
from core.report.text import WIDTH, Remark, largest, notes, remarks, to_text
from core.report.tune import plan_json, plan_text, tune_json, tune_text
from core.report.watch import (
    COLUMNS,
    OVER_FROM,
    Column,
    clip,
    columns_for,
    glyph,
    imbalance_lines,
    knee_line,
    name_of,
    name_width,
    note_text,
    read_of,
    sums,
    watch_json,
    watch_text,
)
from core.report.whatif import answer_fact, change_words, explained_fact, measured_words, what_if_json, what_if_text, window_lines
from core.report.why import Head, diagnosis_lines, diagnosis_parts

__all__ = [
    "COLUMNS",
    "FEW",
    "HEADS",
    "OVER_FROM",
    "ROW_COLUMNS",
    "WIDTH",
    "CheckSides",
    "Column",
    "Form",
    "Head",
    "Remark",
    "RowForm",
    "Table",
    "answer_fact",
    "answer_of",
    "brackets_table",
    "bucket_cells",
    "change_words",
    "check_data",
    "check_json",
    "check_junit",
    "check_markdown",
    "check_text",
    "clip",
    "closed_fact",
    "columns_for",
    "compare_json",
    "compare_markdown",
    "compare_text",
    "diagnosis_lines",
    "diagnosis_parts",
    "evidence_of",
    "explained_fact",
    "finite",
    "fleet_check_of",
    "fleet_check_rows",
    "fleet_data",
    "fleet_lines",
    "fleet_verdict",
    "gate_lines",
    "gates_told",
    "glyph",
    "headlines",
    "imbalance_lines",
    "knee_line",
    "largest",
    "live_exposition",
    "mark_number",
    "measured_words",
    "name_of",
    "name_width",
    "note_text",
    "notes",
    "plan_json",
    "plan_text",
    "read_of",
    "rejudge_json",
    "rejudge_text",
    "remarks",
    "request_text",
    "result",
    "scaling_text",
    "sides_table",
    "sums",
    "table_lines",
    "tables_against",
    "to_exposition",
    "to_html",
    "to_json",
    "to_markdown",
    "to_text",
    "tune_json",
    "tune_text",
    "watch_json",
    "watch_text",
    "what_if_json",
    "what_if_text",
    "while_going",
    "window_lines",
    "work_lines",
]
