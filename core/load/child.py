"""The generator's child process: commands in by stdin, messages out by stdout, load in between; nothing else.

It lives no longer than its parent. End of stdin ends the process at once, whatever it was doing: the kernel closes its
connections, and the server frees its slots. So does a silence of the parent while there is load: it may be stopped, not dead.
"""

import asyncio
import contextlib
import ctypes
import gc
import os
import platform
import signal
import sys
import threading
import time
from collections.abc import Callable
from importlib.metadata import version

import httpx

from core.load.closed import ClosedRun
from core.load.dispatch import OrderRun, Retrying, Running
from core.load.prompts import Bodies
from core.load.protocol import SILENCE_S, Command, Share, commands, encode
from core.load.rows import Rows
from core.load.sender import LoadClient
from core.load.transport import DirectTransport, proxy_on_the_way, spare_connections, transport_name
from core.net import tls_context
from core.records import Abort, ChildMessage, ClosedOrder, Hello, LoadDone, LoadReady, RepeatOrder, StopArrivals
from core.schedule import draw, draw_closed

_READ_BYTES = 256 * 1024
_PR_SET_PDEATHSIG = 1
_SILENT_TURNS = 10

FLUSH_S = 10e-3
"""Messages to the parent wait so long for others: at 2,000 requests/s it takes 25 us of CPU a request in place of 90, and where
both share a core sends are late by 0.3 ms at p50 in place of 0.6. Times are in the messages; who decides by them allows for their
way (`core.judge.stopping.REPORT_DELAY_S`, 0.25 s)."""

MOST_FILES = 65_536
"""Open files that there is room for from the start, 8 bytes each; beyond them the table grows as it goes."""


def main() -> None:
    """Run until stdin ends. Ctrl-C and a closed terminal go to the whole process group; `core.load.generator` starts this
    process with both ignored, because the parent decides."""
    _die_with_parent()
    out_fd = _take_stdout()
    fd_limit = make_room_for_files()
    loop_name, loop_factory = new_loop()
    ready = LoadReady(
        t=time.monotonic(), python=platform.python_version(), loop=loop_name, transport=transport_name(), fd_limit=fd_limit
    )
    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(_serve(out_fd, ready))


async def _serve(out_fd: int, ready: LoadReady) -> None:
    loop = asyncio.get_running_loop()
    inbox: asyncio.Queue[Command | BaseException] = asyncio.Queue()
    outbox = await Outbox.open(out_fd)
    outbox.emit(ready)
    threading.Thread(
        target=_read_commands, args=(lambda command: loop.call_soon_threadsafe(inbox.put_nowait, command),), daemon=True
    ).start()
    child = Child(outbox.emit, inbox.put_nowait)
    silence = Silence(lambda: child.busy, SILENCE_S)
    watch = asyncio.create_task(silence.watch())
    while not watch.done():
        command = await inbox.get()
        silence.broken()
        if isinstance(command, BaseException):
            raise command
        await child.obey(command)


class Child:
    """Obeys commands: keeps the hello and its client, and runs one order at a time."""

    def __init__(self, emit: Callable[[ChildMessage], None], fail: Callable[[BaseException], None]) -> None:
        self._emit, self._fail = emit, fail
        self._hello: Hello | None = None
        self._client: LoadClient | None = None
        self._rows: Rows | None = None
        self._share = Share(index=0, of=1)
        self._order: int | None = None
        self._run: Running | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def busy(self) -> bool:
        """Whether an order is on its way."""
        return self._task is not None and not self._task.done()

    async def obey(self, command: Command) -> None:
        """Take in one command. Raises RuntimeError for an order without a hello or beside another, and for a hello beside one."""
        match command:
            case Hello():
                await self._greet(command)
            case Share():
                self._share = command
            case RepeatOrder() | ClosedOrder():
                self._start(command)
            case StopArrivals() if self._run is not None and command.order == self._order:
                self._run.stop()
            case Abort() if self._run is not None and command.order == self._order:
                self._run.abort()

    async def _greet(self, hello: Hello) -> None:
        self._refuse_if_busy()
        old = self._hello
        self._hello = hello
        if self._client is None or old is None or (old.target, old.access) != (hello.target, hello.access):
            if self._client is not None:
                await self._client.aclose()
            self._client = LoadClient(hello.target, hello.access, _transport(hello))
        self._client.keeps_length = hello.keeps_length
        self._client.keeps_prompts_secret = hello.dataset is not None
        if (None if old is None else (old.dataset, old.target.api)) != (hello.dataset, hello.target.api):
            if self._rows is not None:
                self._rows.close()
            self._rows = None if hello.dataset is None else Rows(hello.dataset, hello.target.api)

    def _start(self, order: RepeatOrder | ClosedOrder) -> None:
        self._refuse_if_busy()
        if self._hello is None or self._client is None:
            raise RuntimeError("an order came before the hello")
        hello, to = self._hello, (self._client, self._emit, self._share)
        run: Running
        if isinstance(order, ClosedOrder):
            plan = draw_closed(order, hello.workload)
            run = ClosedRun(order, plan, Bodies(hello, order, plan, self._rows).build, *to)
        else:
            plan = draw(order, hello.workload)
            retrying = Retrying(hello.first_within_s) if hello.workload.retry_after else None
            bodies = Bodies(hello, order, plan, self._rows)
            gateway = hello.workload.gateway
            run = OrderRun(order, plan, bodies.build, *to, gateway=gateway, retrying=retrying, continued=bodies.build)
        self._client.open_ahead()
        _hush(collect=not self._client.leaves_no_garbage)
        self._order, self._run = order.order, run
        self._task = asyncio.create_task(self._run.run())
        self._task.add_done_callback(self._finished)

    def _refuse_if_busy(self) -> None:
        if self.busy:
            raise RuntimeError(f"order {self._order} is not over yet")

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._run = None
        gc.unfreeze()
        gc.enable()
        if not task.cancelled() and (problem := task.exception()) is not None:
            while isinstance(problem, BaseExceptionGroup):  # requests are a group; the last line of a group says nothing
                problem = problem.exceptions[0]
            self._fail(problem)


