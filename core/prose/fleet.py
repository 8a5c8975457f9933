"""What a fleet rests on: marks of headroom, assumptions, gates."""

from core.facts import Code
from core.prose.figures import Sentence

SENTENCES: dict[Code, Sentence] = {}
