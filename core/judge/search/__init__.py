"""The way to the knee: what to run next, and what the rates that were judged leave for the knee."""

from core.judge.search.actions import Done, Hold, Ramp, Step
from core.judge.search.bracket import Bracket
from core.judge.search.search import Search
from core.judge.search.windows import figure

__all__ = [
    "Bracket",
    "Done",
    "Hold",
    "Ramp",
    "Search",
    "Step",
    "figure",
]
