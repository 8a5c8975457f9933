"""What a child tells its parent is written together, and the last word at once."""

import asyncio

import pytest

from core.load import child
from core.load.child import Outbox
from core.load.protocol import messages
from core.records import ChildMessage, LoadDone, LoadTick
from tests.core.load.server import WAIT_S

TICK = LoadTick(order=1, t=1.0, in_flight=2, loop_lag_max_s=0.0, cpu_frac=0.1)
DONE = LoadDone(order=1, t=2.0, sent=3, unsent=0, cpu_frac=0.1, loop_lag_max_s=0.0, memory_peak_bytes=1)


class Pipe(asyncio.WriteTransport):
    """Keeps what each write says."""

    def __init__(self) -> None:
        self.written: list[list[ChildMessage]] = []
        self.wrote = asyncio.Event()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written.append(messages().feed(bytes(data)))
        self.wrote.set()


def outbox_on(pipe: Pipe) -> Outbox:
    outbox = Outbox()
    outbox._transport = pipe
    return outbox


async def test_messages_wait_for_each_other() -> None:
    pipe = Pipe()
    outbox = outbox_on(pipe)
    outbox.emit(TICK)
    await asyncio.sleep(0)
    outbox.emit(TICK)
    async with asyncio.timeout(WAIT_S):
        await pipe.wrote.wait()
    assert pipe.written == [[TICK, TICK]]


async def test_the_last_word_waits_for_none_and_takes_the_others_along(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child, "FLUSH_S", 1000.0)
    pipe = Pipe()
    outbox = outbox_on(pipe)
    outbox.emit(TICK)
    assert pipe.written == []
    outbox.emit(DONE)
    assert pipe.written == [[TICK, DONE]]
