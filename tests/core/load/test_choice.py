"""Which transport carries the load, and what the result says of it."""

import httpx
import msgspec
import pytest

from core.access import Access
from core.load import transport as transport_module
from core.load.client import MadeForLoad
from core.load.direct import DirectTransport
from core.load.fallback import AiohttpLoadTransport
from core.load.transport import make_transport, transport_name
from core.records import ChildMessage, LoadReady, RequestEnded
from tests.core.load.orders import hello
from tests.core.load.server import Received, answer, serving, whole
from tests.core.load.test_generator import at_once, generating, until_done


async def test_ours_where_its_parser_is() -> None:
    transport = make_transport()
    assert isinstance(transport, DirectTransport)
    assert isinstance(transport, MadeForLoad)
    assert "own transport (httptools " in transport_name()
    await transport.aclose()


async def test_the_other_where_it_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport_module, "_parser_version", lambda: None)
    transport = make_transport()
    assert isinstance(transport, AiohttpLoadTransport)
    assert not isinstance(transport, MadeForLoad), "it leaves garbage, so collection stays on"
    assert "aiohttp" in transport_name()
    await transport.aclose()


async def test_a_proxy_is_for_the_other_and_less_exact() -> None:
    proxy = "http://user:p-SECRET@127.0.0.1:9"
    transport = make_transport(proxy=proxy)
    assert isinstance(transport, AiohttpLoadTransport)
    assert not isinstance(transport, MadeForLoad)
    assert transport_name(proxy).endswith("through a proxy: less exact")
    assert "SECRET" not in transport_name(proxy)
    with pytest.raises(httpx.ConnectError):
        async with httpx.AsyncClient(transport=transport) as client:
            await client.get("http://replica.invalid/")


def told_names(told: list[ChildMessage]) -> list[str]:
    return [message.transport for message in told if isinstance(message, LoadReady)]


async def test_a_proxy_is_taken_up_with_its_hello_and_the_word_of_what_carries_the_load_is_told_again() -> None:
    async def refuse(request: Received) -> bool:
        await request.write(answer(407, b""))
        return True

    async with serving(whole) as server, serving(refuse) as proxy, generating() as generator:
        await generator.hello(hello(server.url))
        await generator.order(at_once(1))
        assert told_names(await until_done(generator)) == [transport_name()]
        far = msgspec.structs.replace(hello("http://far.invalid"), access=Access(proxy=proxy.url.replace("//", "//user:p-SECRET@")))
        await generator.hello(far)
        await generator.order(at_once(1, number=2))
        told = await until_done(generator)
        assert told_names(told) == [generator.ready.transport] == [transport_name("a proxy")]
        assert [message.status for message in told if isinstance(message, RequestEnded)] == [407]
        assert "SECRET" not in str(told)
        await generator.hello(hello(server.url))
        await generator.order(at_once(1, number=3))
        assert told_names(await until_done(generator)) == [transport_name()]
        assert len(server.received) == 2
