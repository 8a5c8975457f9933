"""Every key of the run's screens in one table: bindings, footer, palette and help are all made from it."""

from collections.abc import Iterator
from dataclasses import dataclass

from textual.binding import Binding

MOST_IN_FOOTER = 7


@dataclass(frozen=True, slots=True)
class Key:
    """One command. `keys` as textual names them, with commas between; `short` stands in the footer, `help` on the help page and in
    the palette. `footer` False: works, but the footer does not show it. `anywhere`: not swallowed by a field that has the focus."""

    keys: str
    action: str
    short: str
    help: str
    shown_as: str
    footer: bool = True
    anywhere: bool = False


KEYS: tuple[Key, ...] = (
    Key("space", "pause", "Pause view", "hold the panels still; the load goes on, its state stays live", "space"),
    Key("space", "resume", "Resume", "live again", "space"),
    Key("space", "play", "Play", "play a recorded run, or hold it; at its end from the beginning", "space"),
    Key("left_square_bracket", "speed(-1)", "Speed", "half the speed of a recorded run", "[ ]"),
    Key("right_square_bracket", "speed(1)", "Faster", "double it", "]", footer=False),
    Key("comma", "seek(-1)", "Seek", "back by a twentieth of a recorded run", ", ."),
    Key("full_stop", "seek(1)", "Forward", "forward by a twentieth", ".", footer=False),
    Key("n", "end_step", "End step", "end this step unjudged and go on with the next", "n"),
    Key("x", "stop_load", "Stop load", "stop the load at once; what is finished is kept", "x", anywhere=True),
    Key("plus", "rate(1)", "Rate", "with --hold: the rate up by 10 %", "+ -"),
    Key("minus", "rate(-1)", "Lower rate", "with --hold: the rate down again", "-", footer=False),
    Key("1,2,3,4,5,6", "panel", "Zoom", "one panel alone, and back; esc shows all again", "1-6"),
    Key("r", "look_at('ramp')", "Ramp", "the run as it goes: floor, steps, latencies, queue, KV cache", "r"),
    Key("k", "look_at('knee')", "Knee", "attainment against rate: where it breaks, how sure that is, and why", "k"),
    Key("f", "look_at('fleet')", "Fleet", "how many replicas for a peak, with how much headroom", "f"),
    Key("s", "picture", "Picture", "save this screen as a picture (SVG)", "s", footer=False),
    Key("c", "copy", "Copy", "copy a summary that can be pasted into an incident", "c"),
    Key("question_mark", "explain", "Explain", "explain the focused panel, and all keys", "?"),
    Key("q", "leave", "Quit", "while loading: stop the load, the second time leave; without load: leave", "q", anywhere=True),
)


def bindings() -> Iterator[Binding]:
    """The table as textual's bindings; digits each carry their panel's number."""
    for key in KEYS:
        for name in key.keys.split(","):
            action = f"{key.action}({name})" if key.action == "panel" else key.action
            first = name == key.keys.split(",")[0]
            yield Binding(
                name,
                action,
                key.short,
                show=key.footer and first,
                key_display=key.shown_as,
                priority=key.anywhere,
                tooltip=key.help,
            )


ACTIONS = frozenset(key.action.partition("(")[0] for key in KEYS)
"""All that a key here does."""
