"""Stand-ins for the child, the checks and the scraper: a server with a known knee, in virtual time and without sockets."""

import asyncio
import heapq
import math
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from functools import partial

import httpx
import msgspec
import numpy as np

from core.access import Access
from core.config import Lengths, ProbeConfig, Slo, Workload
from core.errors import UserError
from core.records import (
    Check,
    ChildMessage,
    ClosedOrder,
    Ending,
    Hello,
    LoadDone,
    LoadReady,
    LoadTick,
    PromptAlphabet,
    RepeatOrder,
    RequestEnded,
    RequestFirst,
    RequestRecord,
    RequestSent,
    ServerInfo,
    ServerSample,
    WorkerInfo,
    WorkerTick,
)
from core.schedule import draw, senders
from core.server.metrics import ScrapeError
from core.server.preflight import SendSingles
from core.singles import judged
from tests import builders
from tests.core.run.virtual import now

SLOTS = 8
SERVICE_S = 0.8
PREFILL_S = 0.05
CAPACITY_RPS = SLOTS / SERVICE_S
TOKENS = 17


config = partial(
    builders.config,
    model="fake",
    slo=Slo(ttft_s=0.5, tpot_s=0.06),
    workload=Workload(input_tokens=Lengths(median=32), output_tokens=Lengths(median=TOKENS)),
)


@dataclass
class FakeServer:
    """First come, first served, SLOTS at a time, `service_s` each. What is wrong with it is set by the tests.

    From `refuses_from` on it refuses connections, but with `serves_singles` only under load; with `cuts` it also breaks those that
    are open then. No GET is answered when the server `hangs`, none of those in `slow`; all are refused when it is not `healthy`.
    `answer_tokens` tells how long the answers of an order are; those that are shorter than asked stopped by themselves.
    """

    service_s: float = SERVICE_S
    frozen_at: float = math.inf
    refuses_from: float = math.inf
    cuts: bool = False
    serves_singles: bool = False
    healthy: bool = True
    hangs: bool = False
    slow: tuple[str, ...] = ()
    answer_tokens: Callable[[RepeatOrder], int] = lambda order: TOKENS
    in_flight: set[tuple[int, int]] = field(default_factory=set)
    tokens: float = 0.0
    ended: float = 0.0
    epoch: float = 1.0

    def sample(self) -> ServerSample:
        running = min(len(self.in_flight), SLOTS)
        return ServerSample(
            t=now(),
            took_s=0.0,
            running=running,
            waiting=len(self.in_flight) - running,
            kv_usage_frac=running / SLOTS,
            preemptions_total=0.0,
            generation_tokens_total=self.tokens,
            requests_success_total=self.ended,
            epoch=self.epoch,
        )


