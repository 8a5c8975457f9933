"""Empties a server's prefix cache, where the server offers that, and says whether it is known to have worked."""

from typing import Literal

import msgspec

from core.net import UNREADABLE
from core.server.http import Caller, HttpError

RESET_PATH = "/reset_prefix_cache"


class CacheReset(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one reset; `message` is a sentence for everything but "done".

    unchecked: the server said yes, but says yes also when nothing was reset (vLLM before 0.26); failed: it said that it
    could not, which may be over once no request holds a block; missing: it offers none, so asking again is no use.
    """

    status: Literal["done", "unchecked", "failed", "missing"]
    message: str = ""


async def reset_prefix_cache(caller: Caller, base_url: str) -> CacheReset:
    """Ask the server at `base_url` (without `/v1`) to empty its prefix cache; no request may be in flight there.

    vLLM answers {"success": bool} since 0.26, and an empty 200 before (vLLM 0.25, entrypoints/serve/cache/api_router.py).
    """
    try:
        reply = await caller.post(f"{base_url.rstrip('/')}{RESET_PATH}", {})
    except HttpError as error:
        return CacheReset(status="failed", message=f"The prefix cache could not be reset: the server {error}.")
    if reply.status in (404, 405, 501):
        return CacheReset(
            status="missing",
            message=f"The server offers no reset of its prefix cache (POST {RESET_PATH} {reply.refusal()}; vLLM offers it when "
            "started with VLLM_SERVER_DEV_MODE=1). The run goes on without: prompts are cold anyway.",
        )
    if reply.status in (401, 403):
        message = f"The server does not allow a reset of its prefix cache (POST {RESET_PATH} {reply.refusal()})."
        return CacheReset(status="missing", message=message)
    if not reply.ok:
        message = f"The prefix cache could not be reset: POST {RESET_PATH} {reply.refusal() or f'answers {reply.status}'}."
        return CacheReset(status="failed", message=message)
    return _told(reply.body)


def _told(body: bytes) -> CacheReset:
    try:
        success = msgspec.json.decode(body, type=dict[str, object]).get("success")
    except UNREADABLE:
        success = None
    if success is True:
        return CacheReset(status="done")
    if success is False:
        message = "The server says that its prefix cache was not reset: some request still holds a part of it."
        return CacheReset(status="failed", message=message)
    return CacheReset(
        status="unchecked",
        message="The server was asked to reset its prefix cache and does not tell whether it did (vLLM tells since 0.26).",
    )
