"""What does the queue rule see, and what does it call rising that is not? Windows at rates around saturation, in virtual time.

    python -m tests.benchmarks.queue_rule [-n WINDOWS] [--measure SECONDS] [--load X] [replica ...]

The replicas have one limit, which nothing misses (a TPOT of 5 s), so that a rate beyond the server has the queue alone against it.
A load is a rate over saturation, the rate at which the engine ends requests when it always has some waiting. Windows and warm-ups
are as long as a search that knows 0.9 of saturation makes them. `rising` is the share of windows that the rule fails, after the
half window more that an undecided one gets; `longer` is the share of those.
"""

import argparse
import time
from functools import cache
from pathlib import Path

import msgspec
import numpy as np

from core import modes
from core.config import Safety, Slo
from core.engine import EngineSpec
from core.judge.stopping import extension_s, window_queue
from core.judge.verdict import warmup_needed
from core.records import RepeatOrder, Segment
from core.replica.catalog import CATALOG, Replica, TokenLengths
from core.results import QueueVerdict
from core.slo import e2e_s
from tests.benchmarks.knee_search import replicas_of
from tests.core.judge.virtual import Play, batching, probe_of

LOADS = (0.8, 0.9, 1.0, 1.05, 1.15, 1.3)
FIRST_SEED = 70_000
KNOWN_LOAD = 0.9
NOTHING_MISSES = Slo(ttft_s=None, tpot_s=5.0)
DRAIN_S = 120.0
POURED_S = 1200.0
"""Saturation is read in the last half of so long a load beyond it."""


def replicas() -> dict[str, Replica]:
    """Engines of the catalog with short, usual, long and heavy-tailed answers, one with few slots and one with a small cache."""
    large = CATALOG["chat"].engine
    prompts = TokenLengths(median=300, sigma=0.5, maximum=2048, minimum=8)
    long = TokenLengths(median=1000, sigma=0.25, maximum=2500)
    tail = TokenLengths(median=120, sigma=1.4, maximum=4096)

    def each(name: str, answers: TokenLengths, engine: EngineSpec = large, asked: TokenLengths = prompts) -> Replica:
        return Replica(name=name, description="", engine=engine, input_tokens=asked, output_tokens=answers, tpot_s=5.0)

    few = msgspec.structs.replace(large, max_seqs=16)
    all_ = (
        each("short", TokenLengths(median=32)),
        each("chat", TokenLengths(median=180, sigma=0.7, maximum=1024)),
        each("long", long),
        each("tail", tail),
        each("wide", long, msgspec.structs.replace(large, max_seqs=1024, kv_blocks=100_000)),
        each("kv", long, msgspec.structs.replace(large, kv_blocks=6000)),
        each("few", long, few),
        each("slot", CATALOG["slot"].output_tokens, msgspec.structs.replace(large, max_seqs=8), CATALOG["slot"].input_tokens),
        each("rag", CATALOG["rag"].output_tokens, large, CATALOG["rag"].input_tokens),
        each("fewtail", tail, few),
    )
    return {replica.name: replica for replica in all_}


def play(replica: Replica, segments: tuple[Segment, ...], seed: int) -> Play:
    """The whole of it, tail included."""
    order = RepeatOrder(order=1, phase="confirm", step=1, repeat=0, seed=seed, draw=None, segments=segments, start_at=0.0)
    played = Play(order, probe_of(replica, seed), batching(replica))
    played.until(lambda now: None)
    return played


def ends_per_s(replica: Replica, rate_rps: float, seconds: float) -> float:
    """Requests that end per second in the last half of so many seconds of a rate."""
    ended = play(replica, (Segment(rate_rps=rate_rps, duration_s=seconds, role="measured"),), FIRST_SEED).tally.traffic.ended_at
    return np.count_nonzero((ended > seconds / 2) & (ended < seconds)) / (seconds / 2)


@cache
def saturation_rps(replica: Replica) -> float:
    """The highest rate that the engine can serve: doubled until it serves less than two thirds, then read for longer."""
    rate_rps = 0.5
    while ends_per_s(replica, rate_rps, POURED_S / 4) > rate_rps / 1.5:
        rate_rps *= 2
    return ends_per_s(replica, rate_rps, POURED_S)


def repeat(replica: Replica, rate_rps: float, seed: int, measure_s: float, e2e: float, warmup_s: float) -> Play:
    """A repeat as a step makes it, its load kept up for the half window more that it may get."""
    window_s = modes.measured_s(measure_s, NOTHING_MISSES, rate_rps, e2e)
    *first, _ = modes.step_segments(measure_s, NOTHING_MISSES, Safety(), DRAIN_S, rate_rps, e2e, warmup_s)
    return play(replica, (*first, Segment(rate_rps=rate_rps, duration_s=min(window_s / 2, DRAIN_S), role="tail")), seed)


@cache
def pace(replica: Replica) -> tuple[float, float]:
    """Mean E2E and the warm-up that is needed at 0.9 of saturation, in seconds."""
    e2e, warmup_s = 5.0, 10.0
    for _ in range(3):
        records = repeat(replica, KNOWN_LOAD * saturation_rps(replica), FIRST_SEED, 60.0, e2e, warmup_s).tally.measured_records
        e2e, warmup_s = float(np.mean([v for r in records if (v := e2e_s(r)) is not None])), warmup_needed(records) or warmup_s
    return e2e, warmup_s


def judged(replica: Replica, load: float, seed: int, measure_s: float) -> tuple[QueueVerdict | None, bool]:
    """What the rule says of one window in the end, and whether that was lengthened."""
    e2e, needed_s = pace(replica)
    warmup_s = modes.planned_warmup_s(needed_s, load, KNOWN_LOAD)
    tally = repeat(replica, load * saturation_rps(replica), seed, measure_s, e2e, warmup_s).tally
    verdict = window_queue(tally)
    if verdict != "undecided":
        return verdict, False
    return window_queue(tally, tally.layout.window[1] + extension_s(tally, DRAIN_S)), True


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="replicas; all if none is given")
    parser.add_argument("--measure", type=float, default=60.0, help="M in seconds, as a mode asks for it")
    parser.add_argument("--load", type=float, action="append", help="rate over saturation; may be given several times")
    parser.add_argument("--replicas", type=Path, help="a JSON file of replicas in place of these, without their limits")
    parser.add_argument("-n", type=int, default=50, help="windows per replica and load")
    asked = parser.parse_args()
    known = replicas()
    if asked.replicas is not None:
        loose = {"ttft_s": None, "tpot_s": 5.0, "e2e_s": None}
        known = {name: msgspec.structs.replace(each, **loose) for name, each in replicas_of(asked.replicas).items()}
    began = time.perf_counter()
    print("replica   saturation  mean E2E  load    n   rising  longer")
    for name in asked.names or known:
        for load in asked.load or LOADS:
            found = [judged(known[name], load, FIRST_SEED + k, asked.measure) for k in range(asked.n)]
            rising, longer = np.mean([verdict == "rising" for verdict, _ in found]), np.mean([more for _, more in found])
            print(
                f"{name:9} {saturation_rps(known[name]):10.3f}  {pace(known[name])[0]:8.1f}  {load:4.2f} {asked.n:4}   "
                f"{rising:6.2f}  {longer:6.2f}",
                flush=True,
            )
    print(f"{time.perf_counter() - began:.0f} s of computing")


if __name__ == "__main__":
    main()
