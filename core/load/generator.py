"""The child process that sends: takes one repeat as one order, sends on schedule, reports; nothing else.

`Generator` is the parent's handle. The child sends nothing once its stdin ends, so a dead parent never leaves load running.
"""

import asyncio
import contextlib
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections import deque
from collections.abc import AsyncIterator
from pathlib import Path

from core.access import Access
from core.errors import UserError
from core.load.protocol import encode, messages
from core.records import Abort, ChildCommand, ChildMessage, Hello, LoadReady, RepeatOrder, StopArrivals

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


class Generator:
    """Starts the child and speaks with it. One order at a time."""

    ready: LoadReady

    def __init__(self, process: Process) -> None:
        self._process = process
        self._closing = False
        self._access = Access()
        self._last_words: deque[str] = deque(maxlen=1)
        self._batches: asyncio.Queue[list[ChildMessage]] = asyncio.Queue()
        self._pending: deque[ChildMessage] = deque()
        self._ended = False
        self._readers = (asyncio.create_task(self._read_messages()), asyncio.create_task(self._read_errors()))

    @classmethod
    async def start(cls) -> "Generator":
        """Start the child and wait for its LoadReady. Raises UserError when it cannot start."""
        try:
            process = await asyncio.create_subprocess_exec(sys.executable, "-P", "-c", _CHILD, stdin=PIPE, stdout=PIPE, stderr=PIPE)
        except OSError as problem:
            raise UserError(f"The load generator could not be started ({sys.executable}): {problem}.", exit_code=3) from problem
        generator = cls(process)
        try:
            async with asyncio.timeout(START_TIMEOUT_S):
                await generator._fill()
        except BaseException as problem:
            await generator.close()
            if isinstance(problem, TimeoutError):
                raise UserError(f"The load generator did not come up in {START_TIMEOUT_S:g} s.", exit_code=3) from problem
            raise
        first = generator._pending[0]
        assert isinstance(first, LoadReady)
        generator.ready = first
        return generator

    async def hello(self, hello: Hello) -> None:
        """Say what stays the same for the coming orders; may be said again between orders, when preflight learned more."""
        self._access = hello.access
        await self._say(hello)

    async def order(self, order: RepeatOrder) -> None:
        """Hand over one repeat; its messages come from `messages`, the last is its LoadDone."""
        await self._say(order)

    async def stop_arrivals(self, order: int) -> None:
        """Nothing new is sent; open requests run to their end."""
        await self._say(StopArrivals(order=order))

    async def abort(self, order: int) -> None:
        """Nothing new is sent, open requests are cancelled and their connections closed, within 0.5 s."""
        await self._say(Abort(order=order))

    async def messages(self) -> AsyncIterator[ChildMessage]:
        """Everything the child reports, in order, until it ends; LoadReady is the first. It may be left and taken up again.

        Raises UserError (exit code 3) when the child dies by itself.
        """
        while True:
            while self._pending:
                yield self._pending.popleft()
            if self._closing:
                return
            await self._fill()

    async def close(self) -> None:
        """End the child; whatever it was sending stops. Safe to call twice."""
        self._closing = True
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            async with asyncio.timeout(CLOSE_TIMEOUT_S):
                await self._process.wait()
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()
        await asyncio.gather(*self._readers)

    async def _say(self, command: ChildCommand) -> None:
        stdin = self._process.stdin
        assert stdin is not None
        if self._closing:
            return
        try:
            stdin.write(encode(command))
            await stdin.drain()
        except ConnectionError:
            await self._raise_death()

    async def _fill(self) -> None:
        """Wait for the next batch of messages; an empty one is the end of the child's pipe."""
        if not self._ended:
            batch = await self._batches.get()
            self._pending.extend(batch)
            self._ended = not batch
        if self._ended and not self._closing:
            await self._raise_death()

    async def _raise_death(self) -> None:
        code = await self._process.wait()
        await asyncio.gather(*self._readers)
        how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        words = self._access.scrub(self._last_words[0]) if self._last_words else "it said nothing"
        raise UserError(
            f"The load generator ended by itself ({how}): {words}. Its load has stopped; start the run again.", exit_code=3
        )

    async def _read_messages(self) -> None:
        """Always reading, so that the child's pipe never fills; a batch per read keeps this loop free for the screen."""
        stdout, inlet = self._process.stdout, messages()
        assert stdout is not None
        while data := await stdout.read(_READ_BYTES):
            if batch := inlet.feed(data):
                self._batches.put_nowait(batch)
        self._batches.put_nowait([])

    async def _read_errors(self) -> None:
        stderr, rest = self._process.stderr, b""
        assert stderr is not None
        while data := await stderr.read(_READ_BYTES):
            *lines, rest = (rest + data).split(b"\n")
            self._last_words.extend(text for line in lines if (text := line.decode("utf-8", "replace").strip()))
        if text := rest.decode("utf-8", "replace").strip():
            self._last_words.append(text)
