"""The clients that tests/benchmarks/transport.py sets beside each other; each run is a process of its own and prints one JSON line.

python -m tests.benchmarks.clients CLIENT SCENARIO URL KEY=VALUE...
"""

import asyncio
import codecs
import gc
import json
import os
import resource
import sys
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import httpx
import numpy as np
import uvloop

from core.config import Target
from core.load import sender as client_module
from core.load.child import make_room_for_files
from core.load.sender import Job, LoadClient
from core.load.timer import Alarm
from core.load.transport.direct import DirectTransport
from core.load.transport.pool import SPARE_CONNECTIONS
from core.load.transport.request import Ready, ready
from core.load.transport.response import Stamped
from core.records import RequestEnded, RequestFirst, RequestSent

if TYPE_CHECKING:
    import aiohttp

PATH = "/v1/completions"
BODY = json.dumps({"model": "bench", "prompt": list(range(100, 164)), "max_tokens": 2, "stream": True}).encode()


class Notes:
    """What a run saw: how late each chunk was stamped, after the server's own time in it, and per request when it was written and
    when its first chunk came."""

    def __init__(self) -> None:
        self.looking = True
        """Off while CPU is measured: the look costs as much as a tenth of a chunk."""
        self.lags_s: list[float] = []
        self.reads = 0
        self.sent: dict[int, float] = {}
        self.first: dict[int, float] = {}

    def chunk(self, number: int, data: bytes, t: float) -> None:
        """What one read brought: a chunk or, when the client is behind, several."""
        if not self.looking:
            return
        at = data.find(b'"t":"')
        if at < 0:
            return
        self.reads += 1
        if number not in self.first:
            self.first[number] = t
        while at >= 0:
            self.lags_s.append(t - int(data[at + 5 : at + 24]) * 1e-9)
            at = data.find(b'"t":"', at + 5)


Ask = Callable[[int, dict[str, str]], Callable[[], Awaitable[None]]]
"""Makes the request with this number and these headers; what it returns sends it and reads its answer."""


def ours(url: str, notes: Notes) -> Ask:
    """The product's own way from end to end, which also reads every answer: tokens, gaps, usage, endings."""
    transport = DirectTransport(spare=SPARE_CONNECTIONS)
    client = LoadClient(Target(url=url), None, transport)
    read = client_module._Exchange.read

    def noted(self: Any, data: bytes, t: float) -> bool:
        notes.chunk(self.job.index, data, t)
        return read(self, data, t)

    client_module._Exchange.read = noted  # type: ignore[method-assign]

    def emit(message: RequestSent | RequestFirst | RequestEnded) -> None:
        if isinstance(message, RequestSent):
            notes.sent[message.index] = message.t_sent
        elif isinstance(message, RequestEnded) and message.ending != "ok":
            raise RuntimeError(f"{message.ending}: {message.error}")

    def ask(number: int, headers: dict[str, str]) -> Callable[[], Awaitable[None]]:
        request = client.prepare(BODY)
        assert isinstance(request, Ready)
        extra = "".join(f"{name}: {value}\r\n" for name, value in headers.items()).encode()  # for the server; ours are all alike
        request = request._replace(data=request.data.replace(b"\r\n", b"\r\n" + extra, 1))
        job = Job(order=1, index=number, t_sched=0.0, asked_input=64, asked_output=2)
        return lambda: client.send(job, request, emit)

    return ask


class Careless:
    """A reader that looks at nothing."""

    def read(self, data: bytes, t: float) -> bool:
        return True


def stamps_only(url: str, notes: Notes) -> Ask:
    """Our transport, and nothing done with what it stamps: what the event loop and the kernel take of a chunk in any case."""
    transport = DirectTransport(spare=SPARE_CONNECTIONS)

    def ask(number: int, headers: dict[str, str]) -> Callable[[], Awaitable[None]]:
        def later(stamped: Stamped) -> None:
            intake, data, t = stamped
            notes.chunk(number, data, t)
            if data.endswith(b"0\r\n\r\n"):
                intake.take_in(data, t)

        async def send() -> None:
            reply = await transport.ask(ready(httpx.Request("POST", url + PATH, content=BODY, headers=headers)))
            reply.deliver(Careless(), later)
            await reply.end()

        return send

    return ask


