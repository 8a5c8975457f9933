"""What was said, as plain data: each sentence beside its fact."""

from collections.abc import Callable, Iterable
from typing import Any

from core import prose
from core.facts import Said, as_data


def told(key: str, said: Said | None, say: Callable[[Said], str] = prose.text) -> dict[str, Any]:
    """The sentence as `key` and its code and figures as `key_fact`; both None where nothing was said."""
    return {key: None, f"{key}_fact": None} if said is None else {key: say(said), f"{key}_fact": as_data(said)}


def told_all(key: str, said: Iterable[Said], say: Callable[[Said], str] = prose.text) -> dict[str, Any]:
    """The same of several: two lists in one order."""
    each = tuple(said)
    return {key: list(map(say, each)), f"{key}_fact": list(map(as_data, each))}
