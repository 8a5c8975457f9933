"""Recorded runs from the command line: on the screen, or as a report."""

import asyncio
from pathlib import Path

from core.errors import UserError
from core.report import while_going
from core.run import log as runs
from core.run.events import time_of
from core.run.state import State
from core.run.view import RunView
from tui.live import hand_over, with_fleet
from tui.results import JsonOut


class Recorded:
    """A run read back from its file: the same views as when it was live, standing at its end."""

    def __init__(self, run: str) -> None:
        """`run` is a path, or `last`. Raises UserError for what is no run file."""
        self.path: Path = runs.resolve(run)
        state, now = State(), 0.0
        try:
            for event in runs.read(self.path):
                state.apply(event)
                now = time_of(event)
            self._view = state.view(now)
        except (ArithmeticError, LookupError, MemoryError, ValueError) as error:  # lines that are whole and cannot be true
            raise UserError(f"{self.path} cannot be what kneescope wrote ({error}): the file was changed or damaged.") from error

    def view(self) -> RunView:
        """The run as it ended, or as far as it was recorded."""
        return self._view


def show(run: str) -> None:
    """The screen over a recorded run, and its verdict when another fleet was set there. Needs a terminal."""
    recorded = Recorded(run)
    from tui import display  # textual and plotext are loaded only when they are shown

    before = recorded.view()
    view = with_fleet(before, asyncio.run(display.show(recorded, recorded=True)))
    if view != before:
        hand_over(view, recorded.path, JsonOut(None), also_say=False)


def report(run: str, json_file: str | None) -> None:
    """The verdict on stdout, or the JSON where it was asked for."""
    out = JsonOut(json_file)
    try:
        path = runs.resolve(run)
        going = runs.is_going(path)  # before it is read: what ends meanwhile is then still called going, never the reverse
        recorded = Recorded(str(path))
        view = while_going(recorded.view()) if going else recorded.view()
        hand_over(view, recorded.path, out, also_say=False)
    finally:
        out.withdraw()
