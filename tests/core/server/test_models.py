"""One reader of the list of models, for the checks, the first look and the screen."""

import httpx
import pytest

from core.access import Access
from core.config import Target
from core.facts import Fact, fact
from core.server import ModelCard, NoModels, list_models, look
from core.server.http import Caller, Credential
from core.server.models import ours_among
from tests.core.server.fakes import BASE, KEY, Handler, client


async def listed(handler: Handler, key: str | None = None) -> tuple[ModelCard, ...]:
    async with client(handler) as http:
        return await list_models(Caller(http, Credential(BASE, Access(api_key=key))), f"{BASE}/")


def answering(status: int, body: bytes) -> Handler:
    def answer(request: httpx.Request) -> httpx.Response:
        assert request.url == f"{BASE}/v1/models"
        return httpx.Response(status, content=body)

    return answer


async def none_of(handler: Handler) -> NoModels:
    with pytest.raises(NoModels) as caught:
        await listed(handler)
    return caught.value


async def test_models_are_listed_in_their_order() -> None:
    body = b'{"data": [{"id": "b", "max_model_len": 2048, "owned_by": "vllm"}, {"id": "a", "parent": "b", "max_model_len": null}]}'
    assert await listed(answering(200, body)) == (ModelCard("b", None, 2048), ModelCard("a", "b", None))
    assert await listed(answering(200, b'{"data": []}')) == ()


@pytest.mark.parametrize(
    "odd", [b'{"id": 7}', b'{"id": "x", "max_model_len": "2048"}', b'{"name": "x"}', b'"x"', b"null", b'{"id": "x", "parent": 3}']
)
async def test_an_odd_entry_spoils_no_other(odd: bytes) -> None:
    assert await listed(answering(200, b'{"data": [' + odd + b', {"id": "b"}]}')) == (ModelCard("b"),)
    assert (await none_of(answering(200, b'{"data": [' + odd + b"]}"))).found == fact("no_model_list")


@pytest.mark.parametrize("body", [b"<html>", b"", b"[" * 5000, b"[]", b'{"data": {}}', b'{"models": []}', b'{"data": "x"}'])
async def test_what_is_no_list_is_said_to_be_none(body: bytes) -> None:
    none = await none_of(answering(200, body))
    assert (none.found, none.key_wanted) == (fact("no_model_list"), False)


@pytest.mark.parametrize(("status", "key_wanted"), [(401, True), (403, True), (404, False), (500, False)])
async def test_a_list_that_is_refused(status: int, key_wanted: bool) -> None:
    none = await none_of(answering(status, b'{"error": "no"}'))
    assert none.found == fact("models_unread", fact("call_refused", status=status, said="no"))
    assert (none.status, none.key_wanted) == (status, key_wanted)


async def test_a_server_that_does_not_answer() -> None:
    def gone(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectTimeout("x")

    none = await none_of(gone)
    (call,) = none.found.of
    assert isinstance(call, Fact)
    assert (none.found.code, call.code, call.figures["why"], none.status) == ("models_unread", "call_failed", "timeout", None)


async def test_the_first_look_takes_what_can_be_read() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        if request.headers.get("authorization") != f"Bearer {KEY}":
            return httpx.Response(401)
        return httpx.Response(200, content=b'{"data": [{"id": 1}, {"id": "b"}]}')

    target = Target(url="http://127.0.0.1:8000")
    async with client(answer) as http:
        without, let_in = [await look(target, Access(api_key=key), http) for key in (None, KEY)]
        assert (without.models, without.key_wanted) == ((), True)
        assert (let_in.models, let_in.key_wanted) == (("b",), False)


@pytest.mark.parametrize(
    ("shown", "chosen", "ours"),
    [
        (("a", "b"), "a", ("a",)),
        (("a2", "b"), "a", ("a2",)),
        (("a2", "a"), "a", ("a",)),
        (("a", "b"), "lora", ("a",)),
        (("a2", "b"), "lora", ("a2",)),
        (("/models/a", "b"), "a", ("/models/a",)),
        (("x", "y"), "a", ()),
        (("a",), "not listed", ()),
        ((), "a", ()),
    ],
    ids=[
        "itself",
        "another name of it",
        "the same model served twice",
        "a LoRA's base",
        "the base by another name",
        "its path",
        "none",
        "unknown",
        "no names",
    ],
)
def test_which_of_the_models_that_metrics_show_is_ours(shown: tuple[str, ...], chosen: str, ours: tuple[str, ...]) -> None:
    cards = (
        ModelCard("a", None, 2048, "/models/a"),
        ModelCard("a2", None, 2048, "/models/a"),
        ModelCard("lora", "a", None, "/adapters/l"),
        ModelCard("b", None, 2048, "/models/b"),
    )
    assert ours_among(shown, chosen, cards) == ours
