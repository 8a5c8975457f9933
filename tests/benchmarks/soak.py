"""A bounded soak with every request accounted for: `python -m tests.benchmarks.soak [--minutes 10] [--rate 15] [--chaos]`.

The load generator, as the process that it is, sends orders one after another to the simulated replica `demo`, with `--chaos`
through a proxy that delays, splits, cuts and resets. Of three orders one runs to its end, one is stopped and one is aborted on the
way. Of each: planned = sent + unsent + not due before the stop, and sent = the sum of the endings, every request with exactly one.
Exits with 1 when a request is missing.
"""

import argparse
import asyncio
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path
from typing import Literal

import httpx
import numpy as np

from core.config import Lengths, Target, Workload
from core.load.generator import Generator
from core.records import Hello, LoadDone, PromptAlphabet, RepeatOrder, RequestEnded, RequestSent, Segment
from core.replica import process
from core.schedule import draw
from core.server.exposition import parse
from tests.faults.proxy import Chaos, Proxy, troubling

Way = Literal["whole", "stopped", "aborted"]
WAYS: tuple[Way, ...] = ("whole", "stopped", "aborted")
CUT_AT = 2 / 3
"""Of an order that is stopped or aborted, this share of its time has passed."""
TURN_S = 0.2
"""Arrivals due so near to a stop may or may not have had their turn."""


@dataclass
class Account:
    """Sums over all orders, and each sentence about a request that is missing or told twice."""

    orders: int = 0
    planned: int = 0
    sent: int = 0
    unsent: int = 0
    not_due: int = 0
    resent: int = 0
    endings: Counter[str] = field(default_factory=Counter)
    said: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def text(self) -> str:
        endings = ", ".join(f"{name} {n}" for name, n in self.endings.most_common())
        return (
            f"{self.orders} orders: planned {self.planned} = sent {self.sent} + unsent {self.unsent} + not due before a stop "
            f"{self.not_due}; sent {self.sent} = {endings}; sent again on a fresh connection: {self.resent}"
        )


async def soak(generator: Generator, hello: Hello, *, rate_rps: float, order_s: float, orders: int) -> Account:
    """Send so many orders of `order_s` seconds each and account for every request."""
    account = Account()
    await generator.hello(hello)
    for number, way in zip(range(1, orders + 1), cycle(WAYS), strict=False):
        order = RepeatOrder(
            order=number,
            phase="list",
            step=1,
            repeat=number,
            seed=11,
            segments=(Segment(rate_rps=rate_rps, duration_s=order_s, role="measured"),),
            start_at=time.monotonic() + 0.25,
        )
        await _one(generator, order, way, hello.workload, account)
    return account


async def _one(generator: Generator, order: RepeatOrder, way: Way, workload: Workload, account: Account) -> None:
    offsets = draw(order, workload).offsets_s
    await generator.order(order)
    cut = asyncio.create_task(_cut(generator, order, way))
    sent: list[int] = []
    ended: Counter[int] = Counter()
    done = None
    async for message in generator.messages():
        if isinstance(message, RequestSent):
            sent.append(message.index)
        elif isinstance(message, RequestEnded):
            ended[message.index] += 1
            account.endings[message.ending] += 1
            account.resent += message.resent
            if message.error:
                account.said[f"{message.ending}: {message.error}"] += 1
        elif isinstance(message, LoadDone):
            done = message
            break
    cut_at = await cut
    assert done is not None
    _compare(account, order, offsets.size, sent, ended, done)
    due = offsets.size if cut_at is None else int(np.searchsorted(offsets, cut_at - order.start_at - TURN_S))
    if not due <= done.sent + done.unsent <= offsets.size or (cut_at is None and done.sent + done.unsent != offsets.size):
        account.wrong.append(f"order {order.order}: {done.sent} sent + {done.unsent} unsent of {due} that were due")


def _compare(account: Account, order: RepeatOrder, planned: int, sent: list[int], ended: Counter[int], done: LoadDone) -> None:
    account.orders += 1
    account.planned += planned
    account.sent += done.sent
    account.unsent += done.unsent
    account.not_due += planned - done.sent - done.unsent
    twice = [index for index, n in ended.items() if n > 1]
    for what, missing in (
        ("ended twice", twice),
        ("were told as sent twice", [index for index, n in Counter(sent).items() if n > 1]),
        ("left and have no ending", sorted(set(sent) - set(ended))),
        ("are not of the plan", [index for index in ended if not 0 <= index < planned]),
    ):
        if missing:
            account.wrong.append(f"order {order.order}: requests {missing[:9]} {what}")
    if sum(ended.values()) != done.sent:
        account.wrong.append(f"order {order.order}: {done.sent} sent, {sum(ended.values())} endings")


async def _cut(generator: Generator, order: RepeatOrder, way: Way) -> float | None:
    if way == "whole":
        return None
    await asyncio.sleep(order.start_at + CUT_AT * order.segments[0].duration_s - time.monotonic())
    await (generator.stop_arrivals(order.order) if way == "stopped" else generator.abort(order.order))
    return time.monotonic()


@asynccontextmanager
async def _through(url: str, chaos: bool) -> AsyncIterator[tuple[str, Proxy | None]]:
    if not chaos:
        yield url, None
        return
    async with troubling(url, Chaos()) as proxy:
        yield proxy.url, proxy


def _peak_mb(pid: int) -> float:
    status = Path(f"/proc/{pid}/status")
    if not status.exists():
        return 0.0
    return int(next(line for line in status.read_text().splitlines() if line.startswith("VmHWM")).split()[1]) / 1024


async def _main(minutes: float, rate_rps: float, chaos: bool, order_s: float) -> int:
    replica = await process.start("demo")
    generator = await Generator.start()
    try:
        async with _through(replica.url, chaos) as (url, proxy), httpx.AsyncClient(trust_env=False) as http:
            hello = Hello(
                target=Target(url=url),
                model=replica.replica.model_name,
                workload=Workload(input_tokens=Lengths(median=128), output_tokens=Lengths(median=32)),
                alphabet=PromptAlphabet(token_ids=tuple(range(100, 612))),
                nonce="50a4",
            )
            account = await soak(
                generator,
                hello,
                rate_rps=rate_rps,
                order_s=order_s,
                orders=max(3, round(minutes * 60 / (order_s * (1 + 2 * CUT_AT) / 3))),
            )
            counted = parse((await http.get(f"{replica.url}/metrics")).text, "text/plain", 0.0, 0.0)
        print(account.text())
        left = f"{counted.running:g} running, {counted.waiting:g} waiting"
        print(f"the server counts {counted.requests_success_total:g} finished, {left}")
        print(f"peak memory of the generator {_peak_mb(generator._workers[0].process.pid):.0f} MB")
        if proxy is not None:
            print(f"the proxy: {dict(proxy.done)}")
        for words, n in account.said.most_common(12):
            print(f"  {n} x {words}")
    finally:
        await generator.close()
        await replica.stop()
    for sentence in account.wrong:
        print(f"WRONG {sentence}")
    return 1 if account.wrong else 0


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--rate", type=float, default=15.0, help="requests/s")
    parser.add_argument("--order", type=float, default=30.0, help="seconds of one order")
    parser.add_argument("--chaos", action="store_true", help="through a proxy that delays, splits, cuts and resets")
    given = parser.parse_args()
    sys.exit(asyncio.run(_main(given.minutes, given.rate, given.chaos, given.order)))


if __name__ == "__main__":
    main()
