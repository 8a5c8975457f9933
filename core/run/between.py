"""What is done to the server between repeats, so that each starts on the same one: the user's command, the cache reset."""

import asyncio
import contextlib
import os
import signal
import tempfile
from collections.abc import Awaitable, Callable
from typing import IO, Literal

import msgspec

from core.facts import Said, fact
from core.run.ends import NoAnswer
from core.run.events import Event, Note
from core.run.scraping import Readings
from core.server import CacheReset

COMMAND_S = 600.0
"""A restart loads the weights again, which takes minutes for a large model."""
READY_S = 600.0
_POLL_S = 0.5
_KILL_AFTER_S = 0.3
"""Between asking a command to end and killing it: a stopped run must be over at once."""
OUTPUT_BYTES = 4096


class Ended(msgspec.Struct, frozen=True, kw_only=True):
    """How a command ended: its exit code (None: it took too long and was killed) and the end of what it printed."""

    code: int | None
    output: str


async def run_command(command: str, limit_s: float = COMMAND_S) -> Ended:
    """Run a shell command without input; when cancelled or out of time, it is ended with everything it started.

    Its output goes into an unnamed file and not through a pipe: a server that it leaves in the background keeps writing.
    """
    with tempfile.TemporaryFile() as output:
        process = await asyncio.create_subprocess_shell(
            command, stdin=asyncio.subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
        )
        try:
            async with asyncio.timeout(limit_s):
                code: int | None = await process.wait()
        except TimeoutError:
            code = None
        finally:
            if process.returncode is None:
                await _end(process)
        return Ended(code=code, output=_tail(output))


async def _end(process: asyncio.subprocess.Process) -> None:
    for signal_ in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal_)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_KILL_AFTER_S):
                await process.wait()
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)  # what the shell started may outlive it


def _tail(file: IO[bytes]) -> str:
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - OUTPUT_BYTES))
    return file.read().decode("utf-8", errors="replace").strip()


class Between:
    """Prepares the server before each repeat. The first finds it as the user left it: no command runs before that one.

    `output` is the end of what a command printed that failed, for the screen alone: it may hold what no file should.
    """

    def __init__(
        self,
        command: str | None,
        reset: Callable[[], Awaitable[CacheReset]] | None,
        *,
        health: Callable[[], Awaitable[int | None]],
        readings: Readings,
        emit: Callable[[Event], None],
        clock: Callable[[], float],
    ) -> None:
        """`reset` None: no cache is reset. `health`: the status that the server answers with, None without an answer."""
        self._command = command
        self._reset = reset
        self._health = health
        self._readings = readings
        self._emit = emit
        self._clock = clock
        self._first = True
        self._told: list[Said] = []
        self.output: str | None = None

    async def prepare(self) -> bool:
        """To be called before each repeat, when nothing of ours is in flight; whether anything was done to the server. Raises
        NoAnswer when the command fails."""
        done = False
        if self._command is not None and not self._first:
            await self._do(self._command)
            done = True
        if self._reset is not None:
            if self._first:
                await self._readings.settle()
            done |= await self._empty(self._reset)
        self._first = False
        return done

    async def _do(self, command: str) -> None:
        usual = await self._health()
        ended = await run_command(command)
        if ended.code != 0:
            self.output = ended.output
            raise NoAnswer(fact("between_failed", exit_code=ended.code, within_s=COMMAND_S))
        await self._ready({200, usual})

    async def _ready(self, good: set[int | None]) -> None:
        """Until it answers as it does on a server that is up, and one reading of its metrics works."""
        began = self._clock()
        while (status := await self._health()) is None or status not in good:
            self._in_time(began, "health")
            await asyncio.sleep(_POLL_S)
        while self._readings.available and await self._readings.fresh(self._clock()) is None:
            self._in_time(began, "metrics")

    def _in_time(self, began: float, missing: Literal["health", "metrics"]) -> None:
        if self._clock() - began > READY_S:
            raise NoAnswer(fact("between_not_ready", within_s=READY_S, missing=missing))

    async def _empty(self, reset: Callable[[], Awaitable[CacheReset]]) -> bool:
        done = await reset()
        if done.status == "failed":
            await self._readings.settle()
            done = await reset()
        if done.status == "missing":
            self._reset = None
        if done.found is not None and done.found not in self._told:
            self._told.append(done.found)
            self._emit(Note(t=self._clock(), level="warn" if done.status == "failed" else "info", text=done.found))
        return done.status == "done"
