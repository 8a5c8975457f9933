"""The account of one repeat: `Layout` says which of its planned requests are measured and when, `Traffic` how they left and came
back, and `Tally`, made of both, which are good, bad, open or not yet sent, at any moment.
"""

import sys
from array import array
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from core.config import Slo
from core.ddsketch import Sketch
from core.judge.columns import Comes, Ends, Firsts, Indices, Sends
from core.judge.workers import Senders
from core.percentiles import percentiles
from core.records import (
    NEVER_SENT,
    NO_ERRORS,
    RepeatOrder,
    RequestEnded,
    RequestFirst,
    RequestHeld,
    RequestRecord,
    RequestSent,
    Role,
    Segment,
)
from core.results import Bounds, Percentiles
from core.schedule import Plan
from core.slo import by_limits, margin, sure_miss_at, within

CLOSING_S = 0.25
"""How long the end of an answer's body may lag behind its last token, at least. Only the end of the body tells when the
last token came, so an open request counts as late in E2E or TPOT only this long after its limit; twice the longest lag
seen in the run so far, if that is more (a proxy that closes slowly)."""

_DUST_S = 1e-6
"""t_sched + limit and t_first - t_sched round differently; a microsecond keeps them from contradicting each other."""

_NEVER = float("inf")


@dataclass(frozen=True, slots=True)
class Layout:
    """A drawn plan seen by segments. `due` are absolute times; `slices[s]` is the range of request indices of segment s;
    `window` is the measured stretch as absolute [start, end)."""

    segments: tuple[Segment, ...]
    due: NDArray[np.float64]
    slices: tuple[tuple[int, int], ...]
    window: tuple[float, float]

    @classmethod
    def of(cls, order: RepeatOrder, plan: Plan) -> "Layout":
        """The plan of this order. An order without segments (offsets given) is one measured stretch.

        Raises ValueError for arrays that do not fit together or are not in the order of time.
        """
        segments = order.segments or (_whole(plan.offsets_s),)
        _check(plan, len(segments))
        edges = np.searchsorted(plan.segment, np.arange(len(segments) + 1)).tolist()
        ends = [order.start_at + t for t in np.cumsum([s.duration_s for s in segments]).tolist()]
        starts = [order.start_at, *ends[:-1]]
        measured = [i for i, s in enumerate(segments) if s.role == "measured"]
        return cls(
            segments=segments,
            due=order.start_at + plan.offsets_s,
            slices=tuple(pairwise(edges)),
            window=(starts[measured[0]], ends[measured[-1]]) if measured else (ends[-1], ends[-1]),
        )

    def of_role(self, role: Role) -> tuple[int, ...]:
        """The segments with that role, in the order of time."""
        return tuple(i for i, s in enumerate(self.segments) if s.role == role)

    def length_s(self, role: Role) -> float:
        """How long the segments with that role are together."""
        return sum((s.duration_s for s in self.segments if s.role == role), 0.0)

    def due_before(self, t: float) -> int:
        """How many measured requests were planned to leave before `t`."""
        ranges = [self.slices[i] for i in self.of_role("measured")]
        return sum(int(np.searchsorted(self.due[low:high], t)) for low, high in ranges)


def _whole(offsets_s: NDArray[np.float64]) -> Segment:
    duration_s = float(offsets_s[-1]) if offsets_s.size and offsets_s[-1] > 0 else 1.0
    return Segment(rate_rps=offsets_s.size / duration_s, duration_s=duration_s, role="measured")


def _check(plan: Plan, segments: int) -> None:
    offsets_s, segment = plan.offsets_s, plan.segment
    if offsets_s.size != segment.size:
        raise ValueError(f"a plan of {offsets_s.size} offsets for {segment.size} requests")
    if np.any(np.diff(offsets_s) < 0) or np.any(np.diff(segment) < 0):
        raise ValueError("a plan must be in the order of time")
    if segment.size and not 0 <= int(segment[0]) <= int(segment[-1]) < segments:
        raise ValueError(f"a plan whose requests belong to segments {segment[0]} to {segment[-1]} of {segments}")


