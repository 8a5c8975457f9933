"""What carries the load in a child, directly and through a proxy, and what the result says of it."""

import asyncio
import re
from typing import Any

import httpx
import msgspec
import pytest

from core.access import Access
from core.load.sender import MadeForLoad
from core.load.transport.direct import DirectTransport, transport_name
from core.records import LoadReady, RequestEnded
from tests.core.load.asking import speaking_tls, trusting
from tests.core.load.orders import hello
from tests.core.load.proxying import proxying
from tests.core.load.server import serving, whole
from tests.core.load.test_generator import at_once, generating, until_done


async def test_it_is_made_for_load_and_named() -> None:
    transport = DirectTransport()
    assert isinstance(transport, MadeForLoad)
    assert re.fullmatch(r"httpx [\d.]+, own transport \(httptools [\d.]+\)", transport_name())
    await transport.aclose()


async def test_a_child_takes_a_proxy_up_with_its_hello_and_leaves_it_with_the_next() -> None:
    async with serving(whole) as server, proxying(leads_to=server.url) as proxy, generating() as generator:
        far = msgspec.structs.replace(hello("http://far.invalid"), access=Access(proxy=proxy.url))
        told, through = [], []
        for number, said in enumerate((hello(server.url), far, hello(server.url)), 1):
            before = len(proxy.heads)
            await generator.hello(said)
            await generator.order(at_once(1, number=number))
            told += await until_done(generator)
            through.append(proxy.asked[before:])
        assert through == [[], [["POST", "http://far.invalid/v1/completions"]], []]
        assert [message.ending for message in told if isinstance(message, RequestEnded)] == ["ok"] * 3
        assert [message.transport for message in told if isinstance(message, LoadReady)] == [transport_name()]
        assert "SECRET" not in str(told)


async def test_a_tunnel_that_is_closed_as_it_opens_is_no_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """Noticed before TLS is begun on it, which would wait for it in vain."""
    loop = asyncio.get_running_loop()
    create_connection = loop.create_connection

    async def closing(make: Any, **options: Any) -> Any:
        outer, asking = await create_connection(make, **options)
        asking.data_received(b"HTTP/1.1 200 OK\r\n\r\n")
        outer.abort()
        return outer, asking

    monkeypatch.setattr(loop, "create_connection", closing)
    async with serving(whole, tls=speaking_tls()) as server, proxying() as proxy:
        transport = DirectTransport(trusting(), proxy.on_the_way())
        async with httpx.AsyncClient(transport=transport, timeout=1.0) as client:
            with pytest.raises(httpx.ProxyError, match="opened a tunnel and closed it at once"):
                await client.get(server.url)
        assert server.received == []


@pytest.mark.parametrize("what", ["lost", "unasked"])
async def test_what_breaks_a_tunnel_as_tls_is_there_is_no_connection(monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    """A request that was written to it would wait for its answer for ever."""
    loop = asyncio.get_running_loop()
    start_tls = loop.start_tls

    async def breaking(outer: Any, connection: Any, *given: Any, **options: Any) -> Any:
        inner = await start_tls(outer, connection, *given, **options)
        if what == "lost":
            connection.connection_lost(None)
            outer.abort()
        else:
            connection.data_received(b"HTTP/1.1 408 Request Timeout\r\n\r\n")
        return inner

    monkeypatch.setattr(loop, "start_tls", breaking)
    async with serving(whole, tls=speaking_tls()) as server, proxying() as proxy:
        async with httpx.AsyncClient(transport=DirectTransport(trusting(), proxy.on_the_way()), timeout=1.0) as client:
            with pytest.raises(httpx.ConnectError, match="broke as soon as it was there"):
                await client.get(server.url)
        assert server.received == []
