"""One reader of the list of models, for the checks, the first look and the screen."""

import asyncio
import json
from collections.abc import Callable
from contextlib import suppress

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.access import Access
from core.config import Target
from core.facts import Fact, fact
from core.server import NoModels, list_models, look
from core.server.http import Caller, Credential
from core.server.models import MOST_PAGES, ModelCard, ours_among
from tests.core.server.fakes import BASE, KEY, Handler, client


async def listed(handler: Handler, key: str | None = None) -> tuple[ModelCard, ...]:
    async with client(handler) as http:
        return await list_models(Caller(http, Credential(BASE, Access(api_key=key))), f"{BASE}/")


def answering(status: int, body: bytes) -> Handler:
    def answer(request: httpx.Request) -> httpx.Response:
        assert request.url == f"{BASE}/v1/models"
        return httpx.Response(status, content=body)

    return answer


NO_LIST = fact("no_model_list", path="/v1/models")


async def none_of(handler: Handler) -> NoModels:
    with pytest.raises(NoModels) as caught:
        await listed(handler)
    return caught.value


async def test_models_are_listed_in_their_order() -> None:
    body = b'{"data": [{"id": "b", "max_model_len": 2048, "owned_by": "vllm"}, {"id": "a", "parent": "b", "max_model_len": null}]}'
    assert await listed(answering(200, body)) == (ModelCard("b", None, 2048), ModelCard("a", "b", None))
    assert await listed(answering(200, b'{"data": []}')) == ()


@pytest.mark.parametrize(
    "odd", [b'{"id": 7}', b'{"id": ""}', b'{"name": "x"}', b'"x"', b"null", b"[1]", b'{"object": "model", "id": null}']
)
async def test_an_odd_entry_spoils_no_other(odd: bytes) -> None:
    assert await listed(answering(200, b'{"data": [' + odd + b', {"id": "b"}]}')) == (ModelCard("b"),)
    assert (await none_of(answering(200, b'{"data": [' + odd + b"]}"))).found == NO_LIST


@pytest.mark.parametrize(
    ("odd", "length"),
    [
        ("8192", 8192),
        ('"8192"', 8192),
        ("8192.0", 8192),
        ('"n/a"', None),
        ("8192.5", None),
        ("-1", None),
        ("true", None),
        ("[8192]", None),
        ("1e300", None),
        ("9" * 400, None),
        ('"' + "9" * 400 + '"', None),
    ],
)
async def test_a_length_of_another_kind_is_read_or_not_known(odd: str, length: int | None) -> None:
    body = f'{{"data": [{{"id": "x", "max_model_len": {odd}, "parent": {{"id": 3}}, "root": 3}}]}}'
    assert await listed(answering(200, body.encode())) == (ModelCard("x", None, length),)


@pytest.mark.parametrize("body", [b'[{"id": "a"}]', b'{"models": [{"id": "a"}]}', b'{"models": [{"id": "a"}], "data": null}'])
async def test_a_list_in_another_place(body: bytes) -> None:
    assert await listed(answering(200, body)) == (ModelCard("a"),)


def objects(one: st.SearchStrategy[object]) -> st.SearchStrategy[object]:
    names = st.sampled_from(["data", "models", "id", "has_more", "last_id", "max_model_len", "parent", "root"]) | st.text()
    return st.dictionaries(names, one)


JSON = st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(), lambda one: st.lists(one) | objects(one))


@settings(deadline=None)
@given(objects(JSON))
def test_no_json_is_more_than_no_list(whole: object) -> None:
    async def read() -> None:
        with suppress(NoModels):
            assert all(card.id for card in await listed(lambda request: httpx.Response(200, content=json.dumps(whole))))

    asyncio.run(read())


# --- pages --------------------------------------------------------------------------------------------------------------


def paged(page: Callable[[int], list[str]], seen: list[str], last_id: bool = False) -> Handler:
    """A list whose page behind the n-th name is `page(n)`; it never says that it ends."""

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request.url.query.decode())
        after = request.url.params.get("after")
        names = page(0 if after is None else int(after.partition("/")[2]) + 1)
        last = {"last_id": names[-1]} if last_id and names else {}
        return httpx.Response(200, json={"data": [{"id": name} for name in names], "has_more": True, **last})

    return answer


@pytest.mark.parametrize("last_id", [False, True])
async def test_a_list_in_pages_is_read_to_its_end(last_id: bool) -> None:
    seen: list[str] = []
    cards = await listed(paged(lambda n: [f"m/{k}" for k in range(n, min(n + 3, 7))], seen, last_id))
    assert [card.id for card in cards] == [f"m/{k}" for k in range(7)]
    assert seen == ["", "after=m%2F2", "after=m%2F5", "after=m%2F6"]


async def test_pages_without_end_are_read_no_further_than_20() -> None:
    seen: list[str] = []
    assert len(await listed(paged(lambda n: [f"m/{n}"], seen))) == len(seen) == MOST_PAGES
    seen.clear()
    assert await listed(paged(lambda n: ["m/0", "m/1"], seen)) == (ModelCard("m/0"), ModelCard("m/1"))
    assert len(seen) == 2, "the same page again is the end"


@pytest.mark.parametrize("broken", [httpx.Response(500), httpx.Response(200, text="<html>"), httpx.ReadError("x")])
async def test_a_page_that_cannot_be_had_ends_the_list(broken: httpx.Response | Exception) -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        if not request.url.query:
            return httpx.Response(200, json={"data": [{"id": "a"}], "has_more": True})
        if isinstance(broken, Exception):
            raise broken
        return broken

    assert await listed(answer) == (ModelCard("a"),)


@pytest.mark.parametrize("body", [b"<html>", b"", b"[" * 5000, b"7", b'{"data": {}}', b'{"data": null}', b'{"data": "x"}'])
async def test_what_is_no_list_is_said_to_be_none(body: bytes) -> None:
    none = await none_of(answering(200, body))
    assert (none.found, none.key_wanted) == (NO_LIST, False)


@pytest.mark.parametrize(("status", "key_wanted"), [(401, True), (403, True), (404, False), (500, False)])
async def test_a_list_that_is_refused(status: int, key_wanted: bool) -> None:
    none = await none_of(answering(status, b'{"error": "no"}'))
    assert none.found == fact("models_unread", fact("call_refused", status=status, said="no"), path="/v1/models")
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
