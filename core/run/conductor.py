"""Hands orders to the generator, one at a time, and watches each from its start to the moment nothing of it is left."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Protocol

from core.config import ProbeConfig
from core.facts import Fact, fact
from core.judge import Decision
from core.records import (
    ASIDE,
    ChildMessage,
    ClosedOrder,
    Hello,
    LoadDone,
    LoadState,
    LoadTick,
    Phase,
    RepeatOrder,
    RequestEnded,
    RequestRecord,
    Segment,
    ServerSample,
    WorkerInfo,
)
from core.run.ends import ClientSilent, NoAnswer
from core.run.events import ClosedStarted, Event, LoadStateChanged, Note, RepeatStarted
from core.run.liveness import LOST_ENDINGS, Liveness

FIRST_TOKEN_S = 60.0
"""A cold engine compiles for half a minute before its first token; nothing that can be loaded takes longer when it is idle."""
SAY_AFTER_S = 5.0
CHECK_S = 0.1
LEAD_S = 0.25
"""From handing over an order to its time zero: the child draws the arrivals and makes the first prompts in it."""
WORKERS_LEAD_S = 0.5
"""The same where the order goes to other machines, over a network."""
END_S = 5.0
"""An aborted order ends within 0.5 s; a child that needs ten times that is taken for stuck."""
_SETTLED_S = 1.0
"""What has ended in order is decided a report delay after its plan's end; after this long nothing can be decided any more."""
PREFIXES_AT_ONCE = 8
"""Prefixes are computed one after the other anyway; so many hide the way to the server and back."""
_UNSURE_S, _QUIET_S, _MUTE_S = 1.0, 3.0, 20.0
"""The child speaks twice a second. Once it does not, nothing new is decided; after the second time its silence is no stall of the
server either; after the last it is given up."""
_HEALTH_EVERY_S = 2.0
_LATE_S = 0.1

_UNDECIDED = Decision(kind="drained", reason=fact("load_ended_early"))

Decide = Callable[[float], Decision | None]

Ask = Callable[[float], Awaitable[RequestRecord | None]]
"""Send a single request, given up after so many seconds; None where it was not sent."""


class Load(Protocol):
    """What `core.load.generator.Generator` is to this module. `workers`: the machines that send; none where this one alone does."""

    @property
    def workers(self) -> tuple[WorkerInfo, ...]: ...
    async def hello(self, hello: Hello) -> None: ...
    async def plan(self, peak_rps: float) -> None: ...
    async def order(self, order: RepeatOrder | ClosedOrder) -> None: ...
    async def stop_arrivals(self, order: int) -> None: ...
    async def abort(self, order: int) -> None: ...
    def messages(self) -> AsyncIterator[ChildMessage]: ...
    async def close(self) -> None: ...


@dataclass(slots=True)
class OrderRun:
    """One order and what became of it. `records` are those of single requests; `lost` says why the server cannot be judged at
    all any more, `gone` that it is not there; `ended`: it is to be cut off undecided; `stands`: its decision is final, whatever
    ends the run now."""

    order: RepeatOrder | ClosedOrder
    liveness: Liveness
    over: asyncio.Event = field(default_factory=asyncio.Event)
    records: list[RequestRecord] = field(default_factory=list)
    ticks: list[LoadTick] = field(default_factory=list)
    done: LoadDone | None = None
    decision: Decision | None = None
    decided_at: float | None = None
    lost: Fact | None = None
    gone: bool = False
    ended: bool = False
    stands: bool = False
    aborted_at: float | None = None
    arrivals_stopped: bool = False
    wound_down_at: float | None = None
    draining: bool = False
    health_at: float | None = None
    hear: Callable[[ChildMessage], None] | None = None
    heard_at: float = 0.0

    @property
    def plan_end(self) -> float:
        order = self.order
        if isinstance(order, ClosedOrder):
            return order.start_at + order.duration_s
        return order.start_at + sum(segment.duration_s for segment in order.segments)

    @property
    def is_single(self) -> bool:
        """Whether it is one request, or a few prefixes, before the load or beside it."""
        return isinstance(self.order, RepeatOrder) and self.order.phase in ASIDE


