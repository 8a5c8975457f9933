"""A twin of the measured server: the embedded engine with constants fitted from a run. It explains and guards, and never answers.

Others import these names, and nothing else of the room.
"""

from core.engine import Limits, StepModel
from core.results import MOST_SHIFT, TwinReading, TwinShift
from core.twin.engine import Emitted, FastEngine, fast_engine
from core.twin.lacking import lacks
from core.twin.limits import limits_of
from core.twin.model import LONG_REQUESTS, LongKnee, PassCurve, Twin
from core.twin.process import TwinProcess
from core.twin.reading import Reader, TwinTask, TwinWindow, read, shift_of
from core.twin.steps import Floats, Lives, fit, fit_lives, lives_of

__all__ = [
    "LONG_REQUESTS",
    "MOST_SHIFT",
    "Emitted",
    "FastEngine",
    "Floats",
    "Limits",
    "Lives",
    "LongKnee",
    "PassCurve",
    "Reader",
    "StepModel",
    "Twin",
    "TwinProcess",
    "TwinReading",
    "TwinShift",
    "TwinTask",
    "TwinWindow",
    "fast_engine",
    "fit",
    "fit_lives",
    "lacks",
    "limits_of",
    "lives_of",
    "read",
    "shift_of",
]
