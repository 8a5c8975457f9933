"""How every request of a run stands against its limits: by the rate at which it was sent, and by the bin in which it was due."""

import math
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from core.config import Slo
from core.margins import AT_LIMIT, BINS, INNER_EDGES, bin_of
from core.records import RequestEnded, RequestFirst, RequestHeld, RequestSent
from core.slo import least_margin, margin
from core.view import RateMargins

_EDGES = np.array(INNER_EDGES)


@dataclass(frozen=True, slots=True)
class Sent:
    """What was known of a request when it came. `rate_rps`: the rate that it tells of, None where it was sent faster to fill the
    server; `judged`: it belongs to the window of a repeat; `repeat`: the index of the repeat that is judged with it."""

    t_sched: float
    asked_input: int
    asked_output: int
    rate_rps: float | None
    judged: bool
    repeat: int = 0


class Fate(NamedTuple):
    """What became of a request that was due at `t_sched`. `good` None: it was cut off before that was decided; `begun`: its first
    token had come; `left`: it was sent, and not held back by a gateway's limit to its end."""

    t_sched: float
    good: bool | None
    begun: bool
    left: bool = True


class Standings(NamedTuple):
    """`margins` of every rate that was sent so far, the lowest first; `overdue`: when those open requests were due that surely
    miss a limit, whatever comes."""

    margins: tuple[RateMargins, ...]
    overdue: tuple[float, ...]


class _Row(NamedTuple):
    """What bounds the margin of an open request from below, for all of them at once.

    `known` is what is certain already. What grows is its wait since `t_sched` in shares of `limit_s`, and its time since `since`
    in shares of a limit `tpot_s` for `tokens` tokens; inf where there is no such limit. `rate`: which rate counts it, -1 for none.
    """

    known: float
    t_sched: float
    limit_s: float
    since: float
    tokens: float
    tpot_s: float
    begun: bool
    rate: int
    judged: bool


@dataclass(slots=True)
class _Open:
    sent: Sent
    row: _Row
    t_first: float | None = None
    first_tokens: int = 0
    left: bool = True


@dataclass(slots=True)
class _Rate:
    ended: list[int] = field(default_factory=lambda: [0] * BINS)
    cut: list[int] = field(default_factory=lambda: [0] * BINS)
    failed: int = 0
    judged: int = 0

    def add(self, other: "_Rate") -> None:
        self.ended = [mine + theirs for mine, theirs in zip(self.ended, other.ended, strict=True)]
        self.cut = [mine + theirs for mine, theirs in zip(self.cut, other.cut, strict=True)]
        self.failed += other.failed
        self.judged += other.judged


_Repeat = tuple[int, int]
"""The order, and the index of a repeat in it: a held rate judges many in one order."""


