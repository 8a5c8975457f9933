"""Empties a server's prefix cache, where the server offers that, and says whether it is known to have worked."""

from typing import Literal

import msgspec

from core.facts import Fact, fact
from core.net import UNREADABLE
from core.server.http import Caller, HttpError

RESET_PATH = "/reset_prefix_cache"


class CacheReset(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one reset; `found` is None for "done" alone.

    unchecked: the server said yes, but says yes also when nothing was reset (vLLM before 0.26); failed: it said that it
    could not, which may be over once no request holds a block; missing: it offers none, so asking again is no use.
    """

    status: Literal["done", "unchecked", "failed", "missing"]
    found: Fact | None = None


async def reset_prefix_cache(caller: Caller, base_url: str) -> CacheReset:
    """Ask the server at `base_url` (without `/v1`) to empty its prefix cache; no request may be in flight there.

    vLLM answers {"success": bool} since 0.26, and an empty 200 before (vLLM 0.25, entrypoints/serve/cache/api_router.py).
    """
    try:
        reply = await caller.post(f"{base_url.rstrip('/')}{RESET_PATH}", {})
    except HttpError as error:
        return CacheReset(status="failed", found=fact("cache_unreached", said=str(error)))
    if reply.status in (404, 405, 501):
        return CacheReset(status="missing", found=fact("cache_not_offered", said=reply.refusal()))
    if reply.status in (401, 403):
        return CacheReset(status="missing", found=fact("cache_not_allowed", said=reply.refusal()))
    if not reply.ok:
        return CacheReset(status="failed", found=fact("cache_not_reset", said=reply.refusal()))
    return _told(reply.body)


def _told(body: bytes) -> CacheReset:
    try:
        success = msgspec.json.decode(body, type=dict[str, object]).get("success")
    except UNREADABLE:
        success = None
    if success is True:
        return CacheReset(status="done")
    if success is False:
        return CacheReset(status="failed", found=fact("cache_held"))
    return CacheReset(status="unchecked", found=fact("cache_unchecked"))
