"""The account of the repeat that runs: what is seen of it while it is sent, and what stands still of it once it is judged."""

import bisect
import math
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from core.engine import BLOCK_TOKENS
from core.facts import Said
from core.judge import (
    REPORT_DELAY_S,
    Ends,
    Firsts,
    Indices,
    Sends,
    Tally,
    busiest_share,
    drain_left_s,
    ramp_holds,
    replica_uses,
    stalls_too_often,
)
from core.prefixes import shown_hit_frac
from core.records import LoadTick, RepeatOrder, RequestEnded, RequestFirst, RequestHeld, RequestSent, ServerSample
from core.results import Bounds
from core.run.live_workers import LiveWorkers
from core.run.standing import Sent
from core.shared_blocks import found_frac
from core.view import Part, RampSegment, RepeatView


class Rate(NamedTuple):
    """Of the requests of a segment: the rate that they tell of (None: they were sent faster to fill the server), the one that is
    shown beside them, and whether they belong to the window of a repeat."""

    told_rps: float | None
    shown_rps: float
    judged: bool


class LiveRepeat:
    """One repeat from its start to the next one's; after `decide` it stands still.

    Of a held rate, whose order is many measured segments, what is seen is the segment that is being sent.
    """

    def __init__(
        self,
        order: RepeatOrder,
        tally: Tally,
        drain_s: float,
        before: ServerSample | None = None,
        *,
        capped: bool = False,
        block: int = BLOCK_TOKENS,
    ) -> None:
        """`before`: the newest reading of the server at its start. `capped`: a gateway's limit holds requests back. `block`: tokens
        of a block of its prefix cache."""
        self.capped = capped
        self._block = block
        self.order = order
        self._first_sample, self._last_sample = before, before
        self.tally = tally
        self._drain_s = drain_s
        self._held = held_segments_s(order) if order.phase == "hold" else ()
        self.decided: Said | None = None
        self._decided_at = math.inf
        self._decided_bounds: Bounds | None = None
        self._decided_warmup: Bounds | None = None
        self._window = tuple(t - order.start_at for t in tally.layout.window)
        self._due: dict[int, float] = {}
        self._with_first: set[int] = set()
        self._late_p99_s: tuple[int, float | None] = (0, None)
        self._workers = None if tally.senders is None else LiveWorkers(tally.senders)
        self._ticks: list[LoadTick] = []
        self._ramp: tuple[RampSegment, ...] | None = None
        self._segment = tally.plan.segment.tolist()
        self._rates_judged = {tally.layout.segments[at].rate_rps for at in tally.measured}

    def about(self, event: RequestHeld | RequestSent) -> tuple[Sent, float]:
        """What is known of a request that comes, and the rate that is judged by then; a part of a warm-up that is sent faster
        belongs to that, too."""
        segment = self.tally.layout.segments[self._segment[event.index]]
        at_rate = segment.rate_rps in self._rates_judged
        sent = Sent(
            t_sched=event.t_sched,
            asked_input=int(self.tally.plan.input_tokens[event.index]),
            asked_output=int(self.tally.plan.output_tokens[event.index]),
            rate_rps=segment.rate_rps if at_rate else None,
            judged=segment.role == "measured" and self.order.phase != "ramp",
            repeat=self.order.repeat + self._held_at(float(self.tally.layout.due[event.index])),
        )
        return sent, segment.rate_rps if at_rate else min(self._rates_judged, default=segment.rate_rps)

    def rates(self) -> list[Rate]:
        """What `about` says of the requests of each segment."""
        slowest = min(self._rates_judged, default=None)
        return [
            Rate(
                told_rps=segment.rate_rps if segment.rate_rps in self._rates_judged else None,
                shown_rps=segment.rate_rps if segment.rate_rps in self._rates_judged or slowest is None else slowest,
                judged=segment.role == "measured" and self.order.phase != "ramp",
            )
            for segment in self.tally.layout.segments
        ]

    def repeats(self, index: Indices) -> Indices:
        """To which repeat these requests belong."""
        ends_s = [end_s for _, end_s in self._held[:-1]]
        after_s = self.tally.layout.due[index] - self.order.start_at
        return self.order.repeat + np.searchsorted(ends_s, after_s, side="right")

    @property
    def open_indices(self) -> Iterable[int]:
        """The requests that are open."""
        return self._due.keys()

    def take_in(self, sends: Sends, firsts: Firsts, ends: Ends) -> None:
        """What `Tally.take_in` does; which of these requests are open is told by `come`."""
        self.tally.take_in(sends, firsts, ends)
        if self._workers is not None:
            self._workers.take_in(sends.index)

    def come(self, index: int, t_sched: float, *, begun: bool) -> None:
        """One more is open, with its first token or without; the tally knows it already."""
        self._due[index] = t_sched
        if begun:
            self._with_first.add(index)

    def held(self, event: RequestHeld) -> None:
        self.tally.held(event)
        self._due[event.index] = event.t_sched

    def sent(self, event: RequestSent) -> bool:
        """Whether it was held back before."""
        held = event.index in self._due
        self.tally.sent(event)
        if self._workers is not None:
            self._workers.sent(event.index)
        self._due[event.index] = event.t_sched
        return held

    def first(self, event: RequestFirst) -> float | None:
        """When the request was due; None if it is not one of the open ones."""
        self.tally.first(event)
        if event.index in self._due:
            self._with_first.add(event.index)
        return self._due.get(event.index)

    def ended(self, event: RequestEnded) -> bool | None:
        """Whether it had a first token before; None if it never came, neither to the server nor to a gateway's limit."""
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

    def sample(self, sample: ServerSample) -> None:
        """A reading of the server; those after the verdict are of what comes next."""
        if self.decided is None:
            self._first_sample, self._last_sample = self._first_sample or sample, sample

    def decide(self, t: float, reason: Said) -> None:
        """The repeat is judged; from now on its account is that of this moment."""
        self._decided_bounds, self._decided_warmup, self._ramp = self.bounds(t), self._warmup(t), self.ramp(t)
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

    def window_left_s(self, now: float) -> float:
        """Seconds to the end of the window, which it surely needs unless it fails; of a ramp, and once judged, none."""
        if self._held or self.order.phase == "ramp" or self.decided is not None:
            return 0.0
        return max(0.0, self.order.start_at + self._window[1] - now)

    def view(self, now: float) -> RepeatView:
        now = min(now, self._decided_at)
        elapsed_s, at = max(now - self.order.start_at, 0.0), self._held_at(now)
        from_s, begin_s, end_s = self._seen_s(at)
        lags_s, ttft_s = [tick.loop_lag_max_s for tick in self._ticks], self.tally.slo.shortest_ttft_s
        late_p99_s = self._lateness_p99_s()
        workers = () if self._workers is None else self._workers.view(self._ticks, ttft_s)
        return RepeatView(
            index=self.order.repeat + at,
            bounds=self.bounds(now),
            part=self._part(elapsed_s, begin_s, end_s),
            elapsed_s=elapsed_s - from_s,
            length_s=end_s - from_s,
            sent=self.tally.sent_count,
            in_flight=self.tally.in_flight,
            no_first_token=self.tally.no_first_token,
            at_gateway=self.tally.at_gateway if self.capped else None,
            errors=sum(self.tally.errors.values()),
            lateness_p99_s=late_p99_s,
            decided=self.decided,
            drain_left_s=None if self._held or self.decided else drain_left_s(self.tally, now, self._drain_s),
            client_cpu_frac=max((tick.cpu_frac for tick in self._ticks), default=None),
            loop_lag_max_s=max(lags_s, default=None),
            stalled=any(each.stalled for each in workers) if workers else stalls_too_often(lags_s, ttft_s),
            warmup=self._warmup(now),
            prefix_hit_frac=shown_hit_frac(self._first_sample, self._last_sample),
            planned_hit_frac=self._planned_hit_frac(elapsed_s),
            workers=workers,
            busiest_share=self._busiest_share(),
        )

    def _busiest_share(self) -> float | None:
        first, last = self._first_sample, self._last_sample
        if first is None or last is None or not last.by_replica:
            return None
        return busiest_share(replica_uses((first, last), first.t, last.t))

    def _planned_hit_frac(self, elapsed_s: float) -> float | None:
        plan = self.tally.plan
        if plan.known_tokens is None:
            return None
        due = int(np.searchsorted(plan.offsets_s, elapsed_s, side="right"))
        return found_frac(plan.known_tokens[:due], plan.input_tokens[:due], self._block)

    def _warmup(self, now: float) -> Bounds | None:
        if self._held or self.order.phase == "ramp":
            return None
        return self._decided_warmup or self.tally.warmup_bounds(now - REPORT_DELAY_S)

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
            if self._workers is not None:
                self._workers.late_again(self.tally)
        return self._late_p99_s[1]


def held_segments_s(order: RepeatOrder) -> tuple[tuple[float, float], ...]:
    """Begin and end of each measured segment, in seconds after the order's time zero."""
    spans, t_s = [], 0.0
    for segment in order.segments:
        if segment.role == "measured":
            spans.append((t_s, t_s + segment.duration_s))
        t_s += segment.duration_s
    return tuple(spans)
