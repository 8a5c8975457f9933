"""What a recorded run would have come to under other limits, lengths or sizes: the word of a model of that run, never a verdict.

Others import these names, and nothing else of the room.
"""

from core.whatif.change import Change, Setting, changed, longer, scaled
from core.whatif.fitted import Explained, Refused, WindowShift, explain
from core.whatif.knobs import Knob, one_step
from core.whatif.model import Modelled, as_it_was, ask

__all__ = [
    "Change",
    "Explained",
    "Knob",
    "Modelled",
    "Refused",
    "Setting",
    "WindowShift",
    "as_it_was",
    "ask",
    "changed",
    "explain",
    "longer",
    "one_step",
    "scaled",
]
