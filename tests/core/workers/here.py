"""A driver without Ray: every worker is a `Host` in the driver's own process, with a clock that is as wrong as one likes."""

import argparse
import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from core.errors import UserError
from core.load.protocol import commands, encode, messages
from core.records import ClosedOrder, RepeatOrder, WorkerInfo
from core.workers.clocks import brought_home
from core.workers.driver import main as drive
from core.workers.host import Host
from core.workers.messages import Gather, Gathered

ROOT = Path(__file__).parents[3]
T = TypeVar("T")


def driver(
    *,
    skews_s: tuple[float, ...] = (),
    silent: int | None = None,
    refuses: str | None = None,
    elsewhere: bool = False,
    jumps_s: float = 0.0,
) -> tuple[str, ...]:
    """The command of a driver. `skews_s`: how far each clock is ahead; `silent`: a worker that answers no beat; `jumps_s`: by so
    much the first clock goes ahead once it has been told an order."""
    code = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from tests.core.workers.here import main; main()"
    options = [f"--skew={skew}" for skew in skews_s]
    options += [] if silent is None else [f"--silent={silent}"]
    options += [] if refuses is None else [f"--refuses={refuses}"]
    options += [f"--jumps={jumps_s}"]
    return sys.executable, "-P", "-c", code, *options, *(["--elsewhere"] if elsewhere else [])


class Here:
    """The workers, each named by the number of its sending process."""

    def __init__(self, count: int, skews_s: list[float], silent: int | None, elsewhere: bool, jumps_s: float) -> None:
        self._hosts = [Host() for _ in range(count)]
        self._skews_s = [*skews_s, *[0.0] * (count - len(skews_s))]
        self._silent = silent
        self._jumps_s = jumps_s
        self._threads = ThreadPoolExecutor(32)
        infos = [WorkerInfo(name=str(host.pid), python="3", version="0", cores=1) for host in self._hosts]
        self.gathered = Gathered(workers=tuple(infos), elsewhere=infos[0].name if elsewhere else None)

    async def say(self, worker: int, number: int, lines: bytes) -> None:
        told = []
        for command in commands().feed(lines):
            if isinstance(command, RepeatOrder | ClosedOrder):
                command = msgspec.structs.replace(command, start_at=command.start_at - self._skews_s[worker])
            told.append(encode(command))
        await self._in_thread(self._hosts[worker].say, number, b"".join(told))
        if worker == 0 and any(isinstance(each, RepeatOrder) for each in commands().feed(lines)):
            self._skews_s[0] += self._jumps_s

    async def beat(self, worker: int) -> float:
        if worker == self._silent:
            await asyncio.Event().wait()
        return await self._in_thread(self._hosts[worker].beat) + self._skews_s[worker]

    async def now(self, worker: int) -> float:
        return self._hosts[worker].now() + self._skews_s[worker]

    async def batches(self, worker: int) -> AsyncIterator[bytes]:
        source = self._hosts[worker].batches()
        while (lines := await self._in_thread(next, source, None)) is not None:
            yield b"".join(encode(brought_home(message, -self._skews_s[worker])) for message in messages().feed(lines))

    async def last_words(self, worker: int) -> str:
        return str(await self._in_thread(self._hosts[worker].last_words))

    def close(self) -> None:
        for host in self._hosts:
            host.close()

    async def _in_thread(self, call: Callable[..., T], *args: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, call, *args)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--skew", type=float, action="append", default=[])
    parser.add_argument("--silent", type=int)
    parser.add_argument("--refuses")
    parser.add_argument("--jumps", type=float, default=0.0)
    parser.add_argument("--elsewhere", action="store_true")
    given = parser.parse_args()

    def gather(asked: Gather) -> Here:
        if given.refuses is not None:
            raise UserError(given.refuses, exit_code=3)
        return Here(asked.asked.local or 1, given.skew, given.silent, given.elsewhere, given.jumps)

    drive(gather)
