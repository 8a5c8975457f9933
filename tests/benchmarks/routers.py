"""What does a router cost? Knees of four simulated replicas under each router, against four times the knee of one.

    python -m tests.benchmarks.routers [--case CASE] [--router ROUTER] [--horizon SECONDS] [--seed SEED] [--jobs JOBS]

Virtual time, the replica's own scheduler and prefix cache, the routers of `kneescope replica --router`. A knee is the rate at which
long-run attainment over all replicas crosses the target, found by halving with the same requests at every rate. Cases: `chat`,
`queue` (one request at a time, every prompt cold), and `rag-shared` (`rag`, whose prompts begin with one of 200 prefixes of
2048 tokens: more than one cache holds, and less than four do).

theory: a Poisson stream split at random is four independent ones, so exactly 1. Round robin gives each replica gamma gaps of
shape 4: the knee of one replica under those. The least loaded of four single servers is at best one queue before all of them
(M/G/4, by the recursion of Kiefer and Wolfowitz). Of one replica, against the knee in the catalog.
imbalance: requests of the busiest replica against an even share, mean over windows of 40 s at the knee. hits: share of prompt
tokens found in a prefix cache there.
"""

import argparse
import heapq
import math
import random
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.random import PCG64, Generator
from numpy.typing import NDArray

from core.engine import BLOCK_TOKENS
from core.replica.catalog import CATALOG, Replica, TokenLengths
from core.replica.routers import ROUTERS, RouterName, router_of
from core.replica.scheduler import Scheduler, Sequence
from core.schedule import Plan
from core.twin import fast_engine

REPLICAS = 4
HALVINGS = 7
BOUNDS = (0.7, 1.4)
"""Where a knee is looked for, in multiples of the even split's; cases that gain more look further up."""
WARM_FRAC = 0.15
"""The first share of the requests finds the replicas and their caches empty and is not counted."""
WINDOW_S = 40.0
FIRST_ID = 1 << 32
"""Blocks that no prompt shares have names from here on."""


@dataclass(frozen=True)
class Case:
    """A replica and what its prompts share: one of `groups` prefixes of `prefix_tokens`."""

    replica: Replica
    prefix_tokens: int = 0
    groups: int = 1
    highest: float = BOUNDS[1]


CASES = {
    "chat": Case(CATALOG["chat"]),
    "queue": Case(CATALOG["queue"], highest=2.8),
    "rag-shared": Case(CATALOG["rag"], prefix_tokens=2048, groups=200, highest=4.0),
}


@dataclass(frozen=True)
class Requests:
    """What comes, in order of time; `hashes` are those of the whole blocks of prompt and answer."""

    due_s: NDArray[np.float64]
    prompt: list[int]
    asked: list[int]
    hashes: list[tuple[int, ...]]


@dataclass(frozen=True)
class Seen:
    """One run: the share of good requests, the busiest replica's share against an even one, and the share of tokens found."""

    attained: float
    imbalance: float
    hits: float


def requests_of(case: Case, rate_rps: float, horizon_s: float, shape: float, seed: int) -> Requests:
    """Drawn by seed, each quantity from its own source: request i is the same at every rate. Gaps are gamma of that shape."""
    n = int(rate_rps * horizon_s)
    gaps, prompts, answers, groups = (Generator(PCG64((seed, part))) for part in range(4))
    due_s = np.cumsum(gaps.standard_gamma(shape, n) / (shape * rate_rps))
    prompt = _lengths(case.replica.input_tokens, n, prompts)
    asked = _lengths(case.replica.output_tokens, n, answers)
    if not case.prefix_tokens:  # cold: nothing to find
        return Requests(due_s, prompt, asked, [()] * n)
    group = groups.integers(0, case.groups, n).tolist()
    hashes = []
    for index in range(n):
        shared = min(case.prefix_tokens, prompt[index]) // BLOCK_TOKENS
        own = (prompt[index] + asked[index]) // BLOCK_TOKENS - shared
        first = group[index] * case.prefix_tokens
        hashes.append((*range(first, first + shared), *range(FIRST_ID + index * 4096, FIRST_ID + index * 4096 + own)))
    return Requests(due_s, prompt, asked, hashes)


def _lengths(lengths: TokenLengths, n: int, rng: Generator) -> list[int]:
    drawn = np.exp(rng.normal(np.log(lengths.median), lengths.sigma, n))
    cut: NDArray[np.int64] = np.floor(np.clip(drawn, lengths.minimum, lengths.maximum if lengths.sigma else lengths.median))
    return [int(each) for each in cut]


