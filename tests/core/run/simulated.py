"""Whole runs in virtual time: the product's session against its simulated replica's engine and metrics, without a socket."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import httpx

from core.access import Access
from core.config import Method, ProbeConfig
from core.records import (
    ChildMessage,
    ClosedOrder,
    Hello,
    LoadDone,
    LoadReady,
    LoadTick,
    RepeatOrder,
    RequestEnded,
    RequestFirst,
    RequestSent,
    ServerInfo,
    ServerSample,
    WorkerInfo,
)
from core.replica.catalog import Replica
from core.replica.engine import Engine
from core.replica.metrics import CONTENT_TYPE, EngineMetrics
from core.results import Answer
from core.run.log import RunLog
from core.run.session import Session
from core.schedule import draw
from core.server.http import Credential
from core.server.metrics import parse
from core.server.preflight import SendSingles
from core.traffic import TraceArrivals
from tests.core.judge.virtual import probe_of
from tests.core.run.fakes import FakePreflight
from tests.core.run.virtual import now, run


class VirtualClock:
    """The engine's clock in the virtual loop."""

    def now(self) -> float:
        return now()

    async def sleep_until(self, t: float) -> None:
        await asyncio.sleep(max(0.0, t - now()))


class SimulatedLoad:
    """The generator, sending into the engine itself. `late_s`: how late each send of an order is."""

    def __init__(self, engine: Engine, late_s: float = 0.0) -> None:
        self._engine = engine
        self._late_s = late_s
        self._hello: Hello | None = None
        self._inbox: asyncio.Queue[ChildMessage | None] = asyncio.Queue()
        self._order: asyncio.Task[None] | None = None
        self._open: dict[int, asyncio.Task[None]] = {}
        self._stopped = asyncio.Event()
        self.workers: tuple[WorkerInfo, ...] = ()
        self._inbox.put_nowait(LoadReady(t=now(), python="3.11", loop="virtual", transport="none", fd_limit=1024))

    async def hello(self, hello: Hello) -> None:
        self._hello = hello

    async def plan(self, peak_rps: float) -> None:
        """It sends by itself, whatever the rate."""

    async def order(self, order: RepeatOrder | ClosedOrder) -> None:
        assert self._hello is not None
        assert isinstance(order, RepeatOrder)
        self._stopped = asyncio.Event()
        self._order = asyncio.create_task(self._run(order, self._hello))

    async def stop_arrivals(self, order: int) -> None:
        self._stopped.set()

    async def abort(self, order: int) -> None:
        self._stopped.set()
        for task in self._open.values():
            task.cancel()

    async def messages(self) -> AsyncIterator[ChildMessage]:
        while (message := await self._inbox.get()) is not None:
            yield message

    async def close(self) -> None:
        if self._order is not None:
            self._order.cancel()
        await self.abort(0)
        self._inbox.put_nowait(None)

    async def _run(self, order: RepeatOrder, hello: Hello) -> None:
        plan = draw(order, hello.workload)
        ticking = asyncio.create_task(self._tick(order.order))
        sent = 0
        for index, offset_s in enumerate(plan.offsets_s.tolist()):
            t_sched = order.start_at + offset_s
            try:
                async with asyncio.timeout(max(0.0, t_sched + self._late_s - now())):
                    await self._stopped.wait()
                break
            except TimeoutError:
                pass
            sent += 1
            lengths = int(plan.input_tokens[index]), int(plan.output_tokens[index])
            self._inbox.put_nowait(RequestSent(order=order.order, index=index, t_sched=t_sched, t_sent=now()))
            self._open[index] = task = asyncio.create_task(self._request(order.order, index, t_sched, *lengths))
            task.add_done_callback(lambda _, index=index: self._open.pop(index))  # type: ignore[misc]  # a default binds it
        while self._open:
            await asyncio.wait(self._open.values())
        ticking.cancel()
        self._inbox.put_nowait(LoadDone(order=order.order, t=now(), sent=sent, unsent=0, cpu_frac=0.1, loop_lag_max_s=0.001))

    async def _tick(self, order: int) -> None:
        while True:
            await asyncio.sleep(0.5)
            self._inbox.put_nowait(LoadTick(order=order, t=now(), in_flight=0, loop_lag_max_s=0.001, cpu_frac=0.1))

    async def _request(self, order: int, index: int, t_sched: float, prompt: int, asked: int) -> None:
        generation = self._engine.submit(prompt, asked, ())
        t_sent, t_first, t_last, tokens = now(), None, None, 0
        finish_reason: str | None = None
        try:
            while finish_reason is None:
                delta = await generation.next()
                tokens, t_last, finish_reason = tokens + delta.tokens, now(), delta.finish_reason
                if t_first is None:
                    t_first = t_last
                    self._inbox.put_nowait(RequestFirst(order=order, index=index, t_first=t_first, first_tokens=1))
        except asyncio.CancelledError:
            self._engine.abort(generation)
        self._inbox.put_nowait(
            RequestEnded(
                order=order,
                index=index,
                t_sched=t_sched,
                t_sent=t_sent,
                t_first=t_first,
                t_last=t_last,
                t_end=now(),
                first_tokens=0 if t_first is None else 1,
                output_tokens=tokens,
                prompt_tokens=prompt,
                asked_input=prompt,
                asked_output=asked,
                ending="ok" if finish_reason == "length" else "aborted",
                finish_reason=finish_reason,
            )
        )


