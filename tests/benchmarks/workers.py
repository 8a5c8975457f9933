"""Load from several machines, on this one: how well clocks agree, how evenly workers begin, and records a second over Ray.

python -m tests.benchmarks.workers [--workers N | --nodes N [--raylet-only]] [--rates A,B,...] [--seconds S] [--bracket]

It takes a minute, --bracket ten more.

All workers are on this machine, so that the true offset of every clock is 0 and a network's delay is missing. Requests go to the
null server of the selftest. "lag" is from the end of a request to the controller's hearing of it. The size is that of Ray and what
comes with it, beside what the product installs anyway. --nodes starts a Ray cluster of so many nodes here, with a worker on each,
and kills one of them at the end, all its processes or Ray's own alone (--raylet-only): what of ours is left then? --bracket also
searches for the embedded replica's knee with one process and with the workers: the same requests at the same times, so the brackets
differ by what the machine scatters.
"""

import argparse
import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import numpy as np

from core.errors import UserError
from core.load.selftest import _hello, _null_server
from core.records import LoadDone, RepeatOrder, RequestEnded, RequestSent, Segment
from core.workers import Workers, WorkersAsked
from core.workers.clocks import Offset
from tests.core.load.server import endless, serving
from tests.core.load.test_generator import LATER, at_once
from tests.core.workers.ray_cluster import actors_and_senders, cluster_of, own_folder, parent_of, processes_under
from tests.processes import gone, is_there

ROOT = Path(__file__).parents[2]
BURSTS, LEAD_S = 10, 0.5


def closure(name: str) -> set[str]:
    """A package and all that it needs, of what is installed here."""
    found, todo = set[str](), [name]
    while todo:
        one = todo.pop().lower().replace("_", "-")
        if one in found:
            continue
        try:
            needs = distribution(one).requires or []
        except PackageNotFoundError:
            continue
        found.add(one)
        todo += [re.split(r"[\s\[<>=!~;(]", need)[0] for need in needs if "extra ==" not in need]
    return found


def size_mb(names: set[str]) -> float:
    paths = [Path(str(file.locate())) for name in names for file in distribution(name).files or ()]
    return sum(path.stat().st_size for path in paths if path.is_file()) / 1e6


async def until_done(workers: Workers) -> list[tuple[float, object]]:
    told: list[tuple[float, object]] = []
    async for message in workers.messages():
        told.append((time.monotonic(), message))
        if isinstance(message, LoadDone):
            break
    return told


def told_of(values: list[float], unit: float = 1e3) -> str:
    at = np.percentile(values, [50, 99, 100]) * unit
    return f"p50 {at[0]:.2f}, p99 {at[1]:.2f}, most {at[2]:.2f} ms"


async def begin_together(workers: Workers, count: int) -> None:
    """Orders of one request for each worker, all due at the same moment."""
    late: list[float] = []
    apart: list[float] = []
    offsets: list[Offset] = []
    for number in range(BURSTS):
        order = RepeatOrder(
            order=number + 1,
            phase="list",
            step=0,
            repeat=number,
            seed=11,
            offsets_s=(0.0,) * count,
            start_at=time.monotonic() + LEAD_S,
        )
        await workers.order(order)
        offsets += workers._offsets
        told = [message for _, message in await until_done(workers)]
        sent = [message.t_sent for message in told if isinstance(message, RequestSent)]
        late += [t - order.start_at for t in sent]
        apart.append(max(sent) - min(sent))
    print(f"{BURSTS} orders begun together: late {told_of(late)}; apart {told_of(apart)}")
    wrong, bounds = [abs(offset.s) for offset in offsets], [offset.error_s or 0.0 for offset in offsets]
    held = sum(off <= bound for off, bound in zip(wrong, bounds, strict=True))
    print(f"clocks: off by {told_of(wrong)} (the truth is 0), told to be within {told_of(bounds)}; true of {held} of {len(wrong)}")


async def carry(workers: Workers, number: int, rate_rps: float, seconds: float) -> None:
    order = RepeatOrder(
        order=number,
        phase="list",
        step=0,
        repeat=0,
        seed=11,
        segments=(Segment(rate_rps=rate_rps, duration_s=seconds, role="measured"),),
        start_at=time.monotonic() + LEAD_S,
    )
    cpu = time.process_time()
    await workers.order(order)
    told = await until_done(workers)
    cpu_frac = (time.process_time() - cpu) / (seconds + LEAD_S)
    ends = [(heard, message) for heard, message in told if isinstance(message, RequestEnded)]
    done = told[-1][1]
    assert isinstance(done, LoadDone)
    lag = [heard - message.t_end for heard, message in ends]
    late = [message.t_sent - message.t_sched for _, message in ends if message.t_sent is not None]
    span_s = max(message.t_end for _, message in ends) - order.start_at
    print(
        f"{rate_rps:g} requests/s: {len(told) / span_s:,.0f} messages/s, {len(ends)} of {done.sent} ends came; lag {told_of(lag)};"
        f" late {told_of(late)}; sender {done.cpu_frac:.0%}, controller {cpu_frac:.0%} of a core"
    )


