"""Does a twin do harm where the server is not built as it believes? The same searches with it and without it, in virtual time.

    python -m tests.benchmarks.wrong_twin [--kind KIND] [-n SEARCHES] [replica ...]              (10 s a search on one core)

What the twin believes is wrong in one way each: a step takes four times the tokens that the server takes (batch), the KV cache
holds half as much again or a third less (kv-more, kv-less), half of each prompt is found in a cache that nobody tells of (prefix),
a step emits 2.5 tokens of each answer (several), two engines take turns behind one address (two), every token is read up to 5 ms
late (late), the server's speed swings by 5 % either way from step to step (drift). Where that moves the knee, it is found anew by
a long simulation. A twin that is of no use should be put aside: then both searches are as good.
"""

import argparse
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from heapq import merge

import msgspec
import numpy as np
from numpy.typing import NDArray

from core.engine import EngineSpec, Limits
from core.replica.catalog import CATALOG, Replica
from core.schedule import Plan
from core.twin import Emitted, fast_engine
from tests.benchmarks.fresh_replicas import long_run_knee
from tests.benchmarks.knee_search import MODES, Found, found_by, inside, wilson
from tests.core.judge.virtual import Serve, VirtualRun, batching, probe_of
from tests.core.twin.looking import Looking
from tests.core.twin.windows import limits_of

Ints = NDArray[np.int64]

FIRST_SEED = 60_000
NAMES = ("chat", "rag", "kvlim")
TOKENS_A_STEP = 2.5
LATEST_S = 0.005
"""Less than any step takes, so that nothing overtakes."""
SWING, SWING_OVER = 0.05, 7
KNEE_REQUESTS = 20_000


