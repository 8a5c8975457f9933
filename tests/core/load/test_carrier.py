"""What carries the load in a child, directly and through a proxy, and what the result says of it."""

import re

import msgspec

from core.access import Access
from core.load.client import MadeForLoad
from core.load.direct import DirectTransport
from core.load.transport import transport_name
from core.records import LoadReady, RequestEnded
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