def bracket(workers: int | None) -> str:
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out.json"
        command = [sys.executable, "-m", "tui", "demo", "--quiet", "--json", str(out), "--out", f"{folder}/run.jsonl"]
        began = time.monotonic()
        subprocess.run([*command, *([f"--workers=local:{workers}"] if workers else [])], cwd=ROOT, check=False, capture_output=True)
        found = json.loads(out.read_text())
        knee = found["knee"]
        ends = f"{knee['pass_rps']:.3g} to {knee['first_fail_rps']:.3g} requests/s"
        return f"{found['outcome']}: {ends} in {time.monotonic() - began:.0f} s"


async def kill_a_node(workers: Workers, above: int, raylet_only: bool) -> None:
    """While every worker has open requests; `above` is the process that the cluster is under."""
    async with serving(endless) as server:
        await workers.hello(_hello(server.url, 1))
        open_requests = 3 * len(workers.workers)
        await workers.order(at_once(open_requests, LATER, number=1_000_000))
        await server.until(lambda s: len(s.received) == open_requests)
        actors = actors_and_senders(above)
        ours = [*actors, *actors.values(), workers.process.pid]
        raylet = parent_of(min(actors))
        for pid in (raylet, *([] if raylet_only else processes_under(raylet))):
            with suppress(ProcessLookupError):  # a sender ends with its actor
                os.kill(pid, signal.SIGKILL)
        killed_at = time.monotonic()
        try:
            await until_done(workers)
        except UserError as lost:
            what = "the raylet of one node" if raylet_only else "one node"
            print(f"{what} of {len(actors)} was killed with {open_requests} requests open; after {since(killed_at)}: {lost}")
        await server.until(lambda s: s.closed == s.connections)
        print(f"all {server.connections} connections were closed after {since(killed_at)}")
        with suppress(TimeoutError):
            await gone(*ours)
        print(f"of {len(ours)} processes of ours {sum(map(is_there, ours))} are left after {since(killed_at)}")


def since(t: float) -> str:
    return f"{time.monotonic() - t:.2f} s"


async def measure(
    asked: WorkersAsked, rates: list[float], seconds: float, above: int | None = None, raylet_only: bool = False
) -> None:
    """`above`: the process that a cluster is under, one node of which is killed at the end."""
    began = time.monotonic()
    workers = await Workers.start(asked)
    count = len(workers.workers)
    print(f"{count} workers ready after {time.monotonic() - began:.1f} s")
    try:
        async with _null_server() as server:
            await workers.hello(_hello(server.url, 1))
            await begin_together(workers, count)
            for number, rate_rps in enumerate(rates, BURSTS + 1):
                await carry(workers, number, rate_rps, seconds)
        if above is not None:
            await kill_a_node(workers, above, raylet_only)
    finally:
        await workers.close()


def measure_nodes(nodes: int, rates: list[float], seconds: float, raylet_only: bool) -> None:
    os.environ["RAY_worker_niceness"] = "0"  # noqa: SIM112 (Ray's own name; docs/safety.md says why)
    began = time.monotonic()
    with own_folder() as folder, cluster_of(nodes, folder) as (address, above):
        print(f"a head and {nodes} nodes started in {since(began)}")
        asyncio.run(measure(WorkersAsked(address=address), rates, seconds, above, raylet_only))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--nodes", type=int)
    parser.add_argument("--raylet-only", action="store_true")
    parser.add_argument("--rates", default="200,500,1000,2000")
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--bracket", action="store_true")
    given = parser.parse_args()
    extra = closure("ray") - closure("kneescope")
    print(f"size of the extra: {size_mb(extra):.0f} MB in {len(extra)} packages")
    rates = [float(rate) for rate in given.rates.split(",")]
    if given.nodes is not None:
        measure_nodes(given.nodes, rates, given.seconds, given.raylet_only)
    else:
        asyncio.run(measure(WorkersAsked(local=given.workers), rates, given.seconds))
    if given.bracket:
        print(f"the replica's bracket, one process: {bracket(None)}")
        print(f"the replica's bracket, {given.workers} workers: {bracket(given.workers)}")


if __name__ == "__main__":
    main()