class Metered:
    """Reads the engine's own exposition twice a second, as over HTTP."""

    def __init__(self, metrics: EngineMetrics) -> None:
        self._metrics = metrics

    async def readings(self) -> AsyncIterator[ServerSample]:
        while True:
            yield parse(self._metrics.text().decode(), CONTENT_TYPE, now(), 0.0)
            await asyncio.sleep(0.5)


async def _probe(
    replica: Replica, probe: ProbeConfig, path: Path, late_s: float, metrics: bool, trace: TraceArrivals | None
) -> Answer:
    shown = EngineMetrics(replica.model_name, replica.engine, replica.max_model_len)
    engine = Engine(replica.engine, shown, VirtualClock())
    serving = asyncio.create_task(engine.run())

    async def start() -> SimulatedLoad:
        return SimulatedLoad(engine, late_s)

    def preflight(config: ProbeConfig, access: Access, nonce: str, http: httpx.AsyncClient, send: SendSingles) -> FakePreflight:
        checks = FakePreflight(config, access, nonce, http, send)
        checks.info = ServerInfo(
            url=config.target.url,
            model=replica.model_name,
            metrics_url=f"{config.target.url}/metrics" if metrics else None,
            kv_cache_tokens=replica.engine.kv_tokens,
            simulated=True,
        )
        return checks

    def scraper(url: str, client: httpx.AsyncClient, credential: Credential, models: tuple[str, ...]) -> Metered:
        return Metered(shown)

    log = RunLog(path)
    transport = httpx.MockTransport(lambda request: httpx.Response(200))
    session = Session(
        probe,
        log,
        start_load=start,
        preflight=preflight,
        scraper=scraper,
        http=lambda: httpx.AsyncClient(transport=transport, trust_env=False),
        clock=now,
        trace=trace,
    )
    try:
        return await session.run()
    finally:
        serving.cancel()
        log.close()


def probe_in_virtual_time(
    replica: Replica,
    path: Path,
    *,
    method: Method | None = None,
    seed: int = 11,
    late_s: float = 0.0,
    metrics: bool = True,
    trace: TraceArrivals | None = None,
) -> Answer:
    """A run of the session with the replica's own lengths and limits; `late_s`: a client whose sends are that late;
    `metrics` False: the server shows none; `trace`: its arrivals and lengths in place of the replica's."""
    probe = probe_of(replica, seed, method)
    return run(_probe(replica, probe if trace is None else trace.settled(probe), path, late_s, metrics, trace))
