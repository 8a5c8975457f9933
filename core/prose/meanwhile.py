"""What happens while a run goes on: the lines of its events."""

from core.facts import Code
from core.prose.figures import Sentence

SENTENCES: dict[Code, Sentence] = {
    "rows_missing": lambda f: (
        f"{f['after_s']:g} s after ours ended the server's metrics still lack an engine that they showed before, "
        "so whether it is idle again is not known"
    ),
}
