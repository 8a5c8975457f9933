"""What the answers say is read after it has been stamped, in slices between the turns of the event loop.

When a server's step brings a chunk to each of 256 streams, reading the JSON of one would make the stamps of all after it late. So
a read only stamps and queues; and when many streams end together, their ends are told a few in each turn, so that nothing due
to be sent waits for them.
"""

import asyncio
import time
from collections import deque
from functools import partial
from typing import Protocol

from core.load.reply import Reply

BATCH_S = 4e-3
"""Reading waits so long for more to read: many chunks in a row cost a third less than each by itself. No time depends on it, since
all are stamped; what is shown live is that much older."""

SLICE_S = 0.5e-3
"""A turn reads no longer than this: a tenth of the lateness of a send that would be called late."""

MAX_BEHIND = 8192
"""Pieces that may wait. Beyond that they are read without regard to slices: a core that is full would else take in without end what
it has no time to read, where the kernel can hold the server's bytes together and cheaper."""

_END_S = 50e-6
"""What the end of a request costs in its own task (record, encoding), which a slice counts beforehand."""


class Reader(Protocol):
    """Who reads one answer. `read` returns False when it wants no more of it."""

    def read(self, data: bytes, t: float) -> bool: ...


class _Reading:
    """One answer on its way to its reader."""

    __slots__ = ("done", "over", "problem", "reader", "reply")

    def __init__(self, reply: Reply, reader: Reader) -> None:
        self.reply, self.reader = reply, reader
        self.over = False
        """Nothing more is to be read of it: the reader has enough, or failed."""
        self.problem: Exception | None = None
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def read(self, data: bytes, t: float) -> None:
        """Read one piece. A problem of the reader's is for its own task to raise."""
        if self.over:
            return
        try:
            self.over = not self.reader.read(data, t)
        except Exception as problem:
            self.problem, self.over = problem, True
        if self.over:
            self.reply.stop()


class Digest:
    """Reads any number of answers side by side. Make it inside the running loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._queue: deque[tuple[_Reading, bytes | None, float]] = deque()
        """What was stamped and not read yet, in order; None is the end of an answer."""
        self._called = False

    async def read(self, reply: Reply, reader: Reader) -> None:
        """Give a body to its reader; return at its end, when all of it is read. Raises what the reply or the reader raised."""
        reading = _Reading(reply, reader)
        reply.deliver(partial(self._put, reading), partial(self._put, reading, None, 0.0))
        try:
            await reading.done
        except asyncio.CancelledError:
            for other, data, t in list(self._queue):
                if other is reading and data is not None:
                    reading.read(data, t)  # what has come belongs to the record
            reading.over = True
            reply.stop()
            raise
        if reading.problem is not None:
            raise reading.problem
        reply.raise_problem()

    def _put(self, reading: _Reading, data: bytes | None, t: float) -> None:
        self._queue.append((reading, data, t))
        if not self._called:
            self._called = True
            self._loop.call_later(BATCH_S, self._work)

    def _work(self) -> None:
        """Read for one slice, and down to MAX_BEHIND; what is left comes after the event loop's next turn."""
        queue, clock = self._queue, time.monotonic
        until = clock() + SLICE_S
        while queue:
            reading, data, t = queue.popleft()
            if data is not None:
                reading.read(data, t)
            elif not reading.done.done():
                reading.done.set_result(None)
                until -= _END_S
            if clock() >= until and len(queue) <= MAX_BEHIND:
                break
        self._called = bool(queue)
        if queue:
            self._loop.call_soon(self._work)
