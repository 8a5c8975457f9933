"""How much of a core a chunk and a request cost, and how late they are stamped: our client beside the others, in one run.

python -m tests.benchmarks.transport [ROUNDS] [--quick]       (needs cc and two cores; about 8 minutes a round, 3 with --quick)

The server (server.c) is compiled and pinned to one core, the client to another. Cells are run client by client in turn, so that
what else the machine does meets all of them; the table is the median of the rounds, and ratios are to `vllm bench serve`'s way of
doing it. CPU is taken while no chunk is looked at and counted by the chunks asked for, the rest is taken afterwards. "kept up" is
the share of the chunks asked for that the client had read while it was watched, "foreign" what others took of its core: where that
is not small, only the ratios are worth reading. The CPU of a request is with what is done before it is due.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from statistics import median
from typing import Any

HERE = Path(__file__).parent
SERVER_CORE, CLIENT_CORE = 0, 1
BASE = "vllm bench's way"
ALL = [
    "ours",
    "stamps alone",
    "ours, as a plain httpx transport",
    "aiohttp",
    "httpx-aiohttp",
    "httpx default",
    BASE,
    f"{BASE}, on uvloop",
]
FAST = ["ours", "stamps alone", "aiohttp", "httpx-aiohttp", BASE, f"{BASE}, on uvloop"]
RATES = (100, 250, 500, 1000, 1500, 2000, 3000, 4000, 5000, 6000, 7000, 8000)
LATE_S, WARMUP_S = 0.005, 0.5
"""How late a send may be; and how long connections are being opened, at the beginning, of which nothing counts."""

QUIET, QUIET_WAIT_S, TRIES = 0.15, 5.0, 2
"""Share of a core that others may take; how long a moment like that is waited for; how often a disturbed run is tried."""

COLUMNS = ("us/chunk", "ratio", "kept up", "reads/chunk", "lag p50 us", "lag p99 us", "ratio", "foreign")
HEADINGS = f"{'':34}" + " ".join(f"{name:>{max(len(name), 8)}}" for name in COLUMNS)

CELLS: list[tuple[str, dict[str, float], list[str]]] = [
    ("6,400 chunks/s on 64 streams", {"streams": 64, "itl_s": 0.01, "seconds": 6}, ALL),
    ("50,000 chunks/s on 256 streams", {"streams": 256, "itl_s": 0.00512, "seconds": 6}, FAST),
    ("50,000 chunks/s on 1000 streams", {"streams": 1000, "itl_s": 0.02, "seconds": 6}, FAST),
    ("256 streams, all at once every 25 ms", {"streams": 256, "itl_s": 0.025, "seconds": 6, "burst": 1}, ALL),
]


@contextmanager
def serving(*, pinned: bool = True) -> Iterator[str]:
    """The compiled server, on its core. Not pinned, it goes before all else where that is allowed, wherever there is a core: in the
    place of one on a machine of its own."""
    with tempfile.TemporaryDirectory() as folder:
        binary = Path(folder) / "server"
        subprocess.run(["cc", "-O2", "-o", str(binary), str(HERE / "server.c")], check=True)
        server = subprocess.Popen([str(binary)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        if pinned:
            os.sched_setaffinity(server.pid, {SERVER_CORE})
        else:
            with suppress(PermissionError):
                os.sched_setscheduler(server.pid, os.SCHED_RR, os.sched_param(1))
        assert server.stdin is not None
        assert server.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(server.stdout.readline())}"
        finally:
            server.stdin.close()
            server.wait()


def get(url: str) -> str:
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(url) as answer:
        text: bytes = answer.read()
    return text.decode()


def core_busy(core: int) -> float:
    """CPU seconds that a core has worked."""
    line = next(line for line in Path("/proc/stat").read_text().splitlines() if line.startswith(f"cpu{core} "))
    user, nice, system, _, _, irq, soft, steal, *_ = map(int, line.split()[1:])
    return (user + nice + system + irq + soft + steal) / os.sysconf("SC_CLK_TCK")


def run(client: str, scenario: str, url: str, **given: float) -> dict[str, Any]:
    """One client, in a quiet moment if there is one; tried again when others took much of its core, and the quietest try counts."""
    best: dict[str, Any] | None = None
    for _ in range(TRIES):
        wait_for_quiet()
        one = run_once(client, scenario, url, **given)
        best = one if best is None or one["foreign"] < best["foreign"] else best
        if best["foreign"] < QUIET:
            break
    assert best is not None
    return best


def wait_for_quiet() -> None:
    end = time.monotonic() + QUIET_WAIT_S
    while time.monotonic() < end:
        before = [core_busy(core) for core in (SERVER_CORE, CLIENT_CORE)]
        time.sleep(0.3)
        if max(core_busy(core) - busy for core, busy in zip((SERVER_CORE, CLIENT_CORE), before, strict=True)) < QUIET * 0.3:
            return


def run_once(client: str, scenario: str, url: str, **given: float) -> dict[str, Any]:
    """One client once; adds the share of its core that others took, and the server's log of it."""
    get(url + "/log")
    command = [sys.executable, "-m", "tests.benchmarks.clients", client, scenario, url, *(f"{k}={v}" for k, v in given.items())]
    before = core_busy(CLIENT_CORE), sum(os.times()[2:4]), os.times()[4]
    done = subprocess.run(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        check=True,
        timeout=120,
        preexec_fn=lambda: os.sched_setaffinity(0, {CLIENT_CORE}),
    )
    after = core_busy(CLIENT_CORE), sum(os.times()[2:4]), os.times()[4]
    truth = get(url + "/log")
    wall = after[2] - before[2]
    foreign = (after[0] - before[0] - (after[1] - before[1])) / wall
    result: dict[str, Any] = json.loads(done.stdout)
    return result | {"foreign": max(0.0, foreign), "truth": truth}


