"""What a run is called: the text that was given for it, or else its model and when it began by the clock of its machine."""

from datetime import UTC, datetime, timedelta, timezone
from typing import TYPE_CHECKING

from core.errors import UserError

if TYPE_CHECKING:  # the list of runs is printed without numpy
    from core.view import RunView

MOST_CHARS = 80
_NO_MODEL = "run"


def parse_label(text: str, name: str) -> str:
    """A label of one line without blanks around it, at most 80 characters. Raises UserError for what is none."""
    label = text.strip()
    if not label:
        raise UserError(f"{name}: the label is empty; give a short text, or leave the option out for the model and the time.")
    if not label.isprintable():
        raise UserError(f"{name}: a label is one line of printable text; leave out line ends, tabs and control characters.")
    if len(label) > MOST_CHARS:
        raise UserError(f"{name}: {len(label)} characters are too many for a label; give at most {MOST_CHARS}.")
    return label


def default_label(model: str | None, started_utc: str | None, utc_offset_s: int | None = None) -> str:
    """Model and minute, "qwen2.5-0.5b 2026-12-01 15:54". `utc_offset_s`: of the clock of the machine that made the run, so that the
    label is the same wherever it is read; None (older files): UTC. Of a model that is a path its last part."""
    name = _cleaned(model or "").rstrip("/").rpartition("/")[2].strip() or _NO_MODEL
    moment = _minute(started_utc, utc_offset_s)
    return f"{name[: MOST_CHARS - len(moment) - 1]} {moment}".strip() if moment else name[:MOST_CHARS]


def called(label: str | None, model: str | None, started_utc: str | None, utc_offset_s: int | None = None) -> str:
    """What a run is called, by the label that its file has (None: it was given none)."""
    return stored(label or "") or default_label(model, started_utc, utc_offset_s)


def label_of(view: "RunView") -> str:
    """The label of a run as it is seen."""
    model = view.server.model if view.server else view.config.target.model if view.config else None
    return called(view.label, model, view.started_utc, view.utc_offset_s)


def stored(label: str) -> str:
    """A label as a file has it, which anybody may have written."""
    return _cleaned(label).strip()[:MOST_CHARS]


def _minute(started_utc: str | None, utc_offset_s: int | None) -> str:
    try:
        moment = datetime.fromisoformat(started_utc or "").replace(tzinfo=UTC)
        return f"{moment.astimezone(timezone(timedelta(seconds=utc_offset_s or 0))):%Y-%m-%d %H:%M}"
    except (ValueError, OverflowError):
        return ""


def _cleaned(text: str) -> str:
    return "".join(c if c.isprintable() else " " for c in text)
