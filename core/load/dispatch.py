"""One order on its way, or this child's share of it: every request sent at its due time, each by itself, until all have ended.

`Running` is what orders of any kind have in common.

Beside that the child watches itself (`LoopMeter`): how late its event loop wakes, and how much of a core it uses.
"""

import asyncio
import dataclasses
import resource
import sys
import time
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Protocol

import numpy as np

from core.config import LONGEST_S
from core.load.gateway import Gate, Turn
from core.load.protocol import Share
from core.load.sender import Anew, Emit, Job, Prepared
from core.load.timer import Alarm
from core.records import ChildMessage, Ending, LoadDone, LoadTick, RepeatOrder, RequestEnded, RequestFirst, RequestHeld, RequestSent
from core.schedule import Plan, senders
from core.workloads import Gateway

TICK_S = 0.5
BODIES_AHEAD = 8
"""Requests built beforehand, so that a burst of arrivals does not wait for its bodies."""

_BUILD_MARGIN_S = 1e-3
_TURN_S = 0.1
"""An arrival due so shortly before a stop was not held up: it had no turn of the event loop yet (at 100 requests/s one stop in
five falls between the time that a request is due and its turn)."""

LOOK_S = 0.02
"""How often it is looked how late the event loop wakes."""

MOST_RETRIES = 3
"""So often a request is sent again that a 429 turned away: a server that turns it away once more is full."""

WHOLE = Share(index=0, of=1)


@dataclasses.dataclass(frozen=True, slots=True)
class Retrying:
    """That what a 429 with Retry-After turned away is sent again; not later than `first_within_s` after it was due, when it surely
    misses a limit (None: no limit tells), and not after more than an hour."""

    first_within_s: float | None = None


class Sender(Protocol):
    """What an order needs of `core.load.sender.LoadClient`."""

    def prepare(self, body: bytes) -> Prepared: ...
    async def send(self, job: Job, request: Prepared, emit: Emit) -> None: ...


