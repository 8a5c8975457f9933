"""What a recorded run would have come to under other limits, lengths or sizes: the word of a model of that run, never a verdict.

Others import these names, and nothing else of the room.
"""

from core.whatif.change import Change, Setting, changed
from core.whatif.fitted import Explained, Refused, WindowShift, explain
from core.whatif.knobs import KNOBS, Knob, one_step, scaled
from core.whatif.model import Modelled, ask

__all__ = [
    "KNOBS",
    "Change",
    "Explained",
    "Knob",
    "Modelled",
    "Refused",
    "Setting",
    "WindowShift",
    "ask",
    "changed",
    "explain",
    "one_step",
    "scaled",
]
