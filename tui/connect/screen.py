"""The Connect screen: is it safe and sensible to start? The form, the checks, what is to be expected, and Start."""

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from textual import events
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.geometry import Size
from textual.screen import Screen
from textual.widgets import Button, Footer, Static

from core.units import clock
from core.view import RunView
from tui.cli.profiles import URL
from tui.connect.fields import FIELDS
from tui.connect.forecast import Forecast
from tui.connect.form import Form
from tui.draw.style import CHECKS, Mark, clean, shorten
from tui.widgets import checks
from tui.widgets.pieces import Piece, fit, join, mark_part, styled
from tui.widgets.plot_view import Titled

START = "Start"
NOTHING_SENT, LIST_SENT = "Nothing has been sent.", "Nothing has been sent but one request for the list of models."
BEFORE = (
    "The checks send about five single requests, one after another, and no load. f5 only watches the server. "
    "No server at hand? f3 runs against a simulated one."
)
_LABEL = 7
_SEPARATOR = " · "

NOT_CHECKED = Mark("·", "NOT CHECKED", "muted")
CHECKING = Mark("…", "CHECKING", "strong")
STARTING = Mark("…", "CHECKING, THEN START", "strong")
READY = Mark("✔", "READY", "holds")
WARNED = Mark("▲", "READY, WITH WARNINGS", "strong")
ASKS = Mark("▲", "SERVING OTHERS", "strong")
REFUSED = Mark("✘", "REFUSED", "breaks")
CHANGED = Mark("▲", "CHANGED SINCE THE CHECKS", "strong")
STOPPED = Mark("■", "CHECKS STOPPED", "strong")
BROKEN = Mark("✘", "CHECKS FAILED TO RUN", "breaks")
WRONG = Mark("✘", "INVALID SETTINGS", "breaks")


@dataclass(frozen=True, kw_only=True)
class Shown:
    """All that the screen says at a moment. `checks` None: there were none; `note` stands above them, `stale`: they are not of what
    the fields hold now. `sent`: a server was asked for its models. `next` says what Start needs or does."""

    mark: Mark = NOT_CHECKED
    problems: Mapping[str, str] = field(default_factory=dict)
    placeholders: Mapping[str, str] = field(default_factory=dict)
    checks: RunView | None = None
    note: str | None = None
    sent: bool = False
    stale: bool = False
    age_s: float | None = None
    forecast: Forecast | None = None
    command: str = ""
    next: str = ""
    understood: str | None = None
    """The address that the typed one stands for, where it is another."""

    @property
    def may_start(self) -> bool:
        """Whether Start does start."""
        return self.mark in (READY, WARNED)

    @property
    def may_ask(self) -> bool:
        """Whether Start asks for the permission without which the checks do not go on."""
        return self.mark == ASKS


def put(static: Static, content: Content) -> None:
    """Show it, unless it is there already: every update lays the screen out again."""
    if not (isinstance(static.content, Content) and static.content.is_same(content)):
        static.update(content)