class Traffic:
    """How the requests of a repeat left and came back, all of them: what is under way, how late they were sent, and the series
    behind the queue rule. A request that never left the client is in here only while it waits for a gateway's limit."""

    def __init__(self, planned: int) -> None:
        self._left = bytearray(planned)
        self._came = bytearray(planned)
        """To the server, or to a gateway that had no place."""
        self._has_first = bytearray(planned)
        self._lateness_s = array("d")
        self._sent = array("q")
        """Which requests these were."""
        self._sent_at = array("d")
        self._first_at = array("d")
        self._ended_at = array("d")
        self._came_at = array("d")
        """To the gateway, where there is one, else to the server."""
        self._given_up_at = array("d")
        """When requests ended that waited for the gateway and never left."""
        self._at_gateway = 0

    def held(self, event: RequestHeld) -> None:
        self._came[event.index] = True
        self._came_at.append(event.t)
        self._at_gateway += 1

    def sent(self, event: RequestSent) -> None:
        if self._came[event.index]:
            self._at_gateway -= 1
        else:
            self._came_at.append(event.t_sent)
        self._came[event.index] = True
        self._left[event.index] = True
        self._sent.append(event.index)
        self._sent_at.append(event.t_sent)
        self._lateness_s.append(event.t_sent - event.t_sched - event.connect_s - event.gateway_wait_s)

    def first(self, event: RequestFirst) -> None:
        self._has_first[event.index] = True
        self._first_at.append(event.t_first)

    def ended(self, event: RequestEnded) -> None:
        if not self._left[event.index]:
            if self._came[event.index]:
                self._at_gateway -= 1
                self._given_up_at.append(event.t_end)
            return
        self._ended_at.append(event.t_end)
        if not self._has_first[event.index]:
            self._first_at.append(event.t_end if event.t_first is None else event.t_first)

    def take_in(self, sends: Sends, firsts: Firsts, ends: Ends) -> None:
        """What `held`, `sent`, `first` and `ended` do, of many requests, in that order."""
        gone, ended = ends.t_end[~ends.left], ends.index[ends.left]
        self._at_gateway += sends.come.index.size - sends.index.size - gone.size
        _set(self._came, sends.come.index)
        _append(self._came_at, sends.come.t)
        _append(self._given_up_at, gone)
        _set(self._left, sends.index)
        _append(self._sent, sends.index)
        _append(self._sent_at, sends.t_sent)
        _append(self._lateness_s, sends.lateness_s)
        _set(self._has_first, firsts.index)
        _append(self._first_at, firsts.t_first)
        _append(self._ended_at, ends.t_end[ends.left])
        without = np.frombuffer(self._has_first, dtype=np.uint8)[ended] == 0
        _append(self._first_at, np.where(np.isnan(ends.t_first), ends.t_end, ends.t_first)[ends.left][without])

    def has_left(self, index: int) -> bool:
        """Whether that request was sent."""
        return bool(self._left[index])

    def has_come(self, index: int) -> bool:
        """Whether that request was sent, or came to a gateway that had no place for it."""
        return bool(self._came[index])

    @property
    def at_gateway(self) -> int:
        """Requests that wait for a place at the gateway's limit."""
        return self._at_gateway

    @property
    def sent_count(self) -> int:
        """Requests sent so far, warm-up and tail included."""
        return len(self._sent_at)

    @property
    def in_flight(self) -> int:
        """Requests sent that have not ended."""
        return len(self._sent_at) - len(self._ended_at)

    @property
    def no_first_token(self) -> int:
        """Requests sent that have neither a first token nor ended."""
        return len(self._sent_at) - len(self._first_at)

    @property
    def lateness_s(self) -> Percentiles:
        """How late the sends were against the plan, over all of them, in seconds."""
        return percentiles(self._lateness_s)

    @property
    def lateness_by_request(self) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Which requests were sent, in the order of their reports, and how late each."""
        return np.array(self._sent, dtype=np.int64), np.array(self._lateness_s)

    @property
    def sent_at(self) -> NDArray[np.float64]:
        """Times of the sends, as reported."""
        return np.array(self._sent_at)

    @property
    def first_at(self) -> NDArray[np.float64]:
        """Times at which requests stopped waiting: their first token, or their end without one."""
        return np.array(self._first_at)

    @property
    def ended_at(self) -> NDArray[np.float64]:
        """Times of the ends."""
        return np.array(self._ended_at)

    @property
    def queue_series(self) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """What the queue rule looks at: when requests came, stopped waiting, and ended. The queue at a gateway is in it; one that
        was turned away there stops waiting and ends at once."""
        gone = np.array(self._given_up_at)
        return np.array(self._came_at), np.concatenate([self.first_at, gone]), np.concatenate([self.ended_at, gone])


def _set(flags: bytearray, index: Indices) -> None:
    np.frombuffer(flags, dtype=np.uint8)[index] = 1


def _append(values: "array[float] | array[int]", more: NDArray[np.float64] | Indices) -> None:
    values.frombytes(more.tobytes())


def closing_s(event: RequestEnded) -> float:
    """How long an open request is to be waited for past its limit, by this one's lag between its last token and its end."""
    return 2 * (event.t_end - event.t_last) if event.ending == "ok" and event.t_last is not None else 0.0


