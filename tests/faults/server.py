"""A server that does wrong what it is told to: a small model server with slots and counters, and a switch for each fault.

It speaks through raw sockets (`tests.core.load.server`), so it can say what no HTTP library would. In `tests.faults.clock` its
delays cost nothing.
"""

import asyncio
import json
import math
import socket
import struct
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress

from tests.core.load.server import Received
from tests.faults.answers import EVENT_STREAM, JSON, Answer, tokens, whole

Fault = Callable[["FaultServer", Received], Answer | None]
"""The answer to a request to generate; None: as it should be."""
Page = Callable[[float], str | Answer]
"""/metrics at `t` seconds after the start."""

UNAUTHORISED = whole(b'{"error":"Unauthorized"}', 401, JSON)


class FaultServer:
    """First come, first served, `slots` at a time: the first token after `prefill_s`, the rest in one chunk after `decode_s`.

    `frozen_at`: from then on nothing is produced, though everything is accepted. `keeps_cancelled`: a request whose client has gone
    holds its slot to its end. While there is `away`, a gateway says that in the server's place. `keys`: path prefix -> the key
    that it wants. `redirects`: path -> address. `pages`: path -> answer.
    """

    def __init__(
        self,
        fault: Fault | Answer | None = None,
        *,
        slots: int = 8,
        prefill_s: float = 0.05,
        decode_s: float = 0.75,
        frozen_at: float = math.inf,
        keeps_cancelled: bool = False,
        metrics: Page | None = None,
        models: tuple[str, ...] = ("fake",),
        max_model_len: int = 2048,
        keys: Mapping[str, str] | None = None,
        redirects: Mapping[str, str] | None = None,
        pages: Mapping[str, Answer] | None = None,
    ) -> None:
        self.fault: Fault | None = (lambda server, request: fault) if isinstance(fault, Answer) else fault
        self.prefill_s, self.decode_s = prefill_s, decode_s
        self.frozen_at, self.keeps_cancelled = frozen_at, keeps_cancelled
        self.metrics = metrics or (lambda t: self.exposition())
        self.models, self.max_model_len = models, max_model_len
        self.keys, self.redirects, self.pages = keys or {}, redirects or {}, pages or {}
        self.counts: Counter[str] = Counter()
        self.running = self.waiting = 0
        self.epoch = 1000.0
        self.away: Answer | None = None
        self._free = asyncio.Semaphore(slots)
        self._began = asyncio.get_running_loop().time()
        self._idle: dict[int, asyncio.TimerHandle] = {}

    @property
    def t(self) -> float:
        """Seconds since its start."""
        return asyncio.get_running_loop().time() - self._began

    async def __call__(self, request: Received) -> bool | None:
        """A handler for `tests.core.load.server.serving`."""
        if timer := self._idle.pop(request.connection, None):
            timer.cancel()
        path = request.path.partition("?")[0]
        self.counts[path] += 1
        if self.away is not None and path != "/health":
            return await self.deliver(request, self.away)
        if path in self.redirects:
            return await self.deliver(request, whole(b"", 307, f"Location: {self.redirects[path]}"))
        if any(path.startswith(prefix) and not _has(request, key) for prefix, key in self.keys.items()):
            return await self.deliver(request, UNAUTHORISED)
        if path in self.pages:
            return await self.deliver(request, self.pages[path])
        match path:
            case "/health":
                return await self.deliver(request, whole(b""))
            case "/version":
                return await self.deliver(request, whole(b'{"version":"0.32.0"}', 200, JSON))
            case "/v1/models":
                cards = [{"id": name, "max_model_len": self.max_model_len, "owned_by": "vllm"} for name in self.models]
                return await self.deliver(request, whole(json.dumps({"data": cards}).encode(), 200, JSON))
            case "/metrics":
                page = self.metrics(self.t)
                text = "Content-Type: text/plain"
                return await self.deliver(request, whole(page.encode(), 200, text) if isinstance(page, str) else page)
            case "/v1/completions" | "/v1/chat/completions":
                answer = self.fault(self, request) if self.fault is not None else None
                return await (self._generate(request) if answer is None else self.deliver(request, answer))
            case _:
                return await self.deliver(request, whole(b'{"detail":"Not Found"}', 404, JSON))

    async def deliver(self, request: Received, answer: Answer) -> bool | None:
        """Write an answer as it says; returns whether the connection ends with it."""
        if answer.silent == "request":
            return await _gone(request)
        if answer.silent == "head":
            await request.write(answer.head)
            return await _gone(request)
        sent = 0
        for delay_s, data in answer.writes():
            if delay_s and not await _slept(request, delay_s):
                return True
            await request.write(data)
            sent += len(data)
            if answer.bytes_per_write and not delay_s:
                await asyncio.sleep(0)
        if answer.cut_after is not None:
            if answer.cut_by == "rst":
                reset(request)
            return True
        if answer.idle_close_s is not None:
            loop = asyncio.get_running_loop()
            self._idle[request.connection] = loop.call_later(answer.idle_close_s, request.out.close)
        return answer.framing == "close" or answer.short_by > 0

    async def _generate(self, request: Received) -> bool | None:
        asked = request.json
        prompt = asked.get("prompt") or asked["messages"][0]["content"].split()
        self.waiting += 1
        async with self._free:
            self.waiting -= 1
            self.running += 1
            try:
                return await self._serve(request, len(prompt), int(asked["max_tokens"]))
            finally:
                self.running -= 1

    async def _serve(self, request: Received, prompt: int, n: int) -> bool | None:
        self.counts["prompt_tokens"] += prompt
        answer = Answer(
            pieces=tokens(n, first_s=self.prefill_s, gap_s=self.decode_s, per_chunk=max(1, n - 1), prompt=prompt),
            headers=(EVENT_STREAM,),
        )
        for delay_s, data in answer.writes():
            if self.keeps_cancelled:
                await asyncio.sleep(delay_s)
            elif delay_s and not await _slept(request, delay_s):
                return True
            if self.away is not None:
                reset(request)
                return True
            if self.t >= self.frozen_at:
                return await _gone(request)
            if not request.gone.is_set():
                with suppress(ConnectionError):
                    await request.write(data)
        self.counts["generation_tokens"] += n
        self.counts["success"] += 1
        return request.gone.is_set()

    async def restart(self, gone_s: float, says: Answer) -> None:
        """Break what is open, be away so long behind a gateway that says this, and be back as a new process."""
        self.away = says
        await asyncio.sleep(gone_s)
        self.away = None
        self.epoch += 60
        for name in ("prompt_tokens", "generation_tokens", "success"):
            self.counts[name] = 0

    def exposition(self) -> str:
        """/metrics of what it has done."""
        counts = self.counts
        return (
            f"process_start_time_seconds {self.epoch}\n"
            f'vllm:num_requests_running{{engine="0"}} {self.running}\n'
            f'vllm:num_requests_waiting{{engine="0"}} {self.waiting}\n'
            f'vllm:kv_cache_usage_perc{{engine="0"}} 0.1\n'
            f'vllm:num_preemptions_total{{engine="0"}} 0\n'
            f'vllm:prompt_tokens_total{{engine="0"}} {counts["prompt_tokens"]}\n'
            f'vllm:generation_tokens_total{{engine="0"}} {counts["generation_tokens"]}\n'
            f'vllm:request_success_total{{engine="0",finished_reason="length"}} {counts["success"]}\n'
            f'vllm:prefix_cache_queries_total{{engine="0"}} {counts["prompt_tokens"]}\n'
            f'vllm:prefix_cache_hits_total{{engine="0"}} {counts["prefix_hits"]}\n'
        )


def reset(request: Received) -> None:
    """Break the connection with RST."""
    linger = struct.pack("ii", 1, 0)
    request.out.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    request.out.transport.abort()


def _has(request: Received, key: str) -> bool:
    return request.headers.get("authorization") == f"Bearer {key}"


async def _slept(request: Received, seconds: float) -> bool:
    """Sleep, at most until the client goes; whether it is still there."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await request.gone.wait()
    return not request.gone.is_set()


async def _gone(request: Received) -> bool:
    await request.gone.wait()
    return True
