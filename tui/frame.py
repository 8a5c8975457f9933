"""What one moment looks like to a screen: the view in the panels, the live one beside it, and how they differ."""

from dataclasses import dataclass

from msgspec.structs import replace

from core.compare import Ghost
from core.config import FleetAsk
from core.facts import Said
from core.view import RunView


@dataclass(frozen=True, slots=True)
class Playback:
    """Where a recorded run stands: seconds since it began, how long it is, how fast it plays (times real time). `going`: it was
    still being written when it was read."""

    at_s: float
    length_s: float
    speed: float
    playing: bool
    going: bool = False

    @property
    def at_end(self) -> bool:
        """Whether nothing is left to play."""
        return self.at_s >= self.length_s


@dataclass(frozen=True, slots=True)
class Frame:
    """`view` is drawn in the panels; `live` tells the state of the load and the last event. The two differ while paused, which is:
    while the panels show the past.

    `stopping`: the user asked for the end of load. `playback`: all this is past, None of a live run; `recording` is the whole of
    it, as it ended. `ask`: the fleet as the user set it on the screen, None until he did. `ghost`: the run that is drawn behind;
    `compared`: what the whole run shows beside it, None until that is known.
    """

    view: RunView
    live: RunView
    paused: bool = False
    stopping: bool = False
    playback: Playback | None = None
    ask: FleetAsk | None = None
    recording: RunView | None = None
    ghost: Ghost | None = None
    compared: Said | None = None

    @property
    def whole(self) -> RunView:
        """All that is known of the run, whatever moment the panels show: its time axis is that of all of them."""
        return self.recording or self.live

    @property
    def cursor_s(self) -> float | None:
        """The past moment that the panels show, in seconds since the run began; None where they show the newest."""
        if self.playback is not None:
            return None if self.playback.at_end else self.playback.at_s
        return self.view.now_s if self.paused else None

    @property
    def recorded(self) -> bool:
        """Whether no load can be on behind this."""
        return self.playback is not None

    @property
    def beside_ghost(self) -> Said | None:
        """What is said of the run beside the ghost: with the answer the comparison, before it what the ghost holds."""
        if self.ghost is None:
            return None
        return self.ghost.told if self.compared is None or self.view.known_answer is None else self.compared

    @property
    def fleet_ask(self) -> FleetAsk:
        """The fleet that is asked for: the user's, else the configured one."""
        if self.ask is not None:
            return self.ask
        return self.view.config.fleet if self.view.config else FleetAsk()


def with_fleet(view: RunView, ask: FleetAsk | None) -> RunView:
    """The view with the fleet that was asked for on the screen in place of the configured one; None: as it is."""
    if ask is None or view.config is None or view.config.fleet == ask:
        return view
    return replace(view, config=replace(view.config, fleet=ask))
