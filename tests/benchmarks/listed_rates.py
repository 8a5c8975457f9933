"""How often does a single rate pass that should not? `--rates` around the knee of simulated replicas, in virtual time.

    python -m tests.benchmarks.listed_rates [--mode MODE] [-n RUNS] [--replicas FILE.json] [--share X] [replica ...]

Each run judges one rate, as `--rates` and `--require-rps` do: the share of runs in which it passed below the knee (as it
should) and above it (as it should not), and the virtual seconds that took against those announced before the load.
"""

import argparse
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import msgspec
import numpy as np

from core.replica.catalog import Replica
from tests.benchmarks.knee_search import MODES, built_in, replicas_of, server_of
from tests.core.judge.virtual import VirtualRun, probe_of

SHARES = (0.95, 1.05, 1.10)
FIRST_SEED = 40_000


@dataclass(frozen=True)
class Judged:
    """One rate judged: whether it passed, the virtual seconds that took and those announced, the warm-ups done again."""

    passed: bool
    took_s: float
    expected_s: float
    redone: int


def judge(replica: Replica, mode: str, share: float, seed: int) -> Judged:
    """Judge `share` of the replica's knee."""
    assert replica.truth_rps is not None, "there is no knee to be above or below of"
    method = msgspec.structs.replace(MODES[mode], rates_rps=(share * replica.truth_rps,))
    run = VirtualRun(probe_of(replica, seed, method), server_of(replica))
    passed = run.answer().knee.pass_rps is not None
    return Judged(passed=passed, took_s=run.elapsed_s, expected_s=run.expected_s or 0.0, redone=run.redone)


def line(mode: str, name: str, share: float, judged: list[Judged]) -> str:
    took_s = [each.took_s for each in judged]
    return (
        f"{mode:13} {name:8} {share:5.2f} {len(judged):4}   {sum(each.passed for each in judged):3} of {len(judged):3}   "
        f"{np.mean(took_s):6.0f} ({np.percentile(took_s, 95):.0f})   {np.mean([each.redone for each in judged]):.2f}   "
        f"{np.mean([each.expected_s for each in judged]) / np.mean(took_s):.2f}"
    )


HEAD = "mode          replica  share    n   passed       time (p95)   redone  expected/took"


def lines(modes: list[str], replicas: list[Replica], shares: list[float], n: int, jobs: int) -> Iterator[str]:
    seeds = range(FIRST_SEED, FIRST_SEED + n)
    with ProcessPoolExecutor(jobs) as pool:
        for mode in modes:
            for replica in replicas:
                for share in shares:
                    yield line(mode, replica.name, share, list(pool.map(partial(judge, replica, mode, share), seeds)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="replicas; all if none is given")
    parser.add_argument("--mode", action="append", choices=MODES, help="may be given several times; standard if it is not")
    parser.add_argument("--replicas", type=Path, help="a JSON file of replicas in place of the built-in ones")
    parser.add_argument("--share", action="append", type=float, help="of the knee; may be given several times")
    parser.add_argument("-n", type=int, default=30, help="runs per replica and rate")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    asked = parser.parse_args()
    replicas = built_in() if asked.replicas is None else replicas_of(asked.replicas)
    chosen = [replicas[name] for name in asked.names or replicas]
    began = time.perf_counter()
    print(HEAD)
    for text in lines(asked.mode or ["standard"], chosen, asked.share or list(SHARES), asked.n, asked.jobs):
        print(text, flush=True)
    print(f"{time.perf_counter() - began:.0f} s of computing")


if __name__ == "__main__":
    main()
