"""The HTTP interface: chunk shapes against captured vLLM 0.32 streams, errors, counters, and clients that go away."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families

from core.replica.catalog import NATURAL_SHARE
from core.replica.requests import natural_tokens
from core.replica.tokens import ANSWER_TEXT, VOCABULARY, encode
from tests.core.replica.serving import FAST, MODEL, calling, serving
from tests.core.replica.timeline import spec

SLOW = msgspec.structs.replace(FAST, engine=spec(step_s=0.05))
DATA = Path(__file__).parents[2] / "data"
USAGE = {"include_usage": True, "continuous_usage_stats": True}


def events(text: str) -> list[dict[str, Any]]:
    """The JSON events of a stream that ends as it should."""
    lines = [line for line in text.split("\n\n") if line]
    assert lines[-1] == "data: [DONE]"
    return [json.loads(line.removeprefix("data: ")) for line in lines[:-1]]


def shape(value: Any) -> Any:
    """Keys, nesting, order and types of a JSON value, without the values; null stays null."""
    if isinstance(value, dict):
        return [(key, shape(item)) for key, item in value.items()]
    if isinstance(value, list):
        return [shape(item) for item in value]
    return type(value).__name__


async def scrape(client: httpx.AsyncClient) -> dict[tuple[str, str], float]:
    """Values by (name without the prefix, finished_reason or empty)."""
    text = (await client.get("/metrics")).text
    return {
        (sample.name.removeprefix("vllm:"), sample.labels.get("finished_reason", "")): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if "le" not in sample.labels
    }


async def complete(client: httpx.AsyncClient, **fields: Any) -> httpx.Response:
    body = {"model": MODEL, "prompt": [11, 12, 13], "max_tokens": 4, "ignore_eos": True, "temperature": 0.0, **fields}
    return await client.post("/v1/completions", json=body)


async def chat(client: httpx.AsyncClient, **fields: Any) -> httpx.Response:
    said = [{"role": "user", "content": "hello"}]
    body = {"model": MODEL, "messages": said, "max_completion_tokens": 4, "ignore_eos": True, **fields}
    return await client.post("/v1/chat/completions", json=body)


async def test_completion_chunks_have_the_shape_of_the_real_server() -> None:
    captured = events((DATA / "streams" / "vllm-0.32.0-completions.txt").read_text())
    async with serving() as client:
        response = await complete(client, stream=True, stream_options=USAGE)
    ours = events(response.text)
    assert [shape(event) for event in ours] == [shape(event) for event in captured]
    assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert {event["id"] for event in ours} == {ours[0]["id"]}
    assert [event["object"] for event in ours] == [event["object"] for event in captured]
    assert [event["usage"]["completion_tokens"] for event in ours] == [1, 2, 3, 4, 4]
    assert ours[-1]["usage"] == {"prompt_tokens": 3, "total_tokens": 7, "completion_tokens": 4}


async def test_chat_chunks_have_the_shape_of_the_real_server() -> None:
    captured = events((DATA / "streams" / "vllm-0.32.0-chat.txt").read_text())
    async with serving() as client:
        response = await chat(client, stream=True, stream_options={"include_usage": True})
    ours = events(response.text)
    assert [shape(event) for event in ours] == [shape(event) for event in captured]
    assert [event["object"] for event in ours] == [event["object"] for event in captured]
    assert ours[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert "".join(event["choices"][0]["delta"]["content"] for event in ours[:-1]) == ANSWER_TEXT * 4


async def test_the_chat_role_chunk_counts_no_token() -> None:
    async with serving() as client:
        ours = events((await chat(client, stream=True, stream_options=USAGE)).text)
    assert [event["usage"]["completion_tokens"] for event in ours] == [0, 1, 2, 3, 4, 4]


async def test_without_usage_the_fingerprint_is_in_the_finishing_chunk() -> None:
    async with serving() as client:
        ours = events((await complete(client, stream=True)).text)
    assert len(ours) == 4
    assert all("usage" not in event for event in ours)
    assert ["system_fingerprint" in event for event in ours] == [False, False, False, True]
    assert [event["choices"][0]["finish_reason"] for event in ours] == [None, None, None, "length"]


@pytest.mark.parametrize("ask", [complete, chat])
async def test_a_whole_answer(ask: Any) -> None:
    async with calling() as client:
        answer = (await ask(client)).json()
    assert answer["usage"]["completion_tokens"] == 4
    assert answer["choices"][0]["finish_reason"] == "length"
    assert "simulated" in answer["system_fingerprint"]
    text = answer["choices"][0].get("text") or answer["choices"][0]["message"]["content"]
    assert len(encode(text)) == 4


async def test_it_says_that_it_is_simulated() -> None:
    async with calling() as client:
        version = (await client.get("/version")).json()
        card = (await client.get("/v1/models")).json()["data"][0]
        health = await client.get("/health")
    assert version == {"version": "0.32.0+simulated"}
    assert (card["id"], card["object"], card["max_model_len"]) == ("simulated-fast", "model", FAST.max_model_len)
    assert "simulated" in card["owned_by"]
    assert (health.status_code, health.content) == (200, b"")


def _refusals() -> Iterator[tuple[dict[str, Any], int, str, str | None, str]]:
    bad = "Bad Request"
    yield {"model": "other"}, 404, "NotFoundError", "model", "The model `other` does not exist."
    yield {"max_tokens": "four"}, 400, bad, "body.max_tokens", "1 validation error:"
    yield {"prompt": None}, 400, bad, "body.prompt", "1 validation error:"
    yield {"prompt": [1, "x"]}, 400, bad, "body.prompt[1]", "1 validation error:"
    yield {"temperature": -1}, 400, bad, "body.temperature", "1 validation error:"
    yield {"prompt": []}, 400, "BadRequestError", "prompt", "Either prompt"
    yield {"prompt": [VOCABULARY]}, 400, "BadRequestError", "prompt", f"Token id {VOCABULARY} is out of vocabulary"
    yield {"prompt": [5, -1]}, 400, "BadRequestError", "prompt", "Token id -1 is out of vocabulary"
    too_long = f"This model's maximum context length is {FAST.max_model_len} tokens. However, your prompt contains 2049 input"
    yield {"prompt": [9] * 2049}, 400, "BadRequestError", "input_tokens", too_long
    yield {"max_tokens": 0}, 400, "BadRequestError", "max_tokens", "max_tokens must be at least 1, got 0."
    yield {"n": 2}, 400, "BadRequestError", "n", "This simulated replica gives one answer"
    yield {"stream_options": USAGE}, 400, "BadRequestError", "stream_options", "Stream options can only be"
    yield {"cache_salt": ""}, 400, "BadRequestError", "cache_salt", "Parameter 'cache_salt' must be a non-empty"
    yield {"cache_salt": "a/b"}, 400, "BadRequestError", "cache_salt", "Parameter 'cache_salt' must be at most 128"
    yield {"cache_salt": "a" * 129}, 400, "BadRequestError", "cache_salt", "Parameter 'cache_salt' must be at most 128"


@pytest.mark.parametrize(("fields", "status", "kind", "param", "message"), list(_refusals()))
async def test_refusals_are_vllms(fields: dict[str, Any], status: int, kind: str, param: str | None, message: str) -> None:
    async with calling() as client:
        response = await complete(client, stream="stream_options" not in fields, **fields)
    error = response.json()["error"]
    assert (response.status_code, error["code"], error["type"], error["param"]) == (status, status, kind, param)
    assert error["message"].startswith(message)


async def test_unknown_paths_methods_and_broken_bodies_are_answered_in_json() -> None:
    async with calling() as client:
        answers = [
            await client.get("/nothing"),
            await client.get("/v1/completions"),
            await client.post("/v1/completions", content=b"{"),
            await client.post("/v1/chat/completions", json={"messages": []}),
        ]
    assert [(answer.status_code, answer.json()["error"]["code"]) for answer in answers] == [(c, c) for c in (404, 405, 400, 400)]


async def test_an_answer_is_cut_at_the_end_of_the_context() -> None:
    async with calling() as client:
        answer = (await complete(client, prompt=[9] * (FAST.max_model_len - 3), max_tokens=50)).json()
    assert answer["usage"]["completion_tokens"] == 3


async def test_text_and_chat_prompts_count_as_tokenize_says() -> None:
    messages = [{"role": "user", "content": [{"type": "text", "text": "hello big"}, {"type": "text", "text": " world"}]}]
    async with calling() as client:
        text = (await client.post("/tokenize", json={"model": MODEL, "prompt": "hello big world"})).json()
        bare = (await client.post("/tokenize", json={"prompt": "hello big world", "add_special_tokens": False})).json()
        talk = (await client.post("/tokenize", json={"messages": messages})).json()
        by_text = (await complete(client, prompt="hello big world")).json()
        by_chat = (await chat(client, messages=messages)).json()
        neither = await client.post("/tokenize", json={"model": MODEL})
        unknown = await client.post("/tokenize", json={"model": "other", "prompt": "x"})
    assert text["count"] == len(text["tokens"]) == by_text["usage"]["prompt_tokens"] == 4
    assert text["tokens"][1:] == bare["tokens"]
    assert text["max_model_len"] == FAST.max_model_len
    assert talk["count"] == by_chat["usage"]["prompt_tokens"]
    assert (neither.status_code, unknown.status_code) == (400, 404)


async def test_the_servers_counters_equal_what_was_asked() -> None:
    async with calling() as client:
        await asyncio.gather(*(complete(client, prompt=[9] * size, max_tokens=size) for size in range(1, 21)))
        seen = await scrape(client)
    assert seen["request_success_total", "length"] == 20
    assert seen["prompt_tokens_total", ""] == seen["generation_tokens_total", ""] == 210
    assert seen["request_prompt_tokens_sum", ""] == seen["request_generation_tokens_sum", ""] == 210
    assert seen["time_to_first_token_seconds_count", ""] == seen["e2e_request_latency_seconds_count", ""] == 20
    assert seen["inter_token_latency_seconds_count", ""] == 190
    assert seen["num_requests_running", ""] == seen["num_requests_waiting", ""] == seen["kv_cache_usage_perc", ""] == 0


async def test_prefix_counters_prove_which_prompts_are_cold() -> None:
    prompt = list(range(100, 164))
    async with calling() as client:
        hits = []
        for salt in ("one", "one", "two", None):
            await complete(client, prompt=prompt, cache_salt=salt)
            hits.append((await scrape(client))["prefix_cache_hits_total", ""])
        seen = await scrape(client)
    assert hits == [0, 48, 48, 48]
    assert seen["prefix_cache_queries_total", ""] == 4 * 64


@pytest.mark.parametrize("stream", [True, False])
async def test_a_client_that_goes_away_frees_its_request(stream: bool) -> None:
    async with serving(SLOW) as client:
        host, port = client.base_url.host, client.base_url.port
        reader, writer = await asyncio.open_connection(host, port)
        body = json.dumps({"prompt": [9] * 100, "max_tokens": 1900, "stream": stream}).encode()
        head = f"POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)
        if stream:
            await reader.readuntil(b'"text":')
        while (await scrape(client))["num_requests_running", ""] < 1:
            pass
        writer.close()
        await writer.wait_closed()
        async with asyncio.timeout(20):  # left alone it would run 95 s
            while (await scrape(client))["num_requests_running", ""]:
                pass
        seen = await scrape(client)
    assert seen["kv_cache_usage_perc", ""] == 0
    assert seen["request_success_total", "length"] == seen["request_success_total", "abort"] == 0
    assert seen["generation_tokens_total", ""] < 1900


def _families(text: str) -> dict[str, tuple[str, frozenset[str], tuple[str, ...]]]:
    """Name -> type, label names, bucket bounds."""
    found = {}
    for family in text_string_to_metric_families(text):
        labels = frozenset(label for sample in family.samples for label in sample.labels)
        bounds = tuple(sample.labels["le"] for sample in family.samples if "le" in sample.labels)
        found[family.name] = (family.type, labels, bounds)
    return found


async def test_metrics_have_the_names_types_labels_and_buckets_of_the_real_server() -> None:
    real = _families((DATA / "metrics" / "vllm-0.32.0-idle.txt").read_text())
    async with serving() as client:
        await complete(client)
        response = await client.get("/metrics")
    ours = _families(response.text)
    assert response.headers["content-type"].startswith("text/plain; version=0.0.4")
    mine = {name for name in ours if name.startswith("vllm:") and not name.endswith("_created")} - {"vllm:cache_config_info"}
    assert len(mine) == 17
    for name in mine:
        assert ours[name] == real[name], name
    assert ours["vllm:cache_config_info"][1] < real["vllm:cache_config_info"][1]
    assert ours["process_start_time_seconds"] == real["process_start_time_seconds"]
    reasons = [
        s.labels["finished_reason"]
        for f in text_string_to_metric_families(response.text)
        for s in f.samples
        if s.name == "vllm:request_success_total"
    ]
    assert sorted(reasons) == ["abort", "error", "length", "repetition", "stop"]


async def test_the_kv_capacity_is_told_as_vllm_tells_it() -> None:
    async with calling() as client:
        text = (await client.get("/metrics")).text
    (info,) = [f.samples[0] for f in text_string_to_metric_families(text) if f.name == "vllm:cache_config_info"]
    assert info.value == 1
    assert int(info.labels["kv_cache_size_tokens"]) == FAST.engine.kv_tokens
    assert (int(info.labels["num_gpu_blocks"]) - 1) * int(info.labels["block_size"]) == FAST.engine.kv_tokens
    assert info.labels["enable_prefix_caching"] == "True"


# --- answers that may stop by themselves ------------------------------------------------------------------------------


@pytest.mark.parametrize("given", [{"ignore_eos": False}, {"ignore_eos": None}])
async def test_an_answer_stops_by_itself_where_it_may(given: dict[str, Any]) -> None:
    """By its prompt alone: the same one gets the same answer, streamed or whole, whatever its salt."""
    async with calling() as client:
        whole = [(await complete(client, prompt=[9, size], max_tokens=100, **given)).json() for size in range(1, 41)]
        again = [
            (await complete(client, prompt=[9, size], max_tokens=100, cache_salt="ab", **given)).json() for size in range(1, 41)
        ]
        streamed = events((await complete(client, prompt=[9, 1], max_tokens=100, stream=True, stream_options=USAGE, **given)).text)
        seen = await scrape(client)
    tokens = [answer["usage"]["completion_tokens"] for answer in whole]
    assert tokens == [answer["usage"]["completion_tokens"] for answer in again]
    assert all(100 * NATURAL_SHARE[0] <= n <= 100 * NATURAL_SHARE[1] for n in tokens)
    assert len(set(tokens)) > 20
    reasons = [answer["choices"][0]["finish_reason"] for answer in whole]
    assert reasons == ["length" if n == 100 else "stop" for n in tokens]
    assert streamed[-1]["usage"]["completion_tokens"] == tokens[0]
    assert streamed[-2]["choices"][0]["finish_reason"] == reasons[0]
    assert seen["request_success_total", "stop"] + seen["request_success_total", "length"] == 81


def test_natural_lengths_are_spread_evenly_over_their_share() -> None:
    shares = [natural_tokens([size, 7], 1000) / 1000 for size in range(2000)]
    assert sum(shares) / len(shares) == pytest.approx(sum(NATURAL_SHARE) / 2, abs=0.02)
    assert (min(shares), max(shares)) == pytest.approx(NATURAL_SHARE, abs=0.01)
    assert natural_tokens([1], 1) == 1
