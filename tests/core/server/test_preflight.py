import asyncio
import re

import httpx
import pytest

from core.access import Access
from core.config import Lengths, Target, Workload
from core.facts import Code, Fact, Figure, fact
from core.records import Ending, GapSummary, Hello, Phase, RequestRecord
from core.server.answers import SINGLES
from core.server.preflight import Preflight
from core.server.prompt_vocabulary import BLIND_RANGES, LETTERS
from core.workloads import COLD, Prefix
from tests.core.server.fakes import (
    ALL,
    BASE,
    KEY,
    FakeSend,
    FakeVllm,
    Ran,
    capture,
    client,
    codes,
    config,
    counting,
    figures,
    found,
    record,
    run,
    texts,
)


async def test_all_checks_of_a_good_server() -> None:
    server = FakeVllm()
    send = counting(server)
    ran = await run(server, send)
    assert ran.names == ALL
    assert {check.status for check in ran.checks} == {"pass"}, texts(ran.checks)
    info = ran.preflight.info
    assert (info.url, info.version, info.model, info.max_model_len, info.simulated) == (BASE, "0.32.0", "tiny", 2048, False)
    assert (info.metrics_url, info.engines, info.kv_cache_tokens) == (f"{BASE}/metrics", 1, 2097152)
    assert (info.tp, info.pp, info.dp, info.fingerprint) == (None, None, None, "vllm-0.32.0-9666ce4b")
    assert info.config == {
        "block_size": "128",
        "num_gpu_blocks": "16384",
        "kv_cache_size_tokens": "2097152",
        "kv_cache_max_concurrency": "1024.0",
        "kv_cache_memory_bytes": "1073741824",
        "enable_prefix_caching": "True",
        "cache_dtype": "auto",
        "gpu_memory_utilization": "0.92",
    }
    assert ran["isolation"].message == fact("prompts_cold", hits=0, looked_up=2560, unit="tokens", prompts=5)


async def test_requests_go_through_the_generator_as_the_load_will() -> None:
    send = FakeSend(lambda hello, i, phase: record(index=i))
    ran = await run(FakeVllm(), send, key=KEY)
    assert [(n, phase) for _, n, phase in send.calls] == [(1, "preflight"), (4, "single")]
    hello = send.calls[-1][0]
    assert ran.preflight.hello == hello
    assert (hello.model, hello.nonce, hello.access.api_key, hello.workload) == ("tiny", "00ff", KEY, Workload())
    assert len(hello.alphabet.token_ids) >= 64
    assert [single.index for single in ran.preflight.singles] == [1, 2, 3]


async def test_checks_come_one_by_one() -> None:
    server, send = FakeVllm(), FakeSend()
    async with client(server) as http:
        checks = Preflight(config(), Access(), "00ff", http, send).checks()
        seen = []
        async for check in checks:
            seen.append(check.check)
            if check.check == "traffic":
                break
    assert seen == ALL[: ALL.index("traffic") + 1]
    assert send.calls == []


async def test_the_traffic_of_others_is_read_before_the_first_request() -> None:
    server = FakeVllm()
    send = FakeSend(before=lambda: setattr(server, "metrics", lambda: capture("0.32.0-preempting")))
    assert (await run(server, send))["traffic"].status == "pass"
    busy = await run(FakeVllm(metrics=lambda: capture("0.32.0-preempting")))
    assert busy["traffic"].status == "refuse"
    assert (found(busy["traffic"]).code, *figures(busy["traffic"], "others")) == ("server_busy", 59)


# --- reachable ------------------------------------------------------------------------------------------------------


def nobody(error: Exception) -> FakeVllm:
    """A server of which no route is answered."""
    return FakeVllm(overrides=dict.fromkeys(("/health", "/version", "/v1/models"), error))


async def test_nothing_listens() -> None:
    error = httpx.ConnectError("All connection attempts failed")
    error.__cause__ = ConnectionRefusedError()
    ran = await run(nobody(error))
    assert ran.names == ["reachable"]
    assert ran["reachable"].status == "refuse"
    assert ran.preflight.info.alive_path is None
    assert codes(ran["reachable"]) == ["server_unreachable", "call_failed"]
    (call,) = found(ran["reachable"]).of
    assert isinstance(call, Fact)
    assert (found(ran["reachable"]).figures["url"], call.figures["why"]) == (BASE, "refused")


