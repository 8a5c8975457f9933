"""An hour at a held rate on the real vLLM: `python -m tests.benchmarks.hold_soak [--minutes 60] [--chaos]`.

The whole command as a user runs it: a quick search finds the knee, then `--hold` stays at 70 % of it until the time is up and
SIGTERM ends it. `--chaos`: through a proxy that delays, splits, cuts and resets. Every minute the memory of the command and of what
it started is read. At the end each request of the run file must have been sent once and ended once, those that ended ok must be
what the server counted as finished, and the run file may be no larger than is said. Exits with 1 otherwise.
"""

import argparse
import asyncio
import json
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx

from core.server.exposition import parse
from tests.faults.proxy import Chaos, troubling
from tests.real_vllm import install
from tests.real_vllm.server import serve

SHARE = 0.7
LIMITS = ("--input-tokens", "64", "--output-tokens", "32", "--ttft", "2s", "--tpot", "200ms")
REQUEST_BYTES, SECOND_BYTES = 1_000, 2_500
"""What a request takes in the run file (docs/result.md), and what readings of the server and the client take each second."""
GROWTH_MB = 40.0
"""Memory may grow by so much from the tenth minute on: a held rate keeps its judged segments, and nothing of a request."""


async def _command(*arguments: str) -> asyncio.subprocess.Process:
    pipe = asyncio.subprocess.PIPE
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tui", *arguments, stdout=pipe, stderr=asyncio.subprocess.DEVNULL
    )


async def _knee_rps(url: str, folder: Path) -> float:
    """A quick search's rate that holds. Raises RuntimeError where there is none."""
    asked = ("probe", url, "--mode", "quick", *LIMITS, "--headless", "--json", "-", "--out", str(folder / "search.jsonl"))
    process = await _command(*asked)
    out, _ = await process.communicate()
    result = json.loads(out)
    print(f"search: {result['message']}", flush=True)
    if not result["knee"]["pass_rps"]:
        raise RuntimeError("no rate held")
    return float(result["knee"]["pass_rps"])


def _memory_mb(pid: int) -> float:
    """Resident memory of a process and of all that it has started."""
    pages = [
        int(line.split()[1]) / 1024 for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmRSS")
    ]
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return sum(pages) + sum(_memory_mb(int(child)) for child in children)


def _account(path: Path) -> tuple[Counter[str], list[str]]:
    """Endings of all requests of a run file, and a sentence for each that is missing or told twice."""
    sent, ended, endings = Counter[tuple[int, int]](), Counter[tuple[int, int]](), Counter[str]()
    for line in path.open(encoding="utf-8"):
        event: dict[str, Any] = json.loads(line)
        if event.get("type") == "sent":
            sent[event["order"], event["index"]] += 1
        elif event.get("type") == "ended":
            ended[event["order"], event["index"]] += 1
            endings[event["ending"]] += 1
    wrong = [f"{n} x sent: request {key}" for key, n in sent.items() if n != 1]
    wrong += [f"{n} x ended: request {key}" for key, n in ended.items() if n != 1]
    wrong += [f"sent, and no ending: request {key}" for key in sent.keys() - ended.keys()]
    return endings, wrong


@asynccontextmanager
async def _through(url: str, chaos: bool) -> AsyncIterator[str]:
    if not chaos:
        yield url
        return
    async with troubling(url, Chaos()) as proxy:
        yield proxy.url
        print(f"the proxy: {dict(proxy.done)}")


async def _finished(url: str) -> float:
    async with httpx.AsyncClient(trust_env=False) as http:
        sample = parse((await http.get(f"{url}/metrics")).text, "text/plain", 0.0, 0.0)
    return sample.requests_success_total or 0.0


async def soak(minutes: float, chaos: bool, rate_rps: float | None) -> int:
    """The exit code; the account is printed."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        async with serve("small", "--max-num-seqs", "16") as server:
            rate = rate_rps or SHARE * await _knee_rps(server, folder)
            async with _through(server, chaos) as url:
                before, path = await _finished(server), folder / "hold.jsonl"
                asked = ("probe", url, "--hold", f"{rate:.3g}", *LIMITS, "--metrics-url", f"{server}/metrics", "--headless")
                process = await _command(*asked, "--json", "-", "--out", str(path))
                print(f"holding {rate:.3g} requests/s for {minutes:g} min", flush=True)
                memory_mb, until = list[float](), time.monotonic() + 60 * minutes
                while time.monotonic() < until and process.returncode is None:
                    await asyncio.sleep(min(60.0, max(0.1, until - time.monotonic())))
                    if process.returncode is None:
                        memory_mb.append(_memory_mb(process.pid))
                        size_mb = path.stat().st_size / 1e6
                        print(f"{len(memory_mb)} min: {memory_mb[-1]:.0f} MB memory, run file {size_mb:.1f} MB", flush=True)
                early = process.returncode is not None
                if not early:
                    process.send_signal(signal.SIGTERM)
                out, _ = await process.communicate()
                await asyncio.sleep(2)
                finished = await _finished(server) - before
            return _tell(json.loads(out), process.returncode, early, path, finished, memory_mb, chaos, minutes)


def _tell(
    result: dict[str, Any],
    code: int | None,
    early: bool,
    path: Path,
    finished: float,
    memory_mb: Sequence[float],
    chaos: bool,
    minutes: float,
) -> int:
    endings, wrong = _account(path)
    print(f"exit {code}: {result['message']}")
    print(f"requests: {sum(endings.values())} = {', '.join(f'{name} {n}' for name, n in endings.most_common())}")
    size = path.stat().st_size
    print(f"the server finished {finished:g}; run file {size} bytes, {size / max(1, endings.total()):.0f} a request")
    if early:
        wrong.append("the run ended by itself")
    if code not in (0, 130):
        wrong.append(f"exit code {code}")
    if not chaos and not endings["ok"] <= finished <= endings["ok"] + endings["aborted"]:
        wrong.append(f"{endings['ok']} ended ok, the server finished {finished:g}")
    if size > REQUEST_BYTES * endings.total() + SECOND_BYTES * 60 * (minutes + 1):
        wrong.append("the run file is larger than said")
    if len(memory_mb) > 10 and memory_mb[-1] - memory_mb[9] > GROWTH_MB:
        wrong.append(f"memory grew from {memory_mb[9]:.0f} to {memory_mb[-1]:.0f} MB")
    for sentence in wrong[:20]:
        print(f"WRONG {sentence}")
    return 1 if wrong else 0


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--rate", type=float, help="requests/s in place of the search")
    parser.add_argument("--chaos", action="store_true", help="through a proxy that delays, splits, cuts and resets")
    given = parser.parse_args()
    install.ensure()
    sys.exit(asyncio.run(soak(given.minutes, given.chaos, given.rate)))


if __name__ == "__main__":
    main()
