"""What happens while a run goes on: the lines of its events."""

from core.facts import Code
from core.prose.figures import Sentence

SENTENCES: dict[Code, Sentence] = {}