async def test_a_failure_that_says_why_is_told_before_a_mere_silence() -> None:
    server = nobody(httpx.ReadTimeout("x"))
    server.overrides["/version"] = httpx.ConnectError("x")
    (call,) = found((await run(server))["reachable"]).of
    assert isinstance(call, Fact)
    assert call.figures["why"] == "other"


HEALTH_503 = fact("call_refused", status=503, said=None)
NOT_UP = fact("server_not_up", HEALTH_503, url=BASE, path="/health")


async def test_a_dead_engine() -> None:
    """Refused by the request, which fails: /health alone may be a gateway's."""
    dead = FakeSend(lambda hello, i, phase: record(ending="http", status=500, error="EngineDeadError"))
    ran = await run(FakeVllm(overrides={"/health": httpx.Response(503)}), dead)
    assert ran["reachable"].status == "warn"
    assert (ran.names[-1], ran["request"].status) == ("request", "refuse")
    assert isinstance(ran["request"].message, Fact)
    assert ran["request"].message.of[1:] == (NOT_UP,)


@pytest.mark.parametrize("broken", [httpx.Response(503), httpx.Response(500), httpx.ReadError("x"), httpx.ReadTimeout("x")])
async def test_a_health_that_fails_is_a_warning_where_requests_are_served(broken: httpx.Response | Exception) -> None:
    ran = await run(FakeVllm(overrides={"/health": broken}))
    assert ran.names == ALL
    assert (ran["reachable"].status, codes(ran["reachable"])[1:3]) == ("warn", ["server_answers", "health_unsure"])
    assert ran["request"].status == "pass"
    assert ran.preflight.info.alive_path == "/v1/models"


async def test_a_health_that_is_slow_is_a_warning_and_holds_nothing_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("core.server.routes.PROMPT_S", 0.05)
    server = FakeVllm()

    async def slow(request: httpx.Request) -> httpx.Response:
        if request.url.path == "/health":
            await asyncio.sleep(60)
        return server(request)

    async with httpx.AsyncClient(transport=httpx.MockTransport(slow)) as http, asyncio.timeout(5):
        preflight = Preflight(config(), Access(), "00ff", http, FakeSend())
        ran = Ran(preflight, [check async for check in preflight.checks()])
    assert ran.names == ALL
    assert codes(ran["reachable"]) == ["in_turn", "server_answers", "health_unsure", "route_slow"]


async def test_where_every_route_is_slow_one_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("core.server.routes.PROMPT_S", 0.05)
    server = FakeVllm()

    async def slow(request: httpx.Request) -> httpx.Response:
        await asyncio.sleep({"/health": 60, "/version": 0.2, "/v1/models": 0.3}.get(request.url.path, 0))
        return server(request)

    async with httpx.AsyncClient(transport=httpx.MockTransport(slow)) as http, asyncio.timeout(5):
        preflight = Preflight(config(), Access(), "00ff", http, FakeSend())
        ran = Ran(preflight, [check async for check in preflight.checks()])
    assert ran.names == ALL
    assert figures(ran["reachable"], "path", "url") == ("/health", BASE)
    assert ran.preflight.info.alive_path is None, "a load would slow it further"


async def test_a_gateway_that_passes_on_only_the_api() -> None:
    hidden = {"/health": httpx.Response(404), "/version": httpx.Response(404), "/metrics": httpx.Response(404)}
    ran = await run(FakeVllm(overrides={**hidden}))
    assert ran["reachable"].status == "pass"
    assert ran["version"].status == "warn"
    assert ran.names == ALL


NO_ROUTE = FakeVllm(overrides=dict.fromkeys(("/health", "/version", "/v1/models", "/metrics", "/tokenize"), httpx.Response(404)))


