"""Which transport carries the load, and what the result says of it."""

import httpx
import pytest

from core.load import transport as transport_module
from core.load.client import MadeForLoad
from core.load.direct import DirectTransport
from core.load.fallback import AiohttpLoadTransport
from core.load.transport import make_transport, transport_name


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


async def test_httpx_itself_through_a_proxy_and_less_exact() -> None:
    transport = make_transport(proxy="http://127.0.0.1:9")
    assert isinstance(transport, httpx.AsyncHTTPTransport)
    assert not isinstance(transport, MadeForLoad)
    assert "less exact" in transport_name("http://127.0.0.1:9")
    with pytest.raises(httpx.ConnectError):
        async with httpx.AsyncClient(transport=transport) as client:
            await client.get("http://replica.invalid/")
