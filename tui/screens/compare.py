"""Which of these runs holds more? The one screen of `kneescope compare`, a program of its own: nothing on it moves."""

from collections.abc import Iterable
from typing import ClassVar

from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import ScrollableContainer
from textual.content import Content
from textual.driver import Driver
from textual.geometry import Size
from textual.widget import Widget
from textual.widgets import Footer, Static

from core import prose
from core.compare import Against, Comparison, Verdict
from core.report import brackets_table, headlines, sides_table, table_lines, tables_against
from tui.draw.style import THEME_16, Mark, Role, clean, set_up_themes, shorten
from tui.widgets.pieces import styled
from tui.widgets.rate_axis import axis, measured

_VERDICTS: dict[Verdict, Mark] = {
    "better": Mark("✔", "BETTER", "holds"),
    "worse": Mark("✘", "WORSE", "breaks"),
    "not_told": Mark("◐", "NOT TOLD APART", "strong"),
    "refused": Mark("⊘", "NOT COMPARED", "muted"),
}
_NAME = 13
"""Cells of a name beside its bar."""


class Bars(Widget):
    """The brackets of all runs, one below the other on one axis of rates as wide as there is room."""

    def __init__(self, found: Comparison, *, id: str) -> None:
        super().__init__(id=id)
        self._spans = tuple(
            measured(side.low_rps or None, side.high_rps or None, shorten(f"{name} {clean(side.label)}", _NAME))
            for name, side in found.sides
        )

    def render(self) -> Content:
        """A row for each."""
        return axis(self._spans, self.content_size.width)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """As many as there are."""
        return len(self._spans)


class CompareApp(App[None]):
    """The headline, the brackets on one axis of rates, and below them the tables of the text."""

    TITLE = "kneescope"
    ENABLE_COMMAND_PALETTE = False
    AUTO_FOCUS = "#tables"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "leave", "Leave and print the text"),
        Binding("escape,ctrl+c,ctrl+q", "leave", show=False, priority=True),
    ]
    CSS = """
    Screen {
        background: $background;
        color: $foreground;
        layout: vertical;
    }
    #headline, #bars {
        height: auto;
        padding: 0 1;
    }
    #headline {
        background: $surface;
        max-height: 40%;
    }
    #bars {
        margin: 1 0;
        max-height: 30%;
    }
    #tables {
        height: 1fr;
        padding: 0 1;
        scrollbar-size: 1 1;
    }
    #tables Static {
        width: auto;
    }
    Footer {
        background: $surface;
    }
    """

    def __init__(self, found: Comparison, *, driver_class: type[Driver] | None = None) -> None:
        super().__init__(driver_class=driver_class)
        set_up_themes(self)
        self._found = found
        self._headline = Static(id="headline")

    def compose(self) -> ComposeResult:
        yield self._headline
        yield Bars(self._found, id="bars")
        with ScrollableContainer(id="tables"):
            yield Static(Content("\n").join(Content.assemble(styled(line, role)) for line, role in self._lines()))
        yield Footer(compact=True)

    def on_mount(self) -> None:
        """The headline stays as it is."""
        if self.console.color_system == "standard" and not self.is_headless:
            self.theme = THEME_16.name
        said = [line for each, headline in headlines(self._found) for line in _headline(each, headline)]
        self._headline.update(Content("\n").join(said))

    def action_leave(self) -> None:
        """The text is printed by who showed the screen."""
        self.exit()

    def _lines(self) -> Iterable[tuple[str, Role]]:
        """The tables; the title of each stands out."""
        made = [sides_table(self._found), brackets_table(self._found)]
        for each in self._found.against:
            made += tables_against(self._found, each)
        for part in made:
            title, *rows = table_lines(part)
            yield title, "strong"
            yield from ((row, "muted" if at == 0 else "plain") for at, row in enumerate(rows))
            yield "", "plain"
        for each in self._found.against:
            yield from ((f"· {prose.sentence(note)}", "muted") for note in each.notes)


def _headline(each: Against, headline: str) -> Iterable[Content]:
    mark = _VERDICTS[each.verdict]
    yield Content.assemble(styled(f"{mark}  ", mark.role), styled(headline, "strong"))
    yield from (Content.assemble(styled(f"  To tell: {prose.text(tell)}.", "muted")) for tell in each.tells)
