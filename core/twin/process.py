"""The parent's side of the twin's process. Whatever becomes of that, the run goes on: it has no reading then, and that is all."""

import asyncio
import contextlib
import os
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Sequence
from pathlib import Path

import msgspec

from core.records import GapSummary, RequestRecord
from core.results import TwinReading
from core.twin.reading import TwinTask
from core.twin.worker import BESIDE_FRAC, Asked, Seen, Share, Told, ToWorker

CLOSE_TIMEOUT_S = 1.0
_RECORDS_A_LINE = 200
"""So many are written at once, in less than a millisecond: the screen is drawn by the same loop."""
_LINE_BYTES = 1 << 20
_HOME = str(Path(__file__).resolve().parents[2])
_CHILD = f"""import signal, sys
for name in (signal.SIGINT, signal.SIGHUP):
    signal.signal(name, signal.SIG_IGN)
sys.path.insert(0, {_HOME!r})
from core.twin.worker import main
main()"""
"""Our own folder goes first, because a PYTHONPATH or a current folder may hold another `core`."""
_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"), "1")
"""Or numpy's own threads would take every core for the fit."""


class TwinProcess:
    """Starts the process and speaks with it. `latest` is the newest reading that it gave, of whichever question."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._asked = self._answered = 0
        self._news = asyncio.Event()
        self.latest: TwinReading | None = None
        self._listener = asyncio.create_task(self._listen())

    @classmethod
    async def start(cls) -> "TwinProcess | None":
        """Start it; None where that is not possible."""
        try:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-P", "-c", _CHILD),
                stdin=PIPE,
                stdout=PIPE,
                stderr=DEVNULL,
                limit=_LINE_BYTES,
                env={**os.environ, **_ONE_THREAD},
            )
        except OSError:
            return None
        return cls(process)

    @property
    def pid(self) -> int:
        """The number of the process."""
        return self._process.pid

    async def seen(self, records: Sequence[RequestRecord]) -> None:
        """Tell what became of all requests of one or more orders; each order once."""
        lean = [msgspec.structs.replace(record, gaps=GapSummary(), error=None) for record in records]
        for begin in range(0, len(lean), _RECORDS_A_LINE):
            end = begin + _RECORDS_A_LINE
            await self._say(Seen(tuple(lean[begin:end]), end >= len(lean)))

    async def beside_load(self, sending: bool) -> None:
        """Whether requests are being sent meanwhile: then it takes no more than BESIDE_FRAC of a core."""
        await self._say(Share(BESIDE_FRAC if sending else 1.0))

    async def ask(self, task: TwinTask) -> None:
        """Ask for a reading; it becomes `latest` when it is there."""
        self._asked += 1
        await self._say(Asked(self._asked, task))

    async def reading(self, within_s: float) -> TwinReading | None:
        """Wait for the answer to the last question; None where there is none in that time, or no such twin."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                while self._answered < self._asked and not self._listener.done():
                    self._news.clear()
                    await self._news.wait()
        return self.latest if self._answered == self._asked else None

    async def close(self) -> None:
        """End the process, whatever it is computing. Safe to call twice."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            async with asyncio.timeout(CLOSE_TIMEOUT_S):
                await self._process.wait()
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()
        await self._listener

    async def _say(self, message: ToWorker) -> None:
        stdin = self._process.stdin
        assert stdin is not None
        with contextlib.suppress(ConnectionError, RuntimeError):  # it has ended, or was closed
            stdin.write(msgspec.json.encode(message) + b"\n")
            await stdin.drain()

    async def _listen(self) -> None:
        stdout, decoder = self._process.stdout, msgspec.json.Decoder(Told)
        assert stdout is not None
        with contextlib.suppress(ValueError, msgspec.MsgspecError):  # a line that is none: nothing more is heard
            while line := await stdout.readline():
                told = decoder.decode(line)
                self._answered, self.latest = told.number, told.reading
                self._news.set()
        self._news.set()
