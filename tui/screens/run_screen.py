"""What every screen of a run shares: what is probed, the state of the load, the last event, and a word when it is too small."""

from collections.abc import Iterable
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Static

from tui.draw.style import STYLES
from tui.frame import Frame
from tui.widgets.key_footer import KeyFooter
from tui.widgets.panel_content import time_range
from tui.widgets.plot_view import Titled
from tui.widgets.ribbon import Ribbon
from tui.widgets.status import EventLine, HeaderLine, StatusStrip, too_small
from tui.widgets.workers_line import WorkersLine


class RunScreen(Screen[None]):
    """A screen that draws frames. Subclasses give `body` and `draw`, and name the panels that digits maximise."""

    AUTO_FOCUS = ""  # a focused field would take the digits that maximise panels
    ALLOW_IN_MAXIMIZED_VIEW = "#top, #bottom"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "restore", show=False)]
    PANELS: ClassVar[tuple[str, ...]] = ()
    RIBBON: ClassVar[bool] = True
    """Whether the ribbon of the run stands under the lines at the top."""

    def __init__(self) -> None:
        super().__init__()
        self._frame: Frame | None = None
        self._drawn: tuple[object, ...] = ()
        """What the body was drawn from."""
        self._header, self._status, self._event = HeaderLine(), StatusStrip(), EventLine()
        self._workers = WorkersLine()
        self._banner, self._too_small = Static(id="banner"), Static(id="too-small")
        self._ribbon = Ribbon()
        self._top = Vertical(self._header, self._status, self._workers, self._banner, self._ribbon, id="top")

    def body(self) -> Iterable[Widget]:
        """The widgets between the lines at the top and those at the bottom."""
        raise NotImplementedError

    def draw(self, frame: Frame) -> None:
        """Show a frame in the body; called only when there is something new."""
        raise NotImplementedError

    def compose(self) -> ComposeResult:
        yield self._top
        yield from self.body()
        yield Vertical(self._event, KeyFooter(compact=True), id="bottom")
        yield self._too_small

    def show(self, frame: Frame) -> None:
        """Take a frame; the lines at the top and the bottom follow the live view, the body only what has changed."""
        if not self.is_mounted:  # the first time that it is looked at; the next frame is there in a moment
            return
        self._header.show(frame.live)
        self._status.show(frame)
        self._workers.show(frame)
        self._event.show(frame.live)
        self._ribbon.display = self.RIBBON
        if self.RIBBON:
            self._ribbon.show(frame)
        small = "\n".join(too_small(frame.live, *self.size))
        if str(self._too_small.content) != small:
            self._too_small.update(Content(small))
        self._frame = frame
        before, self._drawn = self._drawn, (*_facts(frame), self.size, self._top.size)
        if before != self._drawn:
            self.draw(frame)

    def say(self, text: str) -> None:
        """Put a sentence above the panels, to stay there; literal text."""
        self._banner.update(Content.styled(text, STYLES["breaks"]))
        self._banner.display = True

    @property
    def looked_at(self) -> Titled | None:
        """The panel that is maximised or has the focus."""
        if isinstance(self.maximized, Titled):
            return self.maximized
        focused = self.focused
        within = [] if focused is None else [focused, *focused.ancestors]
        return next((widget for widget in within if isinstance(widget, Titled)), None)

    @property
    def panels(self) -> tuple[str, ...]:
        """Those of the panels that there are now."""
        return self.PANELS

    def panel(self, number: int) -> None:
        """Maximise a panel, or restore when it is the one that is maximised."""
        if number > len(self.panels):
            return
        panel = self.query_one(f"#{self.panels[number - 1]}")
        self.set_focus(None)  # a field that is hidden must not take what is typed
        if self.maximized is panel:
            self.minimize()
        else:
            self.maximize(panel, container=False)

    async def action_restore(self) -> None:
        """All panels again, nothing focused; where they are all there, they show now again."""
        if self.maximized is not None:
            self.minimize()
        else:
            await self.run_action("app.resume")
        self.set_focus(None)


def _facts(frame: Frame) -> tuple[object, ...]:
    """What a body depends on beside its room."""
    view = frame.view
    return view.version, view.now_s, view.config, frame.ask, frame.cursor_s, time_range(frame.whole), frame.beside_ghost
