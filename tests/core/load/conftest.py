"""Fixtures of this room's tests."""

import asyncio
from collections.abc import Callable

import pytest
import uvloop

from tests.core.load import calling


@pytest.fixture(params=["own", "aiohttp"])
def transport(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Runs a test over our own transport and over the other, which is its cross-check."""
    kind: str = request.param
    monkeypatch.setattr(calling, "chosen", [kind])
    return kind


@pytest.fixture(params=["own", "own, read afterwards", "own, through a proxy", "own, through a tunnel", "aiohttp"])
def conforming(request: pytest.FixtureRequest) -> str:
    """As `transport`, and our own once more as load uses it, and through a proxy: for http, and with TLS in a tunnel."""
    kind: str = request.param
    return kind


@pytest.fixture
def own() -> str:
    """What only our own transport keeps to."""
    return "own"


def pytest_asyncio_loop_factories(item: pytest.Item) -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """What stands directly on the event loop is tested on both of those that the product runs on."""
    both = item.path.stem in ("test_conformance", "test_connections", "test_memory", "test_proxy")
    return {"asyncio": asyncio.new_event_loop} | ({"uvloop": uvloop.new_event_loop} if both else {})
