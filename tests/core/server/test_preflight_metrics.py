import httpx
import pytest

from core import prose
from core.access import Access
from core.config import Target
from core.facts import Code, Fact, Figure, fact, parts
from core.records import Check
from core.server.probe import look
from tests.core.server.fakes import ALL, BASE, KEY, FakeVllm, Handler, capture, client, codes, config, figures, run, texts


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


ROUTER = "".join(
    f'vllm:{name}{{server="http://10.0.0.{n}:8000"}} 3.0\n'
    for name in ("num_requests_running", "current_qps", "gpu_prefix_cache_hits_total", "gpu_prefix_cache_queries_total")
    for n in (1, 2, 3)
)


def told(check: Check, code: Code) -> dict[str, Figure]:
    """The figures of the one fact with this code, wherever it stands."""
    (one,) = [each for each in parts(check.message) if isinstance(each, Fact) and each.code == code]
    return one.figures


@pytest.mark.parametrize("given", [None, f"{BASE}/metrics"])
async def test_a_routers_figures_alone_are_no_metrics_and_the_run_goes_on(given: str | None) -> None:
    ran = await run(FakeVllm(metrics=lambda: ROUTER), config=config(metrics_url=given))
    assert ran["metrics"].status == "warn"
    assert told(ran["metrics"], "metrics_of_router") == {"url": f"{BASE}/metrics", "servers": 3}
    assert "--metrics-url" in prose.sentence(ran["metrics"].message)
    assert (ran.preflight.info.metrics_url, ran.preflight.info.backends, ran.preflight.info.dp) == (None, 3, None)
    assert [ran[name].status for name in ("kv capacity", "traffic", "isolation")] == ["warn"] * 3
    assert told(ran["layout"], "servers_behind") == {"servers": 3}
    assert ran.names == ALL


async def test_a_routers_figures_beside_an_engines_are_said_and_not_counted() -> None:
    ran = await run(FakeVllm(metrics=lambda: ROUTER + capture("0.32.0-idle")))
    assert (ran["metrics"].status, ran["traffic"].status) == ("pass", "pass")
    assert told(ran["metrics"], "router_left_out") == {"servers": 3}
    assert (ran.preflight.info.engines, ran.preflight.info.backends) == (1, 3)


async def test_engines_are_read_at_the_root_where_a_router_answers_under_the_base() -> None:
    inner = FakeVllm()

    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path == "/llm/metrics":
            return httpx.Response(200, text=ROUTER)
        return inner(httpx.Request(request.method, f"{BASE}{request.url.path.removeprefix('/llm')}", content=request.content))

    ran = await run(answer, config=config(target=f"{BASE}/llm"))
    assert ran["metrics"].status == "pass"
    assert (ran.preflight.info.metrics_url, ran.preflight.info.backends) == (f"{BASE}/metrics", 3)


BUSY = "".join(
    f'vllm:{name}{{engine="0",model_name="other"}} {value}\n'
    for name, value in (("num_requests_running", 50), ("num_requests_waiting", 7), ("kv_cache_usage_perc", 1))
)


@pytest.mark.parametrize(
    ("models", "asked"),
    [
        ([{"id": "tiny"}, {"id": "other"}], "tiny"),
        ([{"id": "alias", "root": "/models/t"}, {"id": "tiny", "root": "/models/t"}, {"id": "other", "root": "/o"}], "alias"),
        ([{"id": "tiny", "root": "/m"}, {"id": "lora", "root": "/adapter", "parent": "tiny"}, {"id": "other"}], "lora"),
        ([{"id": "by-path", "root": "tiny"}], None),
        ([{"id": "lora", "parent": "tiny"}, {"id": "other", "root": ["odd"]}], "lora"),
    ],
    ids=["its name", "an alias", "a LoRA", "by what was loaded", "a LoRA without its base"],
)
async def test_only_our_model_counts_whatever_the_metrics_call_it(models: list[dict[str, object]], asked: str | None) -> None:
    server = FakeVllm(models={"data": models}, metrics=lambda: BUSY + capture("0.32.0-idle"))
    ran = await run(server, config=config(model=asked))
    assert (ran["metrics"].status, ran["traffic"].status) == ("pass", "pass")
    assert told(ran["metrics"], "models_left_out")["models"] == 1
    assert (ran.preflight.info.metrics_models, ran.preflight.info.engines) == (("tiny",), 1)
    assert ran.preflight.info.kv_cache_tokens == 2097152


async def test_metrics_without_our_model_all_count_and_that_is_said() -> None:
    ran = await run(FakeVllm(models={"data": [{"id": "ours"}]}, metrics=lambda: BUSY + capture("0.32.0-idle")))
    assert (ran["metrics"].status, ran["traffic"].status) == ("warn", "refuse")
    assert told(ran["metrics"], "model_not_in_metrics") == {"model": "ours", "models": 2}
    assert told(ran["traffic"], "server_busy")["others"] == 57
    assert ran.preflight.info.metrics_models == ()


async def test_requests_for_another_model_are_nothing_to_ask_about() -> None:
    async with client(FakeVllm(metrics=lambda: BUSY + capture("0.32.0-idle"))) as http:
        seen = await look(Target(url=BASE), Access(), http)
    assert seen.sample is not None
    assert (seen.sample.running, seen.sample.waiting) == (0, 0)


@pytest.mark.parametrize("prefix", ["ray_vllm:", "ray_vllm_"])
async def test_ray_serves_metrics_are_read_where_they_are(prefix: str) -> None:
    page = capture("0.32.0-idle").replace("vllm:", prefix).replace("process_start_time_seconds", "none")
    overrides: dict[str, httpx.Response | Exception] = {
        f"{BASE}/metrics": httpx.Response(404),
        "http://node:8080/metrics": httpx.Response(200, text=page),
    }
    missed = await run(FakeVllm(overrides=overrides))
    assert "Ray Serve" in prose.sentence(missed["metrics"].message)
    ran = await run(FakeVllm(overrides=overrides), config=config(metrics_url="http://node:8080/metrics"))
    assert (ran["metrics"].status, ran["traffic"].status) == ("pass", "pass")
    assert ran.preflight.info.kv_cache_tokens == 2097152
