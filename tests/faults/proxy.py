"""A proxy that makes trouble: between a client and a server it delays, cuts pieces apart, closes and resets."""

import asyncio
import random
import socket
import struct
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from urllib.parse import urlsplit

_READ_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Chaos:
    """Of every connection: the chance that it is reset as soon as it is taken; else its end comes, by FIN or RST, after a number of
    bytes of the server drawn around `cut_bytes`. A piece is held back with `delay_chance` for up to `delay_s`, and cut in two with
    `split_chance`. `seed` repeats the draws, as far as the connections come in the same order."""

    refuse_chance: float = 0.02
    cut_bytes: float = 60_000.0
    delay_chance: float = 0.05
    delay_s: float = 0.2
    split_chance: float = 0.1
    seed: int = 7


class Proxy:
    """What it has done, by kind."""

    def __init__(self, upstream: str, chaos: Chaos) -> None:
        parts = urlsplit(upstream)
        self._host, self._port = parts.hostname or "", parts.port or 80
        self._chaos = chaos
        self._chance = random.Random(chaos.seed)
        self.url = ""
        self.done: Counter[str] = Counter()

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.done["connections"] += 1
        if self._chance.random() < self._chaos.refuse_chance:
            self.done["refused"] += 1
            _reset(writer)
            return
        try:
            theirs, ours = await asyncio.open_connection(self._host, self._port)
        except OSError:
            _reset(writer)
            return
        up = asyncio.create_task(_pipe(reader, ours))
        try:
            await self._down(theirs, writer)
        except ConnectionError:
            pass
        finally:
            up.cancel()
            await asyncio.gather(up, return_exceptions=True)
            ours.close()
            writer.close()

    async def _down(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        left = int(self._chance.expovariate(1 / self._chaos.cut_bytes))
        while data := await reader.read(_READ_BYTES):
            if self._chance.random() < self._chaos.delay_chance:
                self.done["delayed"] += 1
                await asyncio.sleep(self._chance.random() * self._chaos.delay_s)
            data = data[:left]
            left -= len(data)
            if len(data) > 1 and self._chance.random() < self._chaos.split_chance:
                self.done["split"] += 1
                at = self._chance.randrange(1, len(data))
                writer.write(data[:at])
                await writer.drain()
                await asyncio.sleep(0.001)
                data = data[at:]
            writer.write(data)
            await writer.drain()
            if left <= 0:
                by = self._chance.choice(["closed", "reset"])
                self.done[by] += 1
                if by == "reset":
                    _reset(writer)
                return


async def _pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while data := await reader.read(_READ_BYTES):
            writer.write(data)
            await writer.drain()
        writer.close()  # the client has gone: the server is to know


def _reset(writer: asyncio.StreamWriter) -> None:
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


@asynccontextmanager
async def troubling(upstream: str, chaos: Chaos | None = None) -> AsyncIterator[Proxy]:
    """A proxy in front of `upstream` for the length of the block."""
    proxy = Proxy(upstream, chaos or Chaos())
    tasks: set[asyncio.Task[None]] = set()

    def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(proxy.connected(reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    listener = await asyncio.start_server(take, "127.0.0.1", 0, backlog=1024)
    proxy.url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
    try:
        yield proxy
    finally:
        listener.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
