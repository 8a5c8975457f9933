"""The controller's side of load from several machines, in the terminal's process: what `core.load.generator.Generator` is for one.

It hands each worker its share of the one plan with the begin by that machine's own clock, brings what they tell onto this machine's
clock, and makes one stream of it. Its beats are the only sign of life that a sending process gets, and their answers the only one
that it goes by: a worker that is not heard ends the run, because what is left would be another load than was planned.
"""

import asyncio
import contextlib
import os
import signal
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from core.access import Access
from core.errors import UserError
from core.load import Command, Merge, Share, encode
from core.net import is_loopback
from core.records import (
    Abort,
    ChildMessage,
    ClosedOrder,
    Hello,
    LoadDone,
    LoadReady,
    RepeatOrder,
    StopArrivals,
    WorkerInfo,
)
from core.units import duration
from core.workers.asked import WorkersAsked
from core.workers.clocks import ClockEstimate, Offset, RoundTrip, astray_s, brought_home
from core.workers.messages import (
    Answered,
    Beat,
    FromDriver,
    Gather,
    Gathered,
    Heard,
    Lost,
    Refused,
    Say,
    ToDriver,
    Trips,
    from_driver,
)

BEAT_S = 0.5
LOST_TURNS = 6
"""A worker that has answered no beat for so many turns, 3 s, is lost. Counted in turns of this process's own, not by the clock:
after this process was suspended, the workers get the time to answer again."""

MUTE_TURNS = 10
"""A sending process speaks twice a second while an order runs; one that has said nothing for 5 s is stuck."""

MOST_ASTRAY_S = 0.1
"""A worker whose clock leaves ours by more while it sends has sent its share at other times than the plan has, and no time of its
own shows that: to it, everything was in time."""

FIRST_TRIPS, TRIPS = 50, 20
"""Round trips before the first order, and after each order: of 50, the best is off by less than 0.1 ms on an idle network."""

START_TIMEOUT_S = 120.0
CLOSE_TIMEOUT_S = 3.0
_READ_BYTES = 256 * 1024
_HOME = str(Path(__file__).resolve().parents[2])
_DRIVER = f"""import signal, sys
for name in (signal.SIGINT, signal.SIGHUP):
    signal.signal(name, signal.SIG_IGN)
sys.path.insert(0, {_HOME!r})
from core.workers.driver import main
from core.workers.over_ray import gather
main(gather)"""
"""Our own folder goes first, because a PYTHONPATH or a current folder may hold another `core`."""

_encode = msgspec.json.Encoder().encode


