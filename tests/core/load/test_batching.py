"""What was stamped is read later, in order, in slices; ends come after everything before them."""

import asyncio
import time
from types import SimpleNamespace

import httpx
import pytest

from core.load.transport import batching as digest_module
from core.load.transport.batching import Digest
from core.load.transport.response import Later, Reply
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


class Wire:
    """A connection without a socket, and its intake: what is received is the body, as it is."""

    held = False
    later: Later | None = None

    def __init__(self) -> None:
        self.reply = Reply()
        self.problem: httpx.TransportError | None = None
        self.reply.line = self

    def receive(self, data: bytes, t: float) -> None:
        """A read; no data are the end."""
        if self.later is not None:
            self.later((self, data, t))
        else:
            self.take_in(data, t)

    def break_off(self, problem: httpx.TransportError) -> None:
        self.problem = problem
        self.receive(b"", 0.0)

    def take_in(self, data: bytes, t: float) -> bool:
        if data:
            self.reply.take(data, t)
        else:
            self.reply.ended(t, self.problem)
        return self.reply.is_over

    def abort(self) -> None: ...
    def hold(self) -> None: ...
    def go_on(self) -> None: ...


async def reading(digest: Digest, wire: Wire, notes: Notes) -> None:
    async with asyncio.timeout(WAIT_S):
        await digest.read(wire.reply, notes)


async def test_pieces_keep_their_order_and_their_stamps_before_and_after_the_reading_began() -> None:
    digest, wire, notes = Digest(), Wire(), Notes()
    wire.receive(b"early", 1.0)
    task = asyncio.create_task(reading(digest, wire, notes))
    await asyncio.sleep(0)
    wire.receive(b"a", 2.0)
    wire.receive(b"b", 3.0)
    assert notes.pieces == [(b"early", 1.0)], "nothing is read within a read"
    wire.receive(b"", 4.0)
    await task
    assert wire.reply.t_end == 4.0, "the end has the time of its read, too"
    assert notes.pieces == [(b"early", 1.0), (b"a", 2.0), (b"b", 3.0)]


async def test_a_reply_that_is_over_is_read_all_the_same() -> None:
    digest, wire, notes = Digest(), Wire(), Notes()
    wire.receive(b"all", 1.0)
    wire.receive(b"", 4.0)
    await reading(digest, wire, notes)
    assert notes.pieces == [(b"all", 1.0)]


async def test_a_problem_is_raised_after_what_came_before_it_was_read() -> None:
    digest, wire, notes = Digest(), Wire(), Notes()
    task = asyncio.create_task(reading(digest, wire, notes))
    await asyncio.sleep(0)
    wire.receive(b"a", 1.0)
    wire.break_off(httpx.RemoteProtocolError("cut"))
    with pytest.raises(httpx.RemoteProtocolError, match="cut"):
        await task
    assert notes.pieces == [(b"a", 1.0)]


async def test_a_reader_that_has_enough_ends_it() -> None:
    digest, wire, notes = Digest(), Wire(), Notes(enough=b"b")
    task = asyncio.create_task(reading(digest, wire, notes))
    await asyncio.sleep(0)
    for piece in (b"a", b"b", b"c"):
        wire.receive(piece, 1.0)
    await task
    assert [data for data, _ in notes.pieces] == [b"a", b"b"]


async def test_a_fault_of_the_reader_is_raised_where_it_is_waited_for() -> None:
    digest, wire = Digest(), Wire()
    task = asyncio.create_task(reading(digest, wire, Notes(broken=ZeroDivisionError())))
    await asyncio.sleep(0)
    wire.receive(b"a", 1.0)
    with pytest.raises(ZeroDivisionError):
        await task


async def test_what_came_before_a_cancellation_is_read() -> None:
    digest, wire, notes = Digest(), Wire(), Notes()
    task = asyncio.create_task(reading(digest, wire, notes))
    await asyncio.sleep(0)
    wire.receive(b"a", 1.0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert task.cancelled()
    assert notes.pieces == [(b"a", 1.0)]
    wire.receive(b"late", 2.0)
    await asyncio.sleep(digest_module.BATCH_S)
    assert notes.pieces == [(b"a", 1.0)]


async def test_many_ends_at_once_let_other_work_go_between() -> None:
    digest = Digest()
    wires = [Wire() for _ in range(40)]
    tasks = [asyncio.create_task(reading(digest, wire, Notes(slow_s=digest_module.SLICE_S / 4))) for wire in wires]
    await asyncio.sleep(0)
    for wire in wires:
        wire.receive(b"last", 1.0)
        wire.receive(b"", 4.0)
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
    digest, wire, notes = Digest(), Wire(), Notes()
    task = asyncio.create_task(reading(digest, wire, notes))
    await asyncio.sleep(0)
    for i in range(100):
        wire.receive(b"%d" % i, float(i))
    while not notes.pieces:  # noqa: ASYNC110 (it is the turns of the loop that matter)
        await asyncio.sleep(0)
    assert len(notes.pieces) == 90, "one slice, which is over at once, and all that is above the limit"
    wire.receive(b"", 4.0)
    await task
    assert [t for _, t in notes.pieces] == [float(i) for i in range(100)]


async def test_nothing_is_taken_in_before_a_burst_has_been_stamped(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(digest_module, "time", SimpleNamespace(monotonic=lambda: now))
    digest, wire, notes = Digest(), Wire(), Notes()
    task = asyncio.create_task(reading(digest, wire, notes))
    await asyncio.sleep(0)
    wire.receive(b"a", now)
    now += digest_module.BATCH_S * 0.9
    digest._look()
    assert notes.pieces == []
    now += digest_module.BATCH_S * 0.2
    digest._look()
    assert notes.pieces == [(b"a", 100.0)]
    wire.receive(b"", now)
    now += 1.0
    await task
