"""The fields of the Connect screen: what they hold, what is wrong with them, and when one is left."""

from collections.abc import Iterable, Mapping, Sequence

from rich.cells import cell_len
from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.containers import Horizontal, VerticalScroll
from textual.content import Content
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Input, Label, Select
from textual.widgets._select import SelectCurrent
from textual.widgets.select import NoSelection

from tui.cli.profiles import URL
from tui.connect.fields import FIELDS, KEY, MODEL, MORE, ROWS, Field
from tui.draw.style import clean
from tui.widgets.pieces import styled
from tui.widgets.plot_view import Titled

_NAME_CELLS = 54
"""Of a model's name in the list."""
_ARROW = 2
"""Cells of the sign that a field is a list, with its blank."""
_MOST_CHARS = 4096
_CHOOSE = "choose one"
_AROUND_URL = " \t\"'`<>,;"
"""What an address is often pasted with."""


def keep_end(text: str, width: int) -> str:
    """Cut at the front where there is no room: names of models differ at their ends."""
    if cell_len(text) <= width:
        return text
    kept = text
    while kept and cell_len(kept) > max(0, width - 1):
        kept = kept[1:]
    return f"…{kept}" if width > 0 else ""


def pasted(name: str, text: str) -> str:
    """What a field takes of a pasted text: its first line that is not blank; of options all lines, as the shell would read them."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if name == MORE:
        return " ".join(line.removesuffix("\\").rstrip() for line in lines)
    first = lines[0] if lines else ""
    return first.strip(_AROUND_URL) if name == URL else first


class TextField(Input):
    """A field for text; every key that types something is its own."""

    def __init__(self, field: Field, text: str) -> None:
        super().__init__(password=field.name == KEY, max_length=_MOST_CHARS, compact=True, name=field.name)
        self.tooltip = Content(field.help)
        self._begin: str | None = text

    def on_mount(self) -> None:
        """Textual takes a text only where there is a screen for it."""
        self.value, self._begin = self._begin or "", None

    @property
    def text(self) -> str:
        """What is in it, or will be."""
        return self.value if self._begin is None else self._begin

    def on_paste(self, event: events.Paste) -> None:
        """Textual's own takes the first line, also where that is blank, and lets the form behind it have the event too."""
        event.stop()
        event.prevent_default()
        text = pasted(self.name or "", event.text)
        if self.name != MORE and sum(bool(line.strip()) for line in event.text.splitlines()) > 1:
            self.app.notify("Only the first line was pasted.", timeout=8, markup=False)
        start, end = sorted(self.selection)
        self.replace(text, start, end)

    async def on_key(self, event: events.Key) -> None:
        """Down has nothing to move to in an empty address; it opens the list of those that were used."""
        if event.key == "down" and self.name == URL and not self.value:
            event.stop()
            event.prevent_default()
            await self.run_action("app.recent")

    def action_copy(self) -> None:
        """A key never goes to the clipboard, which terminals hand on."""
        if not self.password:
            super().action_copy()

    def action_cut(self) -> None:
        """As copy, and delete."""
        if self.password:
            self.delete_selection()
        else:
            super().action_cut()


class ChoiceField(Select[str]):
    """A field with a list to choose from."""

    def __init__(self, field: Field, text: str) -> None:
        self._own, self._begin = field.choices, text
        self._offered = tuple(with_choice(field.choices, text))
        super().__init__(_options(self._offered), value=text, allow_blank=False, compact=True, name=field.name)
        self.tooltip = Content(field.help)

    @property
    def text(self) -> str:
        """What is chosen."""
        return self._begin if isinstance(self.value, NoSelection) else self.value  # the latter only before it is mounted

    def offer(self, values: Sequence[str]) -> None:
        """These to choose from. A single one needs no choice; without any, the field's own are left. What is chosen stays so."""
        own = self._own if not values else ((values[0] if len(values) == 1 else _CHOOSE, ""),)
        self._take((*own, *((value, value) for value in values)), self.text)

    def choose(self, text: str) -> None:
        """This, whether or not it is in the list."""
        self._take(self._offered, text)

    def on_resize(self) -> None:
        """Another width shows more of the name, or less."""
        self._fit()

    def _take(self, choices: Iterable[tuple[str, str]], text: str) -> None:
        offered = tuple(with_choice(choices, text))
        if offered != self._offered:  # the same list may be open, with one of its lines chosen
            self._offered = offered
            self.set_options(_options(offered))
        self.value = text
        self._fit()

    def watch_value(self) -> None:
        """Textual has just shown the whole name."""
        self._fit()

    def _fit(self) -> None:
        """Show the end of a name that has no room."""
        for current in self.query(SelectCurrent):
            name = next((label for label, value in self._offered if value == self.text), "")
            room = current.size.width - _ARROW
            current.update(Text(keep_end(_shown(name), room) if room > 0 else _shown(name)))


