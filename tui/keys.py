"""Every key of the run's screens in one table: bindings, footer, palette and help are all made from it."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from textual.binding import Binding

MOST_IN_FOOTER = 7
"""Beside the palette's; more than that nobody reads."""


@dataclass(frozen=True, slots=True)
class Key:
    """One command. `names` as textual names the keys; `short` stands in the footer and is found in the palette, `help` explains it.

    `rank`: of the commands that mean something now, the footer shows those of the lowest ranks; None: never. `anywhere`: not
    swallowed by a field that has the focus. `page`: what the help says in place of `help`, where it stands there for several keys.
    """

    names: tuple[str, ...]
    shown_as: str
    action: str
    short: str
    help: str
    rank: int | None = None
    anywhere: bool = False
    page: str = ""


KEYS: tuple[Key, ...] = (
    Key(("x",), "x", "stop_load", "Stop load", "stop the load at once; finished steps are kept", 0, anywhere=True),
    Key(("q",), "q", "leave", "Quit", "stop the load; press again, or without load, to quit", 0, anywhere=True),
    Key(("ctrl+c",), "ctrl+c", "interrupt", "Interrupt", "same as q, whatever is open", anywhere=True),
    Key(
        ("space",),
        "space",
        "pause",
        "Pause",
        "freeze the panels; the load and the top line go on",
        1,
        page="freeze the panels while the load goes on, or go back to now; recorded run: play or pause",
    ),
    Key(("space",), "space", "resume", "Resume", "the panels show now again", 1),
    Key(("space",), "space", "play", "Play", "play or pause a recorded run; at its end, play from the beginning", 1),
    Key(
        ("left",),
        "← →",
        "cursor(-1)",
        "Cursor",
        "show an earlier moment in the panels: back by one column of the ribbon",
        4,
        page="move the cursor on the ribbon: the panels show that moment, the load goes on; so does a click on the ribbon",
    ),
    Key(("right",), "→", "cursor(1)", "Cursor on", "show a later moment in the panels: ahead by one column of the ribbon"),
    Key(
        ("comma", "shift+left"),
        ", .",
        "seek(-1)",
        "Seek",
        "show an earlier moment in the panels: back by 5 % of the run",
        page="the same by 5 % of the run, back or ahead; also ← → with shift",
    ),
    Key(("full_stop", "shift+right"), ".", "seek(1)", "Seek on", "show a later moment in the panels: ahead by 5 % of the run"),
    Key(
        ("end",),
        "end",
        "newest",
        "Now",
        "show the newest moment in the panels, of a recorded run its end",
        page="back to now, as space and esc; recorded run: to its end",
    ),
    Key(
        ("left_square_bracket",),
        "[ ]",
        "speed(-1)",
        "Speed",
        "halve the speed of a recorded run",
        3,
        page="halve or double the speed of a recorded run",
    ),
    Key(("right_square_bracket",), "]", "speed(1)", "Faster", "double the speed of a recorded run"),
    Key(("n",), "n", "end_step", "End step", "end this step with its verdict so far, and go on to the next", 3),
    Key(
        ("plus",),
        "+ -",
        "rate(1)",
        "Rate",
        "with --hold: raise the rate by 10 %",
        2,
        page="with --hold: raise the rate by 10 %, or lower it again",
    ),
    Key(("minus",), "-", "rate(-1)", "Lower rate", "with --hold: lower the rate again", None),
    Key(
        ("r",),
        "r",
        "look_at('ramp')",
        "Ramp",
        "the run in progress: attainment, steps, latencies, queue, KV cache",
        5,
        anywhere=True,
    ),
    Key(("k",), "k", "look_at('knee')", "Knee", "attainment by rate: where it breaks, how sure that is, and why", 5, anywhere=True),
    Key(("f",), "f", "look_at('fleet')", "Fleet", "how many replicas a peak needs, with how much headroom", 5, anywhere=True),
    Key(
        ("w",),
        "w",
        "look_at('what_if')",
        "What-if",
        "after the run: what a model of it says of other limits, lengths, places or KV cache",
        8,
        anywhere=True,
    ),
    *(
        Key(
            (str(n),),
            str(n),
            f"panel({n})",
            "Zoom",
            "show one panel alone; press again for all",
            3 if n == 1 else None,
        )
        for n in range(1, 9)
    ),
    Key(
        ("v",),
        "v",
        "repeat('verify')",
        "Verify",
        "after the answer: judge both ends of its bracket again, by the repeats of the next longer mode, as a new run; press twice",
        6,
    ),
    Key(
        ("R", "shift+r"),
        "R",
        "repeat('again')",
        "Run again",
        "after the end: the same run again, with a file of its own; press twice",
        6,
    ),
    Key(("c",), "c", "copy", "Copy", "copy a summary to paste into an incident", 7),
    Key(("s",), "s", "picture", "Picture", "save this screen as an SVG in the current folder"),
    Key(("question_mark",), "?", "explain", "Explain", "explain this panel and all keys", 2),
)
CONNECT: tuple[Key, ...] = (
    Key(("ctrl+r",), "ctrl+r", "check", "Check", "check the server: about five single requests, no load", 0, anywhere=True),
    Key(
        ("ctrl+s",),
        "ctrl+s",
        "start",
        "Start",
        "start the load; before any checks, run them; while they run, start when they are done",
        0,
        anywhere=True,
    ),
    Key(("ctrl+o",), "ctrl+o", "save", "Save", "save the settings as a profile", 0, anywhere=True),
    Key(("f1", "question_mark"), "f1, ?", "explain", "Explain", "this page; inside a field only f1, because ? is typed there", 0),
    Key(("pagedown",), "pgdn", "read", "Read checks", "show every check in full; tab goes back to the fields"),
    Key(("escape",), "esc", "leave", "Leave", "stop the checks; leave if none are running", 0),
    Key(("ctrl+c",), "ctrl+c", "interrupt", "Interrupt", "same as esc, whatever is open", anywhere=True),
    Key(("f2",), "f2", "recent", "Recent", "choose a server that was checked before; down in an empty URL field does the same", 0),
    Key(("f3",), "f3", "demo", "Demo", "run a simulated replica instead, as `kneescope demo`"),
    Key(
        ("f5",),
        "f5",
        "watch",
        "Watch",
        "show what the server is doing now, as `kneescope watch`: reads its metrics, sends no load",
        0,
    ),
    Key(("f4",), "f4", "limits", "Limits", "choose usual limits: interactive, long-context, code completion, batch", 0),
)
"""The keys of the screen before a run."""
WATCH: tuple[Key, ...] = (
    Key(("q",), "q", "leave", "Quit", "end the watch; nothing was sent, so nothing has to be stopped", 0),
    Key(("ctrl+c",), "ctrl+c", "leave_at_once", "Interrupt", "same as q, whatever is open", anywhere=True),
    Key(("enter",), "enter", "open", "Open", "the page of the chosen replica: all its figures, and plots over time", 0),
    Key(("escape",), "esc", "close", "Back", "back to the table; in the table, clear the filter", 0),
    Key(("slash",), "/", "filter", "Filter", "show only rows whose address or note holds what you type", 0),
    Key(("right",), "← →", "sort(1)", "Sort", "sort by the next column, highest first; ← by the one before", 0),
    Key(("left",), "←", "sort(-1)", "Sort back", "sort by the column before"),
    Key(("r",), "r", "reverse", "Reverse", "turn the order round", 0),
    Key(("down", "j"), "↑ ↓", "move(1)", "Next", "choose another row; also pgup and pgdn"),
    Key(("up", "k"), "↑", "move(-1)", "Previous", "choose the row above"),
    Key(("pagedown",), "pgdn", "page(1)", "Page on", "as many rows on as are seen"),
    Key(("pageup",), "pgup", "page(-1)", "Page back", "as many rows back as are seen"),
    Key(("question_mark",), "?", "explain", "Explain", "the keys, and what each column is", 0),
)
"""The keys of `kneescope watch`."""
_TEXTUALS = (
    ("esc", "close what is open, or show all panels again"),
    ("ctrl+p", "command palette: what you can do now, and the themes"),
)
"""Keys that are not in the table."""
TYPED = frozenset(key.action.partition("(")[0] for key in KEYS if key.action != "interrupt")
"""What keys do that somebody may be typing into a field of text."""