class ChecksPanel(VerticalScroll, Titled, can_focus=True):
    """The checks as they come in, or what is wrong with the fields, or what will happen; whole when somebody goes there."""

    _shown = Shown()

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._text = Static()
        self._reading, self._read_at = (0, 0.0), Size(0, 0)

    def compose(self) -> ComposeResult:
        yield self._text

    def show(self, shown: Shown) -> None:
        """Take what is to be said."""
        self._shown = shown
        self.set_class(shown.stale, "-stale")
        self._tell()

    def on_resize(self) -> None:
        """Another width breaks the lines elsewhere; the check that was at the top is there again."""
        self._tell()
        self._read_on_soon()

    def on_mount(self) -> None:
        """What is said gets longer or shorter some time after it is said."""
        self.watch(self, "virtual_size", self._read_on_soon, init=False)

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Somebody reads on; a scroll that another size makes is nobody's."""
        super().watch_scroll_y(old_value, new_value)
        if self.has_focus and self.size == self._read_at:
            self._reading = _place(self._starts(), new_value)

    def _read_on_soon(self) -> None:
        self.call_after_refresh(self._read_on)

    def _read_on(self) -> None:
        """Go on reading where that was, in this size."""
        if not self.has_focus:
            return
        starts = self._starts()
        at = min(self._reading[0], len(starts) - 2)
        self.scroll_to(y=starts[at] + round(self._reading[1] * (starts[at + 1] - starts[at])), animate=False, immediate=True)
        self._read_at = self.size

    def _starts(self) -> list[int]:
        """The first rows of what is said, and the row behind the last; about so where a narrow panel breaks lines once more."""
        lines = self._content(self.size.width, 0).plain.split("\n")
        scale = max(1.0, self.virtual_size.height / len(lines)) if self.virtual_size.height > self.size.height else 1.0
        return [round(at * scale) for at, line in enumerate([*lines, ""]) if at == 0 or not line.startswith(" ")]

    def watch_has_focus(self, has_focus: bool) -> None:
        """To be read: in whole sentences; left again: at a glance, from the top."""
        super().watch_has_focus(has_focus)
        self._reading, self._read_at = (0, 0.0), self.size
        self._tell()
        if not has_focus:
            self.scroll_home(animate=False)

    def _tell(self) -> None:
        """At a glance what fits, with a word for how to read the rest."""
        width, height = self.size.width, self.size.height
        glance, whole = self._content(width, height), self._content(width, 0)
        cut = not whole.is_same(glance)
        put(self._text, whole if self.has_focus else glance)
        more = len(whole.split("\n")) > height
        self.set_title(_title(self._shown, "↑ ↓ more" if self.has_focus and more else "pgdn: in full" if cut else ""))

    def _content(self, width: int, height: int) -> Content:
        """What is wrong first; of the checks as much as fits so many rows, 0: all of it."""
        shown = self._shown
        lines = [_sentence(CHECKS["refuse"], f"{_label(name)}{text}", width) for name, text in shown.problems.items()]
        if shown.note is not None:
            lines.append(_sentence(None, shown.note, width))
        if shown.checks is not None:
            above = "\n".join(line.plain for line in lines).count("\n") + 1 if lines else 0
            lines.append(checks.content(shown.checks, width, max(1, height - above) if height else 0))
        elif not shown.problems:
            lines.append(_sentence(None, f"{LIST_SENT if shown.sent else NOTHING_SENT} {BEFORE}", width))
        return Content("\n").join(lines)


def _place(starts: Sequence[int], y: float) -> tuple[int, float]:
    """Which of the parts that start at these rows a row is in, and how far, as a share of it."""
    at = max((at for at, start in enumerate(starts[:-1]) if start <= y), default=0)
    return at, (y - starts[at]) / max(1, starts[at + 1] - starts[at])


def _title(shown: Shown, more: str) -> tuple[Piece, ...]:
    pieces = [Piece("checks before load", "strong")]
    if shown.checks is not None:
        found = shown.checks.checks
        pieces.append(Piece(f"{len(found)} done", "plain", 3))
        for status in ("warn", "refuse"):
            mark, n = CHECKS[status], sum(check.status == status for check in found)
            if n:
                pieces.append(Piece(f"{mark.glyph} {n} {mark.word}", mark.role, 2))
    if shown.stale:
        pieces.append(Piece("for earlier settings", "strong", 0))
    elif shown.age_s is not None and shown.age_s >= 1:
        pieces.append(Piece(f"{clock(shown.age_s)} ago", "muted", 4))
    if more:
        pieces.append(Piece(more, "muted", 1))
    return tuple(pieces)


def _label(name: str) -> str:
    """The field of a problem, where its sentence does not begin with an option's name."""
    return f"{FIELDS[name].label}: " if name == "more" else ""


def _sentence(mark: Mark | None, text: str, width: int) -> Content:
    head = f"{mark.glyph} " if mark else ""
    first, *rest = textwrap.wrap(clean(text), max(20, width - len(head))) or [""]
    role = mark.role if mark else "plain"
    return Content.assemble(styled(head, role), styled("\n".join([first, *(" " * len(head) + line for line in rest)])))


class ExpectPanel(Vertical, Titled):
    """How long, how high, how much; and Start."""

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._lines, self._next = Static(id="forecast"), Static(id="next")
        self._start = Button(START, id="start", classes="-off", compact=True)  # a disabled one would give its focus away

    def compose(self) -> ComposeResult:
        yield self._lines
        yield Horizontal(self._start, self._next, id="start-row")

    def show(self, shown: Shown, *, brief: bool) -> None:
        """Take what is to be said; `brief`: in one line each."""
        self.set_title((Piece("what to expect", "strong"),))
        width = self.size.width
        put(self._lines, _forecast_lines(shown.forecast, width, brief=brief))
        usable = shown.may_start or shown.may_ask
        self._start.set_class(not usable, "-off")
        put(self._next, Content.assemble(styled(shown.next, "strong" if usable else "muted")))


