"""The models that a server lists (`GET /v1/models`): one reader for the checks, the first look and the screen that offers them."""

from collections.abc import Sequence
from typing import Any

import msgspec

from core.facts import Fact, fact
from core.net import UNREADABLE
from core.server.http import Caller, HttpError

MODELS_PATH = "/v1/models"


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


async def list_models(caller: Caller, base: str) -> tuple[ModelCard, ...]:
    """What the server at `base` (without `/v1`) lists, in its order. Raises NoModels."""
    try:
        reply = await caller.get(f"{base.rstrip('/')}{MODELS_PATH}")
    except HttpError as error:
        raise NoModels(fact("models_unread", error.found)) from error
    if not reply.ok:
        raise NoModels(fact("models_unread", reply.refused), reply.status)
    return cards_in(reply.body)


def cards_in(body: bytes) -> tuple[ModelCard, ...]:
    """The entries that can be read: an odd one is left out and spoils no other. Raises NoModels where there is no list, and where
    none of its entries is a model."""
    try:
        entries = msgspec.json.decode(body, type=dict[str, Any]).get("data")
    except UNREADABLE:
        entries = None
    if not isinstance(entries, list):
        raise NoModels(fact("no_model_list"))
    cards = tuple(card for entry in entries if (card := _card(entry)) is not None)
    if entries and not cards:
        raise NoModels(fact("no_model_list"))
    return cards


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
    if isinstance(entry, dict) and not isinstance(entry.get("root"), str):
        entry = {name: value for name, value in entry.items() if name != "root"}
    try:
        return msgspec.convert(entry, ModelCard)
    except msgspec.ValidationError:
        return None