def bindings() -> Iterator[Binding]:
    """The table as textual's bindings."""
    for key in KEYS:
        for name in key.names:
            yield Binding(name, key.action, key.short, show=False, key_display=key.shown_as, priority=key.anywhere)


def connect_bindings() -> Iterator[Binding]:
    """Those of the screen before a run; its footer is textual's own, which shows those that have a rank."""
    for key in CONNECT:
        for at, name in enumerate(key.names):
            yield Binding(name, key.action, key.short, show=key.rank is not None and at == 0, priority=key.anywhere)


def connect_help() -> list[tuple[str, str]]:
    """Those keys and what they do."""
    return [(key.shown_as, key.help) for key in CONNECT] + [
        ("tab", "next field; with shift the previous one"),
        _TEXTUALS[1],
    ]


def watch_bindings() -> Iterator[Binding]:
    """Those of a watch, with textual's own footer."""
    for key in WATCH:
        for at, name in enumerate(key.names):
            shown = key.rank is not None and at == 0
            yield Binding(name, key.action, key.short, show=shown, key_display=key.shown_as, priority=key.anywhere)


def watch_help() -> list[tuple[str, str]]:
    """Those keys and what they do, one line for what belongs together."""
    paired = ("←", "↑", "pgdn", "pgup")
    return [(key.shown_as, key.help) for key in WATCH if key.shown_as not in paired] + [_TEXTUALS[1]]


def in_footer(active: Iterable[str], width: int) -> list[Key]:
    """Of the actions that mean something now the most important ones that so many cells hold whole, the most important first."""
    able = set(active)
    panels = sum(key.action.startswith("panel(") and key.action in able for key in KEYS)
    if "play" in able:  # in a recording the other screens and the way through it matter more
        able -= {"panel(1)"}
    ranked = sorted((key.rank, at) for at, key in enumerate(KEYS) if key.rank is not None and key.action in able)
    chosen = [_counted(KEYS[at], panels) for _, at in ranked[:MOST_IN_FOOTER]]
    while sum(len(key.shown_as) + len(key.short) + 2 for key in chosen) - 1 > width:  # the last one's blank may be cut
        chosen.pop()
    return chosen


def in_help(panels: int) -> list[tuple[str, str]]:
    """Keys and what they do, for the page about them on a screen of so many panels: what belongs together on one line."""
    rows: dict[str, str] = {}
    for key in KEYS:
        if (key.rank is not None or key.page or key.action == "picture") and (panels or key.action != "panel(1)"):
            name = "q, ctrl+c" if key.action == "leave" else _counted(key, panels).shown_as
            rows.setdefault(name, key.page or key.help)
    return [*rows.items(), *_TEXTUALS]


def alone(key: Key) -> str:
    """How the key of one command is written, of a pair that shares its place in the footer its own half."""
    return key.shown_as.split()[0]


def _counted(key: Key, panels: int) -> Key:
    """The digits as far as there are panels."""
    return replace(key, shown_as=f"1-{panels}") if key.action == "panel(1)" else key
