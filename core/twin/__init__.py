"""A twin of the measured server: the embedded engine with constants fitted from a run. It explains and guards, and never answers.

Others import these names, and nothing else of the room.
"""

from core.engine import Limits, StepModel
from core.results import MOST_SHIFT, TwinReading, TwinShift
from core.twin.engine import Emitted, FastEngine, fast_engine
from core.twin.limits import limits_of
from core.twin.model import LongKnee, PassCurve, Twin
from core.twin.reading import Reader, TwinTask, TwinWindow, read, shift_of
from core.twin.steps import fit, slower_by

__all__ = [
    "MOST_SHIFT",
    "Emitted",
    "FastEngine",
    "Limits",
    "LongKnee",
    "PassCurve",
    "Reader",
    "StepModel",
    "Twin",
    "TwinReading",
    "TwinShift",
    "TwinTask",
    "TwinWindow",
    "fast_engine",
    "fit",
    "limits_of",
    "read",
    "shift_of",
    "slower_by",
]
