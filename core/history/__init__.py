"""Recorded runs: what they are called, the list of them, and which one a RUN of the command line means.

Light to import: the list is printed without what a run needs.
"""

from core.history.index import Run, add, remembered, runs
from core.history.labels import MOST_CHARS, called, label_of, parse_label
from core.history.lookup import resolve
from core.history.prune import age_s, prunable, remove
from core.history.reading import Limits, Problem
from core.history.redaction import redact

__all__ = [
    "MOST_CHARS",
    "Limits",
    "Problem",
    "Run",
    "add",
    "age_s",
    "called",
    "label_of",
    "parse_label",
    "prunable",
    "redact",
    "remembered",
    "remove",
    "resolve",
    "runs",
]