async def test_another_kind_of_server() -> None:
    """Without a model there is nothing to ask for; with one the request decides, and asks whether it is an API at all."""
    ran = await run(NO_ROUTE)
    assert ran.names == ALL[:3]
    assert (ran["reachable"].status, found(ran["reachable"]).code) == ("warn", "health_unsure")
    assert (ran["model"].status, codes(ran["model"])[-1]) == ("refuse", "model_unnamed")
    no = FakeSend(lambda hello, i, phase: record(ending="http", status=404, error="Not Found"))
    asked = await run(NO_ROUTE, no, config(model="tiny"))
    assert (asked.names[-1], asked["request"].status) == ("request", "refuse")
    assert isinstance(asked["request"].message, Fact)
    said = [each.code for each in asked["request"].message.of if isinstance(each, Fact)]
    assert said == ["request_failed", "server_not_up", "models_unread", "is_it_the_api"]
    assert asked["request"].message.of[-1] == fact("is_it_the_api", url=f"{BASE}/v1")


async def test_a_proxy_that_knows_requests_alone_is_loaded_by_the_model_that_is_named() -> None:
    ran = await run(NO_ROUTE, config=config(model="tiny"))
    assert ran.names == ALL
    assert (ran["model"].status, ran["request"].status) == ("warn", "pass")
    assert (ran.preflight.info.model, ran.preflight.info.max_model_len) == ("tiny", None)
    assert ran.preflight.info.alive_path == "/health", "a 404 is an answer"


@pytest.mark.parametrize(
    ("models", "why"),
    [
        (httpx.Response(401, json={"error": "Unauthorized"}), "models_unread"),
        (httpx.Response(404), "models_unread"),
        (httpx.Response(500), "models_unread"),
        (httpx.ReadTimeout("x"), "models_unread"),
        (httpx.Response(200, text="<html>"), "no_model_list"),
        (httpx.Response(200, json={"object": "list", "data": None}), "no_model_list"),
        (httpx.Response(200, json={"data": []}), "no_model_listed"),
        (httpx.Response(200, json={"data": [{"id": "openai/*"}]}), "model_not_listed"),
        (httpx.Response(200, json={"data": [{"id": f"m-{i}"} for i in range(200)], "has_more": True}), "model_not_listed"),
    ],
)
async def test_a_model_that_is_named_needs_no_list(models: httpx.Response | Exception, why: Code) -> None:
    ran = await run(FakeVllm(overrides={"/v1/models": models}), config=config(model="served"))
    assert ran.names == ALL
    assert (ran["model"].status, codes(ran["model"])[1:3]) == ("warn", ["model_taken_as_given", why])
    assert ran["context"].status == "warn"
    assert ran.preflight.hello is not None
    assert ran.preflight.hello.model == "served"
    no = FakeSend(lambda hello, i, phase: record(ending="http", status=404, error="The model `served` does not exist"))
    refused = await run(FakeVllm(overrides={"/v1/models": models}), no, config(model="served"))
    assert refused["request"].status == "refuse"
    assert why in codes(refused["request"])


async def test_an_api_behind_another_prefix_is_asked_there() -> None:
    server = FakeVllm()

    def behind(request: httpx.Request) -> httpx.Response:
        assert not request.url.path.startswith("/v1")
        if request.url.path == "/v3/models":
            return httpx.Response(200, json=server.models)
        return server(request)

    ran = await run(behind, config=config(target=Target(url=BASE, prefix="/v3")))
    assert ran.names == ALL
    assert (ran.preflight.info.url, ran.preflight.info.model) == (f"{BASE}/v3", "tiny")


# --- version and model ----------------------------------------------------------------------------------------------


async def test_a_simulated_replica_is_known_by_its_version() -> None:
    ran = await run(FakeVllm(version={"version": "0.32.0+simulated"}))
    assert ran.preflight.info.simulated
    assert found(ran["version"]).code == "simulated_replica"


@pytest.mark.parametrize("version", [{"release": "1"}, {"version": None}, ["0.32.0"], {"version": 3}])
async def test_a_version_that_is_none(version: object) -> None:
    ran = await run(FakeVllm(version=version))
    assert ran["version"].status == "warn"
    assert ran.preflight.info.version is None


async def test_several_models_need_a_choice() -> None:
    models = {"data": [{"id": "a", "max_model_len": 2048}, {"id": "b", "parent": "a", "max_model_len": None}]}
    ran = await run(FakeVllm(models=models))
    assert ran.names == ALL[:3]
    assert ran["model"].message == fact("model_not_chosen", "a", "b", models=2)
    chosen = await run(FakeVllm(models=models), config=config(model="b"))
    assert (chosen.preflight.info.model, chosen.preflight.info.max_model_len) == ("b", 2048)
    assert chosen.names == ALL


