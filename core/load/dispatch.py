"""One order on its way, or this child's share of it: every request sent at its due time, each by itself, until all have ended.

Beside that the child watches itself (`LoopMeter`): how late its event loop wakes, and how much of a core it uses.
"""

import asyncio
import resource
import sys
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Protocol

import numpy as np

from core.load.protocol import Share
from core.load.sender import Emit, Job, Prepared
from core.load.timer import Alarm
from core.records import ChildMessage, LoadDone, LoadTick, RepeatOrder, RequestEnded, RequestFirst, RequestSent
from core.schedule import Plan

TICK_S = 0.5
BODIES_AHEAD = 8
"""Requests built beforehand, so that a burst of arrivals does not wait for its bodies."""

_BUILD_MARGIN_S = 1e-3
_TURN_S = 0.1
"""An arrival due so shortly before a stop was not held up: it had no turn of the event loop yet (at 100 requests/s one stop in
five falls between the time that a request is due and its turn)."""

LOOK_S = 0.02
"""How often it is looked how late the event loop wakes."""

WHOLE = Share(index=0, of=1)


class Sender(Protocol):
    """What an order needs of `core.load.sender.LoadClient`."""

    def prepare(self, body: bytes) -> Prepared: ...
    async def send(self, job: Job, request: Prepared, emit: Emit) -> None: ...


class OrderRun:
    """Sends one plan on absolute times of CLOCK_MONOTONIC. Requests never wait for each other, and there is no cap.

    When the sender is late, what is due goes out at once and its lateness shows; no arrival is moved or dropped.
    """

    def __init__(
        self,
        order: RepeatOrder,
        plan: Plan,
        body: Callable[[int], bytes],
        sender: Sender,
        emit: Callable[[ChildMessage], None],
        share: Share = WHOLE,
    ) -> None:
        self._order, self._plan, self._body, self._sender, self._emit = order, plan, body, sender, emit
        self._indices = range(share.index, len(plan), share.of)
        self._due = (order.start_at + plan.offsets_s[share.index :: share.of]).tolist()
        self._ready: deque[Prepared] = deque()
        self._built = 0
        self._build_s = 0.0
        self._sent = 0
        self._open: dict[int, Job] = {}
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
                order=self._order.order,
                t=now,
                sent=self._sent,
                unsent=self._unsent(),
                cpu_frac=(time.process_time() - cpu) / max(now - wall, 1e-9),
                loop_lag_max_s=self._lag_max_s,
                memory_peak_bytes=memory_peak_bytes(),
            )
        )

    def stop(self) -> None:
        """Send nothing more; what is open runs to its end."""
        if self._stopped_at is None:
            self._stopped_at = time.monotonic()
            if self._dispatcher is not None:
                self._dispatcher.cancel()

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
        for turn, (index, due) in enumerate(zip(self._indices, self._due, strict=True)):
            self._build_ahead(turn, due)
            await alarm.until(due)
            if self._stopped_at is not None:  # it did not give way: nothing has told it
                return
            job = Job(
                order=self._order.order,
                index=index,
                t_sched=due,
                asked_input=int(self._plan.input_tokens[index]),
                asked_output=int(self._plan.output_tokens[index]),
            )
            self._open[index] = job
            self._sent += 1
            task = requests.create_task(self._sender.send(job, self._ready.popleft(), self._report))
            self._tasks[index] = task
            task.add_done_callback(partial(self._settle, index))

    def _build_ahead(self, turn: int, due: float) -> None:
        """Build the request that is next in any case, and more while there is time before it is due."""
        while self._built < len(self._due) and len(self._ready) < BODIES_AHEAD:
            start = time.monotonic()
            if self._built > turn and start + 2 * self._build_s + _BUILD_MARGIN_S > due:
                return
            self._ready.append(self._sender.prepare(self._body(self._indices[self._built])))
            self._built += 1
            self._build_s = time.monotonic() - start

    def _report(self, message: RequestSent | RequestFirst | RequestEnded) -> None:
        if isinstance(message, RequestEnded):
            self._open.pop(message.index, None)
        self._emit(message)

    def _settle(self, index: int, task: asyncio.Task[None]) -> None:
        """A request's task is over. One that was cancelled before it began has not told of its end."""
        del self._tasks[index]
        job = self._open.get(index)
        if job is not None and task.cancelled():
            self._report(
                RequestEnded(
                    order=job.order,
                    index=index,
                    t_sched=job.t_sched,
                    t_end=time.monotonic(),
                    asked_input=job.asked_input,
                    asked_output=job.asked_output,
                    ending="aborted",
                )
            )

    async def _tick(self) -> None:
        while True:
            await self._meter.wait(TICK_S)
            lag_s, cpu_frac = self._meter.lap()
            self._lag_max_s = max(self._lag_max_s, lag_s)
            self._emit(
                LoadTick(
                    order=self._order.order,
                    t=time.monotonic(),
                    in_flight=len(self._open),
                    loop_lag_max_s=lag_s,
                    cpu_frac=cpu_frac,
                )
            )

    def _unsent(self) -> int:
        """Arrivals that were due well before the stop and did not get their turn."""
        if self._stopped_at is None:
            return 0
        return max(0, int(np.searchsorted(self._due, self._stopped_at - _TURN_S, side="right")) - self._sent)


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
