"""Recorded runs from the command line: on the screen, or as a report."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, cast

from core.config import FleetAsk
from core.errors import UserError
from core.report import Form, scaling_text, to_json, to_markdown, while_going
from core.run import Replay, is_going, read_run, resolve_run
from core.view import RunView
from tui.cli import kept
from tui.cli.output import JsonOut, emit
from tui.cli.probe import hand_over
from tui.frame import Playback, with_fleet

if TYPE_CHECKING:
    from tui.app import Name

SPEEDS = (0.25, 64.0)
"""A run of an hour is through in a minute; slower than a quarter nothing more is to be seen."""


class Recorded:
    """A run read back from its file, standing at its end until somebody moves in it. The views are those that there were live."""

    def __init__(self, run: str, clock: Callable[[], float] = time.monotonic) -> None:
        """`run` is a path, or `last`. Raises UserError for what is no run file."""
        self.path: Path = resolve_run(run)
        self.going = is_going(self.path)  # before it is read: what ends meanwhile is still called going, never the reverse
        self._clock = clock
        try:
            self._replay = Replay(read_run(self.path))
            self._whole = self._replay.view(self._replay.length_s)
        except (ArithmeticError, LookupError, MemoryError, ValueError) as error:  # lines that are whole and cannot be true
            raise UserError(f"{self.path} is not what kneescope wrote ({error}): the file was changed or damaged.") from error
        self._at_s, self._since, self._speed, self._playing = self._replay.length_s, 0.0, 1.0, False

    def view(self) -> RunView:
        """The run at the moment where it stands."""
        return self._replay.view(self._now_s())

    @property
    def playback(self) -> Playback:
        """Where it stands."""
        at_s = self._now_s()
        return Playback(at_s=at_s, length_s=self._replay.length_s, speed=self._speed, playing=self._playing, going=self.going)

    @property
    def whole(self) -> RunView:
        """The run as it ended."""
        return self._whole

    @property
    def result(self) -> RunView:
        """The view where it stands, for a report: a run that still goes on has no answer yet and is said to go on."""
        return while_going(self.view()) if self.going else self.view()

    def play(self) -> None:
        """Play on, or from the beginning when it stands at the end."""
        at_s = self._now_s()
        self._set(0.0 if at_s >= self._replay.length_s else at_s, playing=True)

    def hold(self) -> None:
        """Stand still."""
        self._set(self._now_s(), playing=False)

    def seek(self, at_s: float) -> None:
        """Go to a moment, in seconds since the run began; beyond its ends is at them."""
        self._set(min(max(at_s, 0.0), self._replay.length_s), playing=self._playing)

    def faster(self, factor: float) -> None:
        """Multiply the speed, within limits."""
        self._set(self._now_s(), playing=self._playing)
        slowest, fastest = SPEEDS
        self._speed = min(max(self._speed * factor, slowest), fastest)

    def _set(self, at_s: float, *, playing: bool) -> None:
        self._at_s, self._since, self._playing = at_s, self._clock(), playing

    def _now_s(self) -> float:
        if not self._playing:
            return self._at_s
        at_s = self._at_s + (self._clock() - self._since) * self._speed
        if at_s >= self._replay.length_s:
            self._set(self._replay.length_s, playing=False)
            return self._at_s
        return at_s


def show(run: str) -> None:
    """The screen over a recorded run, and its verdict when another fleet was set there. Needs a terminal."""
    recorded = Recorded(run)
    before = kept.read(recorded.path, recorded.view())
    ask = screen(recorded, before)
    if ask is not None and ask != before:
        view = recorded.result
        if (changed := with_fleet(view, ask)) != view or before is not None:
            hand_over(changed, recorded.path, JsonOut(None), also_say=False)


def screen(recorded: Recorded, ask: FleetAsk | None, on: "Name" = "ramp") -> FleetAsk | None:
    """The screens over a recorded run, with the fleet that was set for it before; returns and keeps what was set there."""
    from tui.terminal import display  # textual and plotext are loaded only when they are shown

    left = asyncio.run(display.show(recorded, player=recorded, path=str(recorded.path), ask=ask, on=on))
    if left.ask != ask:
        kept.write(recorded.path, recorded.view(), left.ask)
    return left.ask


def report(run: str, json_file: str | None, form: str = "text") -> None:
    """The verdict on stdout, or the JSON where it was asked for; `form` other than text: a summary, or YAML for a scaler, in its
    place."""
    out = JsonOut(json_file)
    if form != "text" and out.to_stdout:
        raise UserError(f"--format {form} and --json - both write to stdout; give --json a file.")
    try:
        recorded = Recorded(run)
        path = recorded.path
        view = with_fleet(recorded.result, kept.read(path, recorded.view()))
        if form == "text":
            hand_over(view, path, out, also_say=False)
            return
        text = to_markdown(view, str(path)) if form == "md" else scaling_text(view, str(path), cast(Form, form))
        out.write(to_json(view, str(path)))
        emit(text)
    finally:
        out.withdraw()