def _forecast_lines(known: Forecast | None, width: int, *, brief: bool) -> Content:
    if known is None:
        return Content.assemble(styled("shown when the fields are valid", "muted"))
    lines: list[Content] = []
    for label, text in zip(Forecast._fields, known, strict=True):
        room = max(20, width - _LABEL)
        first, *rest = [shorten(text, room)] if brief else textwrap.wrap(text, room)
        lines.append(Content.assemble(styled(f"{label:<{_LABEL}}", "muted"), styled(first, "strong")))
        lines += [Content.assemble(styled(" " * _LABEL + line, "strong")) for line in rest]
    return Content("\n").join(lines)


class Heading(Static):
    """The top line: what this is, and how it stands."""

    def show(self, mark: Mark) -> None:
        """Take the state."""
        room = self.size.width - len(str(mark)) - 2
        left = join(fit((Piece("kneescope", "strong"), Piece("is it safe and sensible to start?", "muted", 1)), room))
        space = " " * max(1, self.size.width - left.cell_length - len(str(mark)))
        put(self, Content.assemble(left, space, mark_part(mark)))


class ConnectScreen(Screen[None]):
    """Draws what it is shown; what is to be done is the app's."""

    AUTO_FOCUS = "Input"

    def __init__(self, texts: Mapping[str, str]) -> None:
        super().__init__()
        self.form = Form(texts, id="form", classes="panel")
        self._heading, self._hint, self._command = Heading(id="heading"), Static(id="hint"), Static(id="command")
        self._checks, self._expect = ChecksPanel(id="checks", classes="panel"), ExpectPanel(id="expect", classes="panel")
        self._too_small = Static(id="too-small")
        self._shown: Shown | None = None

    def compose(self) -> ComposeResult:
        yield self._heading
        with Horizontal(id="body"):
            yield Vertical(self.form, self._command, id="left")
            yield Vertical(self._checks, self._expect, id="right")
        yield Vertical(self._hint, Footer(compact=True), id="foot")
        yield self._too_small

    def show(self, shown: Shown, *, again: bool = False) -> None:
        """Take what is to be said; `again` also when it is the same, for another size."""
        if shown == self._shown and not again:
            return
        self._shown = shown
        self._heading.show(shown.mark)
        self.form.set_title((Piece("what to run", "strong"),))
        self.form.mark(shown.problems)
        self.form.fill_in(shown.placeholders)
        self._checks.show(shown)
        self._expect.show(shown, brief=self.has_class("-short") or self.has_class("-middle"))
        command = (styled("the same as  ", "muted"), styled(clean(shown.command))) if shown.command else ()
        put(self._command, Content.assemble(*command))
        put(
            self._too_small,
            Content(f"{shown.mark}\n{self.size.width}x{self.size.height} is too small,\nit takes 60x16.\nesc leaves"),
        )
        self._say_hint()

    @property
    def too_small(self) -> bool:
        """Whether there is no room for anything."""
        return self.has_class("-cramped") or self.has_class("-squat")

    def on_resize(self) -> None:
        """The field that has the focus stays in sight."""
        self.call_after_refresh(self._see_focus)

    def _see_focus(self) -> None:
        if self.focused is not None and not self.too_small and self.focused is not self._checks:
            self.focused.scroll_visible(animate=False)

    def read_checks(self) -> None:
        """The checks in whole sentences."""
        self._checks.focus()

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        """Another field, another hint."""
        self._say_hint()

    def _say_hint(self) -> None:
        """What the focused field is for, or what is wrong with it."""
        nodes = self.focused.ancestors_with_self if self.focused is not None else []
        name = next((node.name for node in nodes if node.name in FIELDS), None)
        if name is None:
            put(self._hint, Content())
        elif self._shown is not None and name in self._shown.problems:
            put(self._hint, _sentence(CHECKS["refuse"], self._shown.problems[name], self._hint.size.width))
        else:
            known = self._shown.understood if self._shown is not None and name == URL else None
            arrow = [styled(f"→ {clean(known)}  ", "strong")] if known else []
            put(self._hint, Content.assemble(*arrow, styled(FIELDS[name].help, "muted")))
