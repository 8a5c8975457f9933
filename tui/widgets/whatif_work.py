"""The model of the what-if screen at work: in a thread of its own, one question at a time, the newest one first."""

import threading
from collections.abc import Callable
from pathlib import Path

from core.errors import UserError
from core.results import Knee
from core.run import read_run, recording
from core.whatif import Change, Explained, Modelled, Refused, ask, explain

Model = tuple[Explained | Refused, Knee]
Found = Model | tuple[Change, Modelled | str] | str
"""What comes of the work: the model, an answer (or why there is none) with its change, or why there is no model."""


Tell = Callable[[Found], None]


class Work:
    """A thread that ends with the program, whatever it is at: an answer takes about a second, the model a few."""

    def __init__(self, path: Path, tell: Tell) -> None:
        self._path, self._tell = path, tell
        self._wanted: Change | None = None
        self._news = threading.Condition()
        threading.Thread(target=self._work, daemon=True, name="what-if").start()

    def want(self, change: Change) -> None:
        """Ask; what was asked before and is not begun yet is forgotten."""
        with self._news:
            self._wanted = change
            self._news.notify()

    def _work(self) -> None:
        try:
            run = recording(read_run(self._path))
            explained = explain(run)
        except (UserError, ArithmeticError, LookupError, ValueError, OSError) as error:
            self._tell(f"There is no model of this run: {error}")
            return
        self._tell((explained, run.knee))
        if isinstance(explained, Refused):
            return
        while True:
            with self._news:
                self._news.wait_for(lambda: self._wanted is not None)
                change, self._wanted = self._wanted, None
            if change is None:
                continue
            try:
                self._tell((change, ask(explained, change)))
            except (UserError, ValueError) as error:
                self._tell((change, str(error)))