class Conductor:
    """`healthy` asks the server whether it is there at all; it is asked only when every request fails to connect."""

    def __init__(
        self,
        generator: Load,
        emit: Callable[[Event], None],
        clock: Callable[[], float],
        healthy: Callable[[], Awaitable[bool]],
    ) -> None:
        self._generator = generator
        self._emit = emit
        self._clock = clock
        self._healthy = healthy
        self._orders = 0
        self._sent_in_phase: dict[Phase, int] = {}
        self.current: OrderRun | None = None

    def next_order(self) -> int:
        self._orders += 1
        return self._orders

    def start_at(self) -> float:
        return self._clock() + self._lead_s

    @property
    def _lead_s(self) -> float:
        return WORKERS_LEAD_S if self._generator.workers else LEAD_S

    async def plan(self, segments: tuple[Segment, ...]) -> None:
        """Have ready what sends at the highest of these rates, before an order says when it begins: the first rate, and those of
        a list, may be far above what was sent before."""
        await self._generator.plan(max(segment.rate_rps for segment in segments))

    async def pump(self) -> None:
        """Turn the child's messages into events. Raises NoAnswer when the child ends by itself."""
        async for message in self._generator.messages():
            self._emit(message)
            run = self.current
            if run is None or getattr(message, "order", None) != run.order.order:
                continue
            run.liveness.message(message)
            if run.hear is not None:
                run.hear(message)
            before, run.heard_at = run.heard_at, self._clock()
            if run.heard_at - before > _QUIET_S:
                run.liveness.unheard(run.heard_at)
            match message:
                case RequestEnded() if run.is_single:  # of others, the state keeps account
                    run.records.append(message)
                case LoadTick():
                    run.ticks.append(message)
                case LoadDone():
                    run.done = message
                    run.over.set()
                case _:
                    pass
        raise NoAnswer(fact("client_gone"))

    @property
    def in_flight(self) -> int:
        """How many requests of ours are open; those that still wait for a connection only the child's reports count."""
        run = self.current
        if run is None or run.over.is_set():
            return 0
        return max(run.liveness.in_flight, run.ticks[-1].in_flight if run.ticks else 0)

    def sampled(self, sample: ServerSample) -> None:
        """A new reading of the server."""
        if self.current is not None:
            self.current.liveness.sample(sample)

    async def singles(self, hello: Hello, n: int, phase: Phase, seed: int, drain_s: float) -> list[RequestRecord]:
        """Send n requests one after another, each an order of its own. One that has no first token after FIRST_TOKEN_S, or no
        end after `drain_s`, is aborted, and the last: a server that is silent is not waited for again."""
        await self._generator.hello(hello)
        records: list[RequestRecord] = []
        for _ in range(n):
            run = await self._single(phase, seed, drain_s)
            records += run.records
            if run.aborted_at is not None:
                break
        return records

    async def ask(self, seed: int, within_s: float) -> RequestRecord | None:
        """Send one request more of the kind that `singles` sent, to see whether the server answers; given up after `within_s`. None
        where that was over before it was sent."""
        run = await self._single("preflight", seed, within_s)
        return run.records[-1] if run.records else None

    async def prefixes(self, config: ProbeConfig) -> list[RequestRecord]:
        """Have the server compute each shared prefix of the workload once, a few at a time and within the limits on the load, by
        the prompts of the last hello. Where it does not answer in time, the rest is left out."""
        prefix, method, safety = config.workload.prefix, config.method, config.safety
        self._emit(Note(t=self._clock(), text=fact("prefixes_sent", tokens=prefix.tokens, groups=prefix.groups)))
        at_once = min(PREFIXES_AT_ONCE, safety.max_in_flight or PREFIXES_AT_ONCE)
        if (gateway := config.workload.gateway) is not None:  # what it has no place for it may turn away
            at_once = min(at_once, gateway.limit)
        lead_s = self._lead_s
        if safety.max_rps is not None:
            at_once = max(1, min(at_once, int(safety.max_rps * lead_s)))
            lead_s = max(lead_s, 1 / safety.max_rps)
        records: list[RequestRecord] = []
        for first in range(0, prefix.groups, at_once):
            groups = tuple(range(first, min(first + at_once, prefix.groups)))
            run = await self._single("prefix", method.seed_of_requests, method.drain_s, groups, lead_s)
            records += run.records
            if run.aborted_at is not None:
                break
        return records

    async def _single(
        self, phase: Phase, seed: int, drain_s: float, groups: tuple[int, ...] | None = None, lead_s: float | None = None
    ) -> OrderRun:
        """One request, or one for each of these groups, `lead_s` from now on, or as soon as any order begins."""
        repeat = self._sent_in_phase.get(phase, 0)
        self._sent_in_phase[phase] = repeat + 1
        order = RepeatOrder(
            order=self.next_order(),
            phase=phase,
            step=0,
            repeat=repeat,
            seed=seed,
            offsets_s=(0.0,) * len(groups or (0,)),
            groups=groups,
            start_at=self._clock() + (lead_s or self._lead_s),
        )
        run = await self._begin(order, 0.0)
        await self._answered(run, drain_s)
        await self._abort(run)
        await self._wait(run, END_S)
        if not run.over.is_set():
            raise _stuck()
        return run

    async def _answered(self, run: OrderRun, drain_s: float) -> None:
        """Until a single request has ended or is to be given up; says once what is being waited for."""
        first_s, said = min(FIRST_TOKEN_S, drain_s), False
        while not run.over.is_set():
            waited_s = self._clock() - run.order.start_at
            if waited_s >= (drain_s if run.liveness.decoding else first_s):
                return
            if waited_s >= SAY_AFTER_S and not said:
                said = True
                awaited = fact("first_token_awaited", within_s=first_s)
                if run.liveness.decoding:
                    awaited = fact("end_awaited", within_s=drain_s)
                self._emit(Note(t=self._clock(), text=awaited))
            await self._wait(run, CHECK_S)

    async def run(
        self,
        order: RepeatOrder | ClosedOrder,
        decide: Decide,
        idle_e2e_s: float,
        hear: Callable[[ChildMessage], None] | None = None,
    ) -> OrderRun:
        """Run one repeat (ramp, closed loop) until `decide` has decided it, then cut it off; returns when none of it is in flight.

        `hear` is told every message of the child about this order. Raises ClientSilent when the child does not stop or says nothing
        for too long.
        """
        self._load("loading")
        run = await self._begin(order, idle_e2e_s, hear)
        while True:
            over = run.over.is_set()
            now = self._clock()
            if run.aborted_at is None:
                await self._look(run, decide, now)
            elif not over and now - run.aborted_at > END_S:
                raise _stuck()
            if over and (run.ended or run.aborted_at is not None or run.decision is not None or run.lost is not None):
                break
            await (asyncio.sleep(CHECK_S) if over else self._wait(run, CHECK_S))
            if self._clock() - now > CHECK_S + _LATE_S:
                await self._wait(run, CHECK_S)  # this loop stood still: what the child said meanwhile is read before it is judged
        self._load("idle")
        return run

    def wind_down(self) -> None:
        """Let nothing new be sent of what runs now; what is open goes on to its end, unless `decide` cuts it off."""
        if self.current is not None and self.current.wound_down_at is None:
            self.current.wound_down_at = self._clock()

    def end(self) -> None:
        """Let what runs now be cut off at once, undecided; what has its own verdict already keeps that."""
        run = self.current
        if run is not None and not run.stands:
            run.ended, run.decision, run.decided_at = True, None, None

    async def cut(self) -> None:
        """Abort what runs now and wait until the child says that nothing of it is left, at most a second."""
        run = self.current
        if run is not None and not run.over.is_set():
            await self._abort(run)
            await self._wait(run, 1.0)

    async def _begin(
        self, order: RepeatOrder | ClosedOrder, idle_e2e_s: float, hear: Callable[[ChildMessage], None] | None = None
    ) -> OrderRun:
        run = self.current = OrderRun(order, Liveness(idle_e2e_s), hear=hear, heard_at=max(self._clock(), order.start_at))
        now = self._clock()
        self._emit(ClosedStarted(t=now, order=order) if isinstance(order, ClosedOrder) else RepeatStarted(t=now, order=order))
        await self._generator.order(order)
        return run

    async def _look(self, run: OrderRun, decide: Decide, now: float) -> None:
        if run.ended:
            await self._abort(run)
            return
        if not run.over.is_set() and now - run.heard_at > _UNSURE_S:
            if now - run.heard_at > _MUTE_S:
                raise _mute()
            return  # what is open ages, and nothing of it is known: neither a miss nor a sign of life
        if run.decision is None:
            # The child ends with its last answer, which may come before the end of the window: that alone decides nothing.
            in_vain = run.over.is_set() and (run.wound_down_at is not None or now > run.plan_end + _SETTLED_S)
            run.decision = decide(now) or (_UNDECIDED if in_vain else None)
            run.decided_at = now if run.decision else None
        if run.decision is not None and run.decision.kind in ("pass", "complete"):
            run.stands = True
            await self._abort(run)
            return
        run.lost = await self._lost(run, now)
        if run.wound_down_at is not None and not run.arrivals_stopped:
            run.arrivals_stopped = run.draining = True
            await self._generator.stop_arrivals(run.order.order)
            self._load("draining")
        if run.lost or (run.decided_at is not None and self._believed(run, run.decided_at, now)):
            run.stands = run.lost is None
            await self._abort(run)
        elif run.decided_at is not None and not run.arrivals_stopped:
            # A miss is the server's only if the server still works: before it is believed, one sign of life is awaited.
            run.arrivals_stopped = True
            await self._generator.stop_arrivals(run.order.order)
        elif not run.draining and (run.arrivals_stopped or now >= run.plan_end) and run.liveness.in_flight:
            run.draining = True  # not before: the tail behind the window is load like any other
            self._load("draining")

    def _believed(self, run: OrderRun, decided_at: float, now: float) -> bool:
        """Whether a decision stands: the server works. Where nothing can show that, it stands after a while."""
        return run.liveness.alive_since(decided_at) or run.liveness.past_doubt(decided_at, now)

    async def _lost(self, run: OrderRun, now: float) -> Fact | None:
        """Why the server is not there to be judged, or None. Connections that fail are asked about at most every two seconds."""
        if now - run.heard_at > _QUIET_S:
            return None
        if run.liveness.stalled(now):
            return fact("server_frozen", silent_s=run.liveness.stall_s)
        if not run.liveness.cut_off(1 if run.decision else LOST_ENDINGS):
            return None
        if run.health_at is not None and now - run.health_at < _HEALTH_EVERY_S:
            return None
        run.health_at = now
        if await self._healthy():
            return None
        run.gone = True
        return fact("server_lost")

    async def _abort(self, run: OrderRun) -> None:
        if run.aborted_at is None and not run.over.is_set():
            run.aborted_at = self._clock()
            await self._generator.abort(run.order.order)

    async def _wait(self, run: OrderRun, timeout_s: float) -> None:
        """Until the order is over, or `timeout_s` has passed."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await run.over.wait()

    def _load(self, state: LoadState) -> None:
        self._emit(LoadStateChanged(t=self._clock(), state=state))


def _mute() -> ClientSilent:
    return ClientSilent(fact("client_mute", silent_s=_MUTE_S))


def _stuck() -> ClientSilent:
    return ClientSilent(fact("client_stuck", within_s=END_S))
