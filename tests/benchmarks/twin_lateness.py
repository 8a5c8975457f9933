"""Does the twin delay sends? How late they are without it, beside it at its share of a core, and beside it at all of one.

    python -m tests.benchmarks.twin_lateness [ROUNDS]       (about a minute a round)

Sends go to a server that costs nothing, at 500 requests/s and at 12,500 chunks/s; the twin reads one run over and over meanwhile.
The three ways take turns, so that what else the machine does meets all of them; figures are medians over the rounds.
"""

import asyncio
import contextlib
import os
import sys
import time
from collections import defaultdict
from pathlib import Path
from statistics import median

import msgspec

from core.load import Rung, self_test
from core.replica.catalog import CATALOG
from core.twin import TwinProcess, TwinTask
from tests.core.twin.windows import seen, task_of

WAYS = ("without", "beside", "all of a core")
REQUESTS_RPS, CHUNKS_PER_S = 500.0, 12_500.0


async def keep_busy(twin: TwinProcess, task: TwinTask) -> None:
    """One reading after another, each afresh."""
    for seed in range(1_000_000):
        await twin.ask(msgspec.structs.replace(task, seed=seed))
        await twin.reading(600.0)


def cpu_s(pid: int) -> float:
    """Processor seconds of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def rungs(way: str, twin: TwinProcess, task: TwinTask) -> tuple[list[Rung], float]:
    """One test of the machine's sends, and the share of a core that the twin took meanwhile."""
    found: list[Rung] = []
    busy = None
    if way != "without":
        await twin.beside_load(way == "beside")
        busy = asyncio.create_task(keep_busy(twin, task))
    began, before = time.monotonic(), cpu_s(twin.pid)
    await self_test(found.append, 1, (REQUESTS_RPS,), (CHUNKS_PER_S,))
    share = (cpu_s(twin.pid) - before) / (time.monotonic() - began)
    if busy is not None:
        await twin.beside_load(False)
        busy.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await busy
        await twin.reading(600.0)
    return found, share


async def main(rounds: int) -> None:
    replica = CATALOG["chat"]
    run = seen(replica, 7)
    twin = await TwinProcess.start()
    assert twin is not None
    await twin.seen(run.records)
    task = task_of(replica, run)
    rows: defaultdict[tuple[str, str], list[Rung]] = defaultdict(list)
    shares: defaultdict[str, list[float]] = defaultdict(list)
    for _ in range(rounds):
        for way in WAYS:
            found, share = await rungs(way, twin, task)
            shares[way].append(share)
            for rung in found:
                rows[way, "requests" if rung.rate_rps >= REQUESTS_RPS else "chunks"].append(rung)
    await twin.close()
    print(f"{'':16}{'load':10}{'late p50':>10}{'late p99':>10}{'worst p99':>11}{'TTFT +p99':>11}{'lag max':>10}{'twin':>8}")
    for (way, load), some in sorted(rows.items(), key=lambda each: (each[0][1], WAYS.index(each[0][0]))):
        p99s = [rung.lateness_p99_s for rung in some]
        figures = (
            median(rung.lateness_p50_s for rung in some),
            median(p99s),
            max(p99s),
            median(rung.ttft_error_p99_s for rung in some),
            median(rung.loop_lag_max_s for rung in some),
        )
        told = "".join(f"{1000 * each:>{width - 3}.2f} ms" for each, width in zip(figures, (10, 10, 11, 11, 10), strict=True))
        print(f"{way:16}{load:10}{told}{median(shares[way]):>8.0%}")


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 5))
