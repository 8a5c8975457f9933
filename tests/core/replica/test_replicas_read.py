"""Two simulated replicas behind a proxy of connections, read while requests go through it: as a fleet is read."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx

from core.records import ServerSample
from core.replica import process
from core.server import Discovery, Places, ReplicaScraper


@asynccontextmanager
async def behind(*urls: str) -> AsyncIterator[str]:
    """The address of a proxy that gives each new connection to the next of these servers."""
    turn = iter(range(1_000_000))

    async def pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
        writer.close()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        port = httpx.URL(urls[next(turn) % len(urls)]).port
        onward, back = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(pipe(reader, back), pipe(onward, writer))

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def ask(gateway: str, n: int) -> None:
    """That many requests, each on a connection of its own."""
    body = {"model": "simulated-chat", "prompt": "a b c", "max_tokens": 2}
    for _ in range(n):
        async with httpx.AsyncClient(trust_env=False) as http:
            assert (await http.post(f"{gateway}/v1/completions", json=body, timeout=20)).status_code == 200


def ended(sample: ServerSample) -> list[float | None]:
    return [row.requests_success_total for row in sample.by_engine or ()]


async def test_each_replica_tells_its_own_part_and_one_that_ends_is_gone() -> None:
    first, second = await asyncio.gather(process.start("chat"), process.start("chat"))
    async with behind(first.url, second.url) as gateway, httpx.AsyncClient(trust_env=False) as http:
        scraper = ReplicaScraper(Discovery(Places((first.url, second.url)), http), http)
        try:
            await ask(gateway, 6)
            both = await scraper.once()
            assert (ended(both), both.requests_success_total, both.engines) == ([3, 3], 6, 2)
            await second.stop()
            one = await scraper.once()
            assert (ended(one), one.requests_success_total, one.unread) == ([3], 6, ())
            assert one.epoch == both.epoch
        finally:
            await scraper.close()
            await asyncio.gather(first.stop(), second.stop())