class _LimitColumns(NamedTuple):
    """The limits of each request of a plan, in seconds; inf where there is none. `first_s`: by when its first token must come."""

    first_s: NDArray[np.float64]
    e2e_s: NDArray[np.float64]
    tpot_s: NDArray[np.float64]

    @classmethod
    def of(cls, plan: Plan, slo: Slo) -> "_LimitColumns":
        columns = tuple(np.full(len(plan), _NEVER) for _ in range(3))
        for limits, whose in by_limits(slo, plan.input_tokens, plan.output_tokens):
            ttft_s, e2e_s, tpot_s = (limit_s or _NEVER for limit_s in (limits.ttft_s, limits.e2e_s, limits.tpot_s))
            for column, limit_s in zip(columns, (min(ttft_s, e2e_s), e2e_s, tpot_s), strict=True):
                column[whose] = limit_s
        return cls(*columns)


_SHARED = ("finish_reason", "fingerprint", "backend")


def _lean(event: RequestEnded) -> RequestEnded:
    """The record as it is kept: without its histogram (4 KB of a long answer), and with texts that all answers share."""
    shared = {name: value and sys.intern(value) for name in _SHARED if (value := getattr(event, name))}
    return msgspec.structs.replace(event, gaps=msgspec.structs.replace(event.gaps, bins=()), **shared)


