"""A first look at a server, before anything is decided about a run: what only a person can answer is asked by what it shows."""

import httpx
import msgspec

from core.access import Access
from core.config import Target
from core.net import is_near
from core.records import ServerSample
from core.server.http import UNREADABLE, Caller, Credential, HttpError, Reply
from core.server.metrics import ScrapeError, read_exposition

DEADLINE_S = 4.0


class ServerGlance(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked about: `near` False (neither this machine nor a private network) or None (not known), `key_wanted` (401),
    several `models`, and `sample`, whose running and waiting requests are others'."""

    near: bool | None
    key_wanted: bool = False
    models: tuple[str, ...] = ()
    sample: ServerSample | None = None


class _Model(msgspec.Struct):
    id: str


class _Models(msgspec.Struct):
    data: list[_Model]


async def place(target: Target) -> bool | None:
    """`Look.near` alone; nothing is sent to the server."""
    return await is_near(httpx.URL(target.url).host)


async def look(target: Target, access: Access, http: httpx.AsyncClient) -> ServerGlance:
    """Two GET requests. What does not answer is not known; the checks of a run say why."""
    base = target.url.rstrip("/")
    caller = Caller(http, Credential(base, access), DEADLINE_S)
    reply = await _get(caller, f"{base}/v1/models")
    return ServerGlance(
        near=await place(target),
        key_wanted=reply is not None and reply.status == 401,
        models=_names(reply),
        sample=await _sample(caller, target.metrics_url or f"{base}/metrics"),
    )


async def _get(caller: Caller, url: str) -> Reply | None:
    try:
        return await caller.get(url)
    except HttpError:
        return None


def _names(reply: Reply | None) -> tuple[str, ...]:
    if reply is None or not reply.ok:
        return ()
    try:
        return tuple(model.id for model in msgspec.json.decode(reply.body, type=_Models).data)
    except UNREADABLE:
        return ()


async def _sample(caller: Caller, url: str) -> ServerSample | None:
    try:
        return (await read_exposition(caller, url)).sample()
    except (HttpError, ScrapeError):
        return None
