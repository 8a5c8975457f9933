"""Recorded runs from the command line: on the screen, or as a report."""

import asyncio
from pathlib import Path
from typing import cast

from core.errors import UserError
from core.fleet.scalers import Form
from core.report import to_json
from core.run import log as runs
from core.run.events import time_of
from core.run.state import State
from core.run.view import RunView
from core.scaling import scaling_text
from tui.live import hand_over, with_fleet
from tui.results import JsonOut, emit


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


def report(run: str, json_file: str | None, form: str = "text") -> None:
    """The verdict on stdout, or the JSON where it was asked for; `form` other than text: YAML for a scaler in its place."""
    out = JsonOut(json_file)
    if form != "text" and out.to_stdout:
        raise UserError(f"--format {form} and --json - both want stdout; give --json a file.")
    try:
        recorded = Recorded(run)
        if form == "text":
            hand_over(recorded.view(), recorded.path, out, also_say=False)
        else:
            text = scaling_text(recorded.view(), str(recorded.path), cast(Form, form))
            out.write(to_json(recorded.view(), str(recorded.path)))
            emit(text)
    finally:
        out.withdraw()