class Tally:
    """Counts one repeat as its events come in. Owned by the run's state, which is the only writer.

    Each event costs O(1), each reading of the bounds one vectorised pass over the planned requests. Exact: while a request
    is open it counts as bad only when no later event can make it good, so [lo, hi] always holds the final attainment.
    """

    def __init__(
        self,
        order: RepeatOrder,
        plan: Plan,
        slo: Slo,
        closing: float = CLOSING_S,
        *,
        keeps_records: bool = True,
        senders: Senders | None = None,
    ) -> None:
        """`plan` is that of the order. `closing`: the longest `closing_s` of the requests before these. `senders`: the machines
        that send; None where this one alone does.

        `keeps_records` False: for an order without end, whose requests are judged elsewhere; then nothing of a request that
        has ended is kept but its place in the counts. Raises ValueError for a plan that is not in the order of time, or not of
        this order.
        """
        self.order: Final = order
        self.plan: Final = plan
        self.slo: Final = slo
        self.senders: Final = senders
        self.layout: Final = Layout.of(order, plan)
        self.measured: Final = self.layout.of_role("measured")
        self._due = self.layout.due.copy() if plan.after is not None else self.layout.due
        """Of later turns of conversations the true times come with them."""
        self._last_due = [float("-inf")] * len(self.layout.segments)
        self._longest_think_s = 0.0 if plan.think_s is None or not plan.think_s.size else float(plan.think_s.max())
        self._segment = plan.segment.tolist()
        self._asked = plan.output_tokens.tolist()
        self._limits = [slo.of(*lengths) for lengths in zip(plan.input_tokens.tolist(), self._asked, strict=True)]
        self._traffic = Traffic(len(plan))
        self._has_ended = bytearray(len(plan))
        # When an open request surely misses, by what is known of it: each has at most one of the two.
        self._first_by = np.full(len(plan), _NEVER)
        self._last_by = np.full(len(plan), _NEVER)
        self.closing_s = max(closing, CLOSING_S)
        """How long after its last token an open request may still be without its end. Only the tally writes it."""
        segments = len(self.layout.segments)
        self._sent, self._good, self._bad, self._open = ([0] * segments for _ in range(4))
        self._stopped_at: float | None = None
        self._errors: Counter[str] = Counter()
        self._measured_endings: Counter[str] = Counter()
        self._limits_known: _LimitColumns | None = None
        self._is_measured = np.array([each.role == "measured" for each in self.layout.segments])
        self._keeps_records = keeps_records
        self._itl = Sketch()
        self._margins = array("d")
        self._records: list[RequestRecord] = []
        self._measured_records: list[RequestRecord] = []

    # --- events ---------------------------------------------------------------------------------------------------

    def held(self, event: RequestHeld) -> None:
        """A request came to a gateway that has no place for it: it is open from now on, and its limits run since it was due."""
        self._begin(event)
        self._traffic.held(event)

    def sent(self, event: RequestSent) -> None:
        """A request left: it is open from now on, if it was not before."""
        self._sent[self._segment[event.index]] += 1
        if not self._traffic.has_come(event.index):
            self._begin(event)
        self._traffic.sent(event)

    def _begin(self, event: RequestHeld | RequestSent) -> None:
        self._open[self._segment[event.index]] += 1
        if self.plan.after is not None and self.plan.after[event.index] >= 0:
            self._due[event.index] = event.t_sched
            segment = self._segment[event.index]
            self._last_due[segment] = max(self._last_due[segment], event.t_sched)
        self._first_by[event.index] = sure_miss_at(self._limits[event.index], event.t_sched, self._asked[event.index])

    def first(self, event: RequestFirst) -> None:
        """The first token came. If it came in time, the later limits decide from now on."""
        i = event.index
        slo, due, asked = self._limits[i], float(self._due[i]), self._asked[i]
        # A first token past its limit leaves the request the sure miss that it already is.
        if event.t_first <= sure_miss_at(slo, due, asked) + _DUST_S:
            self._first_by[i] = _NEVER
            self._last_by[i] = sure_miss_at(slo, due, asked, event.t_first, event.first_tokens)
        self._traffic.first(event)

    def ended(self, event: RequestEnded) -> None:
        """The request ended, and its record decides; one that we cut off ourselves stays as undecided as it was.

        Raises ValueError when it had ended before.
        """
        i = event.index
        if self._has_ended[i]:
            raise ValueError(f"request {i} of order {self.order.order} ended twice")
        self._has_ended[i] = True
        share = margin(event, self.slo)
        self._keep(event, share)
        self._traffic.ended(event)
        self.closing_s = max(self.closing_s, closing_s(event))
        decided = event.ending != "aborted" or self._sure_misses(i, i + 1, event.t_end) > 0
        self._first_by[i] = self._last_by[i] = _NEVER
        if decided:
            segment = self._segment[i]
            self._open[segment] -= self._traffic.has_come(i)
            (self._good if event.ending == "ok" and within(share) else self._bad)[segment] += 1

    def _keep(self, event: RequestEnded, share: float | None) -> None:
        record = _lean(event) if self._keeps_records else event
        if self._keeps_records:
            self._records.append(record)
        if event.ending == "aborted":
            self._stopped_at = event.t_end if self._stopped_at is None else min(self._stopped_at, event.t_end)
        elif event.ending not in NO_ERRORS:
            self._errors[event.ending] += 1
        if self._segment[event.index] in self.measured:
            self._measured_endings[event.ending] += 1
            if self._keeps_records:
                self._measured_records.append(record)
                if event.ending == "ok":
                    self._itl.add(event.gaps)
                if share is not None:
                    self._margins.append(share)

    def take_in(self, sends: Sends, firsts: Firsts, ends: Ends) -> None:
        """What `held`, `sent`, `first` and `ended` do, of many requests, in that order. None of them may have done so before,
        or end without having come. Only where no records are kept."""
        self._count(self._sent, sends.index)
        self._begin_all(sends.come)
        self._first_all(firsts)
        i = ends.index
        _set(self._has_ended, i)
        self._keep_endings(ends)
        self._traffic.take_in(sends, firsts, ends)
        self.closing_s = max(self.closing_s, ends.closing_s)
        self._first_by[i] = self._last_by[i] = _NEVER
        self._count(self._open, i, -1)
        self._count(self._good, i[ends.good])
        self._count(self._bad, i[~ends.good])

    def _begin_all(self, come: Comes) -> None:
        i = come.index
        self._count(self._open, i)
        if self.plan.after is not None:
            later = self.plan.after[i] >= 0
            self._due[i[later]] = come.t_sched[later]
            for segment, t_sched in zip(self.plan.segment[i[later]].tolist(), come.t_sched[later].tolist(), strict=True):
                self._last_due[segment] = max(self._last_due[segment], t_sched)
        self._first_by[i] = come.t_sched + self._limit_columns.first_s[i]

    def _first_all(self, firsts: Firsts) -> None:
        limits, due = self._limit_columns, self._due[firsts.index]
        first_by = due + limits.first_s[firsts.index]
        in_time = firsts.t_first <= first_by + _DUST_S
        i, t_first, due, first_by = firsts.index[in_time], firsts.t_first[in_time], due[in_time], first_by[in_time]
        later_tokens = self.plan.output_tokens[i] - firsts.first_tokens[in_time]
        last_by = np.minimum(due + limits.e2e_s[i], t_first + limits.tpot_s[i] * np.maximum(later_tokens, 1))
        last_by[later_tokens <= 0] = _NEVER
        self._first_by[i] = _NEVER
        self._last_by[i] = np.where(t_first - due > limits.first_s[i], first_by, last_by)

    @property
    def _limit_columns(self) -> "_LimitColumns":
        if self._limits_known is None:
            self._limits_known = _LimitColumns.of(self.plan, self.slo)
        return self._limits_known

    def _keep_endings(self, ends: Ends) -> None:
        measured = self._is_measured[self.plan.segment[ends.index]]
        if ends.ok.all():
            self._measured_endings["ok"] += int(np.count_nonzero(measured))
            return
        self._errors.update(ending for ending in ends.endings if ending not in NO_ERRORS)
        self._measured_endings.update(ending for ending, counts in zip(ends.endings, measured.tolist(), strict=True) if counts)

    def _count(self, counts: list[int], index: Indices, by: int = 1) -> None:
        """Add to the count of the segment of each of these requests."""
        for segment, n in enumerate(np.bincount(self.plan.segment[index]).tolist()):
            counts[segment] += by * n

    # --- attainment -----------------------------------------------------------------------------------------------

    def bounds(self, now: float, segment: int | None = None) -> Bounds:
        """Good, bad (sure misses at `now` included) and open of the measured requests, or of one segment.

        `now` says up to when events have been applied. Requests cut off by an abort before they were decided stay open.
        """
        return self._sum(now, self.measured if segment is None else (segment,))

    def warmup_bounds(self, now: float) -> Bounds | None:
        """The same of the warm-up at the rate that is judged, which counts for nothing; None where no such part is planned."""
        judged = {self.layout.segments[at].rate_rps for at in self.measured}
        at_rate = [at for at in self.layout.of_role("warmup") if self.layout.segments[at].rate_rps in judged]
        return self._sum(now, at_rate) if at_rate else None

    def _sum(self, now: float, segments: Iterable[int]) -> Bounds:
        planned = good_ = bad = open_ = overdue = 0
        for segment in segments:
            low, high = self.layout.slices[segment]
            sure = self._sure_misses(low, high, now)
            planned += high - low
            good_ += self._good[segment]
            bad += self._bad[segment] + sure
            open_ += self._open[segment] - sure
            overdue += sure
        return Bounds(planned=planned, good=good_, bad=bad, open=open_, overdue=overdue)

    def _sure_misses(self, low: int, high: int, now: float) -> int:
        late_first = np.count_nonzero(self._first_by[low:high] < now - _DUST_S)
        late_last = np.count_nonzero(self._last_by[low:high] < now - self.closing_s)
        return int(late_first + late_last)

    # --- what else readers ask ------------------------------------------------------------------------------------

    @property
    def measured_indices(self) -> NDArray[np.int64]:
        """Which requests of the plan are measured, in its order."""
        return np.concatenate([np.arange(0), *(np.arange(*self.layout.slices[i]) for i in self.measured)])

    def drains_from(self, end: float, segment: int | None = None) -> float:
        """When what is open of the measured segments, or of one, that ended at `end` begins to take too long: later turns of its
        conversations become due behind it, and have their time from then on."""
        if self.plan.after is None:
            return end
        last_due = max((self._last_due[at] for at in (self.measured if segment is None else (segment,))), default=end)
        return max(end, last_due) + self._longest_think_s

    def not_due(self) -> int:
        """Measured turns of conversations that have not become due: what they follow has not ended, or is being thought about."""
        if self.plan.after is None:
            return 0
        later = [i for i in self.measured_indices.tolist() if self.plan.after[i] >= 0]
        return sum(not (self._has_ended[i] or self._traffic.has_come(i)) for i in later)

    def left_out(self, t: float) -> NDArray[np.int64]:
        """Requests that were due before `t` and neither came nor ended; not those that wait for an answer before them."""
        due = self._due < t
        if self.plan.after is not None:
            due &= self.plan.after < 0
        left = (i for i in np.flatnonzero(due).tolist() if not (self._has_ended[i] or self._traffic.has_come(i)))
        return np.fromiter(left, dtype=np.int64)

    @property
    def records(self) -> list[RequestRecord]:
        """Everything that ended so far."""
        return self._records

    @property
    def measured_records(self) -> list[RequestRecord]:
        """Those of them that were scheduled in a measured segment."""
        return self._measured_records

    @property
    def itl_s(self) -> Percentiles:
        """Gaps between events that carried tokens, over the measured requests that ended ok."""
        return self._itl.percentiles()

    @property
    def margin(self) -> Percentiles:
        """The margins (`core.slo.margin`) of the measured requests that ended ok."""
        return percentiles(self._margins)

    @property
    def traffic(self) -> Traffic:
        """The series of all requests: sends, waiting, ends. For reading."""
        return self._traffic

    @property
    def sent_count(self) -> int:
        """Requests sent so far, warm-up and tail included."""
        return self._traffic.sent_count

    @property
    def measured_sent(self) -> int:
        """Requests of the measured segments sent so far."""
        return sum(self._sent[i] for i in self.measured)

    @property
    def in_flight(self) -> int:
        """Requests sent that have not ended."""
        return self._traffic.in_flight

    @property
    def no_first_token(self) -> int:
        """Requests sent that have neither a first token nor ended."""
        return self._traffic.no_first_token

    @property
    def at_gateway(self) -> int:
        """Requests that wait for a place at the gateway's limit."""
        return self._traffic.at_gateway

    @property
    def lateness_s(self) -> Percentiles:
        """How late the sends were against the plan, over all of them, in seconds."""
        return self._traffic.lateness_s

    @property
    def has_ended(self) -> bytes:
        """1 for each planned request that has ended, else 0."""
        return bytes(self._has_ended)

    @property
    def errors(self) -> Mapping[str, int]:
        """Endings by an error, by class, warm-up and tail included; what was never sent is none."""
        return self._errors

    @property
    def measured_endings(self) -> Mapping[str, int]:
        """All endings of the measured requests, by class."""
        return self._measured_endings

    @property
    def measured_errors(self) -> int:
        """Measured requests that ended in an error; what was never sent did not."""
        return sum(n for ending, n in self._measured_endings.items() if ending not in NO_ERRORS)

    @property
    def never_sent(self) -> int:
        """Measured requests that a gateway's limit turned away, or whose conversation had failed before them."""
        return sum(n for ending, n in self._measured_endings.items() if ending in NEVER_SENT)

    @property
    def stopped_at(self) -> float | None:
        """When the first request was cut off by an abort; None while none was."""
        return self._stopped_at