def cells(url: str, rounds: int) -> None:
    for name, given, clients in CELLS:
        got: dict[str, list[dict[str, Any]]] = {client: [] for client in clients}
        server_cpu: list[float] = []
        for _ in range(rounds):
            for client in clients:
                before = float(get(url + "/cpu"))
                got[client].append(run(client, "streams", url, **given))
                server_cpu.append(float(get(url + "/cpu")) - before)
        print(f"\n{name} (server {median(server_cpu) / given['seconds']:.2f} core)")
        print(HEADINGS)
        base_cpu = median(one["cpu_us"] for one in got[BASE])
        base_lag = median(one["lag_us"]["p99"] for one in got[BASE])
        for client in clients:
            cpu, kept, reads = (median(one[key] for one in got[client]) for key in ("cpu_us", "kept_up", "reads"))
            foreign = median(one["foreign"] for one in got[client])
            p50, p99 = (median(one["lag_us"][key] for one in got[client]) for key in ("p50", "p99"))
            figures = f"{cpu:8.2f} {cpu / base_cpu:8.2f} {kept:8.0%} {reads:11.2f} {p50:10.0f} {p99:10.0f} {p99 / base_lag:8.2f}"
            print(f"{client:34}{figures} {foreign:8.2f}")


def at(values: list[float], q: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * q))]


def one_rate(client: str, url: str, rate: float, seconds: float) -> dict[str, float]:
    """Lateness on the wire (the server received, minus due) and TTFT as seen, minus the server's own, in seconds."""
    seen = run(client, "requests", url, rate_rps=rate, seconds=seconds, exact=float(client.startswith("ours")))
    late, error, begin = [], [], seen["due"][0] + WARMUP_S
    for line in seen["truth"].splitlines():
        number, received, first, _ = map(int, line.split())
        if seen["due"][number] < begin:
            continue
        late.append(received * 1e-9 - seen["due"][number])
        error.append(seen["first"][number] - seen["sent"][number] - (first - received) * 1e-9)
    return {
        "late_p99": at(late, 0.99),
        "error_p50": at(error, 0.5),
        "error_p99": at(error, 0.99),
        "cpu_us": seen["cpu_us"],
        "foreign": seen["foreign"],
    }


def capacity(url: str, client: str, tries: int, seconds: float) -> float:
    """The highest rate whose lateness p99 is below the mark in the best of so many tries."""
    highest = 0.0
    for rate in RATES:
        if min(one_rate(client, url, rate, seconds)["late_p99"] for _ in range(tries)) >= LATE_S:
            break
        highest = rate
    return highest


def rates(url: str, clients: list[str], tries: int, seconds: float) -> None:
    print(f"\nHighest requests/s with p99 lateness on the wire under 5 ms, best of {tries}; TTFT error there at a share of it")
    head = "".join(f"{f'at {share:.0%}: p50 / p99 ms':>24}" for share in (0.3, 0.6, 0.9))
    print(f"{'':34}{'requests/s':>10} {'ratio':>6}{head} {'us/request':>11}")
    found = {client: capacity(url, client, tries, seconds) for client in clients}
    for client in clients:
        row, cpu = "", 0.0
        for share in (0.3, 0.6, 0.9):
            got = [one_rate(client, url, max(20.0, share * found[client]), seconds) for _ in range(tries)]
            best = min(got, key=lambda one: one["error_p99"])
            cpu = min(one["cpu_us"] for one in got)
            row += f"{best['error_p50'] * 1e3:>15.3f} / {best['error_p99'] * 1e3:6.2f}"
        print(f"{client:34}{found[client]:10g} {found[client] / max(found[BASE], 1):6.2f}{row} {cpu:11.0f}")


def memory(url: str, clients: list[str], count: int) -> None:
    print(f"\nPeak memory with {count} streams open")
    for client in clients:
        got = run(client, "memory", url, streams=count)
        print(f"{client:34}{got['peak_mb']:8.0f} MB ({got['before_mb']:.0f} MB before)")


def main() -> None:
    quick = "--quick" in sys.argv
    rounds = next((int(word) for word in sys.argv[1:] if word.isdigit()), 1)
    with serving() as url:
        cells(url, rounds)
        rates(url, ["ours", "aiohttp", "httpx-aiohttp", BASE], tries=2 if quick else 3, seconds=2.5)
        memory(url, ["ours", "aiohttp"], count=5_000 if quick else 10_000)


if __name__ == "__main__":
    main()