@pytest.mark.parametrize(
    ("models", "code"),
    [({"error": "no"}, "no_model_list"), ({"data": [{"name": "x"}]}, "no_model_list"), ({"data": []}, "no_model_listed")],
)
async def test_a_list_of_models_that_is_none(models: object, code: Code) -> None:
    ran = await run(FakeVllm(models=models))
    assert ran.names == ALL[:3]
    assert (ran["model"].status, found(ran["model"])) == ("refuse", fact(code, path="/v1/models"))
    assert codes(ran["model"])[-1] == "model_unnamed"


async def test_json_nested_too_deep_is_no_answer_and_no_crash() -> None:
    deep = '{"data": [], "version": "1", "count": 1, "more": ' + "[" * 100_000 + "]" * 100_000 + "}"
    for path, check, status in (("/version", "version", "warn"), ("/v1/models", "model", "refuse")):
        ran = await run(FakeVllm(overrides={path: httpx.Response(200, text=deep)}))
        assert ran[check].status == status


async def test_a_version_of_any_length_is_kept_short() -> None:
    ran = await run(FakeVllm(version={"version": "9" * 10_000 + ".1\x1b[31m"}))
    assert len(ran.preflight.info.version or "") < 100
    assert len(str(ran["version"].message)) < 200
    short = await run(FakeVllm(version={"version": "1\x1b[31m"}))
    assert short.preflight.info.version == "1 [31m"


async def test_too_long_requests_stop_before_anything_is_sent() -> None:
    send = FakeSend()
    workload = Workload(input_tokens=Lengths(median=1024), output_tokens=Lengths(median=1025))
    ran = await run(FakeVllm(), send, config(workload=workload))
    assert ran.names == ALL[:4]
    assert ran["context"].status == "refuse"
    assert send.calls == []


# --- requests -------------------------------------------------------------------------------------------------------


async def test_without_tokenize_ranges_of_ids_are_tried_until_one_is_known() -> None:
    def answer(hello: Hello, i: int, phase: Phase) -> RequestRecord:
        known = max(hello.alphabet.token_ids) < 320
        return record() if known else record(ending="http", status=400, error="Token id 1999 is out of vocabulary")

    send = FakeSend(answer)
    ran = await run(FakeVllm(tokenize=None), send)
    assert ran.names == ALL
    assert [hello.alphabet.token_ids[0] for hello, _, phase in send.calls if phase == "preflight"] == [1000, 100]
    assert send.calls[-1][0].alphabet.token_ids == tuple(BLIND_RANGES[1])


async def test_a_request_that_no_prompt_makes_work_is_refused_in_the_servers_words() -> None:
    send = FakeSend(lambda hello, i, phase: record(ending="http", status=400, error="cache_salt is not supported"))
    for tokenize in (None, FakeVllm().tokenize):
        ran = await run(FakeVllm(tokenize=tokenize), send)
        assert ran.names[-1] == "request"
        assert ran["request"].status == "refuse"
        how = fact("request_broken_off", ending="http", status=400, said="cache_salt is not supported")
        assert found(ran["request"]).of == (how,)
        assert ran.preflight.hello is None


async def test_a_generator_that_sends_nothing() -> None:
    class Mute(FakeSend):
        async def __call__(self, hello: Hello, n: int, phase: Phase) -> list[RequestRecord]:
            return []

    ran = await run(FakeVllm(), Mute())
    assert ran.names[-1] == "request"
    assert (ran["request"].status, ran["request"].message) == ("refuse", fact("no_request_sent"))


async def test_singles_that_were_cut_off_are_refused() -> None:
    class Cut(FakeSend):
        async def __call__(self, hello: Hello, n: int, phase: Phase) -> list[RequestRecord]:
            return (await super().__call__(hello, n, phase))[:2]

    ran = await run(FakeVllm(), Cut())
    assert (ran["slo"].status, ran["slo"].message) == ("refuse", fact("singles_missing", sent=1, wanted=3))


