"""A first look at a server, before anything is decided about a run: what only a person can answer is asked by what it shows."""

from collections.abc import Sequence

import httpx
import msgspec

from core.access import Access
from core.config import Target
from core.net import is_near
from core.records import ServerSample
from core.server.http import Caller, Credential, HttpError
from core.server.metrics import ScrapeError, read_exposition
from core.server.models import ModelCard, NoModels, list_models, ours_among

DEADLINE_S = 4.0


class ServerGlance(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked about: `near` False (neither this machine nor a private network) or None (not known), `key_wanted` (401),
    several `models`, and `sample`, whose running and waiting requests are others'."""

    near: bool | None
    key_wanted: bool = False
    models: tuple[str, ...] = ()
    sample: ServerSample | None = None


async def place(target: Target) -> bool | None:
    """`Look.near` alone; nothing is sent to the server."""
    return await is_near(httpx.URL(target.url).host)


async def look(target: Target, access: Access, http: httpx.AsyncClient) -> ServerGlance:
    """Two GET requests. What does not answer is not known; the checks of a run say why."""
    base = target.url.rstrip("/")
    caller = Caller(http, Credential(base, access), DEADLINE_S)
    cards, key_wanted = await _cards(caller, target)
    model = target.model or (cards[0].id if len(cards) == 1 else "")
    return ServerGlance(
        near=await place(target),
        key_wanted=key_wanted,
        models=tuple(card.id for card in cards),
        sample=await _sample(caller, target.metrics_url or f"{base}/metrics", model, cards),
    )


async def _cards(caller: Caller, target: Target) -> tuple[tuple[ModelCard, ...], bool]:
    """The models, and whether the server wants a key (401)."""
    try:
        return await list_models(caller, target.url, target.prefix), False
    except NoModels as none:
        return (), none.status == 401


async def _sample(caller: Caller, url: str, model: str, cards: Sequence[ModelCard]) -> ServerSample | None:
    try:
        exposition = await read_exposition(caller, url)
        return exposition.sample(ours_among(exposition.page().models, model, cards))
    except (HttpError, ScrapeError):
        return None