class Workers:
    """Starts the driver and speaks with it. One order at a time."""

    def __init__(self, process: Process, clock: Callable[[], float]) -> None:
        self.process = process
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._infos: tuple[WorkerInfo, ...] = ()
        self._elsewhere: str | None = None
        self._clocks: list[ClockEstimate] = []
        self._offsets: list[Offset] = []
        self._ordered_at = 0.0
        self._ready: dict[int, LoadReady] = {}
        self._started: asyncio.Future[None] = self._loop.create_future()
        self._heard: asyncio.Queue[ChildMessage | UserError | None] = asyncio.Queue()
        self._merge: Merge[int] = Merge(0)
        self._running = False
        self._closing = False
        self._failure: UserError | None = None
        self._access = Access()
        self._numbers: list[int] = []
        self._unanswered: list[int] = []
        self._unheard: list[int] = []
        self._last_words: deque[str] = deque(maxlen=1)
        self._readers = (asyncio.create_task(self._read_messages()), asyncio.create_task(self._read_errors()))
        self._heart: asyncio.Task[None] | None = None

    @classmethod
    async def start(
        cls,
        asked: WorkersAsked,
        *,
        access: Access = Access(),  # noqa: B008 (frozen)
        driver: Sequence[str] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> "Workers":
        """Bring the machines together and wait until each is ready to send. Raises UserError where that cannot be. `access`: its
        secrets are kept out of the environment that Ray hands to every process that it starts. `driver` and `clock` are for tests.
        """
        command = driver or (sys.executable, "-P", "-c", _DRIVER)
        environment = access.withheld(os.environ) | asked.environment
        try:  # in a session and a folder of its own: Ctrl-C is not for it, and Ray puts the folder before all packages
            process = await asyncio.create_subprocess_exec(
                *command,
                stdin=PIPE,
                stdout=PIPE,
                stderr=PIPE,
                start_new_session=True,
                cwd="/",
                env=environment,
            )
        except OSError as problem:
            raise UserError(f"The driver of the workers could not be started ({command[0]}): {problem}.", exit_code=3) from problem
        workers = cls(process, clock)
        try:
            workers._tell(Gather(asked=asked))
            async with asyncio.timeout(START_TIMEOUT_S):
                await workers._started
        except BaseException as problem:
            await workers.close()
            if isinstance(problem, TimeoutError):
                raise UserError(f"The workers were not ready within {duration(START_TIMEOUT_S)}.", exit_code=3) from problem
            raise
        return workers

    @property
    def workers(self) -> tuple[WorkerInfo, ...]:
        """The machines that send, each with the error of its clock as it is known now."""
        now = self._clock()
        told = zip(self._infos, self._clocks, strict=True)
        return tuple(msgspec.structs.replace(info, clock_error_s=clock.at(now).error_s) for info, clock in told)

    async def plan(self, peak_rps: float) -> None:
        """Nothing to do: machines do not come by themselves."""

    async def hello(self, hello: Hello) -> None:
        """Say what stays the same for the coming orders; may be said again between orders. Raises UserError for what cannot be
        shared out."""
        if hello.workload.gateway is not None or hello.dataset is not None:
            raise UserError("A gateway's limit and the rows of a dataset cannot be shared out among several machines.")
        host = urlsplit(hello.target.url).hostname or ""
        if self._elsewhere is not None and is_loopback(host):
            raise UserError(
                f"{host} is another machine on worker {self._elsewhere}; give the server's address as all workers reach it.",
                exit_code=3,
            )
        self._access = hello.access
        for worker in range(len(self._infos)):
            await self._say(worker, hello)

    async def order(self, order: RepeatOrder | ClosedOrder) -> None:
        """Hand over one repeat, or a closed loop, to each worker by its own clock; its messages come from `messages`, the last is
        its LoadDone."""
        now, count = self._clock(), len(self._infos)
        self._offsets = [clock.at(now) for clock in self._clocks]
        self._ordered_at = now
        self._merge = Merge(count, tuple(range(count)))
        self._unheard = [0] * count
        self._running = True
        for worker, offset in enumerate(self._offsets):
            theirs = msgspec.structs.replace(order, start_at=order.start_at + offset.s)
            await self._say(worker, Share(index=worker, of=count), theirs)

    async def stop_arrivals(self, order: int) -> None:
        """Nothing new is sent; open requests run to their end."""
        for worker in range(len(self._infos)):
            await self._say(worker, StopArrivals(order=order))

    async def abort(self, order: int) -> None:
        """Nothing new is sent, open requests are cancelled and their connections closed."""
        for worker in range(len(self._infos)):
            await self._say(worker, Abort(order=order))

    async def messages(self) -> AsyncIterator[ChildMessage]:
        """Everything the workers report, in order, until they end; one LoadReady is the first. It may be left and taken up again.

        Raises UserError (exit code 3) when a worker or the driver is lost; all load has stopped then.
        """
        while not self._closing:
            message = await self._heard.get()
            if message is None:
                return
            if isinstance(message, UserError):
                await self.close()
                raise message
            yield message

    async def close(self) -> None:
        """End the driver, and with it all that sends. Safe to call twice."""
        self._closing = True
        self._heard.put_nowait(None)
        if self._heart is not None:
            self._heart.cancel()
        if self.process.stdin is not None:
            self.process.stdin.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_TIMEOUT_S):
                await self.process.wait()
        _end_group(self.process.pid)
        await self.process.wait()
        await asyncio.gather(*self._readers)

    async def _say(self, worker: int, *commands: Command) -> None:
        if self._closing:
            return
        if self._failure is not None:
            raise self._failure
        self._numbers[worker] += 1
        told = tuple(msgspec.Raw(encode(command).rstrip(b"\n")) for command in commands)
        self._tell(Say(worker=worker, number=self._numbers[worker], commands=told))
        stdin = self.process.stdin
        assert stdin is not None
        with contextlib.suppress(ConnectionError):  # the driver has ended, which is told where its messages end
            await stdin.drain()

    def _tell(self, message: ToDriver) -> None:
        """Nobody waits for the pipe."""
        stdin = self.process.stdin
        assert stdin is not None
        if not stdin.is_closing():
            stdin.write(_encode(message) + b"\n")

    async def _beat(self) -> None:
        """Tell the workers that this process is there, and look which of them have not answered for too long."""
        while True:
            self._tell(Beat())
            await asyncio.sleep(BEAT_S)
            for worker, info in enumerate(self._infos):
                self._unanswered[worker] += 1
                self._unheard[worker] += 1
                if not self._running:
                    continue
                if self._unanswered[worker] > LOST_TURNS:
                    self._fail(f"Worker {info.name} has not answered for {duration(LOST_TURNS * BEAT_S)}.")
                elif self._unheard[worker] > MUTE_TURNS and not self._merge.is_done(worker):
                    self._fail(f"The sending process of worker {info.name} has said nothing for {duration(MUTE_TURNS * BEAT_S)}.")

    def _fail(self, what: str) -> None:
        """The first loss ends all of it: fewer machines send another load than the one that was planned."""
        if self._failure is not None or self._closing:
            return
        text = f"{what} All load has stopped, and what had ended before is kept; start the run again."
        self._failure = UserError(self._access.scrub(text), exit_code=3)
        if self.process.stdin is not None:
            self.process.stdin.close()
        if self._started.done():
            self._heard.put_nowait(self._failure)
        else:
            self._started.set_exception(self._failure)

    def _take(self, message: FromDriver) -> None:
        match message:
            case Heard():
                for each in message.messages:
                    self._hear(message.worker, each)
            case Answered():
                self._answered(message)
            case Lost():
                self._fail(f"Worker {self._infos[message.worker].name} is lost: {message.why}.")
            case Gathered():
                self._gathered(message.workers, message.elsewhere)
            case Refused():
                if not self._started.done():
                    self._started.set_exception(UserError(message.text, exit_code=message.exit_code))
        self._look_whether_ready()

    def _answered(self, message: Answered) -> None:
        trip = RoundTrip(message.t0, message.remote, message.t1)
        self._clocks[message.worker].add(trip)
        if message.beat:
            self._unanswered[message.worker] = 0
        if not self._running or trip.t0 < self._ordered_at:
            return
        astray = astray_s(trip, self._offsets[message.worker], self._ordered_at)
        if astray > MOST_ASTRAY_S:
            name = self._infos[message.worker].name
            self._fail(
                f"The clock of worker {name} has left this machine's by {duration(astray)} while it sent, as when it stood still."
            )

    def _gathered(self, workers: tuple[WorkerInfo, ...], elsewhere: str | None) -> None:
        count = len(workers)
        self._infos, self._elsewhere = workers, elsewhere
        self._clocks = [ClockEstimate() for _ in workers]
        self._numbers, self._unanswered, self._unheard = [0] * count, [0] * count, [0] * count
        self._tell(Trips(count=FIRST_TRIPS))
        self._heart = asyncio.create_task(self._beat())

    def _look_whether_ready(self) -> None:
        """Ready to send, with clocks that are known as well as they will be."""
        if self._started.done() or not self._infos or len(self._ready) < len(self._infos):
            return
        if all(clock.trips >= FIRST_TRIPS for clock in self._clocks):
            first = self._ready[0]
            limit = min(ready.fd_limit for ready in self._ready.values())
            self._heard.put_nowait(msgspec.structs.replace(first, t=self._clock(), fd_limit=limit))
            self._started.set_result(None)

    def _hear(self, worker: int, message: ChildMessage) -> None:
        if isinstance(message, LoadReady):
            self._ready[worker] = message
            return
        self._unheard[worker] = 0
        merged = self._merge.take(worker, brought_home(message, self._offsets[worker].s))
        if merged is None:
            return
        if isinstance(merged, LoadDone):
            self._running = False
            self._tell(Trips(count=TRIPS))
        self._heard.put_nowait(merged)

    async def _read_messages(self) -> None:
        """Always reading, so that the driver's pipe never fills."""
        stdout, inlet = self.process.stdout, from_driver()
        assert stdout is not None
        while data := await stdout.read(_READ_BYTES):
            try:
                for message in inlet.feed(data):
                    self._take(message)
            except ValueError as problem:  # msgspec's errors
                self._fail(f"The process that speaks with the workers said what cannot be read ({problem}).")
        if self._closing or self._failure is not None:
            return
        code = await self.process.wait()
        await self._readers[1]
        how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        words = self._last_words[0] if self._last_words else "it said nothing"
        self._fail(f"The process that speaks with the workers ended by itself ({how}): {words}.")

    async def _read_errors(self) -> None:
        stderr, rest = self.process.stderr, b""
        assert stderr is not None
        while data := await stderr.read(_READ_BYTES):
            *lines, rest = (rest + data).split(b"\n")
            self._last_words.extend(text for line in (*lines, rest) if (text := line.decode("utf-8", "replace").strip()))


def _end_group(pid: int) -> None:
    """End what the driver has started on this machine and left behind."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