class Standing:
    """Counts by rate, and the open requests; written by the run's state as events are applied.

    What a void repeat sent says nothing of the server, so its counts are kept apart until it is judged, and dropped then, with what
    of it is still open. Kept is a count by bin and rate, whatever the length of the run.
    """

    def __init__(self, slo: Slo) -> None:
        self._slo = slo
        self._rates: dict[float, int] = {}
        self._kept: dict[float, _Rate] = {}
        self._unjudged: dict[_Repeat, dict[float, _Rate]] = {}
        self._open: dict[tuple[int, int], _Open] = {}

    def judged(self, order: int, repeat: int, *, void: bool) -> None:
        """That repeat of the order is judged. What of it ends later, cut off, is as void or valid as it."""
        here = (order, repeat)
        if void:
            self._unjudged.pop(here, None)
            self._drop({key for key, request in self._open.items() if (key[0], request.sent.repeat) == here})
        for judged in [each for each in self._unjudged if each <= here]:
            for rate_rps, rate in self._unjudged.pop(judged).items():
                self._kept.setdefault(rate_rps, _Rate()).add(rate)

    def forget(self) -> None:
        """The search starts anew: what was seen before is no part of its answer."""
        self._kept, self._unjudged = {}, {}
        self._drop(set(self._open))

    def _drop(self, requests: set[tuple[int, int]]) -> None:
        """These open requests count at no rate any more."""
        for key in requests:
            request = self._open[key]
            request.row = request.row._replace(rate=-1)

    def sent(self, event: RequestHeld | RequestSent, sent: Sent) -> None:
        """A request left, or a gateway's limit holds it back; once of each."""
        rate = -1 if sent.rate_rps is None else self._rates.setdefault(sent.rate_rps, len(self._rates))
        slo = self._slo.of(sent.asked_input, sent.asked_output)
        limit_s = min(slo.ttft_s or math.inf, slo.e2e_s or math.inf)
        row = _Row(0.0, sent.t_sched, limit_s, sent.t_sched, math.inf, slo.tpot_s or math.inf, False, rate, sent.judged)
        self._open[event.order, event.index] = _Open(sent, row, left=isinstance(event, RequestSent))

    def let_through(self, event: RequestSent) -> None:
        """One that was held back has left."""
        if (request := self._open.get((event.order, event.index))) is not None:
            request.left = True

    def first(self, event: RequestFirst) -> None:
        """Its first token came."""
        request = self._open.get((event.order, event.index))
        if request is None:
            return
        t_first, tokens = event.t_first, request.sent.asked_output - event.first_tokens
        slo = self._slo.of(request.sent.asked_input, request.sent.asked_output)
        request.t_first, request.first_tokens = t_first, event.first_tokens
        row, more = request.row, tokens > 0
        request.row = _Row(
            self._least(request, t_first),
            row.t_sched,
            (slo.e2e_s or math.inf) if more else math.inf,
            t_first,
            tokens if more else math.inf,
            row.tpot_s,
            True,
            row.rate,
            row.judged,
        )

    def ended(self, event: RequestEnded, closing_s: float) -> Fate | None:
        """What became of it; None of one that never came. `closing_s`: how long the end of an answer may lag behind its last
        token."""
        request = self._open.pop((event.order, event.index), None)
        if request is None:
            return None
        if event.ending == "aborted":
            at = bin_of(self._least(request, event.t_end, closing_s))
            good = False if at >= AT_LIMIT else None
        else:
            at = bin_of(margin(event, self._slo))
            good = event.ending == "ok" and at < AT_LIMIT
        if request.row.rate >= 0 and request.sent.rate_rps is not None:
            here = event.order, request.sent.repeat
            rate = self._unjudged.setdefault(here, {}).setdefault(request.sent.rate_rps, _Rate())
            rate.judged += request.sent.judged
            if event.ending == "aborted":
                rate.cut[at] += 1
            elif event.ending == "ok":
                rate.ended[at] += 1
            else:
                rate.failed += 1
        return Fate(request.sent.t_sched, good, request.t_first is not None, request.left)

    def take_in(self, order: int, repeat: int, rate_rps: float, *, ended: list[int], failed: int, judged: int) -> None:
        """Requests of that repeat that came and ended since the last time, none of which was cut off: how many ended ok by the bin
        of their margin, how many failed, and how many of them all belong to the window of the repeat."""
        rate = self._unjudged.setdefault((order, repeat), {}).setdefault(rate_rps, _Rate())
        rate.add(_Rate(ended=ended, failed=failed, judged=judged))

    def look(self, now: float, closing_s: float) -> Standings:
        """How all of them stand at `now`; open requests with the least margin that they can still have."""
        rates: dict[float, _Rate] = {rate_rps: _Rate() for rate_rps in self._kept}
        for counted in (self._kept, *self._unjudged.values()):
            for rate_rps, rate in counted.items():
                rates.setdefault(rate_rps, _Rate()).add(rate)
        overdue = self._add_open(rates, now, closing_s) if self._open else ()
        margins = tuple(
            RateMargins(rate_rps=at, ended=tuple(rate.ended), open=tuple(rate.cut), failed=rate.failed, judged=rate.judged)
            for at, rate in sorted(rates.items())
        )
        return Standings(margins, overdue)

    def _add_open(self, rates: dict[float, _Rate], now: float, closing_s: float) -> tuple[float, ...]:
        """Add the open requests to their rates, all at once: there may be thousands, several times a second."""
        rows = np.array([request.row for request in self._open.values()])
        least, rate, judged = self._least_of(rows, now, closing_s), rows[:, 7].astype(np.int64), rows[:, 8]
        counts, bins = rate >= 0, np.searchsorted(_EDGES, least)
        size = len(self._rates)
        found = np.bincount(rate[counts] * BINS + bins[counts], minlength=size * BINS).reshape(size, BINS)
        in_window = np.bincount(rate[counts], judged[counts], minlength=size)
        for rate_rps, at in self._rates.items():
            if found[at].any():
                rates.setdefault(rate_rps, _Rate()).add(_Rate(cut=found[at].tolist(), judged=int(in_window[at])))
        return tuple(rows[least > 1.0, 1].tolist())

    def _least_of(self, rows: NDArray[np.float64], now: float, closing_s: float) -> NDArray[np.float64]:
        """`_least` of every row."""
        known, t_sched, limit_s, since, tokens, tpot_s, begun = rows[:, :7].T
        until = np.where(begun, np.maximum(now - closing_s, since), now)
        waited = (until - t_sched) / limit_s
        decoded = (until - since) / tokens / tpot_s
        least: NDArray[np.float64] = np.maximum(known, np.maximum(waited, decoded))
        return least

    def _least(self, request: _Open, now: float, closing_s: float = 0.0) -> float:
        """Its last token, unlike its first one, may have come `closing_s` before its end is seen."""
        sent, t_first = request.sent, request.t_first
        until = now if t_first is None else max(now - closing_s, t_first)
        slo = self._slo.of(sent.asked_input, sent.asked_output)
        return least_margin(slo, until, sent.t_sched, sent.asked_output, t_first, request.first_tokens)
