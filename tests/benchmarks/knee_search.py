"""How good is the quick search? Many searches of simulated replicas with known knees, in virtual time.

    python -m tests.benchmarks.knee_search [searches per replica] [replica ...]

A bracket is right when the long-run knee is in it; a false pass (FP) is a passing rate above the knee. About 0.2 s a search.
"""

import sys
import time
from dataclasses import dataclass

import numpy as np

from core.replica.catalog import CATALOG, Replica
from tests.core.judge.virtual import VirtualRun, batching, probe_of

REPLICAS = ("chat", "rag", "kvlim", "slot")
FIRST_SEED = 20_000


@dataclass(frozen=True)
class Found:
    """One search against the truth: both ends over the true knee (None: no such end), and the virtual seconds it took."""

    low: float | None
    high: float | None
    took_s: float
    steps: int


def search(replica: Replica, seed: int) -> Found:
    assert replica.truth_rps is not None, f"the knee of {replica.name} is not known"
    run = VirtualRun(probe_of(replica, seed), batching(replica))
    knee = run.answer().knee
    low = None if knee.pass_rps is None else knee.pass_rps / replica.truth_rps
    high = None if knee.first_fail_rps is None else knee.first_fail_rps / replica.truth_rps
    return Found(low, high, run.elapsed_s, run.steps)


def line(name: str, found: list[Found]) -> str:
    lows = np.array([f.low for f in found if f.low is not None])
    took_s = np.array([f.took_s for f in found])
    right = np.mean([f.low is not None and f.high is not None and f.low <= 1 <= f.high for f in found])
    false, false_5, false_10 = (sum(lows > edge) / len(found) for edge in (1.0, 1.05, 1.10))
    widths = [f.high / f.low - 1 for f in found if f.low is not None and f.high is not None]
    p10, p50, p90 = np.percentile(lows, [10, 50, 90]) if lows.size else (float("nan"),) * 3
    return (
        f"{name:8} {len(found):4} {right:8.2f} {false:6.2f} {false_5:6.2f} {false_10:6.2f}   {p10:.2f}/{p50:.2f}/{p90:.2f} "
        f"{np.mean(widths):8.0%} {took_s.mean():7.0f} ({np.percentile(took_s, 95):.0f}) {np.mean([f.steps for f in found]):6.1f} "
        f"{1 - lows.size / len(found):6.2f}"
    )


def main(searches: int, names: tuple[str, ...]) -> None:
    print("replica     n  in [lo,hi]  FP  FP>5% FP>10%   lo/knee p10/50/90  hi/lo-1  mean s (p95)  steps  no pass")
    everything: list[Found] = []
    began = time.perf_counter()
    for name in names:
        found = [search(CATALOG[name], FIRST_SEED + k) for k in range(searches)]
        everything += found
        print(line(name, found), flush=True)
    print(line("all", everything))
    print(f"{(time.perf_counter() - began) / len(everything):.1f} s of computing a search")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5, tuple(sys.argv[2:]) or REPLICAS)
