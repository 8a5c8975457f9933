"""The answer of a run, and what ended it otherwise than by its search."""

from core.facts import Code
from core.prose.figures import Sentence

SENTENCES: dict[Code, Sentence] = {}