def cheaper_prompts(replica: Replica) -> Serve:
    """Half of each prompt costs nothing."""
    return lambda plan: fast_engine(replica.engine, _with(plan, input_tokens=np.maximum(plan.input_tokens // 2, 1)))


def several_tokens(replica: Replica) -> Serve:
    """An answer takes fewer steps than it has tokens."""

    def steps(tokens: Ints) -> Ints:
        return np.asarray(np.ceil(tokens / TOKENS_A_STEP), dtype=np.int64)

    return lambda plan: fast_engine(replica.engine, _with(plan, output_tokens=steps(plan.output_tokens)))


def two_engines(replica: Replica) -> Serve:
    """Every other request goes to the other one."""

    def one(plan: Plan, which: int) -> Iterator[Emitted]:
        mine = np.arange(which, len(plan), 2)
        part = Plan(plan.offsets_s[mine], plan.segment[mine], plan.input_tokens[mine], plan.output_tokens[mine])
        for t, first, last in fast_engine(replica.engine, part):
            yield Emitted(t, mine[first].tolist(), mine[last].tolist())

    return lambda plan: merge(one(plan, 0), one(plan, 1), key=lambda event: event.t)


def read_late(replica: Replica) -> Serve:
    """Tokens arrive a little after they came."""
    rng = np.random.default_rng(1)

    def serve(plan: Plan) -> Iterator[Emitted]:
        for t, first, last in fast_engine(replica.engine, plan):
            yield Emitted(t + rng.uniform(0, LATEST_S), first, last)

    return serve


def drifting(replica: Replica) -> Serve:
    """Each plan finds it a little faster or slower than the one before."""
    plans = iter(range(1_000_000))

    def serve(plan: Plan) -> Iterator[Emitted]:
        return fast_engine(_slower(replica.engine, 1 + SWING * math.sin(2 * math.pi * next(plans) / SWING_OVER)), plan)

    return serve


@dataclass(frozen=True)
class Wrong:
    """A new server for each run, what the twin is told of its limits, and whether the server's knee is not the replica's."""

    serve: Callable[[Replica], Serve] = batching
    told: Callable[[Limits], Limits] = lambda limits: limits
    moved: bool = False


def _kv(by: float) -> Callable[[Limits], Limits]:
    return lambda limits: msgspec.structs.replace(limits, kv_tokens=int(by * (limits.kv_tokens or 0)))


KINDS = {
    "batch": Wrong(told=lambda limits: msgspec.structs.replace(limits, max_batched_tokens=4 * limits.max_batched_tokens)),
    "kv-more": Wrong(told=_kv(1.5)),
    "kv-less": Wrong(told=_kv(0.67)),
    "prefix": Wrong(cheaper_prompts, moved=True),
    "several": Wrong(several_tokens, moved=True),
    "two": Wrong(two_engines, moved=True),
    "late": Wrong(read_late),
    "drift": Wrong(drifting),
}


def searches(replica: Replica, wrong: Wrong, n: int) -> tuple[list[Found], list[Found]]:
    """The same seeds without the twin and with it."""
    truth_rps = replica.truth_rps or 1.0
    knee_rps = (
        long_run_knee(replica, wrong.serve(replica), truth_rps / 2, 4 * truth_rps, KNEE_REQUESTS) if wrong.moved else truth_rps
    )
    limits = wrong.told(limits_of(replica.engine))

    def found(seed: int, look: Looking | None) -> Found:
        run = VirtualRun(probe_of(replica, seed, MODES["standard"]), wrong.serve(replica), twin=look)
        return found_by(run, knee_rps)

    seeds = range(FIRST_SEED, FIRST_SEED + n)
    return [found(seed, None) for seed in seeds], [found(seed, Looking(replica, seed, limits)) for seed in seeds]


def told(found: list[Found]) -> str:
    """The figures of one kind of searches."""
    widths = [each.width for each in found if each.width is not None]
    held, false = (
        sum(each) for each in zip(*((inside(f.low, f.upper), f.low is not None and f.low > 1) for f in found), strict=True)
    )
    low, high = wilson(held, len(found))
    return (
        f"{held / len(found):.2f} ({low:.2f} to {high:.2f})   {false / len(found):.2f}   "
        f"{np.median(widths) if widths else math.nan:5.0%}   {np.mean([each.took_s for each in found]):5.0f}"
    )


HEAD = f"kind     replica     n   {'without: knee inside, false pass, width, s':46}   with the twin"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help=f"replicas of the catalog; {', '.join(NAMES)} if none is given")
    parser.add_argument("--kind", action="append", choices=KINDS, help="may be given several times; all if it is not")
    parser.add_argument("-n", type=int, default=10, help="searches per replica")
    asked = parser.parse_args()
    began, names = time.perf_counter(), asked.names or NAMES
    print(HEAD)
    everything: tuple[list[Found], list[Found]] = ([], [])
    for kind in asked.kind or KINDS:
        of_kind: tuple[list[Found], list[Found]] = ([], [])
        for name in names:
            without, with_it = searches(CATALOG[name], KINDS[kind], asked.n)
            print(f"{kind:8} {name:8} {asked.n:4}   {told(without):46}   {told(with_it)}", flush=True)
            of_kind[0].extend(without)
            of_kind[1].extend(with_it)
        print(f"{kind:8} all      {len(of_kind[0]):4}   {told(of_kind[0]):46}   {told(of_kind[1])}", flush=True)
        everything[0].extend(of_kind[0])
        everything[1].extend(of_kind[1])
    print(f"all      all      {len(everything[0]):4}   {told(everything[0]):46}   {told(everything[1])}")
    print(f"{time.perf_counter() - began:.0f} s of computing")


def _with(plan: Plan, *, input_tokens: Ints | None = None, output_tokens: Ints | None = None) -> Plan:
    prompts = plan.input_tokens if input_tokens is None else input_tokens
    return Plan(plan.offsets_s, plan.segment, prompts, plan.output_tokens if output_tokens is None else output_tokens)


def _slower(engine: EngineSpec, by: float) -> EngineSpec:
    return msgspec.structs.replace(
        engine,
        step_s=by * engine.step_s,
        per_sequence_s=by * engine.per_sequence_s,
        per_kv_token_s=by * engine.per_kv_token_s,
        per_prefill_token_s=by * engine.per_prefill_token_s,
    )


if __name__ == "__main__":
    main()