async def test_chat_prompts_by_tokenize() -> None:
    send = FakeSend()
    await run(FakeVllm(template_tokens=9), send, config(api="chat"))
    alphabet = send.calls[-1][0].alphabet
    assert (alphabet.tokens_per_word, alphabet.chat_overhead_tokens, alphabet.token_ids) == (1, 9, ())
    assert [phase for _, _, phase in send.calls] == ["preflight", "single"]


async def test_chat_prompts_without_tokenize_are_calibrated_by_two_requests() -> None:
    def answer(hello: Hello, i: int, phase: Phase) -> RequestRecord:
        asked = hello.workload.input_tokens.largest
        words = round((asked - hello.alphabet.chat_overhead_tokens) / hello.alphabet.tokens_per_word)
        limit = hello.workload.output_tokens.largest
        return record(asked_input=asked, prompt_tokens=11 + 2 * words, asked_output=limit, output_tokens=limit)

    send = FakeSend(answer)
    workload = Workload(input_tokens=Lengths(median=111))
    ran = await run(FakeVllm(tokenize=None), send, config(api="chat", workload=workload))
    hello = send.calls[-1][0]
    assert (hello.alphabet.tokens_per_word, hello.alphabet.chat_overhead_tokens) == (2, 11)
    assert (hello.alphabet.words, hello.workload) == (LETTERS, workload)
    assert [call[0].workload.input_tokens.largest for call in send.calls] == [32, 96, 111, 111]
    assert ran["prompt length"].status == "pass"
    assert ran.names == ALL


async def test_a_wrong_prompt_length_ends_it() -> None:
    send = FakeSend(lambda hello, i, phase: record(prompt_tokens=530))
    ran = await run(FakeVllm(), send)
    assert ran.names[-1] == "prompt length"
    assert figures(ran["prompt length"], "prompt_tokens", "asked", "allowed_frac") == (530, 512, 0.02)
    assert len(send.calls) == 1


async def test_prompts_that_hit_the_prefix_cache_are_refused_and_the_rest_still_said() -> None:
    server = FakeVllm()
    ran = await run(server, counting(server, hits_per_request=496))
    assert (ran["isolation"].status, found(ran["isolation"]).code) == ("refuse", "prompts_not_cold")
    assert figures(ran["isolation"], "hits", "looked_up") == (2480, 2560)
    assert ran.names == ALL


async def test_metrics_that_vanish_on_the_way_leave_isolation_open() -> None:
    server = FakeVllm()
    send = FakeSend(before=lambda: server.overrides.update({"/metrics": httpx.Response(500)}))
    ran = await run(server, send)
    assert ran["isolation"].status == "warn"
    assert ran.names == ALL


async def test_answers_that_end_early_are_refused() -> None:
    ran = await run(FakeVllm(), FakeSend(lambda hello, i, phase: record(output_tokens=40, finish_reason="stop")))
    assert ran["usage"].status == "warn"
    assert (ran["output length"].status, found(ran["output length"]).code) == ("refuse", "answers_short")


async def test_a_server_that_is_gone_before_the_single_requests_is_no_answer() -> None:
    gone = FakeSend(lambda hello, i, phase: record() if phase != "single" or i == 0 else record(ending="connection", t_first=None))
    ran = await run(FakeVllm(), gone)
    assert "slo" not in ran.names
    assert (ran.checks[-1].status, codes(ran.checks[-1])) == ("refuse", ["request_failed", "request_broken_off"])


async def test_limits_below_a_single_request_are_infeasible() -> None:
    ran = await run(FakeVllm(), config=config(ttft_s=0.01, tpot_s=None))
    assert (ran["slo"].status, found(ran["slo"]).code) == ("refuse", "all_singles_miss")
    assert len(ran.preflight.singles) == 3


async def test_layout_from_the_fingerprint() -> None:
    ran = await run(FakeVllm(), FakeSend(lambda hello, i, phase: record(fingerprint="vllm-0.32.0-tp4-9666ce4b")))
    info = ran.preflight.info
    assert (info.tp, info.pp, info.dp, info.fingerprint) == (4, 1, 1, "vllm-0.32.0-tp4-9666ce4b")


