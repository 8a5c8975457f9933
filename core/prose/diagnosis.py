"""Why a rate fails, place by place."""

from core.facts import Code
from core.prose.figures import Sentence

SENTENCES: dict[Code, Sentence] = {}
