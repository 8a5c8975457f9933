"""CPU of the run's own process for a request: its messages decoded, carried, applied, and encoded again into the run file.

python -m tests.benchmarks.parent_cpu [REQUESTS]     (about half a minute)

The best of some rounds. "lines kept" is the decoding that would save the encoding: line by line, each kept beside its message.
What judges and what draws are not in it.
"""

import argparse
import asyncio
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from core.load.generator import Generator
from core.load.merge import Merge
from core.load.protocol import encode as as_told
from core.load.protocol import messages
from core.records import ChildMessage
from core.run.conductor import Conductor, OrderRun
from core.run.events import Event, decode, encode
from core.run.liveness import Liveness
from core.run.log import RunLog
from tests.benchmarks.long_run import LongRun, told

REQUESTS, ROUNDS = 8_000, 5
TOGETHER = 30
"""Messages that come in one read: at 1,000 requests/s the child writes about so many at once (`core.load.child.FLUSH_S`)."""


class _AllHeard(Exception):
    """The last message was carried."""


def decoded(reads: list[bytes]) -> None:
    inlet = messages()
    for data in reads:
        inlet.feed(data)


def decoded_and_kept(reads: list[bytes]) -> None:
    for data in reads:
        [(decode(line), line) for line in data.split(b"\n") if line]


async def carried(reads: list[bytes], run: LongRun, count: int) -> None:
    """From the pipe to the state and the file, as a session wires it."""
    left, inlet, child = count, messages(), cast(Any, None)
    generator = Generator(1)
    generator._merge = Merge(1)
    with tempfile.TemporaryDirectory() as folder:
        log = RunLog(Path(folder) / "run.jsonl")

        def emit(event: Event) -> None:
            nonlocal left
            log.append(event)
            run.state.apply(event)
            left -= 1
            if not left:
                raise _AllHeard

        async def healthy() -> bool:
            return True

        conductor = Conductor(generator, emit, time.monotonic, healthy)
        conductor.current = OrderRun(run.order, Liveness(5.2))
        for data in reads:
            generator._heard.put_nowait((child, inlet.feed(data)))
        try:
            await conductor.pump()
        except _AllHeard:
            log.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("requests", type=int, nargs="?", default=REQUESTS)
    requests = parser.parse_args().requests
    new = LongRun(hold=False)
    heard: list[ChildMessage] = list(told(new.order, new.workload, requests))
    lines = [as_told(message) for message in heard]
    assert [encode(message) for message in heard] == lines, "the log says what the child has said"
    reads = [b"".join(lines[i : i + TOGETHER]) for i in range(0, len(lines), TOGETHER)]
    parts: dict[str, Callable[[LongRun], object]] = {
        "all": lambda run: asyncio.run(carried(reads, run, len(heard))),
        "decode": lambda run: decoded(reads),
        "decode, lines kept": lambda run: decoded_and_kept(reads),
        "encode": lambda run: [encode(message) for message in heard],
    }
    best = dict.fromkeys(parts, float("inf"))
    for _ in range(ROUNDS):
        for name, work in parts.items():
            fresh, began = LongRun(hold=False), time.process_time()
            work(fresh)
            best[name] = min(best[name], (time.process_time() - began) / requests * 1e6)
    for name, cpu_us in best.items():
        print(f"{name:20}{cpu_us:8.2f} us a request")
    saved = best["encode"] - (best["decode, lines kept"] - best["decode"])
    print(f"keeping the lines would save {saved:.2f} us, {saved / best['all']:.1%}, and carrying them is not in it")


if __name__ == "__main__":
    main()
