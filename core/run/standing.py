"""How every request of a run stands against its limits: by the rate at which it was sent, and by the bin in which it was due."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from core.config import Slo
from core.margins import AT_LIMIT, BINS, bin_of
from core.records import RequestEnded, RequestFirst, RequestSent
from core.slo import least_margin, margin, sure_miss_at
from core.view import RateMargins


@dataclass(frozen=True, slots=True)
class Sent:
    """What was known of a request when it left. `rate_rps`: the rate that it tells of, None where it was sent faster to fill the
    server; `judged`: it belongs to the window of a repeat."""

    t_sched: float
    asked_output: int
    rate_rps: float | None
    judged: bool


@dataclass(slots=True)
class _Open:
    sent: Sent
    t_first: float | None = None
    first_tokens: int = 0


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


class Standing:
    """Counts by rate, and the open requests; written by the run's state as events are applied.

    What a void repeat sent says nothing of the server, so its counts are kept apart until it is judged.
    """

    def __init__(self, slo: Slo) -> None:
        self._slo = slo
        self._kept: dict[float, _Rate] = {}
        self._unjudged: dict[float, _Rate] = {}
        self._void: set[int] = set()
        self._open: dict[tuple[int, int], _Open] = {}

    def judged(self, order: int, void: bool, goes_on: bool) -> None:
        """The repeat of that order is judged. `goes_on`: it is a segment of a held rate, and more is being sent."""
        if void and not goes_on:
            self._void.add(order)
        for rate_rps, rate in () if void else self._unjudged.items():
            self._kept.setdefault(rate_rps, _Rate()).add(rate)
        self._unjudged = {}

    def forget(self) -> None:
        """The search starts anew: what was seen before is no part of its answer."""
        self._kept, self._unjudged = {}, {}
        self._void |= {order for order, _ in self._open}

    def sent(self, event: RequestSent, sent: Sent) -> None:
        """A request left."""
        self._open[event.order, event.index] = _Open(sent)

    def first(self, event: RequestFirst) -> None:
        """Its first token came."""
        request = self._open.get((event.order, event.index))
        if request is not None:
            request.t_first, request.first_tokens = event.t_first, event.first_tokens

    def ended(self, event: RequestEnded) -> tuple[Sent, bool | None] | None:
        """What was known of it, and whether it was good: None where it was cut off before that was decided. None of a request
        that never left."""
        request = self._open.pop((event.order, event.index), None)
        if request is None:
            return None
        cut = event.ending == "aborted"
        if cut:
            at = bin_of(self._least(request, event.t_end))
            good = False if at >= AT_LIMIT else None
        else:
            at = bin_of(margin(event, self._slo))
            good = event.ending == "ok" and at < AT_LIMIT
        rate_rps = request.sent.rate_rps
        if rate_rps is not None and event.order not in self._void:
            rate = self._unjudged.setdefault(rate_rps, _Rate())
            rate.judged += request.sent.judged
            if cut:
                rate.cut[at] += 1
            elif event.ending == "ok":
                rate.ended[at] += 1
            else:
                rate.failed += 1
        return request.sent, good

    def overdue(self, now: float) -> Iterator[Sent]:
        """The open requests that surely miss a limit, whatever comes."""
        for request in self._open.values():
            sent = request.sent
            by = sure_miss_at(self._slo, sent.t_sched, sent.asked_output, request.t_first, request.first_tokens)
            if now > by:
                yield sent

    def margins(self, now: float) -> tuple[RateMargins, ...]:
        """Every rate that was sent so far, the lowest first; open requests with the least margin that they can still have."""
        rates: dict[float, _Rate] = {}
        for rate_rps, rate in (*self._kept.items(), *self._unjudged.items()):
            rates.setdefault(rate_rps, _Rate()).add(rate)
        for (order, _), request in self._open.items():
            if request.sent.rate_rps is not None and order not in self._void:
                at_rate = rates.setdefault(request.sent.rate_rps, _Rate())
                at_rate.cut[bin_of(self._least(request, now))] += 1
                at_rate.judged += request.sent.judged
        return tuple(
            RateMargins(rate_rps=at, ended=tuple(rate.ended), open=tuple(rate.cut), failed=rate.failed, judged=rate.judged)
            for at, rate in sorted(rates.items())
        )

    def _least(self, request: _Open, now: float) -> float:
        sent = request.sent
        return least_margin(self._slo, now, sent.t_sched, sent.asked_output, request.t_first, request.first_tokens)
