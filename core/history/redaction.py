"""A copy of a run file to be given away: what was measured stays, and who it was is taken out.

A name is taken out wherever it stands: in the places that hold it, and in every sentence that repeats it.
"""

import json
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from core.errors import UserError
from core.history.index import REDACTED
from core.run_files import is_going

URL, MODEL, WORD, FILE, PATH = "http://redacted", "redacted-model", "redacted", "redacted-file", "/redacted"

_IN_PLACE: dict[str, str | None] = {
    **dict.fromkeys(("url", "metrics_url", "gpu_metrics_url", "proxy"), URL),
    **dict.fromkeys(("model", "asked"), MODEL),
    **dict.fromkeys(("file",), FILE),
    **dict.fromkeys(("path", "alive_path"), PATH),
    **dict.fromkeys(("said", "error", "errors_said", "label", "hostname_hash"), WORD),
    **dict.fromkeys(("fingerprint", "utc_offset_s"), None),
    "prefix": "/v1",
    "command": "kneescope",
}
"""What stands in place of a text by the name of its place, whatever it was. `error`, `said`: a server's own words."""
_NAMES = ("backend", "name")
"""Names of engines and of servers behind a router: another for each, for they are told apart by them."""
_NAME_LISTS = ("metrics_models", "models", "names", "replicas", "unread")
_ROWS = "by_engine"
"""Of a reading, a row for each engine: its name and its model stand first, without a key."""
_OF_REPLICAS = ("replicas_changed", "replicas_changed_between")
"""Facts whose words are names."""
_CLOSED = (
    *("type", "code", "kind", "api", "mode", "phase", "role", "verdict", "status", "outcome", "ending", "stop", "place", "cause"),
    *("check", "counted_by", "form", "unit", "prompt", "length_by", "usage", "level", "state", "queue", "finish_reason"),
)
"""Their words are the format's own, so that no name is looked for in them."""
_OWN_WORDS = ("fields_left_out", "answers_long")
"""Facts that are about words of the API, not about names."""
_FIELD = re.compile(r"[a-z][a-z0-9_]*")
"""A key that is a word of the format."""
_SHORTEST = 3
"""Of the parts of a model's name: one of two letters would be found in every sentence."""
_PLAIN_SETTING = re.compile(r"(?i)-?[0-9][0-9.,e+-]*|true|false|none|auto|(b?float|fp|u?int)[0-9a-z_]*|half")
_FOUND = re.compile(
    r"https?://[^\s\"'<>)\]]*[\w/]|\b\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?\b|(?<![\w.])/(?:home|root|Users|mnt|srv|data)/\S+"
)
_LOCAL_VERSION = re.compile(r"\+(?!simulated)[\w.]+")


def redact(path: Path, out: Path | None) -> Path:
    """Write the copy, beside the run or to `out`; returns where. It opens, and its verdicts are those of the run.

    Raises UserError for what is no run file, one that is still being written, and a place where nothing can be written.
    """
    from core.run import read_run  # with what it needs to check the copy

    if is_going(path):
        raise UserError(f"{path} is still being written; redact it when the run is over.", exit_code=3)
    names = _Names()
    for event in read_run(path):  # refuses here what the copy could not be opened as
        del event
    for line in _events(path):
        names.learn(line)
    place = out or path.with_name(path.name.removesuffix(".jsonl") + REDACTED)
    _write(place, (names.without(line) for line in _events(path)))
    try:
        for event in read_run(place):
            del event
    except UserError:
        with suppress(OSError):
            place.unlink()
        raise UserError(f"{path} cannot be redacted: a name in it is a word of the file format itself.", exit_code=3) from None
    return place


def _events(path: Path) -> Iterator[dict[str, Any]]:
    with path.open("rb") as file:
        for line in file:
            with suppress(ValueError):  # half a line at the end, or the file would not have been read
                yield json.loads(line)


