"""Traffic as somebody recorded it: files of lengths, prompts, conversations and traces in, typed rows out. Pure but for reading.

Others import these names, and nothing else of the room.
"""

from core.traffic.arrivals import Asked, Given, TraceArrivals, load_arrivals
from core.traffic.dataset import Dataset, Drawn, Span, checksum, draw, look_at, open_dataset, row_of
from core.traffic.files import path_of
from core.traffic.forms import Form
from core.traffic.index import Progress
from core.traffic.lengths import LengthsFile, mix_of, read_lengths
from core.traffic.refusals import BadRows, too_many_bad
from core.traffic.rows import Conversation, Message, Prompt, Row, TraceRow, Turn, prompts_of
from core.traffic.ticks import spread
from core.traffic.trace import Chains, Trace, fitting, usable, window
from core.traffic.trace_forms import TimeUnit, TraceFormat
from core.traffic.trace_reading import read_trace

__all__ = [
    "Asked",
    "BadRows",
    "Chains",
    "Conversation",
    "Dataset",
    "Drawn",
    "Form",
    "Given",
    "LengthsFile",
    "Message",
    "Progress",
    "Prompt",
    "Row",
    "Span",
    "TimeUnit",
    "Trace",
    "TraceArrivals",
    "TraceFormat",
    "TraceRow",
    "Turn",
    "checksum",
    "draw",
    "fitting",
    "load_arrivals",
    "look_at",
    "mix_of",
    "open_dataset",
    "path_of",
    "prompts_of",
    "read_lengths",
    "read_trace",
    "row_of",
    "spread",
    "too_many_bad",
    "usable",
    "window",
]