async def test_a_silent_server_is_waited_for_once_whatever_the_alphabets() -> None:
    send = FakeSend(lambda hello, i, phase: record(ending="aborted", t_first=None))
    ran = await run(FakeVllm(overrides={"/tokenize": httpx.Response(404)}), send)
    assert [(n, phase) for _, n, phase in send.calls] == [(1, "preflight")]
    assert (ran["request"].status, ran.names[-1]) == ("refuse", "request")


# --- the length of an answer ----------------------------------------------------------------------------------------

CHAT = config(api="chat")


def by_length_field(**answers: RequestRecord) -> FakeSend:
    """A server that answers by the field that its chats are asked with."""
    return FakeSend(lambda hello, i, phase: answers[hello.shape.length_by])


async def test_a_chat_server_that_leaves_the_newer_field_unread_is_asked_by_the_older_one() -> None:
    for length, reason in ((512, "length"), (16, "length"), (4000, None)):
        ending: Ending = "ok" if reason else "aborted"
        send = by_length_field(
            max_completion_tokens=record(output_tokens=length, finish_reason=reason, ending=ending), max_tokens=record()
        )
        ran = await run(FakeVllm(), send, CHAT)
        assert [hello.shape.length_by for hello, _, _ in send.calls] == ["max_completion_tokens", "max_tokens", "max_tokens"]
        assert ran.names == ALL
        assert {check.status for check in ran.checks} <= {"pass", "warn"}
        assert codes(ran["request"]) == ["in_turn", "request_answered", "takes_max_tokens"]
        assert ran.preflight.hello is not None
        assert ran.preflight.hello.shape.length_by == "max_tokens"
        assert figures(ran["usage"], "output_tokens", "asked") == (128, 128)


@pytest.mark.parametrize("first", ["max_completion_tokens", "cache_salt"])
async def test_fields_that_are_refused_one_at_a_time_are_given_up_in_any_order(first: str) -> None:
    def answer(hello: Hello, i: int, phase: Phase) -> RequestRecord:
        refused = [
            *(["cache_salt"] if hello.shape.salted else []),
            *(["max_completion_tokens"] if hello.shape.length_by == "max_completion_tokens" else []),
        ]
        if not refused:
            return record()
        return record(ending="http", status=422, error=f"{first if first in refused else refused[0]}: not permitted")

    send = FakeSend(answer)
    ran = await run(FakeVllm(version={}), send, CHAT)
    assert ran["request"].status == "warn"
    assert (send.calls[-1][0].shape.salted, send.calls[-1][0].shape.length_by) == (False, "max_tokens")
    assert len(send.calls) == 4, "two refusals, the answer, and the single requests"


async def test_a_chat_server_that_refuses_the_newer_field_is_asked_by_the_older_one() -> None:
    """As vLLM up to 0.6.3, of which no version is known here: it names both fields at once, then the one."""
    both, one = "cache_salt and max_completion_tokens: Extra inputs are not permitted", "max_completion_tokens: not permitted"

    def answer(hello: Hello, i: int, phase: Phase) -> RequestRecord:
        if hello.shape.length_by == "max_tokens" and not hello.shape.salted:
            return record()
        return record(ending="http", status=400, error=both if hello.shape.salted else one)

    send = FakeSend(answer)
    ran = await run(FakeVllm(version={}), send, CHAT)
    asked = [(hello.shape.salted, hello.shape.length_by) for hello, _, _ in send.calls]
    assert asked == [
        (True, "max_completion_tokens"),
        (False, "max_completion_tokens"),
        (False, "max_tokens"),
        (False, "max_tokens"),
    ]
    assert ran["request"].status == "warn"
    assert codes(ran["request"]) == ["in_turn", "request_answered", "takes_max_tokens", "takes_no_salt"]
    assert ran.names == ALL


async def test_answers_that_are_too_long_by_either_field_are_refused() -> None:
    send = by_length_field(max_completion_tokens=record(output_tokens=256), max_tokens=record(output_tokens=300))
    ran = await run(FakeVllm(), send, CHAT)
    assert figures(ran["usage"], "output_tokens") == (256,), "of the request as the load would send it"
    assert [hello.shape.length_by for hello, _, _ in send.calls] == ["max_completion_tokens", "max_tokens", "max_completion_tokens"]
    assert (ran["output length"].status, found(ran["output length"]).code) == ("refuse", "answers_long")
    assert figures(ran["output length"], "came_frac") == (2.0,)
    assert found(ran["output length"]).of == ("max_completion_tokens", "max_tokens")


