"""The fields of the Connect screen: what they hold, what is wrong with them, and when one is left."""

from collections.abc import Iterable, Mapping, Sequence

from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.containers import Horizontal, VerticalScroll
from textual.content import Content
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Input, Label, Select
from textual.widgets.select import NoSelection

from tui.connect.fields import FIELDS, KEY, MORE, ROWS, Field
from tui.draw.style import clean, shorten
from tui.widgets.pieces import styled
from tui.widgets.plot_view import Titled

_NAME_CELLS = 60
"""Of a model's name in the list."""
_MOST_CHARS = 4096
_CHOOSE = "choose one"


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
        super().__init__(_options(with_choice(field.choices, text)), value=text, allow_blank=False, compact=True, name=field.name)
        self.tooltip = Content(field.help)

    @property
    def text(self) -> str:
        """What is chosen."""
        return self._begin if isinstance(self.value, NoSelection) else self.value  # the latter only before it is mounted

    def offer(self, values: Sequence[str]) -> None:
        """These to choose from. A single one needs no choice; without any, the field's own are left. What is chosen stays so."""
        text = self.text
        own = self._own if not values else ((values[0] if len(values) == 1 else _CHOOSE, ""),)
        self.set_options(_options(with_choice((*own, *((value, value) for value in values)), text)))
        self.value = text
        self.mutate_reactive(ChoiceField.value)  # type: ignore[misc]  # the same value may have another name now


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
            for field in row:
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
        self._choices["model"].offer(names)

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
            if name in self._texts and self._texts[name].placeholder != text:
                self._texts[name].placeholder = text

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


def _options(choices: Iterable[tuple[str, str]]) -> list[tuple[Text, str]]:
    """As a list shows them; rich text, because strings would be read as markup, and a server's name may hold any."""
    return [(Text(shorten(clean(label), _NAME_CELLS) or "(no name)"), value) for label, value in choices]