def over_httpx(transport: httpx.AsyncBaseTransport, url: str, notes: Notes) -> Ask:
    client = httpx.AsyncClient(transport=transport, timeout=None, trust_env=False)

    def ask(number: int, headers: dict[str, str]) -> Callable[[], Awaitable[None]]:
        async def send() -> None:
            notes.sent[number] = time.monotonic()
            async with client.stream("POST", url + PATH, content=BODY, headers=headers) as answer:
                async for data in answer.aiter_raw():
                    notes.chunk(number, data, time.monotonic())

        return send

    return ask


def own_transport(url: str, notes: Notes) -> Ask:
    """Our transport as a plain httpx transport: a coroutine is woken for each read."""
    return over_httpx(DirectTransport(spare=SPARE_CONNECTIONS), url, notes)


def httpx_default(url: str, notes: Notes) -> Ask:
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
    return over_httpx(httpx.AsyncHTTPTransport(limits=limits, trust_env=False), url, notes)


def httpx_aiohttp(url: str, notes: Notes) -> Ask:
    from tests.core.load.by_aiohttp import AiohttpLoadTransport

    return over_httpx(AiohttpLoadTransport(), url, notes)


def session() -> "aiohttp.ClientSession":
    import aiohttp  # here, so that it does not count into the memory of the others

    connector = aiohttp.TCPConnector(limit=0, ttl_dns_cache=300, keepalive_timeout=60)
    return aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=None))


def aiohttp_plain(url: str, notes: Notes) -> Ask:
    http = session()

    def ask(number: int, headers: dict[str, str]) -> Callable[[], Awaitable[None]]:
        async def send() -> None:
            notes.sent[number] = time.monotonic()
            async with http.post(url + PATH, data=BODY, headers=headers) as answer:
                async for data in answer.content.iter_any():
                    notes.chunk(number, data, time.monotonic())

        return send

    return ask


def vllm_way(url: str, notes: Notes) -> Ask:
    """As `vllm bench serve` does it: session, buffer, JSON and stamps of vLLM 0.32, benchmarks/lib/endpoint_request_func.py."""
    http = session()

    def ask(number: int, headers: dict[str, str]) -> Callable[[], Awaitable[None]]:
        async def send() -> None:
            notes.sent[number] = time.monotonic()
            buffer, decoder, text, gaps, last = "", codecs.getincrementaldecoder("utf-8")(), "", [], 0.0
            async with http.post(url + PATH, data=BODY, headers=headers) as answer:
                async for chunk in answer.content.iter_any():
                    if not (chunk := chunk.strip()):
                        continue
                    buffer += decoder.decode(chunk)
                    messages, buffer = _messages(buffer)
                    for message in messages:
                        if (content := message.removeprefix("data: ")) == "[DONE]":
                            continue
                        data = json.loads(content)
                        if choices := data.get("choices"):
                            t = time.monotonic()
                            gaps.append(t - last)
                            last = t
                            text += choices[0].get("text") or ""
                            notes.chunk(number, message.encode(), t)

        return send

    return ask


def _messages(buffer: str) -> tuple[list[str], str]:
    messages = []
    while "\n\n" in buffer:
        message, buffer = buffer.split("\n\n", 1)
        if message := message.strip():
            messages.append(message)
    if buffer.startswith("data: ") and (content := buffer.removeprefix("data: ").strip()):
        try:
            if content != "[DONE]":
                json.loads(content)
            messages.append(buffer.strip())
            buffer = ""
        except json.JSONDecodeError:
            pass
    return messages, buffer


CLIENTS: dict[str, tuple[Callable[[str, Notes], Ask], Callable[[], asyncio.AbstractEventLoop]]] = {
    "ours": (ours, uvloop.new_event_loop),
    "stamps alone": (stamps_only, uvloop.new_event_loop),
    "ours, as a plain httpx transport": (own_transport, uvloop.new_event_loop),
    "httpx-aiohttp": (httpx_aiohttp, uvloop.new_event_loop),
    "aiohttp": (aiohttp_plain, uvloop.new_event_loop),
    "httpx default": (httpx_default, uvloop.new_event_loop),
    "vllm bench's way": (vllm_way, asyncio.new_event_loop),
    "vllm bench's way, on uvloop": (vllm_way, uvloop.new_event_loop),
}


def headers_of(number: int, **options: float) -> dict[str, str]:
    return {"x-id": str(number), **{f"x-{name.replace('_', '-')}": str(int(value)) for name, value in options.items()}}


