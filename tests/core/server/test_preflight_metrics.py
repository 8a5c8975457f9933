import httpx
import pytest

from core.facts import fact
from tests.core.server.fakes import ALL, BASE, KEY, FakeVllm, Handler, capture, codes, config, figures, run, texts


def gateway(metrics_at: str | None) -> Handler:
    """A server behind `/llm`, with metrics at one address only."""
    inner = FakeVllm()

    def answer(request: httpx.Request) -> httpx.Response:
        path = request.url.path
        if path.endswith("/metrics"):
            return inner(httpx.Request("GET", f"{BASE}/metrics")) if str(request.url) == metrics_at else httpx.Response(404)
        if not path.startswith("/llm/"):
            return httpx.Response(404)
        inside = f"{BASE}{path.removeprefix('/llm')}"
        return inner(httpx.Request(request.method, inside, headers=request.headers, content=request.content))

    return answer


@pytest.mark.parametrize(
    ("metrics_at", "given"),
    [
        ("http://gw:8000/llm/metrics", None),
        ("http://gw:8000/metrics", None),
        ("http://pod:9090/metrics", "http://pod:9090/metrics"),
    ],
)
async def test_metrics_are_looked_for_where_they_may_be(metrics_at: str, given: str | None) -> None:
    ran = await run(gateway(metrics_at), config=config(target=f"{BASE}/llm", metrics_url=given))
    assert ran["metrics"].status == "pass"
    assert ran.preflight.info.metrics_url == metrics_at


async def test_metrics_that_are_nowhere_are_said_with_what_was_tried() -> None:
    ran = await run(gateway(None), config=config(target=f"{BASE}/llm/"))
    refused = fact("call_refused", status=404, said=None)
    tried = [fact("metrics_unreachable", refused, url=url) for url in (f"{BASE}/llm/metrics", f"{BASE}/metrics")]
    assert (ran["metrics"].status, ran["metrics"].message) == ("warn", fact("metrics_missing", *tried, address_given=False))
    assert ran.preflight.info.metrics_url is None
    assert [ran[name].status for name in ("kv capacity", "traffic", "isolation")] == ["warn"] * 3
    assert ran.names == ALL


async def test_a_metrics_address_that_was_given_is_the_only_one_tried() -> None:
    server = FakeVllm(overrides={"http://pod:9090/m": httpx.ConnectError("x")})
    ran = await run(server, config=config(metrics_url="http://pod:9090/m"))
    assert ran["metrics"].status == "warn"
    assert figures(ran["metrics"], "address_given") == (True,)
    assert "/metrics" not in server.paths()


async def test_metrics_behind_redirects() -> None:
    inside = FakeVllm(overrides={"/metrics": httpx.Response(307, headers={"location": "/metrics/"})})
    inside.overrides["/metrics/"] = httpx.Response(200, text=capture("0.32.0-idle"))
    assert (await run(inside))["metrics"].status == "pass"
    outside = FakeVllm(overrides={"/metrics": httpx.Response(307, headers={"location": "http://evil/metrics"})})
    ran = await run(outside, key=KEY)
    assert ran["metrics"].status == "warn"
    assert "evil" in texts([ran["metrics"]])
    assert {request.url.host for request in outside.seen} == {"gw"}


@pytest.mark.parametrize("body", ["", "process_open_fds 34.0\n"])
async def test_a_page_without_vllm_metrics_is_no_metrics(body: str) -> None:
    ran = await run(FakeVllm(metrics=lambda: body))
    assert ran["metrics"].status == "warn"
    assert codes(ran["metrics"])[:2] == ["metrics_missing", "metrics_unreadable"]
    assert ran.names == ALL


async def test_data_parallel_engines_are_counted() -> None:
    text = capture("0.32.0-idle")
    both = text + "\n".join(line.replace('engine="0"', 'engine="1"') for line in text.split("\n") if not line.startswith("#"))
    ran = await run(FakeVllm(metrics=lambda: both))
    assert (ran.preflight.info.engines, ran.preflight.info.dp) == (2, 2)
    assert ran.preflight.info.kv_cache_tokens == 2 * 2097152
    assert figures(ran["metrics"], "engines") == (2,)
    assert figures(ran["layout"], "dp") == (2,)
