"""A server that the user's command starts: from its start to the moment when nothing of it is left."""

import asyncio
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

import msgspec

from core.errors import UserError
from core.facts import Fact, fact
from core.tune import guardian

POLL_S = 0.5
_GUARDIAN = str(Path(guardian.__file__).resolve())


class Ended(msgspec.Struct, frozen=True, kw_only=True):
    """How a command ended by itself: its exit code (negative: by that signal; None: not known), and the end of what it printed,
    which is for the terminal alone."""

    code: int | None = None
    said: str = ""

    @property
    def why(self) -> Fact:
        """As what became of its setting, when it had not answered yet."""
        return fact("serve_ended", exit_code=self.code)

    @property
    def lost(self) -> Fact:
        """The same when it was being loaded."""
        return fact("serve_lost", exit_code=self.code)


class NotReady(Exception):
    """The server did not come to answer: `fact` says why, `said` is the end of what it printed where it ended."""

    def __init__(self, why: Fact, said: str = "") -> None:
        super().__init__(why.code)
        self.fact, self.said = why, said


class _Line(msgspec.Struct, frozen=True):
    pid: int | None = None
    ended: int | None = None
    said: str = ""
    left: int | None = None


class Server:
    """A command that runs, in a session of its own, until `stop` or the end of this process: a small process between ends it and
    all that it started, also when this one is killed. `ended` is set once the command has ended by itself, and `said`, the end
    of what it printed, once nothing of it is left."""

    def __init__(self, url: str, process: Process) -> None:
        self.url = url
        self.ended: asyncio.Future[Ended] = asyncio.get_running_loop().create_future()
        self.left: int | None = None
        self.said = ""
        self._process = process
        self._reader = asyncio.create_task(self._read())

    @classmethod
    async def start(cls, command: str, url: str, *, grace_s: float = guardian.GRACE_S) -> "Server":
        """Start it, without waiting for its answer. `grace_s`: from asking it to end to killing it."""
        try:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-I", "-S", _GUARDIAN, str(grace_s)),
                stdin=PIPE,
                stdout=PIPE,
                stderr=DEVNULL,
                start_new_session=True,
            )
        except OSError as error:
            raise UserError(f"The server could not be started ({sys.executable}): {error}.", exit_code=3) from error
        server = cls(url, process)
        server._write({"command": command})  # not as an argument: it may hold a secret
        return server

    async def ready(
        self,
        answers: Callable[[], Awaitable[bool]],
        within_s: float,
        clock: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> float:
        """Wait until it answers; returns after how many seconds. Raises NotReady when it ends before, or takes too long."""
        began = clock()
        while not self.ended.done():
            if await answers():
                return clock() - began
            if clock() - began > within_s:
                raise NotReady(fact("serve_not_ready", within_s=within_s))
            await sleep(POLL_S)
        raise NotReady(self.ended.result().why, self.ended.result().said)

    async def stop(self) -> None:
        """End it and wait until nothing of it is left. Safe to call twice; when cancelled meanwhile, it is killed at once."""
        self._write({"stop": True})
        try:
            await self._process.wait()
        except asyncio.CancelledError:
            self._close()
            await self._process.wait()
            raise
        finally:
            self._close()
            await asyncio.gather(self._reader, return_exceptions=True)

    def _write(self, said: dict[str, object]) -> None:
        stdin = self._process.stdin
        assert stdin is not None
        if not stdin.is_closing():
            with suppress(OSError):
                stdin.write(msgspec.json.encode(said) + b"\n")

    def _close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()

    async def _read(self) -> None:
        stdout = self._process.stdout
        assert stdout is not None
        pid: int | None = None
        while raw := await stdout.readline():
            line = msgspec.json.decode(raw, type=_Line)
            pid = pid or line.pid
            if line.left is not None:
                self.left, self.said = line.left, line.said
            elif line.ended is not None and not self.ended.done():
                self.ended.set_result(Ended(code=line.ended, said=line.said))
        if self.left is None and pid is not None:  # the process between was killed, and its server is nobody's
            guardian.kill_session(pid)
        if self.left is None and not self.ended.done():
            self.ended.set_result(Ended())
