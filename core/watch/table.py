"""All replicas that are watched: who is there, one row each, and what is true over them."""

from dataclasses import dataclass
from typing import Literal

from core.facts import Fact
from core.server import Found, Vitals
from core.watch.knee import ReplicaKnee
from core.watch.replica import WINDOW_S, Figures, Replica, Row

GONE_S = 300.0
"""So long a replica that is gone stays in the table."""

_ENOUGH_IN_FLIGHT, _ENOUGH_FINISHED = 1.0, 10.0
"""Requests for each replica from which on their distribution means something: fewer are spread by chance."""


@dataclass(frozen=True, slots=True)
class Imbalance:
    """The busiest replica's share of what all carry, as a multiple of an even share: 1 is even, with n replicas n is the most."""

    url: str
    ratio: float
    by: Literal["in_flight", "finished"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Total:
    """Sums over the replicas that were read; None where none of them tells. `load_frac` is that of the fullest one."""

    replicas: int
    read: int
    running: float | None
    waiting: float | None
    kv_usage_frac: float | None
    arriving_rps: float | None
    finished_rps: float | None
    errors_per_s: float | None
    preemptions_per_s: float | None
    prompt_tps: float | None
    output_tps: float | None
    load_frac: float | None
    imbalance: Imbalance | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Everything at a moment of the monotonic clock; `problems` are of the sources of addresses."""

    t: float
    window_s: float
    rows: tuple[Row, ...]
    total: Total
    problems: tuple[Fact, ...] = ()


class Watched:
    """The replicas by address. Readings of addresses that it does not know are left out."""

    def __init__(self, *, knee: ReplicaKnee | None = None, window_s: float = WINDOW_S) -> None:
        self._knee = knee
        self.window_s = window_s
        self._replicas: dict[str, Replica] = {}
        self._gone: dict[str, float] = {}
        self._problems: tuple[Fact, ...] = ()

    @property
    def urls(self) -> tuple[str, ...]:
        """Those that are there."""
        return tuple(url for url in self._replicas if url not in self._gone)

    def see(self, found: Found, now: float) -> None:
        """Who is there now: others come, and those that are not told of any more go."""
        first = not self._replicas
        self._problems = found.problems
        for url in found.urls:
            if url not in self._replicas:
                self._replicas[url] = Replica(url, now, knee=self._knee, window_s=self.window_s, joined=not first)
            elif self._gone.pop(url, None) is not None:
                self._replicas[url].come_back(now)
        for url in [url for url in self.urls if url not in found.urls]:
            self._gone[url] = now
            self._replicas[url].leave(now)
        for url in [url for url, since in self._gone.items() if now - since > GONE_S]:
            del self._gone[url], self._replicas[url]

    def ask(self, url: str, t: float) -> None:
        """A reading of one begins."""
        if url in self._replicas and url not in self._gone:
            self._replicas[url].ask(t)

    def take(self, url: str, vitals: Vitals) -> None:
        """A reading of one."""
        if url in self._replicas and url not in self._gone:
            self._replicas[url].take(vitals)

    def fail(self, url: str, t: float, why: str) -> None:
        """A reading that came to nothing."""
        if url in self._replicas and url not in self._gone:
            self._replicas[url].fail(t, why)

    def points(self, url: str) -> tuple[Figures, ...]:
        """The figures of one over the last quarter of an hour; none of one that is not known."""
        return self._replicas[url].points if url in self._replicas else ()

    def table(self, now: float) -> Table:
        """Everything now."""
        rows = tuple(replica.row(now) for replica in self._replicas.values())
        return Table(t=now, window_s=self.window_s, rows=rows, total=_total(rows), problems=self._problems)


def _total(rows: tuple[Row, ...]) -> Total:
    read = [row for row in rows if row.figures is not None]
    figures = [row.figures for row in read if row.figures is not None]
    return Total(
        replicas=sum(row.state != "gone" for row in rows),
        read=len(read),
        running=_sum([each.running for each in figures]),
        waiting=_sum([each.waiting for each in figures]),
        kv_usage_frac=max((each.kv_usage_frac for each in figures if each.kv_usage_frac is not None), default=None),
        arriving_rps=_sum([each.arriving_rps for each in figures]),
        finished_rps=_sum([each.finished_rps for each in figures]),
        errors_per_s=_sum([each.errors_per_s for each in figures]),
        preemptions_per_s=_sum([each.preemptions_per_s for each in figures]),
        prompt_tps=_sum([each.prompt_tps for each in figures]),
        output_tps=_sum([each.output_tps for each in figures]),
        load_frac=max((row.load.frac for row in read if row.load is not None), default=None),
        imbalance=_imbalance(read),
    )


def _sum(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _imbalance(rows: list[Row]) -> Imbalance | None:
    """By the requests in flight, mean of the window, where there is one for each replica; else by what finished."""
    if len(rows) < 2:
        return None
    known = [(row.url, row.figures) for row in rows if row.figures is not None]
    in_flight = {url: figures.in_flight or 0.0 for url, figures in known}
    if sum(in_flight.values()) >= _ENOUGH_IN_FLIGHT * len(rows):
        return _busiest(in_flight, "in_flight")
    finished = {url: (figures.finished_rps or 0.0) * (figures.over_s or 0.0) for url, figures in known}
    return _busiest(finished, "finished") if sum(finished.values()) >= _ENOUGH_FINISHED * len(rows) else None


def _busiest(shares: dict[str, float], by: Literal["in_flight", "finished"]) -> Imbalance:
    url = max(shares, key=lambda each: shares[each])
    return Imbalance(url, shares[url] / sum(shares.values()) * len(shares), by)
