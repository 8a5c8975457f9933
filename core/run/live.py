"""The repeat that runs now, as the state keeps it: its account, its open requests, and where in its plan it is."""

import bisect
import math

from core.facts import Said
from core.judge.stopping import REPORT_DELAY_S, drain_left_s, ramp_holds
from core.judge.tally import Tally
from core.judge.validity import stalls_too_often
from core.records import LoadTick, RepeatOrder, RequestEnded, RequestFirst, RequestSent
from core.results import Bounds
from core.run.view import Part, RampSegment, RepeatView


class LiveRepeat:
    """One repeat from its start to the next one's; after `decide` it stands still.

    Of a held rate, whose order is many measured segments, what is seen is the segment that is being sent.
    """

    def __init__(self, order: RepeatOrder, tally: Tally, drain_s: float) -> None:
        self.order = order
        self.tally = tally
        self._drain_s = drain_s
        self._held = held_segments_s(order) if order.phase == "hold" else ()
        self.decided: Said | None = None
        self._decided_at = math.inf
        self._decided_bounds: Bounds | None = None
        self._window = tuple(t - order.start_at for t in tally.layout.window)
        self._due: dict[int, float] = {}
        self._with_first: set[int] = set()
        self._late_p99_s: tuple[int, float | None] = (0, None)
        self._ticks: list[LoadTick] = []
        self._ramp: tuple[RampSegment, ...] | None = None

    def sent(self, event: RequestSent) -> None:
        self.tally.sent(event)
        self._due[event.index] = event.t_sched

    def first(self, event: RequestFirst) -> float | None:
        """When the request was due; None if it is not one of the open ones."""
        self.tally.first(event)
        if event.index in self._due:
            self._with_first.add(event.index)
        return self._due.get(event.index)

    def ended(self, event: RequestEnded) -> bool | None:
        """Whether it had a first token before; None if it was never sent."""
        self.tally.ended(event)
        if self._due.pop(event.index, None) is None:
            return None
        had_first = event.index in self._with_first
        self._with_first.discard(event.index)
        return had_first

    def tick(self, event: LoadTick) -> None:
        """What the client says of itself; of a held rate what it said of earlier segments is forgotten."""
        if self._held:
            from_t = self.order.start_at + self._seen_s(self._held_at(event.t))[0]
            self._ticks = [tick for tick in self._ticks if tick.t >= from_t]
        if self.decided is None:
            self._ticks.append(event)

    def decide(self, t: float, reason: Said) -> None:
        """The repeat is judged; from now on its account is that of this moment."""
        self._decided_bounds, self._ramp = self.bounds(t), self.ramp(t)
        self.decided, self._decided_at = reason, t

    def bounds(self, now: float) -> Bounds:
        """The account at `now`. Nothing counts as late before its report has had time to get here, as when it is judged."""
        if self._held:
            return self.tally.bounds(now - REPORT_DELAY_S, self.tally.measured[self._held_at(now)])
        return self._decided_bounds or self.tally.bounds(now - REPORT_DELAY_S)

    def ramp(self, now: float) -> tuple[RampSegment, ...]:
        """Of a ramp its rates of which anything was sent, as they stand or stood when it was judged; nothing of any other order."""
        if self.order.phase != "ramp" or self._ramp is not None:
            return self._ramp or ()
        told, begin = [], self.order.start_at
        for at, segment in enumerate(self.tally.layout.segments):
            if begin >= now:
                break
            bounds = self.tally.bounds(now - REPORT_DELAY_S, at)
            if bounds.sent:  # after an abort the clock goes on, and nothing more is sent
                told.append(RampSegment(rate_rps=segment.rate_rps, bounds=bounds, held=ramp_holds(bounds, self.tally.slo.target)))
            begin += segment.duration_s
        return tuple(told)

    def rate_rps(self, now: float) -> float:
        """The rate of the segment that is being sent at `now`."""
        left_s = max(now - self.order.start_at, 0.0)
        segments = self.tally.layout.segments
        for segment in segments:
            if left_s < segment.duration_s:
                return segment.rate_rps
            left_s -= segment.duration_s
        return segments[-1].rate_rps

    def view(self, now: float) -> RepeatView:
        now = min(now, self._decided_at)
        elapsed_s, at = max(now - self.order.start_at, 0.0), self._held_at(now)
        from_s, begin_s, end_s = self._seen_s(at)
        lags_s = [tick.loop_lag_max_s for tick in self._ticks]
        return RepeatView(
            index=self.order.repeat + at,
            bounds=self.bounds(now),
            part=self._part(elapsed_s, begin_s, end_s),
            elapsed_s=elapsed_s - from_s,
            length_s=end_s - from_s,
            sent=self.tally.sent_count,
            in_flight=self.tally.in_flight,
            no_first_token=self.tally.no_first_token,
            errors=sum(self.tally.errors.values()),
            lateness_p99_s=self._lateness_p99_s(),
            decided=self.decided,
            drain_left_s=None if self._held or self.decided else drain_left_s(self.tally, now, self._drain_s),
            client_cpu_frac=max((tick.cpu_frac for tick in self._ticks), default=None),
            loop_lag_max_s=max(lags_s, default=None),
            stalled=stalls_too_often(lags_s, self.tally.slo.ttft_s),
        )

    def _held_at(self, now: float) -> int:
        """Which of a held rate's measured segments is being sent; the first until it begins."""
        ends_s = [end_s for _, end_s in self._held[:-1]]
        return bisect.bisect_right(ends_s, now - self.order.start_at)

    def _seen_s(self, held_at: int) -> tuple[float, float, float]:
        """Where what is seen begins, where its window begins and ends, in seconds after the order's time zero."""
        begin_s, end_s = self._held[held_at] if self._held else self._window
        return (begin_s if held_at else 0.0), begin_s, end_s

    def _part(self, elapsed_s: float, begin_s: float, end_s: float) -> Part:
        if self.decided is not None:
            return "decided"
        if elapsed_s < begin_s:
            return "warm-up"
        return "measuring" if elapsed_s < end_s else "waiting"

    def _lateness_p99_s(self) -> float | None:
        """Over all sends so far; reckoned again when there are 1 % more: sorting 180,000 of them takes 30 ms."""
        if self.tally.sent_count > 1.01 * self._late_p99_s[0]:
            self._late_p99_s = self.tally.sent_count, self.tally.lateness_s.p99
        return self._late_p99_s[1]


def held_segments_s(order: RepeatOrder) -> tuple[tuple[float, float], ...]:
    """Begin and end of each measured segment, in seconds after the order's time zero."""
    spans, t_s = [], 0.0
    for segment in order.segments:
        if segment.role == "measured":
            spans.append((t_s, t_s + segment.duration_s))
        t_s += segment.duration_s
    return tuple(spans)
