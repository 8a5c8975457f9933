"""How often does a comparison claim what is not so, and how often does it tell a slower server? In virtual time.

    python -m tests.benchmarks.compare_claims [-n PAIRS] [--jobs N] [--kind KIND] [replica ...]

Pairs of searches of the built-in replicas, each search with a seed of its own: of the same replica twice, where every claim is
wrong, and of one with the same replica whose steps take 20 % and 40 % longer, where "worse" is right. `rates`: a list from 70 to
110 % of the true knee, three windows of 60 s each, of one draw; between a replica and itself that would be the same twice, so there
each has a draw of its own and they are compared as if they had one, which tries the interval of a paired difference where pairing
gains nothing. How often it leaves out 0 stands below.
"""

import argparse
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace

from core.compare import Against, Side, compare, side_of
from core.config import Method
from core.replica.catalog import Replica
from core.run import Recording
from tests.benchmarks.knee_search import MODES, built_in, server_of, wilson
from tests.core.judge.virtual import VirtualRun, probe_of

FACTORS = (1.0, 1.2, 1.4)
RATES = (0.7, 0.8, 0.9, 1.0, 1.1)
KINDS = ("quick", "standard", "rates")
FIRST_SEED = 70_000
REPLICAS = ("chat", "rag", "kvlim", "slot", "demo")


class Run(NamedTuple):
    """One of them: of the replica with steps so many times as long, by its seed."""

    replica: str
    kind: str
    factor: float
    seed: int


def slower(found: Replica, factor: float) -> Replica:
    """The same replica with every part of a step so many times as long."""
    engine = found.engine
    parts = {name: factor * getattr(engine, name) for name in ("step_s", "per_sequence_s", "per_kv_token_s", "per_prefill_token_s")}
    return replace(found, engine=replace(engine, **parts))


def method_of(kind: str, knee_rps: float | None) -> Method:
    """What is asked of a run of that kind."""
    if kind != "rates":
        return MODES[kind]
    assert knee_rps is not None, "all of these have a known knee"
    return Method(rates_rps=tuple(knee_rps * share for share in RATES), repeats=3, measure_s=60.0)


@lru_cache(maxsize=128)  # each A stands against three others
def side(run: Run) -> Side:
    """One run, as a comparison sees it."""
    found = slower(built_in()[run.replica], run.factor)
    config = probe_of(found, run.seed, method_of(run.kind, found.truth_rps))
    virtual = VirtualRun(config, server_of(found), twin=(lambda windows, records, near: None) if run.kind == "rates" else None)
    answer = virtual.answer()
    recorded = Recording(
        config=config,
        server=None,
        orders=tuple(window.order for window in virtual.windows),
        records=tuple(virtual.records),
        samples=(),
        steps=tuple(virtual.results),
        knee=answer.knee,
        ended=True,
        answer=answer,
        duration_s=virtual.elapsed_s,
    )
    return side_of(recorded, Path(run.replica))


def against(pair: tuple[Run, Run]) -> tuple[Against, float]:
    """The second of two runs against the first, and how long one took."""
    a, b = map(side, pair)
    asked = b.asked if pair[0].kind != "rates" else a.asked  # as if of one draw
    (told,) = compare([a, replace(b, asked=asked)]).against
    return told, a.duration_s or 0.0


def pairs(names: list[str], kind: str, factor: float, n: int) -> list[tuple[Run, Run]]:
    """So many of each replica; those of every factor have the same A."""
    seeds = range(FIRST_SEED, FIRST_SEED + n)
    other = 0 if kind == "rates" and factor > 1 else 10_000
    return [(Run(name, kind, 1.0, seed), Run(name, kind, factor, other + seed)) for name in names for seed in seeds]


def line(kind: str, factor: float, found: list[tuple[Against, float]]) -> str:
    """The figures of so many pairs."""
    count = Counter(told.verdict for told, _ in found)
    wrong = count["better"] + (count["worse"] if factor == 1 else 0)
    low, high = wilson(wrong, len(found))
    right = "" if factor == 1 else f"{count['worse'] / len(found):.0%}"
    took_s = np.mean([took for _, took in found])
    return (
        f"{kind:9} {factor:6.1f} {len(found):5}   {wrong / len(found):4.0%} ({low:.0%} to {high:.0%})   {right:>9}   "
        f"{count['not_told'] / len(found):8.0%}   {count['refused'] / len(found):5.0%}   {took_s:5.0f} s"
    )


def intervals(found: list[tuple[Against, float]]) -> Iterator[str]:
    """How often an interval leaves out 0 between a replica and itself."""
    rates = [rate for told, _ in found for rate in told.rates]
    for name, each in (("attainment", [rate.difference for rate in rates]), ("margin", [rate.margin for rate in rates])):
        known = [interval for interval in each if interval is not None]
        if known:
            beyond = sum(interval.beyond_zero for interval in known)
            low, high = wilson(beyond, len(known))
            yield f"  difference of {name}: beyond 0 in {beyond / len(known):.1%} of {len(known)} ({low:.1%} to {high:.1%})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help=f"replicas; {', '.join(REPLICAS)} if none is given")
    parser.add_argument("--kind", action="append", choices=KINDS, help="may be given several times; all if it is not")
    parser.add_argument("-n", type=int, default=8, help="pairs of each replica")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    asked = parser.parse_args()
    began = time.perf_counter()
    print("kind      slower pairs   wrong (95 % limits)   worse, right   not told  no answer   time of A")
    with ProcessPoolExecutor(asked.jobs) as pool:
        for kind in asked.kind or KINDS:
            for factor in FACTORS:
                found = list(pool.map(against, pairs(asked.names or list(REPLICAS), kind, factor, asked.n)))
                print(line(kind, factor, found), flush=True)
                for text in intervals(found) if kind == "rates" and factor == 1 else ():
                    print(text, flush=True)
    print(f"{time.perf_counter() - began:.0f} s of computing")


if __name__ == "__main__":
    main()
