"""Emptying the prefix cache: what the releases of vLLM answer, and what others do."""

import httpx
import pytest

from core.access import Access
from core.facts import Code
from core.server.cache import CacheReset, reset_prefix_cache
from core.server.http import Caller, Credential

BASE = "http://127.0.0.1:8000"


async def reset(answer: httpx.Response | Exception, key: str | None = None) -> tuple[CacheReset, list[httpx.Request]]:
    requests: list[httpx.Request] = []

    def handle(request: httpx.Request) -> httpx.Response:
        requests.append(request)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async with httpx.AsyncClient(transport=httpx.MockTransport(handle), trust_env=False) as client:
        return await reset_prefix_cache(Caller(client, Credential(BASE, Access(api_key=key))), BASE + "/"), requests


async def test_it_posts_to_the_server_with_its_key() -> None:
    done, requests = await reset(httpx.Response(200, json={"success": True}), key="secret")

    assert done == CacheReset(status="done")
    assert [(r.method, str(r.url)) for r in requests] == [("POST", f"{BASE}/reset_prefix_cache")]
    assert requests[0].headers["Authorization"] == "Bearer secret"


@pytest.mark.parametrize(
    ("answer", "status", "code", "said"),
    [
        (httpx.Response(200, json={"success": False}), "failed", "cache_held", None),
        (httpx.Response(200), "unchecked", "cache_unchecked", None),
        (httpx.Response(200, text="ok"), "unchecked", "cache_unchecked", None),
        (httpx.Response(200, json=["success"]), "unchecked", "cache_unchecked", None),
        (httpx.Response(404, json={"detail": "Not Found"}), "missing", "cache_not_offered", "answers 404 (not found: Not Found)"),
        (httpx.Response(405), "missing", "cache_not_offered", "answers 405"),
        (httpx.Response(401), "missing", "cache_not_allowed", "answers 401 (unauthorised)"),
        (httpx.Response(500), "failed", "cache_not_reset", "answers 500"),
        (httpx.Response(302, headers={"location": "/x"}), "failed", "cache_not_reset", "answers 302"),
        (httpx.ConnectError("refused"), "failed", "cache_unreached", "cannot be reached: refused"),
    ],
)
async def test_what_became_of_it(answer: httpx.Response | Exception, status: str, code: Code, said: str | None) -> None:
    done, _ = await reset(answer)

    assert done.status == status
    assert done.found is not None
    assert (done.found.code, done.found.figures.get("said")) == (code, said)