def _write(place: Path, events: Iterable[dict[str, Any]]) -> None:
    try:
        fd = os.open(place, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        raise UserError(f"{place} is there already and is not overwritten; give another file with --out.") from None
    except OSError as error:
        raise UserError(f"{place} cannot be written: {error.strerror}. Give another file with --out.") from None
    try:
        with open(fd, "w", encoding="utf-8") as file:
            for event in events:
                file.write(json.dumps(event, ensure_ascii=False, separators=(",", ":")) + "\n")
    except OSError as error:
        with suppress(OSError):
            place.unlink()
        raise UserError(f"{place} could not be written: {error.strerror}. Give another file with --out.", exit_code=3) from None


def _row_key(key: str, at: int) -> str:
    """The key that a value of a list stands for."""
    return {0: "name", 1: "model"}.get(at, key) if key == _ROWS else key


class _Names:
    """The names of one run, and what stands in place of each."""

    def __init__(self) -> None:
        self._stands: dict[str, str] = {}
        self._pseudonyms: dict[str, str] = {}
        self._pattern: re.Pattern[str] | None = None

    def learn(self, value: Any, key: str = "") -> None:
        """Take in the names of an event."""
        if isinstance(value, dict):
            for name, each in value.items():
                self.learn(each, name)
        elif isinstance(value, list):
            for at, each in enumerate(value):
                self.learn(each, _row_key(key, at) if not isinstance(each, list) else key)
        elif isinstance(value, str) and value:
            self._learn(value, key)

    def _learn(self, value: str, key: str) -> None:
        if key in _NAMES or key in _NAME_LISTS:
            self._pseudonym(value, key)
            if key == "replicas":
                self._add(value.rpartition(":")[0], WORD)
        elif _IN_PLACE.get(key) == URL:
            from urllib.parse import urlsplit

            self._add(value, URL)
            with suppress(ValueError):
                parts = urlsplit(value)
                for each in (parts.netloc, parts.hostname or ""):
                    self._add(each, WORD)
        elif _IN_PLACE.get(key) == MODEL:
            self._add(value, MODEL)
            for part in value.split("/"):
                if len(part) >= _SHORTEST:
                    self._add(part, MODEL)
        elif key == "source" and value.startswith("--"):  # where replicas are told of: an option and its value
            self._add(value.partition(" ")[2], WORD)
            self._add(value.partition(" ")[2].partition(":")[0], WORD)
        elif key in ("file", "label", "hostname_hash"):
            self._add(value, FILE if key == "file" else WORD)
            if key == "file":
                self._add(value.rpartition("/")[2], FILE)

    def _add(self, name: str, stands: str) -> None:
        if name and not name.isdigit() and name.lower() not in self._stands:
            self._stands[name.lower()] = stands
            self._pattern = None

    def _pseudonym(self, name: str, key: str) -> str:
        if name.isdigit():  # an engine without a name of its own
            return name
        if name not in self._pseudonyms:
            self._pseudonyms[name] = f"{key.rstrip('s').replace('metrics_', '')}-{len(self._pseudonyms) + 1}"
            self._add(name, self._pseudonyms[name])
        return self._pseudonyms[name]

    def without(self, value: Any, key: str = "", code: str = "") -> Any:
        """An event, or a part of one, as the copy has it."""
        if isinstance(value, dict):
            own = value.get("code", "")
            if key == "config" and all(isinstance(each, str) for each in value.values()):  # settings that the server tells
                return {name: each if _PLAIN_SETTING.fullmatch(each) else WORD for name, each in value.items()}
            of = own if isinstance(own, str) else ""
            return {
                name if _FIELD.fullmatch(name) else self._text(name): self.without(each, name, of) for name, each in value.items()
            }
        if isinstance(value, list):
            if key == "of" and code in _OF_REPLICAS:
                return [self._text(each) if isinstance(each, str) else self.without(each) for each in value]
            if key == "of" and code not in _OWN_WORDS:  # words of others beside facts
                return [WORD if isinstance(each, str) else self.without(each) for each in value]
            return [self.without(each, _row_key(key, at) if not isinstance(each, list) else key) for at, each in enumerate(value)]
        return self._told(value, key) if isinstance(value, str) else None if key == "utc_offset_s" else value

    def _told(self, text: str, key: str) -> str | None:
        if key in _IN_PLACE and text:
            return _IN_PLACE[key]
        if key in _NAMES or key in _NAME_LISTS:
            return self._pseudonym(text, key)
        if key in _CLOSED:
            return text
        if key == "platform":
            return text.partition("-")[0]
        return _LOCAL_VERSION.sub("", text) if key == "version" else self._text(text)

    def _text(self, text: str) -> str:
        """A text in which no name stands any more."""
        if self._pattern is None:
            longest = sorted(self._stands, key=len, reverse=True)
            self._pattern = re.compile("|".join(rf"(?<!\w){re.escape(name)}(?!\w)" for name in longest) or r"(?!)", re.IGNORECASE)
        return _FOUND.sub(WORD, self._pattern.sub(lambda found: self._stands[found[0].lower()], text))