class FakeGenerator:
    """Sends on schedule. `late_s` of an order makes all its sends late; between the times of `mute` it says nothing. `late_by`: the
    machine of that place sends so late, and its loop stalls so long."""

    def __init__(self, server: FakeServer) -> None:
        self.server = server
        self.commands: list[str] = []
        self.orders: list[RepeatOrder] = []
        self.closed_orders: list[ClosedOrder] = []
        self.planned_rps: list[float] = []
        self.plan_takes_s = 0.0
        self.leads_s: list[float] = []
        self.late_s: Callable[[RepeatOrder], float] = lambda order: 0.0
        self.dies_at = math.inf
        self.mute = (math.inf, math.inf)
        self.closed_at: float | None = None
        self._hello: Hello | None = None
        self._inbox: asyncio.Queue[ChildMessage | None] = asyncio.Queue()
        self._task: asyncio.Task[None] | None = None
        self._stop_at = math.inf
        self._aborted = asyncio.Event()
        self._free: list[float] = []
        self._index = 0
        self.workers: tuple[WorkerInfo, ...] = ()
        self.late_by: dict[int, float] = {}
        self._inbox.put_nowait(LoadReady(t=now(), python="3.11", loop="virtual", transport="fake", fd_limit=1024))

    async def hello(self, hello: Hello) -> None:
        self._hello = hello

    async def plan(self, peak_rps: float) -> None:
        assert self._hello is not None
        self.planned_rps.append(peak_rps)
        await asyncio.sleep(self.plan_takes_s)

    async def order(self, order: RepeatOrder | ClosedOrder) -> None:
        assert self._hello is not None
        assert self._task is None or self._task.done(), "an order came while another was running"
        if isinstance(order, ClosedOrder):
            self.closed_orders.append(order)
        else:
            self.orders.append(order)
        self.leads_s.append(order.start_at - now())
        self.commands.append(f"order {order.order}")
        self._stop_at = math.inf
        self._aborted = asyncio.Event()
        run = self._closed(order) if isinstance(order, ClosedOrder) else self._run(order, self._hello)
        self._task = asyncio.create_task(run)

    async def stop_arrivals(self, order: int) -> None:
        self.commands.append(f"stop_arrivals {order}")
        self._stop_at = min(self._stop_at, now())

    async def abort(self, order: int) -> None:
        self.commands.append(f"abort {order}")
        self._aborted.set()

    async def messages(self) -> AsyncIterator[ChildMessage]:
        while True:
            try:
                async with asyncio.timeout(None if self.dies_at == math.inf else max(self.dies_at - now(), 0)):
                    message = await self._inbox.get()
            except TimeoutError:
                self._end()
                raise UserError("The load generator ended by itself (signal SIGKILL).", exit_code=3) from None
            if message is None:
                return
            yield message

    async def close(self) -> None:
        self.closed_at = now() if self.closed_at is None else self.closed_at
        self._end()
        self._inbox.put_nowait(None)

    def say(self, message: ChildMessage, turns: int = 0) -> None:
        """Let the session read `message`, after so many turns of the loop."""
        if turns:
            asyncio.get_running_loop().call_soon(self.say, message, turns - 1)
        else:
            self._inbox.put_nowait(message)

    @property
    def loading(self) -> bool:
        return self._task is not None and not self._task.done()

    def _end(self) -> None:
        if self._task is not None:
            self._task.cancel()
        self.server.in_flight.clear()

    async def _run(self, order: RepeatOrder, hello: Hello) -> None:
        plan = draw(order, hello.workload)
        due = order.start_at + plan.offsets_s + self.late_s(order)
        if self.workers and len(due) > 1:
            due += np.array([self.late_by.get(at, 0.0) for at in range(len(self.workers))])[senders(plan, len(self.workers))]
        events = self._events(order, due.tolist(), plan.offsets_s)
        sent = 0
        open_: dict[int, RequestEnded] = {}
        for t, what in events:
            if await self._aborted_before(t):
                break
            if self.mute[0] <= t < self.mute[1]:
                continue
            if isinstance(what, RequestSent):
                if t > self._stop_at:
                    continue
                sent += 1
                open_[what.index] = _aborted(what)
                self.server.in_flight.add((order.order, what.index))
                self._inbox.put_nowait(what)
            elif isinstance(what, LoadTick):
                if not open_ and (t > self._stop_at or t > due[-1]):
                    break
                self._inbox.put_nowait(what)
            elif what.index in open_:
                if isinstance(what, RequestEnded):
                    del open_[what.index]
                    self._finished(what)
                self._inbox.put_nowait(what)
        for index, record in open_.items():
            self.server.in_flight.discard((order.order, index))
            self._inbox.put_nowait(msgspec.structs.replace(record, t_end=now()))
        done = LoadDone(order=order.order, t=now(), sent=sent, unsent=0, cpu_frac=0.01, loop_lag_max_s=0.0)
        self._inbox.put_nowait(done)

    async def _closed(self, order: ClosedOrder) -> None:
        """As many places as there are in flight, each with its next request when one has ended, served as `_events` has it."""
        self._free, self._index = [0.0] * SLOTS, 0
        await asyncio.sleep(order.start_at - now())
        places = [asyncio.create_task(self._place(order)) for _ in range(order.in_flight)]
        ticking = asyncio.create_task(self._ticks(order))
        aborting = asyncio.create_task(self._abort_them(places))
        await asyncio.gather(*places, return_exceptions=True)
        for task in (ticking, aborting):
            task.cancel()
        await asyncio.gather(ticking, aborting, return_exceptions=True)
        self._inbox.put_nowait(LoadDone(order=order.order, t=now(), sent=self._index, unsent=0, cpu_frac=0.01, loop_lag_max_s=0.0))

    async def _abort_them(self, tasks: "list[asyncio.Task[None]]") -> None:
        await self._aborted.wait()
        for task in tasks:
            task.cancel()

    async def _ticks(self, order: ClosedOrder) -> None:
        while True:
            await asyncio.sleep(0.5)
            self._inbox.put_nowait(LoadTick(order=order.order, t=now(), in_flight=0, loop_lag_max_s=0.0, cpu_frac=0.01))

    async def _place(self, order: ClosedOrder) -> None:
        while now() < min(order.start_at + order.duration_s, self._stop_at):
            index, sent = self._index, now()
            self._index += 1
            if sent >= self.server.refuses_from:
                self._inbox.put_nowait(_record(order.order, index, sent, sent, None, sent, "connection"))
                await asyncio.sleep(0.5)
                continue
            self._inbox.put_nowait(RequestSent(order=order.order, index=index, t_sched=sent, t_sent=sent))
            self.server.in_flight.add((order.order, index))
            start = max(sent, self._free[0])
            first, end = start + PREFILL_S, start + self.server.service_s
            heapq.heapreplace(self._free, end)
            try:
                await self._served(first)
                self._inbox.put_nowait(RequestFirst(order=order.order, index=index, t_first=first, first_tokens=1))
                await self._served(end)
            except asyncio.CancelledError:
                self.server.in_flight.discard((order.order, index))
                self._inbox.put_nowait(_record(order.order, index, sent, sent, None, now(), "aborted"))
                raise
            record = _record(order.order, index, sent, sent, first, end, "ok")
            self._finished(record)
            self._inbox.put_nowait(record)

    async def _served(self, t: float) -> None:
        """Until then; never by a server that is frozen."""
        await asyncio.sleep(t - now())
        if t >= self.server.frozen_at:
            await asyncio.Event().wait()

    def _finished(self, record: RequestEnded) -> None:
        self.server.in_flight.discard((record.order, record.index))
        self.server.tokens += record.output_tokens
        self.server.ended += record.ending == "ok"

    async def _aborted_before(self, t: float) -> bool:
        try:
            async with asyncio.timeout(max(t - now(), 0)):
                await self._aborted.wait()
        except TimeoutError:
            return False
        return True

    def _events(
        self, order: RepeatOrder, due: list[float], offsets_s: "np.typing.NDArray[np.float64]"
    ) -> list[tuple[float, RequestSent | RequestFirst | RequestEnded | LoadTick]]:
        """Everything that will happen if nobody stops it, in order of time: arrivals are known, so the queue is, too."""
        free = [0.0] * SLOTS
        events: list[tuple[float, RequestSent | RequestFirst | RequestEnded | LoadTick]] = []
        last = due[-1]
        for index, t in enumerate(due):
            sched = order.start_at + float(offsets_s[index])
            events.append((t, RequestSent(order=order.order, index=index, t_sched=sched, t_sent=t)))
            start = max(t, free[0])
            first, end = start + PREFILL_S, start + self.server.service_s
            if t >= self.server.refuses_from and not (self.server.serves_singles and len(due) == 1):
                events.append((t, _record(order.order, index, sched, t, None, t, "connection")))
                continue
            heapq.heapreplace(free, end)
            if self.server.cuts and end >= self.server.refuses_from:
                cut = self.server.refuses_from
                events.append((cut, _record(order.order, index, sched, t, None, cut, "truncated")))
                continue
            if first < self.server.frozen_at:
                events.append((first, RequestFirst(order=order.order, index=index, t_first=first, first_tokens=1)))
            if end < self.server.frozen_at:
                ended, tokens = _record(order.order, index, sched, t, first, end, "ok"), self.server.answer_tokens(order)
                reason = "length" if tokens == TOKENS else "stop"
                events.append((end, msgspec.structs.replace(ended, output_tokens=tokens, finish_reason=reason)))
                last = max(last, end)
        until = 1000 if min(self.server.frozen_at, self.server.refuses_from) < math.inf else 2
        for k in range(1, int(2 * (last - order.start_at)) + until):
            t = order.start_at + 0.5 * k
            own = tuple(
                WorkerTick(in_flight=at, loop_lag_max_s=self.late_by.get(at, 0.0), cpu_frac=0.1 * (at + 1))
                for at in range(len(self.workers))
            )
            lag_s = max((tick.loop_lag_max_s for tick in own), default=0.0)
            events.append((t, LoadTick(order=order.order, t=t, in_flight=0, loop_lag_max_s=lag_s, cpu_frac=0.01, workers=own)))
        return sorted(events, key=lambda pair: pair[0])


