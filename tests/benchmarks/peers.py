"""The rates that the real load generators carry on one core, and what they report there against the truth: ours beside its peers.

python -m tests.benchmarks.peers [--quick] [--unpinned] [--vllm PATH] [--guidellm PATH] [--aiperf PATH] [--tokenizer FOLDER]

Needs cc and two cores; about 10 minutes with all peers, 5 with --quick. `make real-vllm` makes the vLLM 0.32 and the tokenizer that
are taken if nothing else is said; for the others `python3 -m venv X && X/bin/pip install guidellm==0.8.1` (or aiperf==0.13.0), in a
venv each, and X/bin/guidellm is the path. A program that is not there is named as not run.

Each program runs as its users run it, whole, all its processes on one core (--unpinned: guidellm and aiperf on all cores, which
they then share with the server), against server.c on another, which logs when it received each request and sent each token: the
truth. Ours runs a second time with the process that it reports to on the server's core: "child alone".

All get 64 requests to warm up, which count nowhere, then as many as the rate asks for, on no limit of concurrency. Arrivals are
Poisson and scaled to take the time that they should, as `vllm bench serve` does by itself; for aiperf and guidellm they are evenly
spaced, which is easier to send: their Poisson is not scaled, and its draw would decide what arrived in so short a run. Prompts are
made beforehand; displays, telemetry and the client's own counting of tokens are off where that can be.

A program carries a rate when at least 98 % of it arrived on the wire and the TTFT p99 that it reports is within 5 ms of the
server's own. It climbs until a rate fails twice: once may be chance. Our TTFT counts from when a request was due, the others' from
when they sent it. "foreign" is the share of the client's core that others took: where it is not small, run it again.

CPU per chunk is of all processes of a program, over the half seconds in which at least 80 % of the chunks asked for were on the
wire: without its start, and without what it works out at the end.
"""

import argparse
import contextlib
import os
import signal
import subprocess
import tempfile
import time
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from tests.benchmarks.peer_programs import BASE, OFFLINE, TTFT_US, WARMUP, Load, Program, Report, programs, spread_ms
from tests.benchmarks.transport import CLIENT_CORE, SERVER_CORE, core_busy, get, serving
from tests.real_vllm import install

RATES = (100, 200, 400, 800, 1500, 2000, 3000, 4000, 5000, 6000)
QUICK_RATES = (100, 400, 1500, 3000, 5000)
ANSWERS_PER_S = (32, 200)
"""Of 200 tokens 10 ms apart: 6,400 and 40,000 chunks/s."""
SECONDS, QUICK_SECONDS, CHUNKS_SECONDS, QUICK_CHUNKS_SECONDS = 3.0, 2.0, 7.0, 4.0
ARRIVED, ERROR_MS, TRIES, TIMEOUT_S = 0.98, 5.0, 2, 90
FULL, LOOK_S = 0.8, 0.5
CORES = os.sched_getaffinity(0)


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """One run. `wire_rps` is what arrived, in the time that it should have taken or that it took, whichever is longer.
    No `report`: it failed, and `words` says how. `cpu_per_chunk_s` is None where the chunks asked for never came."""

    load: Load
    wire_rps: float
    truth: Report
    report: Report | None
    words: str
    cpu_per_chunk_s: float | None
    foreign: float | None
    """None where a program has several cores: then it cannot be told."""

    @property
    def carried(self) -> bool:
        if self.report is None or self.wire_rps < ARRIVED * self.load.rate_rps:
            return False
        return abs(self.report.ttft_ms[1] - self.truth.ttft_ms[1]) <= ERROR_MS

    @property
    def verdict(self) -> str:
        return self.words if self.report is None else "carried" if self.carried else "failed"


def run(program: Program, load: Load, url: str) -> Outcome:
    get(f"{url}/set?tokens={load.tokens}&ttft-us={TTFT_US}&itl-us={load.itl_us}")
    get(f"{url}/log")
    busy, before = core_busy(CLIENT_CORE), os.times()
    with tempfile.TemporaryDirectory() as name:
        words, looks = execute(program, program.arguments(url, load, Path(name)), Path(name), url)
        try:
            report = program.read(Path(name))
        except (OSError, LookupError, TypeError, ValueError) as problem:
            report, words = None, f"no report ({type(problem).__name__}); its last words: {words}"
    busy, after = core_busy(CLIENT_CORE) - busy, os.times()
    cpu_s = sum(after[2:4]) - sum(before[2:4])
    log = sorted(tuple(map(int, line.split()[1:])) for line in get(f"{url}/log").splitlines())[WARMUP:]
    took_s = max(load.seconds, (log[-1][0] - log[0][0]) * 1e-9) if log else load.seconds
    ttft_s = [(first - received) * 1e-9 for received, first, _ in log]
    tpot_s = [(last - first) * 1e-9 / max(1, load.tokens - 1) for _, first, last in log]
    return Outcome(
        load=load,
        wire_rps=len(log) / took_s,
        truth=Report(spread_ms(ttft_s), spread_ms(tpot_s)),
        report=report,
        words=words,
        cpu_per_chunk_s=cpu_per_chunk_s(looks, FULL * load.rate_rps * load.tokens),
        foreign=max(0.0, (busy - cpu_s) / (after[4] - before[4])) if program.on_one_core else None,
    )


Look = tuple[float, float, int]
"""When, CPU seconds of all processes of a program so far, chunks that the server has sent so far."""


