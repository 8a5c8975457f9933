"""The driver: a process between the controller and the machines, because Ray may end the process that it lives in without a word.

It passes words on and makes none of its own. End of its stdin ends it, with all that it has started.
"""

import asyncio
import contextlib
import os
import signal
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Protocol

import msgspec

from core.errors import UserError
from core.units import duration
from core.workers.messages import (
    Answered,
    Beat,
    FromDriver,
    Gather,
    Gathered,
    Lost,
    Passed,
    Refused,
    Say,
    ToDriver,
    Trips,
    passed_on,
    to_driver,
)

GATHER_S = 60.0
"""Ray of a living cluster lets a machine in within 3 s and starts an actor in 1; with the remains of one it tries for minutes."""

LEAVE_S = 2.0
_READ_BYTES = 256 * 1024
_encode = msgspec.json.Encoder().encode


class Gone(Exception):
    """A worker does not answer any more; the text says why."""


class Carrier(Protocol):
    """Reaches the machines: what `core.workers.host.Host` does there, by the number of the worker. Raises Gone."""

    @property
    def gathered(self) -> Gathered: ...
    async def say(self, worker: int, number: int, lines: bytes) -> None: ...
    async def beat(self, worker: int) -> float: ...
    async def now(self, worker: int) -> float: ...
    def batches(self, worker: int) -> AsyncIterator[bytes]: ...
    async def last_words(self, worker: int) -> str: ...
    def close(self) -> None: ...


def main(gather: Callable[[Gather], Carrier]) -> None:
    """Run until stdin ends. `gather` brings the machines together, or raises UserError."""
    out = _take_stdout()
    with asyncio.Runner() as runner:
        inbox = Inbox(runner.get_loop())
        asked = inbox.first()
        late = threading.Timer(GATHER_S, lambda: _refuse(out, _too_late(asked)))
        late.daemon = True
        late.start()
        try:
            carrier = gather(asked)
        except UserError as problem:
            _refuse(out, problem)
            return
        late.cancel()
        inbox.gathered = True
        runner.run(Driver(carrier, out).serve(inbox.queue))
        carrier.close()
    leave()


def leave() -> None:
    """End this process, and whatever is left of what it started on this machine: its process group, where that is its own."""
    if os.getpgrp() == os.getpid():
        os.killpg(os.getpid(), signal.SIGKILL)
    os._exit(0)


class Inbox:
    """Reads stdin in a thread of its own, also while there is no loop yet. `queue` ends with None; after that LEAVE_S are left."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.queue: asyncio.Queue[ToDriver | None] = asyncio.Queue()
        self.gathered = False
        self._loop = loop
        self._inlet = to_driver()

    def first(self) -> Gather:
        """The first word; what follows is read from then on."""
        came: list[ToDriver] = []
        while not came:
            came = self._read() or leave_now()
        gather, *rest = came
        assert isinstance(gather, Gather)
        for each in rest:
            self.queue.put_nowait(each)
        threading.Thread(target=self._follow, daemon=True).start()
        return gather

    def _read(self) -> list[ToDriver] | None:
        """Messages, perhaps none yet; None at the end."""
        data = os.read(0, _READ_BYTES)
        return self._inlet.feed(data) if data else None

    def _follow(self) -> None:
        while (came := self._read()) is not None:
            for each in came:
                self._loop.call_soon_threadsafe(self.queue.put_nowait, each)
        if not self.gathered:
            leave()
        with contextlib.suppress(RuntimeError):  # the loop is closed already
            self._loop.call_soon_threadsafe(self.queue.put_nowait, None)
        time.sleep(LEAVE_S)
        leave()


class Driver:
    """Passes words on in both directions until there are none."""

    def __init__(self, carrier: Carrier, out: int) -> None:
        self._carrier, self._out = carrier, out
        self._count = len(carrier.gathered.workers)
        self._transport: asyncio.WriteTransport | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._to_say: list[asyncio.Queue[Say]] = [asyncio.Queue() for _ in range(self._count)]

    async def serve(self, inbox: asyncio.Queue[ToDriver | None]) -> None:
        """Until the inbox has ended."""
        loop = asyncio.get_running_loop()
        self._transport, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, os.fdopen(self._out, "wb", 0))
        self._tell(self._carrier.gathered)
        for worker in range(self._count):
            self._spawn(self._listen(worker))
            self._spawn(self._pass_on(worker))
        while (message := await inbox.get()) is not None:
            match message:
                case Say():
                    self._to_say[message.worker].put_nowait(message)
                case Beat():
                    for worker in range(self._count):
                        self._spawn(self._trip(worker, beat=True))
                case Trips():
                    for worker in range(self._count):
                        self._spawn(self._trips(worker, message.count))
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _tell(self, message: FromDriver | Passed) -> None:
        """Nobody waits for the pipe: a controller that does not read costs memory, never a heartbeat."""
        assert self._transport is not None
        self._transport.write(_encode(message) + b"\n")

    async def _listen(self, worker: int) -> None:
        try:
            async for lines in self._carrier.batches(worker):
                self._tell(passed_on(worker, lines))
            why = await self._carrier.last_words(worker)
        except Gone as gone:
            why = str(gone)
        self._tell(Lost(worker=worker, why=why))

    async def _pass_on(self, worker: int) -> None:
        """One after another: calls to an actor with several threads may overtake each other."""
        with contextlib.suppress(Gone):  # which `_listen` tells
            while True:
                said = await self._to_say[worker].get()
                await self._carrier.say(worker, said.number, b"".join(bytes(command) + b"\n" for command in said.commands))

    async def _trips(self, worker: int, count: int) -> None:
        for _ in range(count):
            await self._trip(worker, beat=False)

    async def _trip(self, worker: int, beat: bool) -> None:
        with contextlib.suppress(Gone):
            t0 = time.monotonic()
            remote = await (self._carrier.beat(worker) if beat else self._carrier.now(worker))
            self._tell(Answered(worker=worker, beat=beat, t0=t0, remote=remote, t1=time.monotonic()))


def leave_now() -> list[ToDriver]:
    """The end of stdin before the first word."""
    os._exit(0)


def _too_late(asked: Gather) -> UserError:
    where = f"--workers {asked.asked}"
    if asked.asked.local is not None:
        return UserError(
            f"{where}: Ray did not start here within {duration(GATHER_S)}; this machine may be too busy. Try again, or with fewer.",
            exit_code=3,
        )
    return UserError(
        f"{where}: the machines did not come together within {duration(GATHER_S)}. This machine has to be part of the Ray cluster;"
        " `ray status` on it shows whether it is, and `ray start --address HOST:PORT` makes it one.",
        exit_code=3,
    )


def _refuse(out: int, problem: UserError) -> None:
    os.write(out, _encode(Refused(text=str(problem), exit_code=problem.exit_code)) + b"\n")
    leave()


def _take_stdout() -> int:
    """The pipe to the controller for messages alone: whatever else prints goes to stderr."""
    fd = os.dup(1)
    os.dup2(2, 1)
    return fd
