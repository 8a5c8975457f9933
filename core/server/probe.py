"""A first look at a server, before anything is decided about a run: what only a person can answer is asked by what it shows."""

import httpx
import msgspec

from core.access import Access
from core.config import Target
from core.net import is_near
from core.records import ServerSample
from core.server.http import Caller, Credential, HttpError
from core.server.metrics import ScrapeError, read_exposition
from core.server.models import NoModels, list_models

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
    models, key_wanted = await _models(caller, base)
    return ServerGlance(
        near=await place(target),
        key_wanted=key_wanted,
        models=models,
        sample=await _sample(caller, target.metrics_url or f"{base}/metrics"),
    )


async def _models(caller: Caller, base: str) -> tuple[tuple[str, ...], bool]:
    """Their names, and whether the server wants a key (401)."""
    try:
        return tuple(card.id for card in await list_models(caller, base)), False
    except NoModels as none:
        return (), none.status == 401


async def _sample(caller: Caller, url: str) -> ServerSample | None:
    try:
        return (await read_exposition(caller, url)).sample()
    except (HttpError, ScrapeError):
        return None