class Running:
    """Requests of one order, each in a task of its own, and what is told of them; a kind of order says when each is sent."""

    def __init__(
        self,
        order: int,
        plan: Plan,
        body: Callable[[int], bytes],
        sender: Sender,
        emit: Callable[[ChildMessage], None],
        share: Share,
    ) -> None:
        self._number, self._plan, self._body, self._sender, self._emit = order, plan, body, sender, emit
        self._indices: Sequence[int] = range(share.index, len(plan), share.of)
        self._sent = 0
        self._open: dict[int, Job] = {}
        self._waiting: set[int] = set()
        """Of the open ones, those that are not at the server: they wait for a place, or to be sent again."""
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._dispatcher: asyncio.Task[None] | None = None
        self._stopped_at: float | None = None
        self._meter = LoopMeter()
        self._lag_max_s = 0.0

    async def run(self) -> None:
        """Send, wait for every end, and emit LoadDone last; LoadTick twice a second meanwhile."""
        wall, cpu = time.monotonic(), time.process_time()
        ticker = asyncio.create_task(self._tick())
        try:
            async with asyncio.TaskGroup() as requests:
                if self._stopped_at is None:
                    self._dispatcher = requests.create_task(self._dispatch(requests))
        finally:
            ticker.cancel()
        now = time.monotonic()
        self._lag_max_s = max(self._lag_max_s, self._meter.lap()[0])
        self._emit(
            LoadDone(
                order=self._number,
                t=now,
                sent=self._sent,
                unsent=self._unsent(),
                cpu_frac=(time.process_time() - cpu) / max(now - wall, 1e-9),
                loop_lag_max_s=self._lag_max_s,
                memory_peak_bytes=memory_peak_bytes(),
            )
        )

    def stop(self) -> None:
        """Send nothing more, and end what waits to be sent; what is open at the server runs to its end."""
        if self._stopped_at is None:
            self._stopped_at = time.monotonic()
            if self._dispatcher is not None:
                self._dispatcher.cancel()
            for index in self._waiting:
                self._tasks[index].cancel()

    def abort(self) -> None:
        """Send nothing more and cancel what is open, which closes its connections."""
        self.stop()
        for task in self._tasks.values():
            task.cancel()

    async def _dispatch(self, requests: asyncio.TaskGroup) -> None:
        alarm = Alarm()
        try:
            await self._send_all(requests, alarm)
        finally:
            alarm.close()

    async def _send_all(self, requests: asyncio.TaskGroup, alarm: Alarm) -> None:
        """Send every request when it is to be sent, then return."""
        raise NotImplementedError

    def _send(self, requests: asyncio.TaskGroup, index: int, t_sched: float, request: Prepared) -> None:
        """Send one now, in a task of its own."""
        job = self._job(index, t_sched)
        self._sent += 1
        self._begin(requests, job, self._sender.send(job, request, self._report))

    def _job(self, index: int, t_sched: float) -> Job:
        return Job(
            order=self._number,
            index=index,
            t_sched=t_sched,
            asked_input=int(self._plan.input_tokens[index]),
            asked_output=int(self._plan.output_tokens[index]),
        )

    def _begin(self, requests: asyncio.TaskGroup, job: Job, way: Coroutine[None, None, None]) -> None:
        """Let one go its way, to its end, in a task of its own."""
        self._open[job.index] = job
        task = requests.create_task(way)
        self._tasks[job.index] = task
        task.add_done_callback(partial(self._settle, job.index))

    def _report(self, message: RequestSent | RequestFirst | RequestEnded) -> None:
        self._emit(message)
        if isinstance(message, RequestEnded):
            self._open.pop(message.index, None)
            self._ended(message)

    def _ended(self, message: RequestEnded) -> None:
        """A request is over."""

    def _settle(self, index: int, task: asyncio.Task[None]) -> None:
        """A request's task is over. One that was cancelled before it began has not told of its end."""
        del self._tasks[index]
        self._waiting.discard(index)
        job = self._open.get(index)
        if job is not None and task.cancelled():
            self._end_unsent(job, "aborted")

    def _end_unsent(self, job: Job, ending: Ending, gateway_wait_s: float = 0.0) -> None:
        """Tell the end of one that never left."""
        self._report(
            RequestEnded(
                order=job.order,
                index=job.index,
                t_sched=job.t_sched,
                t_end=time.monotonic(),
                asked_input=job.asked_input,
                asked_output=job.asked_output,
                ending=ending,
                gateway_wait_s=gateway_wait_s,
            )
        )

    async def _tick(self) -> None:
        while True:
            await self._meter.wait(TICK_S)
            lag_s, cpu_frac = self._meter.lap()
            self._lag_max_s = max(self._lag_max_s, lag_s)
            self._emit(
                LoadTick(
                    order=self._number,
                    t=time.monotonic(),
                    in_flight=len(self._open) - len(self._waiting),
                    loop_lag_max_s=lag_s,
                    cpu_frac=cpu_frac,
                )
            )

    def _unsent(self) -> int:
        """How many were due and could not be sent."""
        return 0


