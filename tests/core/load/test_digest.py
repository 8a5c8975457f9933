"""What was stamped is read later, in order, in slices; ends come after everything before them."""

import asyncio
import time

import httpx
import pytest

from core.load import digest as digest_module
from core.load.digest import Digest
from core.load.reply import Reply
from tests.core.load.server import WAIT_S


class Notes:
    """A reader that keeps what it is given, and can be slow, satisfied or broken."""

    def __init__(self, enough: bytes | None = None, slow_s: float = 0.0, broken: Exception | None = None) -> None:
        self.pieces: list[tuple[bytes, float]] = []
        self._enough, self._slow_s, self._broken = enough, slow_s, broken

    def read(self, data: bytes, t: float) -> bool:
        time.sleep(self._slow_s)
        if self._broken is not None:
            raise self._broken
        self.pieces.append((data, t))
        return data != self._enough


def receive(reply: Reply, data: bytes, t: float) -> None:
    """As a connection does it."""
    if reply.sink is not None:
        reply.sink(data, t)
    else:
        reply.keep(data, t)


async def reading(digest: Digest, reply: Reply, notes: Notes) -> None:
    async with asyncio.timeout(WAIT_S):
        await digest.read(reply, notes)


async def test_pieces_keep_their_order_and_their_stamps_before_and_after_the_reading_began() -> None:
    digest, reply, notes = Digest(), Reply(), Notes()
    receive(reply, b"early", 1.0)
    task = asyncio.create_task(reading(digest, reply, notes))
    await asyncio.sleep(0)
    receive(reply, b"a", 2.0)
    receive(reply, b"b", 3.0)
    assert notes.pieces == [], "nothing is read within a read"
    reply.end()
    await task
    assert notes.pieces == [(b"early", 1.0), (b"a", 2.0), (b"b", 3.0)]


async def test_a_reply_that_is_over_is_read_all_the_same() -> None:
    digest, reply, notes = Digest(), Reply(), Notes()
    receive(reply, b"all", 1.0)
    reply.end()
    await reading(digest, reply, notes)
    assert notes.pieces == [(b"all", 1.0)]


async def test_a_problem_is_raised_after_what_came_before_it_was_read() -> None:
    digest, reply, notes = Digest(), Reply(), Notes()
    task = asyncio.create_task(reading(digest, reply, notes))
    await asyncio.sleep(0)
    receive(reply, b"a", 1.0)
    reply.end(httpx.RemoteProtocolError("cut"))
    with pytest.raises(httpx.RemoteProtocolError, match="cut"):
        await task
    assert notes.pieces == [(b"a", 1.0)]


async def test_a_reader_that_has_enough_ends_it() -> None:
    digest, reply, notes = Digest(), Reply(), Notes(enough=b"b")
    task = asyncio.create_task(reading(digest, reply, notes))
    await asyncio.sleep(0)
    for piece in (b"a", b"b", b"c"):
        receive(reply, piece, 1.0)
    await task
    assert [data for data, _ in notes.pieces] == [b"a", b"b"]


async def test_a_fault_of_the_reader_is_raised_where_it_is_waited_for() -> None:
    digest, reply = Digest(), Reply()
    task = asyncio.create_task(reading(digest, reply, Notes(broken=ZeroDivisionError())))
    await asyncio.sleep(0)
    receive(reply, b"a", 1.0)
    with pytest.raises(ZeroDivisionError):
        await task


async def test_what_came_before_a_cancellation_is_read() -> None:
    digest, reply, notes = Digest(), Reply(), Notes()
    task = asyncio.create_task(reading(digest, reply, notes))
    await asyncio.sleep(0)
    receive(reply, b"a", 1.0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert task.cancelled()
    assert notes.pieces == [(b"a", 1.0)]
    receive(reply, b"late", 2.0)
    await asyncio.sleep(digest_module.BATCH_S)
    assert notes.pieces == [(b"a", 1.0)]


async def test_many_ends_at_once_let_other_work_go_between() -> None:
    digest = Digest()
    replies = [Reply() for _ in range(40)]
    tasks = [asyncio.create_task(reading(digest, reply, Notes(slow_s=digest_module.SLICE_S / 4))) for reply in replies]
    await asyncio.sleep(0)
    for reply in replies:
        receive(reply, b"last", 1.0)
        reply.end()
    ended_at_once = over = 0
    async with asyncio.timeout(WAIT_S):
        while over < len(tasks):
            await asyncio.sleep(0)
            before, over = over, sum(task.done() for task in tasks)
            ended_at_once = max(ended_at_once, over - before)
    assert ended_at_once <= 5, "one more than fills a slice"


async def test_what_waits_has_a_limit_even_when_there_is_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(digest_module, "SLICE_S", 0.0)
    monkeypatch.setattr(digest_module, "MAX_BEHIND", 10)
    digest, reply, notes = Digest(), Reply(), Notes()
    task = asyncio.create_task(reading(digest, reply, notes))
    await asyncio.sleep(0)
    for i in range(100):
        receive(reply, b"%d" % i, float(i))
    while not notes.pieces:  # noqa: ASYNC110 (it is the turns of the loop that matter)
        await asyncio.sleep(0)
    assert len(notes.pieces) == 90, "one slice, which is over at once, and all that is above the limit"
    reply.end()
    await task
    assert [t for _, t in notes.pieces] == [float(i) for i in range(100)]