class Form(VerticalScroll, Titled, can_focus=False):
    """All fields. Says `Changed` whenever one has another text, and `Left` when that one is left or something was chosen."""

    class Changed(Message):
        """A field has another text."""

    class Left(Message):
        """A field was left; it may be as it was."""

        def __init__(self, name: str) -> None:
            super().__init__()
            self.name = name

    def __init__(self, texts: Mapping[str, str], *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._labels = {name: Label(field.label, classes="field-label") for name, field in FIELDS.items()}
        self._texts: dict[str, TextField] = {}
        self._choices: dict[str, ChoiceField] = {}
        for name, field in FIELDS.items():
            if field.choices:
                self._choices[name] = ChoiceField(field, texts.get(name, ""))
            else:
                self._texts[name] = TextField(field, texts.get(name, ""))
        self._chosen = {name: texts.get(name, "") for name in self._choices}
        self._problems: Mapping[str, str] = {}

    def compose(self) -> ComposeResult:
        for row in ROWS:
            cells: list[Widget] = []
            for at, field in enumerate(row):
                self._labels[field.name].set_class(at > 0, "-second")
                cells += [self._labels[field.name], self.control(field.name)]
            yield Horizontal(*cells, classes="field-row")

    def control(self, name: str) -> TextField | ChoiceField:
        """The widget of a field."""
        return self._texts[name] if name in self._texts else self._choices[name]

    @property
    def texts(self) -> dict[str, str]:
        """What the fields hold, without the key."""
        texts = {name: control.text for name, control in self._texts.items() if name != KEY}
        return texts | {name: control.text for name, control in self._choices.items()}

    @property
    def key(self) -> str:
        """The key that was typed."""
        return self._texts[KEY].text

    def offer_models(self, names: Sequence[str]) -> None:
        """The models to choose from."""
        self._choices[MODEL].offer(names)

    def fill(self, texts: Mapping[str, str]) -> None:
        """Put these into their fields, as if they had been typed."""
        for name, text in texts.items():
            if name in self._texts:
                self._texts[name].value = text
            else:
                self._choices[name].choose(text)

    def mark(self, problems: Mapping[str, str]) -> None:
        """Show which fields have something wrong in them."""
        if problems == self._problems:
            return
        self._problems = problems
        for name, label in self._labels.items():
            wrong = name in problems
            text = FIELDS[name].label
            label.update(Content.assemble(styled(f"✘ {text}", "breaks") if wrong else styled(text, "muted")))

    def fill_in(self, placeholders: Mapping[str, str]) -> None:
        """What empty fields stand for."""
        for name, text in placeholders.items():
            if name not in self._texts:
                continue
            field = self._texts[name]
            fits = 0 < cell_len(text) <= field.size.width or field.size.width == 0
            text = text if fits else text.partition(" (")[0]
            if field.placeholder != text:
                field.placeholder = text

    def on_input_changed(self, event: Input.Changed) -> None:
        """Typed."""
        event.stop()
        self.post_message(self.Changed())

    def on_select_changed(self, event: Select.Changed) -> None:
        """Chosen, or only offered another list, which is no choice."""
        event.stop()
        name = event.select.name or ""
        text = self._choices[name].text
        if self._chosen[name] != text:
            self._chosen[name] = text
            self.post_message(self.Changed())
            self.post_message(self.Left(name))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Enter: on to the next field; from the last one it is for the screen."""
        if event.input.name != MORE:
            event.stop()
            self.screen.focus_next()

    def on_descendant_blur(self, event: events.DescendantBlur) -> None:
        """The focus has gone elsewhere."""
        if event.widget.name in self._texts:
            self.post_message(self.Left(event.widget.name))


def with_choice(choices: Iterable[tuple[str, str]], text: str) -> list[tuple[str, str]]:
    """The choices, with `text` among them: what a profile asks for may not be there."""
    listed = list(choices)
    return listed if any(value == text for _, value in listed) else [*listed, (text, text)]


def _shown(label: str) -> str:
    return clean(label) or "(no name)"


def _options(choices: Iterable[tuple[str, str]]) -> list[tuple[Text, str]]:
    """As a list shows them; rich text, because strings would be read as markup, and a server's name may hold any."""
    return [(Text(keep_end(_shown(label), _NAME_CELLS)), value) for label, value in choices]
