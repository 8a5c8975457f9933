"""The theme that was chosen in the palette, remembered in the user's configuration folder for the next time."""

import tomllib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import platformdirs
import tomli_w
from textual.app import App

_MOST_CHARS = 4096


def path() -> Path:
    """Where it is kept."""
    return Path(platformdirs.user_config_dir("kneescope", appauthor=False)) / "screen.toml"


@contextmanager
def remembered(app: App[Any]) -> Iterator[None]:
    """Begin with the theme of the last time, and keep the one that is chosen meanwhile.

    Without colours, and with 16 of them, a terminal keeps the theme that suits it. What cannot be read or written is as if there
    were nothing.
    """
    if app.no_color or app.console.color_system == "standard":
        yield
        return
    name = _read()
    if name in app.available_themes:
        app.theme = name
    before = app.theme
    try:
        yield
    finally:
        if app.theme != before:
            _write(app.theme)


def _read() -> str:
    with suppress(OSError, ValueError):
        if path().is_file():
            with path().open(encoding="utf-8") as source:
                name = tomllib.loads(source.read(_MOST_CHARS)).get("theme")
            return name if isinstance(name, str) else ""
    return ""


def _write(name: str) -> None:
    with suppress(OSError):
        path().parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path().write_text(tomli_w.dumps({"theme": name}), encoding="utf-8")
