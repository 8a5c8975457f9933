"""What this machine's generator can carry: it loads a server that costs nothing, at rising rates, until its sends are late.

Requests a second are found with answers of 2 tokens, chunks a second with answers of 100 tokens, 10 ms apart.
"""

import asyncio
import os
import signal
import sys
import time
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from core.config import Lengths, Target, Workload
from core.errors import UserError
from core.load.generator import Generator
from core.load.nullserver import TTFT_S
from core.percentiles import percentiles
from core.records import Hello, LoadDone, LoadReady, PromptAlphabet, RepeatOrder, RequestEnded, Segment

LATE_S = 0.005
"""Sends later than this at p99 are the generator's own limit."""

FULL_FRAC = 0.9
"""Share of a core from which on the server counts as the one that is full."""

HALF_FRAC = 0.5
"""Share of a core below which the generator has no reason of its own to be late."""

WARMUP_S, MEASURED_S, LEAD_S = 1.5, 2.0, 0.3
REQUEST_RATES = (250.0, 500.0, 1000.0, 1500.0, 2000.0, 3000.0, 4000.0, 6000.0)
CHUNK_RATES = (2_000.0, 6_400.0, 12_500.0, 25_000.0, 50_000.0, 75_000.0, 100_000.0)
_FEW_TOKENS, _MANY_TOKENS = 2, 100
_HOME = str(Path(__file__).resolve().parents[2])
_SERVER = f"""import sys
sys.path.insert(0, {_HOME!r})
from core.load.nullserver import main
main()"""


class Rung(msgspec.Struct, frozen=True, kw_only=True):
    """One rate as it went. Times in seconds; `cpu_frac` of the busiest child, `server_cpu_frac` of the server, 1.0 is one core.

    `ttft_error` is what was seen later than the server's own TTFT, from the send: what the client adds to a latency.
    """

    rate_rps: float
    chunks_per_s: float
    sent: int
    failed: int
    unsent: int
    lateness_p50_s: float
    lateness_p99_s: float
    ttft_error_p50_s: float
    ttft_error_p99_s: float
    loop_lag_max_s: float
    cpu_frac: float
    server_cpu_frac: float

    @property
    def holds(self) -> bool:
        """Whether all was sent, in time, and answered."""
        return self.failed == 0 and self.unsent == 0 and self.sent > 0 and self.lateness_p99_s < LATE_S


class Findings(msgspec.Struct, frozen=True, kw_only=True):
    """What was found: the highest rates that held (None: not even the lowest), and what else than the generator may have been the
    limit: the server that was full, or others on this machine, when sends were late though the generator's core was not full."""

    ready: LoadReady
    cores: int
    children: int
    requests_per_s: float | None
    chunks_per_s: float | None
    server_was_full: bool
    was_disturbed: bool


async def self_test(
    tell: Callable[[Rung], None],
    children: int | None = None,
    request_rates: tuple[float, ...] = REQUEST_RATES,
    chunk_rates: tuple[float, ...] = CHUNK_RATES,
) -> Findings:
    """Try all rates, telling of each as it is done. Raises UserError when generator or server cannot run here."""
    async with _null_server() as server:
        generator = await Generator.start(children or 1)
        try:
            bench = _Bench(server, generator)
            by_requests = await bench.climb([(rate, _FEW_TOKENS) for rate in request_rates], tell)
            by_chunks = await bench.climb([(rate / _MANY_TOKENS, _MANY_TOKENS) for rate in chunk_rates], tell)
        finally:
            await generator.close()
    rungs = [*by_requests, *by_chunks]
    return Findings(
        ready=generator.ready,
        cores=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        children=children or 1,
        requests_per_s=max((rung.rate_rps for rung in by_requests if rung.holds), default=None),
        chunks_per_s=max((rung.chunks_per_s for rung in by_chunks if rung.holds), default=None),
        server_was_full=any(rung.server_cpu_frac >= FULL_FRAC for rung in rungs),
        was_disturbed=any(not rung.holds and rung.cpu_frac < HALF_FRAC for rung in rungs),
    )