def _record(order: int, index: int, sched: float, sent: float, first: float | None, end: float, ending: Ending) -> RequestEnded:
    ok = ending == "ok"
    return RequestEnded(
        order=order,
        index=index,
        t_sched=sched,
        t_sent=sent,
        t_first=first,
        t_last=end if ok else None,
        t_end=end,
        first_tokens=1 if ok else 0,
        output_tokens=TOKENS if ok else 0,
        prompt_tokens=32 if ok else None,
        asked_input=32,
        asked_output=TOKENS,
        ending=ending,
        finish_reason="length" if ok else None,
    )


def _aborted(sent: RequestSent) -> RequestEnded:
    return _record(sent.order, sent.index, sent.t_sched, sent.t_sent, None, sent.t_sent, "aborted")


class FakePreflight:
    """Four single requests through the generator, as the real one sends them; then one check of each name in `refuse`, of which
    "slo" says what they show of the limits. With a `context` the model is checked before them."""

    def __init__(self, config: ProbeConfig, access: Access, nonce: str, http: httpx.AsyncClient, send: SendSingles) -> None:
        metrics_url = "http://127.0.0.1:8000/metrics"
        self.info = ServerInfo(url=config.target.url, alive_path="/health", version="0.32.0", model="fake", metrics_url=metrics_url)
        self.singles: list[RequestRecord] = []
        self.hello: Hello | None = Hello(
            target=config.target, model="fake", workload=config.workload, alphabet=PromptAlphabet(token_ids=(1, 2)), nonce=nonce
        )
        self.refuse: tuple[str, ...] = ()
        self.context: int | None = None
        self._send = send
        self._slo = config.slo

    def settle(self, workload: Workload) -> None:
        assert self.hello is not None
        self.hello = msgspec.structs.replace(self.hello, workload=workload)

    async def checks(self) -> AsyncIterator[Check]:
        yield Check(check="reachable", status="pass", message="The server answers.")
        if self.context is not None:
            self.info = msgspec.structs.replace(self.info, max_model_len=self.context)
            yield Check(check="model", status="pass", message="The model is there.")
        assert self.hello is not None
        self.singles = (await self._send(self.hello, 4, "single"))[1:]
        yield Check(check="request", status="pass", message="Four requests were answered.")
        for name in self.refuse:
            found = judged(self.singles, self._slo) if name == "slo" else f"{name} is not right; mend it."
            yield Check(check=name, status="refuse", message=found)


class FakeScraper:
    """Reads a FakeServer twice a second; from `hangs_at` on, a reading never ends."""

    def __init__(self, server: FakeServer) -> None:
        self._server = server
        self.hangs_at = math.inf
        self.fails_at = math.inf
        self.words = "the parser met what nobody foresaw"

    async def readings(self) -> AsyncIterator[ServerSample | ScrapeError]:
        while True:
            if now() >= self.hangs_at:
                await asyncio.Event().wait()
            if now() >= self.fails_at:
                raise RuntimeError(self.words)
            yield self._server.sample()
            await asyncio.sleep(0.5)


def long_run_attainment(rate_rps: float, ttft_s: float, n: int = 40_000) -> float:
    """Attainment of the FakeServer under Poisson load in the long run, by the same queue."""
    rng = np.random.default_rng(1)
    free, good = [0.0] * SLOTS, 0
    for t in np.cumsum(rng.exponential(1 / rate_rps, n)).tolist():
        start = max(t, free[0])
        heapq.heapreplace(free, start + SERVICE_S)
        good += start + PREFILL_S - t <= ttft_s
    return good / n