def execute(program: Program, arguments: list[str], folder: Path, url: str) -> tuple[str, list[Look]]:
    """Runs it to its end, or ends it and its processes when that takes too long; its last words, and what was seen meanwhile."""
    environment = {name: value for name, value in os.environ.items() if name not in OFFLINE} | program.environment
    output, looks, end = folder / "output", [], time.monotonic() + TIMEOUT_S
    with output.open("wb") as file:
        process = subprocess.Popen(
            [str(program.path), *arguments],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=lambda: os.sched_setaffinity(0, {CLIENT_CORE} if program.pinned else CORES),
        )
        try:
            while process.poll() is None and time.monotonic() < end:
                looks.append((time.monotonic(), session_cpu_s(process.pid), int(get(f"{url}/sent"))))
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(LOOK_S)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
    lines = output.read_text(errors="replace").strip().splitlines()
    return f"{lines[-1] if lines else 'nothing'} (exit code {process.returncode})", looks


def session_cpu_s(session: int) -> float:
    """CPU seconds of a session's processes and of those that they have seen end."""
    ticks = 0
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it has just ended
            words = path.read_text().rpartition(")")[2].split()
            ticks += sum(map(int, words[11:15])) if int(words[3]) == session else 0
    return ticks / os.sysconf("SC_CLK_TCK")


def cpu_per_chunk_s(looks: list[Look], chunks_per_s: float) -> float | None:
    """Over the stretches between two looks in which chunks came at this rate or faster."""
    full = [(b[1] - a[1], b[2] - a[2]) for a, b in pairwise(looks) if b[2] - a[2] >= chunks_per_s * (b[0] - a[0])]
    return sum(cpu_s for cpu_s, _ in full) / sum(count for _, count in full) if full else None


def pair(values: tuple[float, float] | None) -> str:
    return f"{'-':>18}" if values is None else f"{values[0]:10.2f}{values[1]:8.2f}"


def share(value: float | None) -> str:
    return f"{'-':>9}" if value is None else f"{value:9.2f}"


def climb(program: Program, rates: tuple[int, ...], seconds: float, url: str) -> float:
    """The highest rate that it carries; 0 for none."""
    highest = 0.0
    for rate in rates:
        for _ in range(TRIES):
            got = run(program, Load(rate_rps=rate, seconds=seconds), url)
            said, lateness = (got.report.ttft_ms, got.report.lateness_ms) if got.report else (None, None)
            figures = pair(said) + pair(got.truth.ttft_ms) + pair(lateness)
            print(f"{program.name:20}{rate:7d}{got.wire_rps:9.1f}{figures}{share(got.foreign)}  {got.verdict}", flush=True)
            if got.carried:
                break
        else:
            break
        highest = rate
    return highest


def ladder(there: list[Program], rates: tuple[int, ...], seconds: float, url: str) -> None:
    print(f"\nRequests/s, answers of 4 tokens, {seconds:g} s a rate; p50 and p99 in ms")
    head = "".join(f"{name:>18}" for name in ("TTFT reported", "TTFT in truth", "lateness"))
    print(f"{'':20}{'asked':>7}{'on wire':>9}{head}{'foreign':>9}")
    carried = {program.name: climb(program, rates, seconds, url) for program in there}
    print(f"\n{'Highest rate carried':24}{'requests/s':>12}{'ratio':>8}")
    for name, rate in carried.items():
        print(f"{name:24}{rate:12g}" + (f"{rate / carried[BASE]:8.2f}" if carried.get(BASE) else f"{'-':>8}"))


def chunks(there: list[Program], load: Load, url: str) -> None:
    rate, streams = load.rate_rps * load.tokens, load.rate_rps * load.tokens * load.itl_us * 1e-6
    print(
        f"\n{rate:,.0f} chunks/s on {streams:.0f} streams: {load.rate_rps:g} answers/s of {load.tokens} tokens; p50 and p99 in ms"
    )
    head = "".join(f"{name:>18}" for name in ("TTFT reported", "TTFT in truth", "TPOT reported", "TPOT in truth"))
    print(f"{'':20}{'on wire':>9}{head}{'foreign':>9}{'us/chunk':>10}")
    for program in there:
        got = run(program, load, url)
        ttft, tpot = (got.report.ttft_ms, got.report.tpot_ms) if got.report else (None, None)
        figures = pair(ttft) + pair(got.truth.ttft_ms) + pair(tpot) + pair(got.truth.tpot_ms)
        cpu_us = "-" if got.cpu_per_chunk_s is None else f"{got.cpu_per_chunk_s * 1e6:.1f}"
        print(f"{program.name:20}{got.wire_rps:9.1f}{figures}{share(got.foreign)}{cpu_us:>10}  {got.verdict}", flush=True)


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.peers")
    own_vllm = install.home() / "venv" / "bin" / "vllm"
    for name, path in (("vllm", own_vllm if own_vllm.exists() else None), ("guidellm", None), ("aiperf", None)):
        parser.add_argument(f"--{name}", type=absolute, default=path and str(path))
    parser.add_argument("--tokenizer", type=absolute, default=install.model_dir("tiny"))
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--unpinned", action="store_true")
    return parser.parse_args()


def absolute(path: str) -> str:
    if not Path(path).exists():
        raise argparse.ArgumentTypeError(f"{path} does not exist")
    return str(Path(path).absolute())


def main() -> None:
    given = options()
    every = programs(given)
    for program in every:
        print(f"{program.name}: {program.where}")
    there = [program for program in every if program.path]
    os.sched_setaffinity(0, {SERVER_CORE})
    rates, seconds = (QUICK_RATES, QUICK_SECONDS) if given.quick else (RATES, SECONDS)
    chunks_seconds = QUICK_CHUNKS_SECONDS if given.quick else CHUNKS_SECONDS
    with serving() as url:
        ladder(there, rates, seconds, url)
        for rate in ANSWERS_PER_S:
            chunks(there, Load(rate_rps=rate, seconds=chunks_seconds, tokens=200, itl_us=10_000), url)


if __name__ == "__main__":
    main()