class VirtualFleet:
    """Several schedulers on one clock: each arrival goes where the router says, by what runs and waits at that moment."""

    def __init__(self, replica: Replica, replicas: int, router: RouterName) -> None:
        self._replica = replica
        self._router = router_of(router, random.Random(7), replica.engine.kv_blocks)
        self._schedulers = [Scheduler(replica.engine) for _ in range(replicas)]
        self._open = dict.fromkeys(range(replicas), 0)
        self._free_at = [0.0] * replicas
        self._next: list[tuple[float, int]] = []  # when which scheduler's step ends
        self._emitted: list[list[Sequence]] = [[] for _ in range(replicas)]
        self._idle = set(range(replicas))

    def serve(self, asked: Requests) -> tuple[list[int], NDArray[np.float64], NDArray[np.float64], list[int]]:
        """Of each request: its replica, when its first and its last token came, and the tokens that were found."""
        n = len(asked.prompt)
        self.first_s, self.last_s = np.full(n, math.inf), np.full(n, math.inf)
        self.index: dict[Sequence, int] = {}
        self.found = [0] * n
        where = []
        for index, due_s in enumerate(asked.due_s.tolist()):
            self._until(due_s)
            known = asked.hashes[index][: asked.prompt[index] // BLOCK_TOKENS] if self._router.reads_prompts else ()
            number = self._router.choose(self._open, known)
            where.append(number)
            prompt = asked.prompt[index]
            extra_s = self._replica.extra_s(prompt)
            sequence = Sequence(due_s, prompt, asked.asked[index], asked.hashes[index], extra_s)
            self.index[sequence] = index
            self._open[number] += 1
            self._schedulers[number].submit(sequence)
            if number in self._idle:
                self._step(number, max(self._free_at[number], due_s))
        self._until(math.inf)
        return where, self.first_s, self.last_s, self.found

    def _until(self, t: float) -> None:
        while self._next and self._next[0][0] <= t:
            now, number = heapq.heappop(self._next)
            for sequence in self._emitted[number]:
                index = self.index[sequence]
                if sequence.generated == 1:
                    self.first_s[index], self.found[index] = now, sequence.cached_tokens
                if sequence.finished:
                    self.last_s[index] = now
                    self._open[number] -= 1
                    del self.index[sequence]
            start = self._schedulers[number].next_start(now)
            if start is None:
                self._idle.add(number)
            else:
                self._step(number, start)

    def _step(self, number: int, start: float) -> None:
        self._idle.discard(number)
        step = self._schedulers[number].step(start)
        self._emitted[number], self._free_at[number] = step.emitted, step.end_s
        heapq.heappush(self._next, (step.end_s, number))


def split(
    replica: Replica, replicas: int, router: RouterName, asked: Requests
) -> tuple[list[int], NDArray[np.float64], NDArray[np.float64], list[int]]:
    """The same as `VirtualFleet.serve` for routers that look at nobody, by an engine that is some thirty times as fast."""
    chooser = router_of(router, random.Random(7), replica.engine.kv_blocks)
    busy = dict.fromkeys(range(replicas), 0)
    n = len(asked.prompt)
    where = [chooser.choose(busy) for _ in range(n)]
    first_s, last_s = np.full(n, math.inf), np.full(n, math.inf)
    for number in range(replicas):
        own = np.flatnonzero(np.array(where) == number)
        prompt, answers = np.array(asked.prompt)[own], np.array(asked.asked)[own]
        for emitted in fast_engine(replica.engine, Plan(asked.due_s[own], np.zeros(own.size, np.int32), prompt, answers)):
            first_s[own[emitted.first]] = emitted.t
            last_s[own[emitted.last]] = emitted.t
    return where, first_s, last_s, [0] * n


def run(
    case: Case, router: RouterName, replicas: int, rate_rps: float, horizon_s: float, shape: float = 1.0, seed: int = 1
) -> Seen:
    """One run in virtual time at a rate of all replicas together."""
    replica = case.replica
    asked = requests_of(case, rate_rps, horizon_s, shape, seed)
    blind = not case.prefix_tokens and replica.slow is None and (replicas == 1 or router in ("round-robin", "random"))
    serve = partial(split, replica, replicas, router) if blind else VirtualFleet(replica, replicas, router).serve
    where, first, last, found = serve(asked)
    due, answers = asked.due_s, np.array(asked.asked)
    tpot_s = (last - first) / np.maximum(answers - 1, 1)
    limits = ((first - due, replica.ttft_s), (tpot_s, replica.tpot_s), (last - due, replica.e2e_s))
    good = np.all([values <= limit for values, limit in limits if limit is not None], axis=0)
    counted = slice(int(len(good) * WARM_FRAC), None)
    return Seen(
        float(good[counted].mean()),
        _imbalance(np.array(where)[counted], due[counted], replicas),
        sum(found[counted]) / sum(asked.prompt[counted]),
    )


def _imbalance(where: NDArray[np.int64], due_s: NDArray[np.float64], replicas: int) -> float:
    window = ((due_s - due_s[0]) / WINDOW_S).astype(np.int64)
    counts = np.zeros((window[-1] + 1, replicas))
    np.add.at(counts, (window, where), 1)
    whole = counts[:-1]
    return float((whole.max(axis=1) * replicas / whole.sum(axis=1)).mean())


def shared_queue(case: Case, rate_rps: float, horizon_s: float, seed: int = 1) -> float:
    """Attainment of one queue before REPLICAS servers that take one request at a time: the next goes to whoever is free first."""
    replica = case.replica
    asked = requests_of(case, rate_rps, horizon_s, 1.0, seed)
    free_s = [0.0] * REPLICAS
    good = []
    for due_s, prompt in zip(asked.due_s.tolist(), asked.prompt, strict=True):
        end_s = max(due_s, free_s[0]) + replica.engine.step_s + replica.extra_s(prompt)
        heapq.heapreplace(free_s, end_s)
        good.append(end_s - due_s <= (replica.e2e_s or math.inf))
    return float(np.mean(good[int(len(good) * WARM_FRAC) :]))


def knee_frac(attained: Callable[[float], float], target: float, highest: float) -> float:
    """The highest multiple at which the target is still met; the middle of the last half."""
    low, high = BOUNDS[0], highest
    for _ in range(HALVINGS if highest <= BOUNDS[1] else HALVINGS + 2):
        middle = (low + high) / 2
        low, high = (middle, high) if attained(middle) >= target else (low, middle)
    return (low + high) / 2


def known_rps(case: Case) -> float:
    """What multiples are of, for one replica."""
    assert case.replica.truth_rps is not None
    return case.replica.truth_rps


def knee(name: str, router: RouterName, replicas: int, horizon_s: float, shape: float, seed: int = 1) -> tuple[float, Seen]:
    """The knee of so many replicas as a multiple of so many times the known rate, and what is seen there."""
    case = CASES[name]
    even_rps = replicas * known_rps(case)
    frac = knee_frac(
        lambda f: run(case, router, replicas, f * even_rps, horizon_s, shape, seed).attained, case.replica.target, case.highest
    )
    return frac, run(case, router, replicas, frac * even_rps, horizon_s, shape, seed)


def rows(name: str, routers: list[RouterName], horizon_s: float, jobs: int, seed: int) -> Iterator[str]:
    """One replica, one under the gaps that round robin leaves, and four under each router."""
    case = CASES[name]
    if not case.prefix_tokens:  # for cold prompts it is the least loaded
        routers = [each for each in routers if each != "prefix"]
    asks: list[tuple[RouterName, int, float]] = [
        ("random", 1, 1.0),
        ("random", 1, float(REPLICAS)),
        *((each, REPLICAS, 1.0) for each in routers),
    ]
    with ProcessPoolExecutor(jobs) as pool:
        # One replica gets a quarter of the load, so as many requests take four times as long.
        found = [pool.submit(knee, name, router, n, horizon_s * REPLICAS / n, shape, seed) for router, n, shape in asks]
        one, seen = found[0].result()
        yield _row(name, "(one)", one, 1.0 if not case.prefix_tokens else None, seen)
        theory: dict[str, float] = {"random": 1.0, "round-robin": found[1].result()[0] / one}
        if name == "queue":
            theory["least-load"] = (
                knee_frac(lambda f: shared_queue(case, f * REPLICAS * known_rps(case), horizon_s, seed), case.replica.target, 4.0)
                / one
            )
        for router, future in zip(routers, found[2:], strict=True):
            frac, seen = future.result()
            yield _row(name, router, frac / one, theory.get(router), seen)


def _row(case: str, router: str, frac: float, theory: float | None, seen: Seen) -> str:
    said = "-" if theory is None else f"{theory:.2f}"
    return f"{case:<10} {router:<12} {frac:>11.3f} {said:>7} {seen.imbalance:>10.2f} {seen.hits:>6.0%} {seen.attained:>9.1%}"


def main() -> None:
    """Print a table; of one replica, the knee is given against the catalog's, of four against four times that."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", action="append", choices=CASES, help="may be given several times; all if it is not")
    parser.add_argument("--router", action="append", choices=ROUTERS, help="may be given several times; all if it is not")
    parser.add_argument("--horizon", type=float, default=900.0, help="virtual seconds at each rate [default: 900]")
    parser.add_argument("--seed", type=int, default=1, help="of the requests [default: 1]")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    asked = parser.parse_args()
    began = time.perf_counter()
    print(f"{'case':<10} {'router':<12} {'knee/(Nx1)':>11} {'theory':>7} {'imbalance':>10} {'hits':>6} {'attained':>9}")
    for name in asked.case or CASES:
        for text in rows(name, asked.router or list(ROUTERS), asked.horizon, asked.jobs, asked.seed):
            print(text, flush=True)
    print(f"{time.perf_counter() - began:.0f} s")


if __name__ == "__main__":
    main()
