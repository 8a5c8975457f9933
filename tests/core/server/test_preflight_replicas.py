"""Preflight of a gateway whose replicas are named: their metrics count, and not what the gateway shows."""

import itertools
import re

import httpx
import pytest

from core.records import Check, EngineSample, ServerSample
from core.server import Discovery, Places, ReplicaScraper
from core.server.checks import behind_check
from tests.core.server.fakes import BASE, KEY, FakeVllm, Ran, capture, client, codes, figures, run, texts

A, B = "http://10.0.0.1:8000", "http://10.0.0.2:8000"
_STARTS = itertools.count(1_795_000_000)
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


def page(started: float | None = None) -> httpx.Response:
    """Of an idle replica; each says that it began at another time, unless `started` is given."""
    began = next(_STARTS) if started is None else started
    return httpx.Response(
        200, text=re.sub(r"^(process_start_time_seconds) .*$", rf"\1 {began}", capture("0.32.0-idle"), flags=re.M)
    )


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


async def test_one_replica_under_two_names_is_refused() -> None:
    """Else it counts twice: in the number of replicas, in every sum, and as others' traffic."""
    ran, _ = await behind(FakeVllm(), page(started=7.25), page(started=8.5), page(started=7.25))
    assert ran["metrics"].status == "refuse"
    assert "10.0.0.1:8000 and 10.0.0.3:8000 are one replica under two names" in texts([ran["metrics"]])


async def test_replicas_that_began_together_and_counted_the_same_are_still_two() -> None:
    """As those of a simulated fleet, which are one process: the moments differ at which their counters began."""
    one = page(started=7.25)
    other = httpx.Response(200, text=re.sub(r"(_created\{.*\}) .*", r"\1 1.795e+09", one.text))
    ran, _ = await behind(FakeVllm(), one, other)
    assert ran["metrics"].status == "pass"


def reading(*success: float, started: float = 1.0, unread: tuple[str, ...] = ()) -> ServerSample:
    rows = tuple(
        EngineSample(name=f"r{n}", started=started + n, requests_success_total=value, prompt_tokens_total=8 * value)
        for n, value in enumerate(success)
    )
    return ServerSample(t=0.0, took_s=0.0, requests_success_total=sum(success), by_engine=rows, by_replica=True, unread=unread)


@pytest.mark.parametrize(
    ("after", "fleet", "status"),
    [
        (reading(8, 7), True, "pass"),
        (reading(9, 9), True, "pass"),  # somebody else's, which is judged elsewhere
        (reading(7, 6), True, "refuse"),
        (reading(7, 6), False, "warn"),
        (reading(5, 5), False, "refuse"),  # none of them is behind it
        (reading(5, 5, unread=("r2",)), True, None),
        (reading(5, 5, 3), True, None),
    ],
)
def test_the_replicas_named_are_held_against_what_the_gateway_answered(
    after: ServerSample, fleet: bool, status: str | None
) -> None:
    check = behind_check(reading(5, 5), after, 5, fleet=fleet)
    assert (None if check is None else check.status) == status


async def test_a_gateway_before_others_than_those_named_is_not_loaded() -> None:
    ran, _ = await behind(FakeVllm(), page(), page())
    assert ran["replicas"].status == "refuse"
    assert codes(ran["replicas"]) == ["replicas_elsewhere"]
    assert ran.checks[-1].check == "replicas"
