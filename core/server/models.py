"""The models that a server lists (`GET /v1/models`, or behind another prefix).

One reader for the checks, the first look and the screen that offers them.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple
from urllib.parse import quote

import msgspec

from core.address import PREFIX
from core.facts import Fact, fact
from core.net import UNREADABLE
from core.server.http import Caller, HttpError

MOST_PAGES = 20
_LENGTH_DIGITS = 12
"""No context has as many tokens."""


class ModelCard(msgspec.Struct, frozen=True):
    """One entry of the list; LoRA adapters have a `parent` and no length of their own. `root`: what was loaded; names of the same
    model have the same."""

    id: str
    parent: str | None = None
    max_model_len: int | None = None
    root: str | None = None


class NoModels(Exception):
    """There is no list of models; `found` says why, `status` is that of an answer which refuses it."""

    def __init__(self, found: Fact, status: int | None = None) -> None:
        super().__init__(found.code)
        self.found = found
        self.status = status

    @property
    def key_wanted(self) -> bool:
        """Whether a key, or another one, would help."""
        return self.status in (401, 403)


class _Page(NamedTuple):
    """What can be read of one answer: an odd entry is left out and spoils no other. `after`: behind which name the list goes on."""

    cards: tuple[ModelCard, ...]
    after: str | None = None


async def list_models(caller: Caller, base: str, prefix: str = PREFIX) -> tuple[ModelCard, ...]:
    """What the server at `base` lists, in its order. Raises NoModels where there is no list, and where none of its entries is a
    model. Of a list in pages at most MOST_PAGES are read; one that cannot be had ends it."""
    path = f"{prefix}/models"
    url = f"{base.rstrip('/')}{path}"
    try:
        reply = await caller.get(url)
    except HttpError as error:
        raise NoModels(fact("models_unread", error.found, path=path)) from error
    if not reply.ok:
        raise NoModels(fact("models_unread", reply.refused, path=path), reply.status)
    page = _page_in(reply.body)
    if page is None:
        raise NoModels(fact("no_model_list", path=path))
    cards = list(page.cards)
    for _ in range(MOST_PAGES - 1):
        page = await _page_behind(caller, url, page.after)
        known = {card.id for card in cards}
        new = [card for card in page.cards if card.id not in known]
        if not new:  # also of a server that gives its first page again and again
            break
        cards += new
    return tuple(cards)


async def _page_behind(caller: Caller, url: str, after: str | None) -> _Page:
    """The next page; one without models where there is none."""
    if after is None:
        return _Page(())
    try:
        reply = await caller.get(f"{url}?after={quote(after, safe='')}")
    except HttpError:
        return _Page(())
    return (_page_in(reply.body) if reply.ok else None) or _Page(())


def _page_in(body: bytes) -> _Page | None:
    """None where there is no list, and where none of its entries is a model."""
    try:
        whole = msgspec.json.decode(body)
    except UNREADABLE:
        return None
    named = whole if isinstance(whole, dict) else {"data": whole}
    entries = next((named[name] for name in ("data", "models") if isinstance(named.get(name), list)), None)
    if entries is None:
        return None
    cards = tuple(card for entry in entries if (card := _card(entry)) is not None)
    if entries and not cards:
        return None
    goes_on = named.get("has_more") is True and cards
    last = named.get("last_id")
    return _Page(cards, (last if isinstance(last, str) else cards[-1].id) if goes_on else None)


def ours_among(shown: Sequence[str], chosen: str, cards: Sequence[ModelCard]) -> tuple[str, ...]:
    """Which of the models that metrics show are the chosen one; empty where none is.

    They have the first of the names that it is served by, and count a LoRA under its base's. Names of the same root are tried
    last: a gateway may serve one model twice.
    """
    card = next((card for card in cards if card.id == chosen), ModelCard(chosen))
    base = next((each for each in cards if each.id == card.parent), card)
    alike = {each.id for each in cards if each.root is not None and each.root == base.root}
    for names in ({chosen}, {card.parent}, {*alike, card.root, base.root}):
        if found := tuple(name for name in shown if name in names):
            return found
    return ()


def _card(entry: Any) -> ModelCard | None:
    """One entry; what of it is of another kind than it should be is not known. None without a name."""
    name = entry.get("id") if isinstance(entry, dict) else None
    if not isinstance(name, str) or not name:
        return None
    parent, root = (each if isinstance(each, str) else None for each in (entry.get("parent"), entry.get("root")))
    return ModelCard(name, parent, _length(entry.get("max_model_len")), root)


def _length(value: Any) -> int | None:
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) <= _LENGTH_DIGITS:
        value = int(value)
    whole = isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 10**_LENGTH_DIGITS and value % 1 == 0
    return int(value) if whole else None
