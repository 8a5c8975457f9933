"""Recorded runs from the command line: on the screen, or as a report."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, cast

from core.config import FleetAsk
from core.errors import UserError
from core.history import (
    resolve,
)
from core.report import (
    Form,
    RowForm,
    request_text,
    scaling_text,
    to_exposition,
    to_html,
    to_json,
    to_markdown,
    while_going,
)
from core.run import (
    Replay,
    Reread,
    is_going,
    read_run,
    request_rows,
    whole_file,
)
from core.view import RunView
from tui.cli import ghost, kept
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
        """`run` is a path, `last`, a label, or a number of the list. Raises UserError for what is no run file."""
        self.path: Path = resolve(run)
        self.going = is_going(self.path)  # before it is read: what ends meanwhile is still called going, never the reverse
        self._clock = clock
        with whole_file(self.path):
            self._replay = Replay(Reread(self.path))
            self._whole = self._replay.view(self._replay.length_s)
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


def show(run: str, behind: str | None = None) -> None:
    """The screen over a recorded run, and its verdict when another fleet was set there. `behind`: a run to draw behind it. Needs a
    terminal."""
    recorded = Recorded(run)
    config = recorded.whole.config
    beside = None if config is None else ghost.of(behind, config.slo)
    before = kept.read(recorded.path, recorded.view())
    ask = screen(recorded, before, beside=beside)
    if ask is not None and ask != before:
        view = recorded.result
        if (changed := with_fleet(view, ask)) != view or before is not None:
            hand_over(changed, recorded.path, JsonOut(None), also_say=False)


def screen(recorded: Recorded, ask: FleetAsk | None, on: "Name" = "ramp", beside: ghost.Beside | None = None) -> FleetAsk | None:
    """The screens over a recorded run, with the fleet that was set for it before; returns and keeps what was set there."""
    from tui.terminal import display  # textual and plotext are loaded only when they are shown

    left = asyncio.run(display.show(recorded, player=recorded, path=str(recorded.path), ask=ask, on=on, beside=beside))
    if left.ask != ask:
        kept.write(recorded.path, recorded.view(), left.ask)
    return left.ask


def report(run: str, json_file: str | None, form: str = "text") -> None:
    """The verdict on stdout, or the JSON where it was asked for; `form` other than text: what is printed in its place."""
    out = JsonOut(json_file)
    if form != "text" and out.to_stdout:
        raise UserError(f"--format {form} and --json - both write to stdout; give --json a file.")
    try:
        if form in ("csv", "jsonl"):
            if json_file is not None:
                out.write(_result(Recorded(run)))
            _emit_requests(resolve(run), cast(RowForm, form))
            return
        recorded = Recorded(run)
        path = recorded.path
        view = _with_kept(recorded)
        if form == "text":
            hand_over(view, path, out, also_say=False)
            return
        text = _as(form, view, str(path))
        out.write(to_json(view, str(path)))
        emit(text)
    finally:
        out.withdraw()


def _with_kept(recorded: Recorded) -> RunView:
    """The run as a report shows it, with the fleet that was set on its screen."""
    return with_fleet(recorded.result, kept.read(recorded.path, recorded.view()))


def _result(recorded: Recorded) -> str:
    return to_json(_with_kept(recorded), str(recorded.path))


def _as(form: str, view: RunView, path: str) -> str:
    match form:
        case "md":
            return to_markdown(view, path)
        case "html":
            return to_html(view, path)
        case "prom":
            return to_exposition(view)
        case _:
            return scaling_text(view, path, cast(Form, form))


def _emit_requests(path: Path, form: RowForm) -> None:
    """The rows as they are made; no more when nobody reads them."""
    with whole_file(path):
        for text in request_text(request_rows(lambda: read_run(path)), form):
            if not emit(text):
                return
