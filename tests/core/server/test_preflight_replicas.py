"""Preflight of a gateway whose replicas are named: their metrics count, and not what the gateway shows."""

import httpx

from core.records import Check
from core.server import Discovery, Places, ReplicaScraper
from tests.core.server.fakes import BASE, KEY, FakeVllm, Ran, capture, client, codes, figures, run, texts

A, B = "http://10.0.0.1:8000", "http://10.0.0.2:8000"
ROUTER = "".join(f'vllm:num_requests_running{{server="http://10.0.0.{n}:8000"}} 3\n' for n in (1, 2, 3))


async def behind(gateway: FakeVllm, *answers: httpx.Response | Exception) -> tuple[Ran, list[httpx.Request]]:
    """Preflight of a gateway with a replica for each answer."""
    asked: list[httpx.Request] = []

    def replica(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        answer = answers[int(request.url.host[-1]) - 1]
        if isinstance(answer, Exception):
            raise answer
        return answer

    async with client(replica) as http:
        places = Places(tuple(f"http://10.0.0.{n}:8000" for n in range(1, len(answers) + 1)))
        scraper = ReplicaScraper(Discovery(places, http), http)
        try:
            return await run(gateway, key=KEY, replicas=scraper), asked
        finally:
            await scraper.close()


def page() -> httpx.Response:
    return httpx.Response(200, text=capture("0.32.0-idle"))


def tokens(check: Check) -> object:
    return figures(check, "tokens")[0]


async def test_all_replicas_count_and_the_gateway_gets_the_key_alone() -> None:
    gateway = FakeVllm(metrics=lambda: capture("0.32.0-preempting"), key=KEY)
    ran, asked = await behind(gateway, page(), page())
    info = ran.preflight.info
    assert ran["metrics"].status == "pass"
    assert figures(ran["metrics"], "read", "replicas", "engines") == (2, 2, 2)
    assert (info.replicas, info.metrics_url, info.engines, info.backends, info.dp) == (
        ("10.0.0.1:8000", "10.0.0.2:8000"), None, 2, 2, 2,
    )  # fmt: skip
    assert ran["traffic"].status == "pass", "the gateway shows requests, no replica does"
    alone, _ = await behind(FakeVllm(), page())
    assert tokens(ran["kv capacity"]) == 2 * int(str(tokens(alone["kv capacity"])))
    assert {request.headers.get("authorization") for request in asked} == {None}
    assert {request.url.path for request in asked} == {"/metrics"}
    assert ran.preflight.info.has_metrics


async def test_a_replica_that_cannot_be_read_is_named_and_no_capacity_is_known() -> None:
    ran, _ = await behind(FakeVllm(), page(), httpx.ConnectError("x"))
    assert ran["metrics"].status == "warn"
    assert codes(ran["metrics"])[-1] == "replica_unread"
    assert "10.0.0.2:8000 cannot be reached" in texts([ran["metrics"]])
    assert ran["kv capacity"].status == "warn"
    assert ran.preflight.info.replicas == ("10.0.0.1:8000", "10.0.0.2:8000")


async def test_where_none_can_be_read_nothing_is_loaded() -> None:
    """Who names replicas wants them watched; a run without any would show less than was asked for."""
    ran, _ = await behind(FakeVllm(), httpx.Response(401, text="who are you"), httpx.ConnectError("x"))
    assert ran["metrics"].status == "refuse"
    assert "10.0.0.1:8000 answers 401" in texts([ran["metrics"]])
    assert "--replica-key-file" in texts([ran["metrics"]])


async def test_a_router_that_tells_of_other_replicas_is_said() -> None:
    ran, _ = await behind(FakeVllm(metrics=lambda: ROUTER), page(), page())
    assert ran["metrics"].status == "warn"
    assert "The router in front tells of 3 servers, not of 2" in texts([ran["metrics"]])
    assert ran.preflight.info.backends == 3
    same, _ = await behind(FakeVllm(metrics=lambda: ROUTER), page(), page(), page())
    assert same["metrics"].status == "pass"


async def test_without_names_nothing_is_read_elsewhere() -> None:
    gateway = FakeVllm()
    ran = await run(gateway)
    assert ran.preflight.info.replicas == ()
    assert {str(request.url.copy_with(path="/")) for request in gateway.seen} == {f"{BASE}/"}
