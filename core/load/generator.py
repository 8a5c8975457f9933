"""The parent's side of the load: takes one repeat as one order, and reports what becomes of each of its requests; nothing else.

`Generator` speaks as one process however many children share the work: request i of a plan is sent by child i mod N, at the time
that it would have with any other N. `Worker` is the handle on one child, whose own side is `core.load.child`. Children send
nothing once their stdin ends or falls silent: no dead or suspended parent leaves load running.
"""

import asyncio
import contextlib
import math
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections import deque
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from core.access import Access
from core.config import Workload
from core.errors import UserError
from core.load.merge import Merge
from core.load.protocol import HEARTBEAT_S, Command, Heartbeat, Share, encode, messages
from core.records import (
    Abort,
    ChildMessage,
    ClosedOrder,
    Hello,
    LoadReady,
    RepeatOrder,
    StopArrivals,
    WorkerInfo,
)
from core.units import duration

CHILD_RPS = 2000.0
CHILD_CHUNKS_PER_S = 50_000.0
"""What one child carries at half of a core, by measurement: new requests, and chunks of answers, a second."""

_NEXT = 2.0
"""The next rate of a search is at most so many times the present one; what it needs is started beforehand."""

START_TIMEOUT_S = 30.0
CLOSE_TIMEOUT_S = 1.0
_READ_BYTES = 256 * 1024
_HOME = str(Path(__file__).resolve().parents[2])
_CHILD = f"""import signal, sys
for name in (signal.SIGINT, signal.SIGHUP):
    signal.signal(name, signal.SIG_IGN)
sys.path.insert(0, {_HOME!r})
from core.load.child import main
main()"""
"""Our own folder goes first, because a PYTHONPATH or a current folder may hold another `core`."""


def child_command() -> tuple[str, ...]:
    """What starts a child on the machine that runs this."""
    return sys.executable, "-P", "-c", _CHILD


class Worker:
    """One child: starts it, speaks with it, says how it died. `hear` gets its messages, a batch per read; an empty batch says that
    its pipe has ended."""

    def __init__(self, process: Process, hear: Callable[["Worker", list[ChildMessage]], None]) -> None:
        self.process = process
        self.closing = False
        self._hear = hear
        self._last_words: deque[str] = deque(maxlen=1)
        self._ready: asyncio.Future[LoadReady] = asyncio.get_running_loop().create_future()
        self._readers = (asyncio.create_task(self._read_messages()), asyncio.create_task(self._read_errors()))
        self._heart = asyncio.create_task(self._beat())

    @classmethod
    async def start(cls, hear: Callable[["Worker", list[ChildMessage]], None]) -> tuple["Worker", LoadReady]:
        """Start a child and wait for its LoadReady, which `hear` does not get. Raises UserError when it cannot start."""
        try:
            process = await asyncio.create_subprocess_exec(*child_command(), stdin=PIPE, stdout=PIPE, stderr=PIPE)
        except OSError as problem:
            raise UserError(f"The load generator could not be started ({sys.executable}): {problem}.", exit_code=3) from problem
        worker = cls(process, hear)
        try:
            async with asyncio.timeout(START_TIMEOUT_S):
                return worker, await worker._ready
        except BaseException as problem:
            await worker.close()
            if isinstance(problem, TimeoutError):
                raise UserError(f"The load generator did not start within {duration(START_TIMEOUT_S)}.", exit_code=3) from problem
            if isinstance(problem, EOFError):
                raise await worker.death(Access()) from problem
            raise

    async def say(self, *commands: Command) -> None:
        """Hand over commands. Raises ConnectionError when the child is gone."""
        stdin = self.process.stdin
        assert stdin is not None
        stdin.write(b"".join(encode(command) for command in commands))
        await stdin.drain()

    async def death(self, access: Access) -> UserError:
        """What the user is told of a child that ended by itself; no secret of `access` shows in its last words."""
        code = await self.process.wait()
        await asyncio.gather(*self._readers)
        how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        words = access.scrub(self._last_words[0]) if self._last_words else "it said nothing"
        return UserError(
            f"The load generator ended by itself ({how}): {words}. Its load has stopped; start the run again.", exit_code=3
        )

    async def close(self) -> None:
        """End the child; whatever it was sending stops. Safe to call twice."""
        self.closing = True
        self._heart.cancel()
        if self.process.stdin is not None:
            self.process.stdin.close()
        try:
            async with asyncio.timeout(CLOSE_TIMEOUT_S):
                await self.process.wait()
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                self.process.kill()
            await self.process.wait()
        await asyncio.gather(*self._readers)

    async def _beat(self) -> None:
        """Tell the child that this process is there; nobody waits for the pipe."""
        stdin = self.process.stdin
        assert stdin is not None
        while not stdin.is_closing():
            stdin.write(encode(Heartbeat()))
            await asyncio.sleep(HEARTBEAT_S)

    async def _read_messages(self) -> None:
        """Always reading, so that the child's pipe never fills; a batch per read keeps this loop free for the screen."""
        stdout, inlet = self.process.stdout, messages()
        assert stdout is not None
        while data := await stdout.read(_READ_BYTES):
            batch = inlet.feed(data)
            if batch and not self._ready.done():
                first = batch.pop(0)
                assert isinstance(first, LoadReady)
                self._ready.set_result(first)
            if batch:
                self._hear(self, batch)
        if not self._ready.done():
            self._ready.set_exception(EOFError())
        self._hear(self, [])

    async def _read_errors(self) -> None:
        stderr, rest = self.process.stderr, b""
        assert stderr is not None
        while data := await stderr.read(_READ_BYTES):
            *lines, rest = (rest + data).split(b"\n")
            self._last_words.extend(text for line in lines if (text := line.decode("utf-8", "replace").strip()))
        if text := rest.decode("utf-8", "replace").strip():
            self._last_words.append(text)