def _transport(hello: Hello) -> httpx.AsyncBaseTransport:
    access, target = hello.access, hello.target
    spare = spare_connections(hello.workload.gap_cv)
    return DirectTransport(tls_context(access, target.insecure), proxy_on_the_way(access, target.url), spare)


class Outbox(asyncio.BaseProtocol):
    """Messages to the parent. Nobody waits for the pipe: a parent that does not read costs memory, never a send."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._lines: list[bytes] = []
        self._transport: asyncio.WriteTransport | None = None

    @classmethod
    async def open(cls, fd: int) -> "Outbox":
        """An outbox on a pipe."""
        transport, outbox = await asyncio.get_running_loop().connect_write_pipe(cls, os.fdopen(fd, "wb", 0))
        outbox._transport = transport
        return outbox

    def emit(self, message: ChildMessage) -> None:
        """Queue a message: what comes within FLUSH_S is written together, and with the first or last word at once."""
        if not self._lines:
            self._loop.call_later(FLUSH_S, self._flush)
        self._lines.append(encode(message))
        if isinstance(message, LoadReady | LoadDone):
            self._flush()

    def connection_lost(self, exc: Exception | None) -> None:
        """The parent has closed its end: there is nobody left to load for."""
        os._exit(0)

    def _flush(self) -> None:
        if self._transport is not None and self._lines:
            self._transport.write(b"".join(self._lines))
        self._lines.clear()


class Silence:
    """How long the parent has said nothing. Counted in turns of this process's own, not by the clock: after both were suspended
    together, the parent gets the time to speak again."""

    def __init__(self, busy: Callable[[], bool], limit_s: float) -> None:
        self._busy, self._turn_s = busy, limit_s / _SILENT_TURNS
        self._silent = 0

    def broken(self) -> None:
        """Something was heard."""
        self._silent = 0

    async def watch(self) -> None:
        """End the process when the silence is too long while there is load."""
        while self._silent < _SILENT_TURNS:
            await asyncio.sleep(self._turn_s)
            self._silent = self._silent + 1 if self._busy() else 0
        os.write(
            2, b"it heard nothing of kneescope for %g s, as when that is suspended (Ctrl-Z)\n" % (self._turn_s * _SILENT_TURNS)
        )
        os._exit(1)


def _read_commands(put: Callable[[Command | BaseException], object]) -> None:
    """Runs in a thread of its own, so that the end of stdin is seen even while the loop is busy."""
    inlet = commands()
    while data := os.read(0, _READ_BYTES):
        try:
            for command in inlet.feed(data):
                put(command)
        except ValueError as problem:  # msgspec's errors
            put(problem)
    os._exit(0)


def _hush(collect: bool) -> None:
    """While an order runs, garbage is collected only if there must be some: a full collection over 100,000 records takes 12 ms.

    What is there before is put out of its sight, which costs nothing. Raised thresholds would make the small collections long
    instead: p99.9 of a send 15 ms in place of 2.4.
    """
    gc.collect()
    gc.freeze()
    if not collect:
        gc.disable()


def _take_stdout() -> int:
    """The pipe to the parent for messages alone: whatever else prints goes to stderr."""
    fd = os.dup(1)
    os.dup2(2, 1)
    return fd


def _die_with_parent() -> None:
    """On Linux the kernel kills this process when the thread that started it ends; elsewhere the end of stdin has to do."""
    if sys.platform == "linux":
        parent = os.getppid()
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(0)


def make_room_for_files() -> int:
    """Raise the soft limit of open files to the hard one and return it: each request in flight needs a socket.

    The kernel's table of them gets its size at once. Linux would double it as sockets come, and beside a second thread waits each
    time until all cores have noticed (expand_fdtable in fs/file.c): 5 to 15 ms in which nothing is sent, at the 128th request in
    flight, the 256th, and so on. So call it before the first thread.
    """
    import fcntl
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (ValueError, OSError):  # macOS refuses its own "unlimited"
        hard = soft
    with contextlib.suppress(OSError):  # it is there, or the table grows as it goes
        os.close(fcntl.fcntl(0, fcntl.F_DUPFD_CLOEXEC, min(hard, MOST_FILES) - 1))
    return hard


def new_loop() -> tuple[str, Callable[[], asyncio.AbstractEventLoop]]:
    try:
        import uvloop
    except ImportError:
        return "asyncio", asyncio.new_event_loop
    return f"uvloop {version('uvloop')}", uvloop.new_event_loop
