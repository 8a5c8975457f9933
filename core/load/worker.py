"""The parent's handle on one child that sends: starts it, speaks with it, says how it died. `core.load.child` is the other side."""

import asyncio
import contextlib
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections import deque
from collections.abc import Callable
from pathlib import Path

from core.access import Access
from core.errors import UserError
from core.load.protocol import HEARTBEAT_S, Command, Heartbeat, encode, messages
from core.records import ChildMessage, LoadReady

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


class Worker:
    """One child. `hear` gets its messages, a batch per read; an empty batch says that its pipe has ended."""

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
            process = await asyncio.create_subprocess_exec(sys.executable, "-P", "-c", _CHILD, stdin=PIPE, stdout=PIPE, stderr=PIPE)
        except OSError as problem:
            raise UserError(f"The load generator could not be started ({sys.executable}): {problem}.", exit_code=3) from problem
        worker = cls(process, hear)
        try:
            async with asyncio.timeout(START_TIMEOUT_S):
                return worker, await worker._ready
        except BaseException as problem:
            await worker.close()
            if isinstance(problem, TimeoutError):
                raise UserError(f"The load generator did not come up in {START_TIMEOUT_S:g} s.", exit_code=3) from problem
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
