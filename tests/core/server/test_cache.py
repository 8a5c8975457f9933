"""Emptying the prefix cache: what the releases of vLLM answer, and what others do."""

import httpx
import pytest

from core.access import Access
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
    ("answer", "status", "words"),
    [
        (httpx.Response(200, json={"success": False}), "failed", "some request still holds"),
        (httpx.Response(200), "unchecked", "does not tell whether it did"),
        (httpx.Response(200, text="ok"), "unchecked", "does not tell whether it did"),
        (httpx.Response(200, json=["success"]), "unchecked", "does not tell whether it did"),
        (httpx.Response(404, json={"detail": "Not Found"}), "missing", "VLLM_SERVER_DEV_MODE=1"),
        (httpx.Response(405), "missing", "offers no reset"),
        (httpx.Response(401), "missing", "does not allow"),
        (httpx.Response(500), "failed", "answers 500"),
        (httpx.Response(302, headers={"location": "/x"}), "failed", "answers 302"),
        (httpx.ConnectError("refused"), "failed", "could not be reset"),
    ],
)
async def test_what_became_of_it(answer: httpx.Response | Exception, status: str, words: str) -> None:
    done, _ = await reset(answer)

    assert done.status == status
    assert words in done.message
    assert done.message.endswith((".", "anyway."))