async def test_a_server_that_refuses_the_newer_field_and_leaves_the_older_one_unread() -> None:
    refused = record(ending="http", status=400, error="max_completion_tokens: not permitted")
    ran = await run(FakeVllm(), by_length_field(max_completion_tokens=refused, max_tokens=record(output_tokens=256)), CHAT)
    assert ran["output length"].status == "refuse"
    assert (found(ran["output length"]).code, found(ran["output length"]).of) == ("answers_long", ("max_tokens",))


async def test_a_server_that_refuses_the_older_field_keeps_the_newer_one() -> None:
    refused = record(ending="http", status=400, error="max_tokens is not supported")
    send = by_length_field(max_completion_tokens=record(output_tokens=256), max_tokens=refused)
    ran = await run(FakeVllm(), send, CHAT)
    assert ran["output length"].status == "refuse"
    assert figures(ran["usage"], "output_tokens") == (256,)


async def test_completions_have_one_field_only() -> None:
    send = FakeSend(lambda hello, i, phase: record(output_tokens=256))
    ran = await run(FakeVllm(), send)
    assert [phase for _, _, phase in send.calls] == ["preflight", "single"]
    assert (found(ran["output length"]).code, found(ran["output length"]).of) == ("answers_long", ("max_tokens",))


async def test_the_field_that_is_heeded_is_found_once_for_calibration_and_request() -> None:
    def answer(hello: Hello, i: int, phase: Phase) -> RequestRecord:
        asked, limit = hello.workload.input_tokens.largest, hello.workload.output_tokens.largest
        words = round((asked - hello.alphabet.chat_overhead_tokens) / hello.alphabet.tokens_per_word)
        n = limit if hello.shape.length_by == "max_tokens" else 256
        return record(asked_input=asked, prompt_tokens=11 + 2 * words, asked_output=limit, output_tokens=n)

    send = FakeSend(answer)
    ran = await run(FakeVllm(tokenize=None), send, CHAT)
    assert [hello.shape.length_by for hello, _, _ in send.calls] == ["max_completion_tokens"] + ["max_tokens"] * 4
    assert ran.names == ALL
    assert codes(ran["request"]) == ["in_turn", "request_answered", "takes_max_tokens"]


# --- a stream that is held back -------------------------------------------------------------------------------------


async def test_a_buffered_stream_is_refused_and_no_limit_is_called_infeasible() -> None:
    whole = record(t_first=101.31, t_last=101.31, gaps=GapSummary(n=127, under_1ms=127))
    ran = await run(FakeVllm(), FakeSend(lambda hello, i, phase: whole))
    assert ran.names == [*ALL[:-1], "stream"]
    assert (ran["stream"].status, *figures(ran["stream"], "e2e_alone")) == ("refuse", False)
    e2e = await run(FakeVllm(), FakeSend(lambda hello, i, phase: whole), config(ttft_s=None, tpot_s=None, e2e_s=3.0))
    assert e2e.names == [*ALL[:-1], "stream", "slo"]
    assert (e2e["stream"].status, e2e["slo"].status) == ("warn", "pass")


async def test_a_server_that_says_that_it_decodes_fast_is_believed() -> None:
    """Its own mean over the checks' requests: 60 ms for what came at once after 1.3 s, of which prefill took the most."""
    asked = [10.0]
    whole = record(t_first=101.31, t_last=101.31, gaps=GapSummary(n=127, under_1ms=127))

    def metrics(each_s: float) -> str:
        text = re.sub(r"^(vllm:request_decode_time_seconds_count\S*) .*$", rf"\1 {asked[0]}", capture("0.32.0-idle"), flags=re.M)
        return re.sub(r"^(vllm:request_decode_time_seconds_sum\S*) .*$", rf"\1 {each_s * asked[0]}", text, flags=re.M)

    def answer(hello: Hello, i: int, phase: Phase) -> RequestRecord:
        asked[0] += 1
        return whole

    fast = await run(FakeVllm(metrics=lambda: metrics(0.06)), FakeSend(answer))
    slow = await run(FakeVllm(metrics=lambda: metrics(1.2)), FakeSend(answer))
    assert "stream" not in fast.names
    assert slow["stream"].status == "refuse"


