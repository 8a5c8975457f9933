"""Where to keep the settings: asks for a path, and says why it cannot be."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from core.errors import UserError
from tui.draw.style import clean
from tui.widgets.pieces import styled

_SUFFIX = ".toml"


class SaveProfile(ModalScreen[str | None]):
    """Ends with the sentence that says what was saved, or None. `save` is given the path and whether a file may be replaced; it
    returns the names of what it left out and raises UserError."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss(None)", "Close")]

    def __init__(self, save: Callable[[Path, bool], list[str]]) -> None:
        super().__init__()
        self._save = save
        self._path, self._said = Input(placeholder="prod.toml", compact=True, max_length=4096), Static()
        self._may_replace: Path | None = None

    def compose(self) -> ComposeResult:
        with Vertical(id="save"):
            yield Static(
                "Save these settings as a profile, for `kneescope probe --profile FILE`. Keys and secrets are left out.",
                markup=False,
            )
            yield self._path
            yield self._said

    def on_mount(self) -> None:
        """What the keys do."""
        self._say("enter saves, esc closes", wrong=False)

    def on_input_changed(self) -> None:
        """Another path was not confirmed."""
        self._may_replace = None

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Save, or say why not; a file that is there only the second time."""
        event.stop()
        path = self.path
        if path is None:
            self._say("Give the path of a file, such as prod.toml.", wrong=True)
            return
        try:
            left_out = self._save(path, path == self._may_replace)
        except UserError as error:
            there = os.path.isfile(path) and self._may_replace != path
            self._may_replace = path if there else None
            self._say(f"{error} {'Press enter again to replace it.' if there else ''}", wrong=True)
            return
        without = f", without {', '.join(left_out)}" if left_out else ""
        self.dismiss(f"Saved as {path.absolute()}{without}.")

    @property
    def path(self) -> Path | None:
        """The path in the field, with the suffix where it has none."""
        text = self._path.value.strip()
        if not text or "\0" in text:
            return None
        try:
            path = Path(text).expanduser()
        except RuntimeError:  # the home of somebody who is not known
            path = Path(text)
        return path if path.suffix or not path.name else path.with_suffix(_SUFFIX)

    def _say(self, text: str, *, wrong: bool) -> None:
        self._said.update(Content.assemble(styled(f"✘ {clean(text)}" if wrong else text, "breaks" if wrong else "muted")))