class OrderRun(Running):
    """Sends one plan on absolute times of CLOCK_MONOTONIC. Requests never wait for each other, and there is no cap, unless the
    limit of a gateway was asked for.

    When the sender is late, what is due goes out at once and its lateness shows; no arrival is moved or dropped.

    Of a conversation the first turn arrives like this. A later one is due at the end of the answer before it, plus its think time,
    and is built by then with the answers that came (`continued`). Where a turn fails, those behind it are told as such and never
    sent. A share has whole conversations.
    """

    def __init__(
        self,
        order: RepeatOrder,
        plan: Plan,
        body: Callable[[int], bytes],
        sender: Sender,
        emit: Callable[[ChildMessage], None],
        share: Share = WHOLE,
        *,
        gateway: Gateway | None = None,
        retrying: Retrying | None = None,
        continued: Callable[[int, Sequence[str]], bytes] | None = None,
    ) -> None:
        super().__init__(order.order, plan, body, sender, emit, share)
        self._turns = continued is not None and plan.after is not None
        self._continued = continued
        self._roles = [segment.role for segment in order.segments]
        self._answers: dict[int, tuple[str, ...]] = {}
        """Of the turns whose conversation goes on, all answers up to theirs."""
        self._thinking: dict[int, asyncio.Task[None]] = {}
        self._requests: asyncio.TaskGroup | None = None
        self._aborted = False
        if plan.after is not None:
            self._indices = np.flatnonzero((plan.after < 0) & (senders(plan, share.of) == share.index)).tolist()
        self._gate = None if gateway is None else Gate(gateway)
        self._retrying = retrying
        self._came = 0
        self._due = (order.start_at + plan.offsets_s[self._indices]).tolist()
        self._ready: deque[Prepared] = deque()
        self._built = 0
        self._build_s = 0.0

    def stop(self) -> None:
        """As of any order; and conversations that began in the tail end with the turn that is open."""
        super().stop()
        for index, task in self._thinking.items():
            if not self._goes_on(index):
                task.cancel()

    def abort(self) -> None:
        """As of any order; no conversation goes on."""
        self._aborted = True
        super().abort()
        for task in self._thinking.values():
            task.cancel()

    async def _send_all(self, requests: asyncio.TaskGroup, alarm: Alarm) -> None:
        self._requests = requests
        for turn, (index, due) in enumerate(zip(self._indices, self._due, strict=True)):
            self._build_ahead(turn, due)
            await alarm.until(due)
            if self._stopped_at is not None:  # it did not give way: nothing has told it
                return
            self._came += 1
            self._come(requests, self._job(index, due), self._ready.popleft())

    def _job(self, index: int, t_sched: float) -> Job:
        job = super()._job(index, t_sched)
        if self._follower(index) is not None:
            job = dataclasses.replace(job, hear=partial(self._hear, index))
        return job if self._retrying is None else dataclasses.replace(job, again=partial(self._again, job, self._retrying))

    # --- conversations --------------------------------------------------------------------------------------------

    def _follower(self, index: int) -> int | None:
        """The turn behind a request."""
        after = self._plan.after
        return index + 1 if self._turns and after is not None and index + 1 < after.size and after[index + 1] == index else None

    def _goes_on(self, index: int) -> bool:
        """Whether a turn that comes to be due is still sent."""
        if self._aborted:
            return False
        return self._stopped_at is None or self._roles[int(self._plan.segment[index])] != "tail"

    def _hear(self, index: int, text: str) -> None:
        self._answers[index] = (*self._answers.pop(index - 1, ()), text)

    def _ended(self, message: RequestEnded) -> None:
        """A turn is over: the next one is due after its think time, or will never be."""
        self._answers.pop(message.index - 1, None)  # else an order that is held for hours would keep all that was answered
        index = self._follower(message.index)
        if index is None or self._plan.think_s is None or not self._goes_on(index) or message.ending == "aborted":
            return
        if message.ending != "ok":
            self._end_unsent(self._job(index, message.t_end), "previous_failed")
        elif self._requests is not None:
            task = self._requests.create_task(self._think(self._requests, index, message.t_end + float(self._plan.think_s[index])))
            self._thinking[index] = task
            task.add_done_callback(lambda _: self._thinking.pop(index))

    async def _think(self, requests: asyncio.TaskGroup, index: int, due: float) -> None:
        """Send a later turn when it is due."""
        assert self._continued is not None
        request = self._sender.prepare(self._continued(index, self._answers[index - 1]))
        await asyncio.sleep(max(0.0, due - time.monotonic()))
        self._come(requests, self._job(index, due), request)

    # --- on the way -----------------------------------------------------------------------------------------------

    def _come(self, requests: asyncio.TaskGroup, job: Job, request: Prepared) -> None:
        """One is due: it is sent now, or comes to the gateway and is told of where that has no place for it."""
        if self._gate is None or self._gate.enter(job.index):
            self._sent += 1
            self._begin(requests, job, self._inside(job, request))
            return
        came = time.monotonic()
        self._emit(RequestHeld(order=job.order, index=job.index, t_sched=job.t_sched, t=came))
        self._waiting.add(job.index)
        self._begin(requests, job, self._held(job, request, came, self._gate.queue_up(job.index)))

    def _inside(self, job: Job, request: Prepared) -> Coroutine[None, None, None]:
        if self._gate is None:
            return self._sender.send(job, request, self._report)
        return self._through(self._gate, job, request)

    async def _through(self, gate: Gate, job: Job, request: Prepared) -> None:
        """Send one that has a place, which is the next one's when it has ended."""
        try:
            await self._sender.send(job, request, self._report)
        finally:
            gate.leave(job.index)

    async def _held(self, job: Job, request: Prepared, came: float, turn: Turn) -> None:
        """Wait for a place, and be sent then or turned away."""
        try:
            refused = await turn
        except asyncio.CancelledError:
            self._end_unsent(job, "aborted", time.monotonic() - came)
            raise
        finally:
            self._waiting.discard(job.index)
        waited_s = time.monotonic() - came
        if refused is not None:
            self._end_unsent(job, refused, waited_s)
            return
        self._sent += 1
        await self._inside(dataclasses.replace(job, gateway_wait_s=waited_s), request)

    async def _again(self, job: Job, retrying: Retrying, retries: int, after_s: float) -> Anew | None:
        """Wait until a request may be sent again, and at the gateway like one that comes anew; its place is another's meanwhile."""
        within_s = retrying.first_within_s
        too_late = after_s > LONGEST_S or (within_s is not None and time.monotonic() + after_s > job.t_sched + within_s)
        if self._stopped_at is not None or retries >= MOST_RETRIES or too_late:
            return None
        self._waiting.add(job.index)
        try:
            if self._gate is not None:
                self._gate.leave(job.index)
            await asyncio.sleep(after_s)
            if self._gate is None or self._gate.enter(job.index):
                return Anew()
            came = time.monotonic()
            refused = await self._gate.queue_up(job.index)
            return Anew(gateway_wait_s=time.monotonic() - came, refused=refused)
        finally:
            self._waiting.discard(job.index)

    def _build_ahead(self, turn: int, due: float) -> None:
        """Build the request that is next in any case, and more while there is time before it is due."""
        while self._built < len(self._due) and len(self._ready) < BODIES_AHEAD:
            start = time.monotonic()
            if self._built > turn and start + 2 * self._build_s + _BUILD_MARGIN_S > due:
                return
            self._ready.append(self._sender.prepare(self._body(self._indices[self._built])))
            self._built += 1
            self._build_s = time.monotonic() - start

    def _unsent(self) -> int:
        """Arrivals that were due well before the stop and did not get their turn."""
        if self._stopped_at is None:
            return 0
        return max(0, int(np.searchsorted(self._due, self._stopped_at - _TURN_S, side="right")) - self._came)


class LoopMeter:
    """Two readings that are reset when taken: the largest loop lag in seconds, and CPU time per wall time (1.0 is one core)."""

    def __init__(self) -> None:
        self._lag_s = 0.0
        self._wall, self._cpu = time.monotonic(), time.process_time()

    async def wait(self, seconds: float) -> None:
        """Sleep that long in short steps, noting how late each step ends."""
        end = time.monotonic() + seconds
        while (now := time.monotonic()) < end:
            due = now + min(LOOK_S, end - now)
            await asyncio.sleep(due - now)
            self._lag_s = max(self._lag_s, time.monotonic() - due)

    def lap(self) -> tuple[float, float]:
        """(largest loop lag, CPU share) since the last lap."""
        wall, cpu = time.monotonic(), time.process_time()
        share = (cpu - self._cpu) / (wall - self._wall) if wall > self._wall else 0.0
        lag_s, self._lag_s = self._lag_s, 0.0
        self._wall, self._cpu = wall, cpu
        return lag_s, share


def memory_peak_bytes() -> int:
    """The most memory that this process has had so far."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
