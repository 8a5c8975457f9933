"""What the keys do and what each panel answers."""

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from tui.widgets.fleet_panel import FleetPanel
from tui.widgets.floor import FloorPanel
from tui.widgets.ladder import Ladder
from tui.widgets.pieces import styled
from tui.widgets.status import StatusStrip

KEYS = (
    ("x", "stop the load at once; what is finished is kept"),
    ("q, ctrl+c", "while loading the same, again: leave; without load: leave"),
    ("space", "hold the panels still; the load goes on, its state is live"),
    ("1-6", "one panel alone, and back; esc shows all again"),
    ("+ -", "with --hold: the rate up by 10 %, and down again"),
    ("f", "set peak and headroom of the fleet, and back"),
)
_PANELS = (
    ("top line", StatusStrip.HELP),
    ("1 floor", FloorPanel.HELP),
    ("2 steps", Ladder.HELP),
    ("3 TTFT", "time to first token of each second; the dashed line: limit"),
    ("4 TPOT", "time per output token after the first; shaded: every 2nd step"),
    ("5 queue", "without a first token, in flight; the server's own counts"),
    ("6 KV cache", "share in use; ▾ preemption: it was full, work is done again"),
    ("f fleet", FleetPanel.HELP),
)


class HelpScreen(ModalScreen[None]):
    """One page; any of its keys closes it."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,question_mark,enter", "dismiss", "Close")]

    def compose(self) -> ComposeResult:
        with Vertical(id="help"):
            yield Static(_rows("Keys", KEYS))
            yield Static(_rows("Panels", _PANELS))


def _rows(title: str, rows: tuple[tuple[str, str], ...]) -> Content:
    lines = [Content.assemble(styled(title, "muted"))]
    lines += [Content.assemble(styled(f"{name:<12}", "strong"), styled(text, "plain")) for name, text in rows]
    return Content("\n").join(lines)
