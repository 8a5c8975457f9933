import httpx
import pytest

from core.access import Access
from core.config import Target
from core.errors import UserError
from core.facts import fact, in_turn
from core.server.http import MAX_SENTENCE
from core.server.preflight import Preflight
from tests.core.server.fakes import ALL, BASE, KEY, FakeSend, FakeVllm, client, codes, config, counting, record, run, texts


@pytest.mark.parametrize("api_key", [None, KEY])
@pytest.mark.parametrize("metrics_key", [None, KEY])
async def test_the_key_is_given_wherever_it_is_wanted(api_key: str | None, metrics_key: str | None) -> None:
    server = FakeVllm(key=api_key, metrics_key=metrics_key)
    ran = await run(server, counting(server) if metrics_key is None else FakeSend(), key=KEY)
    assert ran.names == ALL
    assert ran["metrics"].status == "pass"


async def test_a_missing_key_and_a_wrong_one_are_told_apart() -> None:
    missing = await run(FakeVllm(key=KEY))
    assert missing.names == ALL[:3]
    refused = fact("models_unread", fact("call_refused", status=401, said="Unauthorized"), path="/v1/models")
    assert missing["model"].message == in_turn(fact("key_missing", refused), fact("model_unnamed"))
    wrong = await run(FakeVllm(key=KEY), key="sk-other")
    assert wrong["model"].message == in_turn(fact("key_not_accepted", refused), fact("model_unnamed"))


@pytest.mark.parametrize("key", [None, "sk-other"])
async def test_a_request_that_is_let_in_by_no_key_says_so_whatever_became_of_the_list(key: str | None) -> None:
    code = "key_missing" if key is None else "key_not_accepted"
    no = FakeSend(lambda hello, i, phase: record(ending="http", status=401, error="Unauthorized"))
    for server in (FakeVllm(), FakeVllm(key=KEY), FakeVllm(overrides={"/v1/models": httpx.Response(404)})):
        ran = await run(server, no, config(model="tiny"), key=key)
        assert ran["request"].status == "refuse"
        assert code in codes(ran["request"])


async def test_metrics_that_want_a_key_of_their_own_do_not_stop_the_run() -> None:
    ran = await run(FakeVllm(metrics_key="another"), key=KEY)
    assert ran["metrics"].status == "warn"
    assert codes(ran["metrics"]) == ["metrics_missing", "metrics_unreachable", "call_refused"]
    assert ran.names == ALL


async def test_a_key_that_no_header_carries() -> None:
    async with client(FakeVllm()) as http:
        with pytest.raises(UserError) as caught:
            Preflight(config(), Access(api_key=f"{KEY}\n"), "00ff", http, FakeSend())
    assert KEY not in str(caught.value)


async def test_the_key_is_in_no_message_even_if_everybody_repeats_it() -> None:
    echo = {"error": {"message": f"Incorrect API key provided: {KEY}"}}
    bad = record(ending="http", status=401, error=f"Incorrect API key provided: {KEY}")
    for path in ("/health", "/version", "/v1/models", "/metrics", "/tokenize"):
        server = FakeVllm(overrides={path: httpx.Response(401, json=echo)}, version={"version": f"1.0 {KEY}"})
        server.models = {"data": [{"id": f"model-{KEY}", "max_model_len": 2048}]}
        ran = await run(server, FakeSend(lambda hello, i, phase: bad), key=KEY)
        assert KEY not in texts(ran.checks), path
    singles_fail = FakeSend(lambda hello, i, phase: bad if phase == "single" else record())
    ran = await run(FakeVllm(), singles_fail, key=KEY)
    assert KEY not in texts(ran.checks)
    assert "Incorrect API key" in texts([ran["slo"]])
    assert KEY not in repr(ran.preflight.hello)


async def test_a_key_that_a_cut_would_halve_is_blanked_out_before_it() -> None:
    echo = httpx.Response(500, json={"error": {"message": "x" * (MAX_SENTENCE - 6) + KEY}})
    ran = await run(FakeVllm(overrides={"/v1/models": echo}), key=KEY)
    assert "xxx" in texts([ran["model"]])
    assert KEY[:6] not in texts([ran["model"]])


async def test_what_is_learned_of_a_server_does_not_hold_the_key() -> None:
    labels = f'num_gpu_blocks="100",block_size="16",cache_dtype="{KEY}"'
    server = FakeVllm(version={"version": f"0.32 {KEY}"}, models={"data": [{"id": f"model-{KEY}", "max_model_len": 2048}]})
    server.metrics = lambda: f"vllm:num_requests_running 0\nvllm:cache_config_info{{{labels}}} 1\n"
    info = (await run(server, key=KEY)).preflight.info
    assert info.config["cache_dtype"] == "***"
    assert KEY not in repr(info)


async def test_the_key_stays_at_the_targets_origin() -> None:
    target = Target(url=BASE, metrics_url="http://pod:9090/metrics")
    server = FakeVllm()
    await run(server, config=config(target=target), key=KEY)
    keys = {(request.url.host, request.headers.get("authorization")) for request in server.seen}
    assert keys == {("gw", f"Bearer {KEY}"), ("pod", None)}


@pytest.mark.parametrize("key", ["vllm", "data", "model", "true"])
async def test_a_key_that_is_a_common_word_spoils_no_answer(key: str) -> None:
    server = FakeVllm(key=key)
    ran = await run(server, counting(server), key=key)
    assert ran.names == ALL
    assert ran["metrics"].status == "pass"


async def test_a_header_that_names_the_model_does_not_change_its_name() -> None:
    access = Access(headers=(("X-Model", "meta-llama/Llama-3.1-8B"),))
    server = FakeVllm(models={"data": [{"id": "meta-llama/Llama-3.1-8B", "max_model_len": 2048}]})
    async with client(server) as http:
        preflight = Preflight(config(), access, "00ff", http, FakeSend())
        assert [check.status async for check in preflight.checks()][-1] == "pass"
    assert preflight.hello is not None
    assert preflight.hello.model == "meta-llama/Llama-3.1-8B"