async def streams(ask: Ask, notes: Notes, given: dict[str, float]) -> dict[str, Any]:
    """So many streams at a steady rate each: CPU per chunk while no chunk is looked at, then the lag of every chunk's stamp."""
    count, itl_s, seconds, burst = int(given["streams"]), given["itl_s"], given["seconds"], given.get("burst", 0)
    tokens, ttft_s = int(seconds / itl_s), 0.5 + count / 2000
    options = {"tokens": tokens, "ttft_us": ttft_s * 1e6, "itl_us": itl_s * 1e6, "burst": burst}
    sends = [ask(number, headers_of(number, **options)) for number in range(count)]
    _quiet()
    tasks = [asyncio.ensure_future(send()) for send in sends]
    await asyncio.sleep(ttft_s + 0.2 * seconds)
    notes.looking, begin, cpu = False, time.monotonic(), time.process_time()
    await asyncio.sleep(0.35 * seconds)
    cpu_s_each = (time.process_time() - cpu) / (count / itl_s * (time.monotonic() - begin))
    notes.looking, begin, seen, reads = True, time.monotonic(), len(notes.lags_s), notes.reads
    await asyncio.sleep(0.35 * seconds)
    wall, lags, reads = time.monotonic() - begin, notes.lags_s[seen:], notes.reads - reads
    await asyncio.gather(*tasks)
    kept_up = len(lags) / (count / itl_s * wall)
    return {"cpu_us": cpu_s_each * 1e6, "kept_up": kept_up, "reads": reads / max(1, len(lags)), "lag_us": _spread(lags, 1e6)}


async def requests(ask: Ask, notes: Notes, given: dict[str, float]) -> dict[str, Any]:
    """Poisson arrivals of short answers. The server's log says when each came to it; here is when it was due and written."""
    rate, seconds = given["rate_rps"], given["seconds"]
    offsets = np.cumsum(np.random.default_rng(11).standard_exponential(int(rate * seconds))) / rate
    _quiet()
    exact = given["exact"] > 0
    alarm, tasks, cpu = Alarm(), [], time.process_time()
    start = time.monotonic() + 0.1
    due = (start + offsets).tolist()
    for number, at in enumerate(due):
        send = ask(number, headers_of(number, tokens=2, itl_us=5000, ttft_us=5000))  # before it is due, and counted in the CPU
        if exact:
            await alarm.until(at)
        else:  # as `vllm bench serve` waits
            await asyncio.sleep(max(0.0, at - time.monotonic()))
        tasks.append(asyncio.ensure_future(send()))
    await asyncio.gather(*tasks)
    alarm.close()
    cpu = time.process_time() - cpu
    first = [notes.first.get(number) for number in range(len(due))]
    return {"due": due, "sent": [notes.sent.get(n) for n in range(len(due))], "first": first, "cpu_us": cpu / len(due) * 1e6}


async def memory(ask: Ask, notes: Notes, given: dict[str, float]) -> dict[str, Any]:
    """Peak memory with so many streams open at once, above what the process takes by itself."""
    count = int(given["streams"])
    ttft_s = 1.0 + count / 1000
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    tasks = []
    for number in range(count):
        tasks.append(asyncio.ensure_future(ask(number, headers_of(number, tokens=8, itl_us=200_000, ttft_us=ttft_s * 1e6))()))
        await asyncio.sleep(ttft_s / count / 2)
    await asyncio.gather(*tasks)
    return {"peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, "before_mb": before / 1024}


def _quiet() -> None:
    gc.collect()
    gc.freeze()
    gc.disable()


def _spread(values: list[float], unit: float) -> dict[str, float]:
    ordered = np.sort(np.array(values)) * unit
    return {name: float(ordered[min(len(ordered) - 1, int(len(ordered) * q))]) for name, q in (("p50", 0.5), ("p99", 0.99))}


SCENARIOS = {"streams": streams, "requests": requests, "memory": memory}


async def _run(client: str, scenario: str, url: str, given: dict[str, float]) -> dict[str, Any]:
    notes = Notes()
    return await SCENARIOS[scenario](CLIENTS[client][0](url, notes), notes, given)


if __name__ == "__main__":
    _client, _scenario, _url, *_given = sys.argv[1:]
    make_room_for_files()
    options = {name: float(value) for name, value in (pair.split("=") for pair in _given)}
    with asyncio.Runner(loop_factory=CLIENTS[_client][1]) as runner:
        print(json.dumps(runner.run(_run(_client, _scenario, _url, options))), flush=True)
        sys.stdout.flush()
        os._exit(0)  # what is left open would be closed with warnings