# --- what tokens are counted by where there is no usage ---------------------------------------------------------------


def without_usage(server: FakeVllm, per_event: int, generated: int, phases: list[bool]) -> FakeSend:
    """A server without usage, whose own counter rises by so much a request."""
    total = [500.0]

    def answer(hello: Hello, i: int, phase: Phase) -> RequestRecord:
        total[0] += generated
        phases.append(hello.keeps_length)
        if hello.keeps_length:
            return record(usage=False, counted_by="length", prompt_tokens=None)
        return record(usage=False, counted_by="events", prompt_tokens=None, output_tokens=128 // per_event)

    server.metrics = lambda: capture("0.32.0-idle") + f'\nvllm:generation_tokens_total{{engine="7"}} {total[0]}\n'
    return FakeSend(answer)


@pytest.mark.parametrize(
    ("per_event", "generated", "keeps"),
    [(1, 0, True), (4, 128, True), (4, 32, False)],
    ids=["by events", "by its counter", "short"],
)
async def test_a_length_that_the_server_keeps_is_known_before_the_load(per_event: int, generated: int, keeps: bool) -> None:
    server, phases = FakeVllm(), list[bool]()
    ran = await run(server, without_usage(server, per_event, generated, phases))
    assert phases == [False, *[keeps] * SINGLES]
    assert ran.preflight.hello is not None
    assert ran.preflight.hello.keeps_length is keeps
    assert ran["usage"].status == "warn"
    assert ran["output length"].status == ("pass" if keeps else "refuse")


async def test_what_is_known_of_the_length_is_known_from_usage_too() -> None:
    ran = await run(FakeVllm())
    assert ran.preflight.hello is not None
    assert ran.preflight.hello.keeps_length


async def test_with_natural_stopping_no_length_is_taken_for_kept() -> None:
    """An answer that ended at the most says nothing of the next one."""
    natural = config(workload=Workload(stop="natural"))
    ran = await run(FakeVllm(), FakeSend(), natural)
    assert ran.preflight.hello is not None
    assert not ran.preflight.hello.keeps_length
    assert (ran["usage"].status, ran["output length"].status) == ("pass", "pass")
    assert found(ran["output length"]).code == "answers_natural"
    short = FakeSend(lambda hello, i, phase: record(output_tokens=9, finish_reason="stop"))
    stopped = await run(FakeVllm(), short, natural)
    assert (stopped["output length"].status, stopped["usage"].status) == ("pass", "pass")
    assert stopped.names == ran.names


SHARED = Workload(prefix=Prefix(kind="shared", tokens=256, groups=12))


async def test_shared_prefixes_come_before_the_single_requests() -> None:
    """What they find in the cache is counted from then on."""
    server = FakeVllm()
    send = counting(server, hits_per_request=256)
    ran = await run(server, send, config(workload=SHARED))
    assert [(n, phase) for _, n, phase in send.calls] == [(1, "preflight"), (12, "prefix"), (4, "single")]
    assert send.calls[1][0] == ran.preflight.hello
    figures: dict[str, Figure] = {"tokens": 256, "groups": 12, "hit_frac": 0.5, "planned_frac": 0.5}
    assert (ran["isolation"].status, ran["isolation"].message) == ("pass", Fact(code="shared_as_planned", figures=figures))


async def test_a_server_without_a_prefix_cache_is_refused_where_prompts_share() -> None:
    idle = capture("0.32.0-idle").replace('enable_prefix_caching="True"', 'enable_prefix_caching="False"')
    send = FakeSend()
    ran = await run(FakeVllm(metrics=lambda: idle), send, config(workload=SHARED))
    assert (ran.checks[-1].status, ran.checks[-1].message) == ("refuse", fact("shared_uncached"))
    assert [phase for _, _, phase in send.calls] == ["preflight"]


async def test_what_calibrates_prompts_shares_nothing() -> None:
    """A few letters would not hold a prefix."""
    server = FakeVllm(tokenize=None)
    send = FakeSend()
    await run(server, send, config(workload=SHARED, api="chat"))
    assert {hello.workload.prefix for hello, _, phase in send.calls if hello.workload.longest_input < 100} == {COLD}
