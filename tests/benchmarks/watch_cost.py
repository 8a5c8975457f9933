"""What watching many replicas costs: CPU seconds of one process for each second, with a recorded exposition of the usual size.

Another process serves the pages; here is only what `kneescope watch` does, first without and then with its table as text.
"""

import argparse
import asyncio
import multiprocessing
import time
from multiprocessing.connection import Connection
from pathlib import Path

from core.access import Access
from core.net import client_of_many
from core.report import watch_text
from core.server import Discovery, Places
from core.watch import Watched, Watcher

PAGE = Path(__file__).parents[1] / "data" / "metrics" / "vllm-0.32.0-preempting.txt"
HOST = "127.0.0.1"
MOST = 0.5
"""Cores, for 64 replicas once a second."""


def serve(replicas: int, kilobytes: int, out: Connection) -> None:
    """Serve /metrics on so many ports, the page filled up to a size, and tell the ports."""
    asyncio.run(_serve(replicas, kilobytes, out))


async def _serve(replicas: int, kilobytes: int, out: Connection) -> None:
    text = PAGE.read_text()
    filler = [line for line in text.splitlines() if line.startswith("vllm:request_prompt_tokens_bucket")]
    for n in range(10_000):
        if len(text) >= 1000 * kilobytes:
            break
        text += "\n".join(line.replace("vllm:request_prompt_tokens", f"vllm:other_{n}") for line in filler) + "\n"
    body = text.encode()
    answer = b"HTTP/1.1 200 OK\r\ncontent-type: text/plain; version=0.0.4\r\ncontent-length: %d\r\n\r\n" % len(body) + body

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                await reader.readuntil(b"\r\n\r\n")
                writer.write(answer)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    servers = [await asyncio.start_server(talk, HOST, 0) for _ in range(replicas)]
    out.send([server.sockets[0].getsockname()[1] for server in servers])
    await asyncio.Event().wait()


async def watched(ports: list[int], seconds: float, *, drawn: bool) -> tuple[float, int]:
    """CPU seconds a second, and how many replicas were read at the end."""
    places = Places(tuple(f"http://{HOST}:{port}" for port in ports))
    async with client_of_many(Access()) as http:
        watcher = Watcher(Watched(), Discovery(places, http), http)
        work = asyncio.create_task(watcher.run())
        await asyncio.sleep(3)  # connections are made, and there are rates
        cpu, wall = time.process_time(), time.monotonic()
        while time.monotonic() - wall < seconds:
            await asyncio.sleep(1)
            if drawn:
                watch_text(watcher.table(), None, 200)
        cost = (time.process_time() - cpu) / (time.monotonic() - wall)
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)
        return cost, watcher.table().total.read


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replicas", type=int, default=64)
    parser.add_argument("--kilobytes", type=int, default=80, help="of each page, at least the 52 of the recorded one")
    parser.add_argument("--seconds", type=float, default=15)
    args = parser.parse_args()
    here, there = multiprocessing.Pipe()
    server = multiprocessing.get_context("spawn").Process(target=serve, args=(args.replicas, args.kilobytes, there), daemon=True)
    server.start()
    try:
        ports = here.recv()
        for drawn in (False, True):
            cost, read = asyncio.run(watched(ports, args.seconds, drawn=drawn))
            print(
                f"{args.replicas} replicas of {args.kilobytes} kB, {read} read, {'with' if drawn else 'without'} table:"
                f" {cost:.3f} cores ({'under' if cost < MOST else 'OVER'} {MOST})"
            )
    finally:
        server.terminate()
        server.join()


if __name__ == "__main__":
    main()
