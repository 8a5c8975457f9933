"""The scheduler in real time: steps on absolute time, tokens to the requests that wait for them."""

import asyncio
import time
from typing import NamedTuple, Protocol

from core.engine import EngineSpec
from core.replica.metrics import EngineMetrics
from core.replica.scheduler import Scheduler, Sequence, Step


class Clock(Protocol):
    """Seconds on a monotonic clock, and a way to wait for one of them; tests bring their own."""

    def now(self) -> float:
        """The time."""

    async def sleep_until(self, t: float) -> None:
        """Return at `t`, or after letting other tasks run when that has passed."""


class MonotonicClock:
    """time.monotonic and asyncio."""

    def now(self) -> float:
        """Seconds of time.monotonic()."""
        return time.monotonic()

    async def sleep_until(self, t: float) -> None:
        """Sleep to the absolute time, at least one turn of the event loop."""
        await asyncio.sleep(max(0.0, t - time.monotonic()))


class Delta(NamedTuple):
    """Tokens since the last look; with the last of them `finish_reason`: that of the request, or "abort" when it was aborted."""

    tokens: int
    finish_reason: str | None


class Generation:
    """The tokens of one request as they come. While its reader is late, tokens merge into one delta, as vLLM's
    RequestOutputCollector does (v1/engine/output_processor.py)."""

    def __init__(self, sequence: Sequence, ends_by: str = "length") -> None:
        self.sequence = sequence
        self.ends_by = ends_by
        self.first_step_end_s: float | None = None
        self.last_delivered_s = 0.0
        self._tokens = 0
        self._finish_reason: str | None = None
        self._news = asyncio.Event()

    async def next(self) -> Delta:
        """The next delta; none comes after one with a finish reason."""
        await self._news.wait()
        self._news.clear()
        tokens, self._tokens = self._tokens, 0
        return Delta(tokens, self._finish_reason)

    def put(self, tokens: int, finish_reason: str | None) -> None:
        """Add tokens for the reader."""
        self._tokens += tokens
        self._finish_reason = finish_reason
        self._news.set()


class Engine:
    """Runs the scheduler's steps one after the other, each ending at an absolute time.

    A step begins where the last one ended, however late the event loop noticed: a busy event loop delays tokens, but never
    makes the simulated engine slower.
    """

    def __init__(self, spec: EngineSpec, metrics: EngineMetrics, clock: Clock) -> None:
        self._scheduler = Scheduler(spec)
        self._metrics = metrics
        self._clock = clock
        self._open: dict[Sequence, Generation] = {}
        self._work = asyncio.Event()
        self.stopped = False

    def submit(
        self,
        prompt_tokens: int,
        max_tokens: int,
        prefix_hashes: tuple[int, ...],
        extra_s: float = 0.0,
        ends_by: str = "length",
    ) -> Generation:
        """Queue a request that has arrived now; its first token takes `extra_s` longer, and `ends_by` is the finish reason of its
        last one. Raises ValueError when it could never fit into the cache."""
        sequence = Sequence(self._clock.now(), prompt_tokens, max_tokens, prefix_hashes, extra_s)
        self._scheduler.submit(sequence)
        generation = self._open[sequence] = Generation(sequence, ends_by)
        self._work.set()
        if self.stopped:
            self.abort(generation)
        return generation

    def abort(self, generation: Generation) -> None:
        """Stop a request; nothing happens when it has ended already."""
        if self._open.pop(generation.sequence, None) is not None:
            self._scheduler.abort(generation.sequence)
            generation.put(0, "abort")
            self._work.set()

    async def run(self) -> None:
        """Serve until cancelled; what is open then is aborted."""
        free_at = self._clock.now()
        try:
            while True:
                start = self._scheduler.next_start(free_at)
                if start is None:
                    self._work.clear()
                    await self._work.wait()
                    continue
                step = self._scheduler.step(start)
                free_at = step.end_s
                await self._clock.sleep_until(free_at)
                self._deliver(step)
        finally:
            self.stop()

    def stop(self) -> None:
        """Abort all requests, now and from now on."""
        self.stopped = True
        for generation in list(self._open.values()):
            self.abort(generation)

    def _deliver(self, step: Step) -> None:
        now = self._clock.now()
        self._metrics.step(step)
        for sequence in step.emitted:
            generation = self._open.get(sequence)
            if generation is None:  # aborted during the step
                continue
            if generation.first_step_end_s is None:
                generation.first_step_end_s = step.end_s
                self._metrics.first_token(sequence, now)
            else:
                self._metrics.further_token(now - generation.last_delivered_s)
            generation.last_delivered_s = now
            if sequence.finished:
                del self._open[sequence]
                self._metrics.finished(sequence, generation.first_step_end_s, step.end_s, now, generation.ends_by)
            generation.put(1, generation.ends_by if sequence.finished else None)