def children_for(rate_rps: float, workload: Workload) -> int:
    """How many children a rate needs; never more than cores - 1, so that one is left for screen and kernel, and at least one.

    With a gateway's limit it is one: that limit is over all requests, and one process keeps it.
    """
    if workload.gateway is not None:
        return 1
    chunks_per_s = rate_rps * _usual_answer(workload)
    needed = math.ceil(max(rate_rps / CHILD_RPS, chunks_per_s / CHILD_CHUNKS_PER_S))
    return max(1, min(needed, len(os.sched_getaffinity(0)) - 1 if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 2) - 1))


def _usual_answer(workload: Workload) -> float:
    """Tokens of an answer: the mean of a mix, else the median."""
    if not workload.mix:
        return workload.output_tokens.median
    return sum(part.weight * part.output_tokens for part in workload.mix) / sum(part.weight for part in workload.mix)


class Generator:
    """Starts the children and speaks with them. One order at a time."""

    def __init__(self, asked: int | None) -> None:
        self._asked = asked
        self._workers: list[Worker] = []
        self._heard: asyncio.Queue[tuple[Worker, list[ChildMessage]]] = asyncio.Queue()
        self._pending: deque[ChildMessage] = deque()
        self._hello: Hello | None = None
        self._merge: Merge[Worker] = Merge(0)
        self._closing = False
        self._growing: asyncio.Task[None] | None = None
        self._one_at_a_time = asyncio.Lock()
        self.ready: LoadReady

    @classmethod
    async def start(cls, children: int | None = None) -> "Generator":
        """Start the first child and wait for its LoadReady; more come before an order that is planned to need them. `children` is a
        number asked for, and kept to. Raises UserError when one cannot start."""
        generator = cls(children)
        try:
            await generator._grow(children or 1)
        except BaseException:
            await generator.close()
            raise
        generator._pending.append(generator.ready)
        return generator

    @property
    def children(self) -> int:
        """How many processes send."""
        return len(self._workers)

    @property
    def workers(self) -> tuple[WorkerInfo, ...]:
        """Other machines that send: none."""
        return ()

    async def plan(self, peak_rps: float) -> None:
        """Start what this rate will need, after the hello and before an order says when it begins: a child takes about a second
        to come up. By itself a generator only looks ahead to twice the rate of each order."""
        if self._asked is None and self._hello is not None:
            await self._grow(children_for(peak_rps, self._hello.workload))

    async def hello(self, hello: Hello) -> None:
        """Say what stays the same for the coming orders; may be said again between orders, when preflight learned more."""
        self._hello = hello
        await self._say(hello)

    async def order(self, order: RepeatOrder | ClosedOrder) -> None:
        """Hand over one repeat, or a closed loop; its messages come from `messages`, the last is its LoadDone."""
        count = len(self._workers)
        self._merge = Merge(count)
        for index, worker in enumerate(self._workers[:count]):
            await self._say_to(worker, Share(index=index, of=count), order)
        if isinstance(order, RepeatOrder) and (self._growing is None or self._growing.done()):
            peak_rps = max((segment.rate_rps for segment in order.segments), default=0.0)
            self._growing = asyncio.create_task(self._look_ahead(_NEXT * peak_rps))

    async def stop_arrivals(self, order: int) -> None:
        """Nothing new is sent; open requests run to their end."""
        await self._say(StopArrivals(order=order))

    async def abort(self, order: int) -> None:
        """Nothing new is sent, open requests are cancelled and their connections closed, within 0.5 s."""
        await self._say(Abort(order=order))

    async def messages(self) -> AsyncIterator[ChildMessage]:
        """Everything the children report, in order, until they end; LoadReady is the first. It may be left and taken up again.

        Raises UserError (exit code 3) when a child dies by itself.
        """
        while True:
            while self._pending:
                yield self._pending.popleft()
            if self._closing:
                return
            worker, batch = await self._heard.get()
            if not batch and not worker.closing:
                await self._raise_death(worker)
            for message in batch:
                if (merged := self._merge.take(worker, message)) is not None:
                    self._pending.append(merged)

    async def close(self) -> None:
        """End the children; whatever they were sending stops. Safe to call twice."""
        self._closing = True
        if self._growing is not None:
            self._growing.cancel()
            await asyncio.gather(self._growing, return_exceptions=True)
        await asyncio.gather(*(worker.close() for worker in self._workers))

    async def _grow(self, count: int) -> None:
        async with self._one_at_a_time:
            while len(self._workers) < count:
                worker, ready = await Worker.start(lambda worker, batch: self._heard.put_nowait((worker, batch)))
                if not self._workers:
                    self.ready = ready
                self._workers.append(worker)
                if self._hello is not None:
                    await self._say_to(worker, self._hello)

    async def _look_ahead(self, peak_rps: float) -> None:
        with contextlib.suppress(UserError):  # the next order goes by those that are there, and says how late it was
            await self.plan(peak_rps)

    async def _say(self, command: Command) -> None:
        for worker in self._workers:
            await self._say_to(worker, command)

    async def _say_to(self, worker: Worker, *commands: Command) -> None:
        if self._closing:
            return
        try:
            await worker.say(*commands)
        except ConnectionError:
            await self._raise_death(worker)

    async def _raise_death(self, worker: Worker) -> None:
        """One child less is not the load that was planned: the others end too."""
        others = [other for other in self._workers if other is not worker]
        await asyncio.gather(*(other.close() for other in others))
        raise await worker.death(self._hello.access if self._hello else Access())
