"""Which replica of a fleet gets the next request: the rules of routers in use, without a clock or a network."""

import random
from collections.abc import Mapping
from typing import Literal, Protocol, get_args

from core.replica.prefix import PrefixCache

RouterName = Literal["round-robin", "random", "least-load", "prefix"]
ROUTERS: tuple[RouterName, ...] = get_args(RouterName)

MUCH_BUSIER_BY = 32
MUCH_BUSIER_TIMES = 1.5


class Router(Protocol):
    """`busy` has each replica that is there, by its number, with the requests that run or wait at it; it is never empty. `hashes`
    are those of the prompt's full blocks, empty unless `reads_prompts`."""

    reads_prompts: bool

    def choose(self, busy: Mapping[int, int], hashes: tuple[int, ...] = ()) -> int:
        """The replica that gets this request, which is sent there."""


class RoundRobin:
    """One after the other."""

    reads_prompts = False

    def __init__(self) -> None:
        self._last = -1

    def choose(self, busy: Mapping[int, int], hashes: tuple[int, ...] = ()) -> int:
        """The next number after the last that is there."""
        self._last = min(busy, key=lambda number: (number <= self._last, number))
        return self._last


class Random:
    """Each with the same chance: what a Kubernetes service does with connections."""

    reads_prompts = False

    def __init__(self, source: random.Random) -> None:
        self._source = source

    def choose(self, busy: Mapping[int, int], hashes: tuple[int, ...] = ()) -> int:
        """Any that is there."""
        return self._source.choice(sorted(busy))


class LeastLoad:
    """The one with the fewest requests running or waiting; of several such, one after the other."""

    reads_prompts = False

    def __init__(self) -> None:
        self._ties = RoundRobin()

    def choose(self, busy: Mapping[int, int], hashes: tuple[int, ...] = ()) -> int:
        """The least loaded."""
        fewest = min(busy.values())
        return self._ties.choose({number: count for number, count in busy.items() if count == fewest})


class PrefixAware:
    """The replica that was sent the longest beginning of this prompt before, unless it is much busier than the least loaded; else
    the least loaded.

    Much busier is: over MUCH_BUSIER_BY requests more and over MUCH_BUSIER_TIMES as many. Both must hold, as in SGLang's cache-aware
    router (`balance_abs_threshold`, `balance_rel_threshold`; it looks at the busiest replica, this at the one that would get the
    request): a ratio alone would forbid 2 against 1, a difference alone 140 against 100. Where all prefixes are asked for alike
    the two figures hardly matter: `rag-shared` of tests/benchmarks/routers.py holds 1.79 times the even split by 32 and 1.5 as by
    4 and 1.5, but 1.29 times where any busier holder is passed over.

    Like routers in use it does not ask the replicas, but keeps a book of the last `capacity_blocks` blocks that it sent to each; of
    several with the same beginning, the least loaded gets the request.
    """

    reads_prompts = True

    def __init__(self, capacity_blocks: int) -> None:
        self._capacity = capacity_blocks
        self._sent: dict[int, PrefixCache] = {}
        self._least = LeastLoad()

    def choose(self, busy: Mapping[int, int], hashes: tuple[int, ...] = ()) -> int:
        """The holder of the prefix, or the least loaded."""
        known = {number: self._book(number).known(hashes) for number in busy}
        longest, fewest = max(known.values()), min(busy.values())
        candidates = {
            number: count
            for number, count in busy.items()
            if longest and known[number] == longest and not _much_busier(count, fewest)
        }
        chosen = self._least.choose(candidates or busy)
        self._book(chosen).add(hashes)
        return chosen

    def forget(self, number: int) -> None:
        """A replica came back with an empty cache."""
        self._sent.pop(number, None)

    def _book(self, number: int) -> PrefixCache:
        return self._sent.setdefault(number, PrefixCache(self._capacity))


def _much_busier(count: int, fewest: int) -> bool:
    return count - fewest > MUCH_BUSIER_BY and count > MUCH_BUSIER_TIMES * fewest


def router_of(name: RouterName, source: random.Random, capacity_blocks: int) -> Router:
    """The router of that name. `source` is what random draws from, `capacity_blocks` what a replica's cache remembers."""
    match name:
        case "round-robin":
            return RoundRobin()
        case "random":
            return Random(source)
        case "least-load":
            return LeastLoad()
        case "prefix":
            return PrefixAware(capacity_blocks)