class NullServer:
    """The parent's handle on the server's process."""

    def __init__(self, process: Process, port: int) -> None:
        self._process = process
        self.url = f"http://127.0.0.1:{port}"

    async def cpu_s(self) -> float:
        """CPU time of the server so far."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(b"\n")
        return float((await self._process.stdout.readline()).split()[0])


@asynccontextmanager
async def _null_server() -> AsyncIterator[NullServer]:
    process = await asyncio.create_subprocess_exec(sys.executable, "-P", "-c", _SERVER, stdin=PIPE, stdout=PIPE, stderr=DEVNULL)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        if not (port := await process.stdout.readline()).strip():
            raise UserError("The selftest's own server did not start; can this machine listen on 127.0.0.1?", exit_code=3)
        yield NullServer(process, int(port))
    finally:
        process.stdin.close()
        try:
            async with asyncio.timeout(2.0):
                await process.wait()
        except TimeoutError:
            process.send_signal(signal.SIGKILL)
            await process.wait()


class _Bench:
    def __init__(self, server: NullServer, generator: Generator) -> None:
        self._server, self._generator = server, generator
        self._orders = 0

    async def climb(self, rates: list[tuple[float, int]], tell: Callable[[Rung], None]) -> list[Rung]:
        """Rung by rung, each of (requests a second, tokens), until one does not hold twice: the first time may be chance."""
        rungs: list[Rung] = []
        for rate_rps, tokens in rates:
            for _ in range(2):
                rungs.append(await self._try(rate_rps, tokens))
                tell(rungs[-1])
                if rungs[-1].holds:
                    break
            else:
                break
        return rungs

    async def _try(self, rate_rps: float, tokens: int) -> Rung:
        self._orders += 1
        await self._generator.hello(_hello(self._server.url, tokens))
        order = _order(self._orders, rate_rps)
        cpu_s, began = await self._server.cpu_s(), time.monotonic()
        await self._generator.order(order)
        ends: list[RequestEnded] = []
        async for message in self._generator.messages():
            match message:
                case RequestEnded():
                    ends.append(message)
                case LoadDone() as done if done.order == order.order:
                    share = (await self._server.cpu_s() - cpu_s) / max(time.monotonic() - max(began, order.start_at), 1e-9)
                    return _rung(order, rate_rps, tokens, ends, done, share)
        raise UserError("The load generator exited before the selftest was over; run it again.", exit_code=3)


def _hello(url: str, tokens: int) -> Hello:
    return Hello(
        target=Target(url=url),
        model="null",
        workload=Workload(input_tokens=Lengths(median=64), output_tokens=Lengths(median=tokens)),
        alphabet=PromptAlphabet(token_ids=tuple(range(1000, 2000))),
        nonce=os.urandom(8).hex(),
    )


def _order(number: int, rate_rps: float) -> RepeatOrder:
    segments = (
        Segment(rate_rps=rate_rps, duration_s=WARMUP_S, role="warmup"),
        Segment(rate_rps=rate_rps, duration_s=MEASURED_S, role="measured"),
    )
    start_at = time.monotonic() + LEAD_S
    return RepeatOrder(order=number, phase="list", step=0, repeat=0, seed=11, segments=segments, start_at=start_at)


def _rung(
    order: RepeatOrder, rate_rps: float, tokens: int, ends: list[RequestEnded], done: LoadDone, server_cpu_frac: float
) -> Rung:
    measured = [end for end in ends if end.t_sched >= order.start_at + WARMUP_S]
    lateness_s = percentiles(end.t_sent - end.t_sched for end in measured if end.t_sent is not None)
    first = [(end.t_sent, end.t_first) for end in measured if end.t_sent is not None and end.t_first is not None]
    error_s = percentiles(t_first - t_sent - TTFT_S for t_sent, t_first in first)
    return Rung(
        rate_rps=rate_rps,
        chunks_per_s=rate_rps * tokens,
        sent=done.sent,
        failed=sum(end.ending != "ok" for end in ends),
        unsent=done.unsent,
        lateness_p50_s=lateness_s.p50 or 0.0,
        lateness_p99_s=lateness_s.p99 or 0.0,
        ttft_error_p50_s=error_s.p50 or 0.0,
        ttft_error_p99_s=error_s.p99 or 0.0,
        loop_lag_max_s=done.loop_lag_max_s,
        cpu_frac=done.cpu_frac,
        server_cpu_frac=server_cpu_frac,
    )
