"""A held rate: one order of many measured segments, each judged by itself as soon as its requests are decided."""

import dataclasses
from collections.abc import Callable, Sequence
from itertools import accumulate

import msgspec
import numpy as np

from core.facts import fact
from core.judge import REPORT_DELAY_S, Decision, Tally, judge_repeat, out_of_reach, still_open
from core.records import (
    NEVER_SENT,
    ChildMessage,
    MachineSample,
    RepeatOrder,
    RequestEnded,
    RequestFirst,
    RequestHeld,
    RequestSent,
    Segment,
    ServerInfo,
    ServerSample,
)
from core.results import Bounds, JudgeRules, RepeatResult
from core.run.away import ServerAway
from core.run.blackout import LEAST_ERRORS, Unserved, of_nobody, unserved
from core.run.conductor import OrderRun
from core.slo import allowed_misses

Message = RequestHeld | RequestSent | RequestFirst | RequestEnded


class HeldOrder:
    """Judges the segments of one order, one after another, while it goes on; nothing is cut off for a verdict.

    Each segment is judged as a repeat whose warm-up is all the load before it and whose tail is the segment after it, from an
    account of its own: what ended before the segment began is forgotten, so that a held rate of a day costs no more than
    its newest minutes.
    """

    def __init__(
        self,
        order: RepeatOrder,
        rules: JudgeRules,
        drain_s: float,
        readings_since: Callable[[float], Sequence[ServerSample]],
        server: ServerInfo,
        machine: Callable[[], Sequence[MachineSample]] = tuple,
        idle_e2e_s: float = 0.0,
        *,
        sheds: bool = False,
    ) -> None:
        """`readings_since(t)`: the server's readings from the newest one at or before t on; it asks for ever later ones.
        `sheds`: the order before ended in errors, and a single request after it was answered."""
        self._idle_e2e_s = idle_e2e_s
        self._sheds = sheds
        self._served: RequestEnded | None = None
        self._failed: list[RequestEnded] = []
        self._order = order
        self._rules = rules
        self._drain_s = drain_s
        self._readings_since = readings_since
        self._server = server
        self._machine = machine
        self._measured = [i for i, segment in enumerate(order.segments) if segment.role == "measured"]
        self._ends_s = list(accumulate(segment.duration_s for segment in order.segments))
        self._heard: list[Message] = []
        self._next = 0
        self._failed_at: float | None = None
        self._unsure_since: float | None = None
        self._fails = False
        self.account: Tally | None = None
        """Of the segment that was judged last."""

    def hear(self, message: ChildMessage) -> None:
        """Take in a message of the child about this order."""
        if isinstance(message, (RequestHeld, RequestSent, RequestFirst, RequestEnded)):
            self._heard.append(message)
        match message:
            case RequestFirst():
                self._failed.clear()
            case RequestEnded(ending=ending) if ending == "aborted" or ending in NEVER_SENT:
                pass
            case RequestEnded() if of_nobody(message):
                self._failed.append(message)
            case RequestEnded():
                self._failed.clear()
                self._served = message if message.ending == "ok" else self._served

    @property
    def unserved(self) -> Unserved | None:
        """The errors that came last, where nothing was served since and somebody who is there would not have given them."""
        if len(self._failed) < LEAST_ERRORS:
            return None
        return unserved([*([] if self._served is None else [self._served]), *self._failed], self._idle_e2e_s)

    @property
    def asks(self) -> bool:
        """Whether errors at the end may be of a server that is away: not those of one that sheds, until it serves a request."""
        return not self._sheds or self._served is not None

    @property
    def dark(self) -> bool:
        """Whether nothing was served for so long that no load explains it."""
        return self.asks and (last := self.unserved) is not None and last.dark

    @property
    def over(self) -> bool:
        """Whether every segment is judged."""
        return self._next == len(self._measured)

    def judge(self, run: OrderRun, tally: Tally, now: float) -> RepeatResult | None:
        """The next segment's result, if it is over and each of its requests decided (or `drain_s` has passed since its end). One
        that failed waits for a sign of life of the server: not while only errors come, which may be of one that is away. `tally` is
        the account of the whole order."""
        if self.over:
            return None
        at = self._measured[self._next]
        end = self._order.start_at + self._ends_s[at]
        bounds = tally.bounds(now - REPORT_DELAY_S, at)
        left = bounds.planned - bounds.good - bounds.bad
        drained = now >= tally.drains_from(end, at) + self._drain_s
        fails = self._watch(run, bounds, bounds.bad + (left if drained else 0), now)
        cut_short = run.wound_down_at is not None and bounds.sent < bounds.planned
        if now - REPORT_DELAY_S < end or cut_short or (left and not drained) or (fails and not self._fails):
            return None
        if fails and self.asks and self.unserved is not None:
            return None
        decision = Decision(kind="complete", reason=fact("segment_decided"))
        if left:
            decision = Decision(kind="drained", reason=still_open(left, self._drain_s, "segment"))
        return self._result(run, tally, decision, now)

    def _watch(self, run: OrderRun, bounds: Bounds, misses: int, now: float) -> bool:
        """Whether the segment can no longer pass; believed as of a repeat, once the server has given a sign of life since. A
        connection that has just broken is none."""
        if misses <= allowed_misses(bounds.planned, self._rules.slo.target):
            self._unsure_since = None
            return False
        self._failed_at = now if self._failed_at is None else self._failed_at
        alive = run.liveness.alive_since(self._failed_at) and not run.liveness.cut_off(1)
        unsure_since = now if self._unsure_since is None else self._unsure_since  # kept for a next segment that fails alike
        self._unsure_since = None if alive else unsure_since
        self._fails |= alive or run.liveness.past_doubt(unsure_since, now)
        return True

    def believe(self) -> None:
        """A single request was answered when the load was off, so that the misses of the open segment are of the load."""
        self._fails |= self._failed_at is not None

    def cut(
        self, run: OrderRun, tally: Tally, now: float, *, certain: bool = True, away: ServerAway | None = None
    ) -> list[RepeatResult]:
        """Results of the segments that had begun and were cut off, with their figures. A fail that was certain by then is one, as
        it would be of a repeat; all others are unjudged, unless nothing of them was left to come.

        `certain` False: whether the load or the server made them fail is not known yet. Those during which the server was `away`
        are void."""
        results: list[RepeatResult] = []
        until = min(t for t in (now, run.wound_down_at, run.aborted_at) if t is not None)
        while not self.over and until > self._begin(self._measured[self._next]):
            gone = away is not None and self._order.start_at + self._ends_s[self._measured[self._next]] > away.since
            result = self._result(run, tally, None, now, certain=certain and not gone)
            if away is not None and gone:
                result = msgspec.structs.replace(result, verdict="void", reason=away.fact)
            results.append(result)
        return results

    def _begin(self, segment: int) -> float:
        return self._order.start_at + (self._ends_s[segment - 1] if segment else 0.0)

    def _result(self, run: OrderRun, whole: Tally, decision: Decision | None, now: float, *, certain: bool = True) -> RepeatResult:
        at, begin = self._measured[self._next], self._begin(self._measured[self._next])
        known_until = self._order.start_at + self._ends_s[min(at + 1, len(self._ends_s) - 1)]
        samples = [sample for sample in self._readings_since(begin) if sample.t <= min(now, known_until)]
        since = min([begin, *(sample.t for sample in samples[:1])])
        ended = {m.index for m in self._heard if isinstance(m, RequestEnded) and m.t_end < since}
        self._heard = [m for m in self._heard if m.index not in ended]
        ticks = [tick for tick in run.ticks if begin <= tick.t <= now]
        del run.ticks[: len(run.ticks) - len(ticks)]
        self.account = tally = self._account(whole, at, begin - self._order.start_at)
        if decision is None and run.lost is None and certain:
            decision = self._certain(tally, now)
        result = judge_repeat(tally, decision, now, self._rules, samples, ticks, None, self._server, self._machine())
        self._next += 1
        self._failed_at, self._fails = None, False
        return msgspec.structs.replace(result, duration_s=max(0.0, now - begin))

    def _certain(self, tally: Tally, now: float) -> Decision | None:
        """What is certain of a segment that was cut off; None while what did not come could have changed it."""
        bounds, target = tally.bounds(now - REPORT_DELAY_S), self._rules.slo.target
        if bounds.bad > allowed_misses(bounds.planned, target) and not self._fails:
            return None
        if now >= tally.layout.window[1] and bounds.good + bounds.bad == bounds.planned:
            return Decision(kind="complete", reason=fact("segment_decided"))
        return Decision(kind="fail", reason=out_of_reach(bounds, target)) if self._fails else None

    def _account(self, whole: Tally, at: int, before_s: float) -> Tally:
        """A tally of the segment, with what was in flight when it began before it and the next segment after it."""
        segments, plan = self._order.segments, whole.plan
        low, until = np.searchsorted(plan.segment, [at, at + 2]).tolist()
        heard = [m for m in self._heard if m.index < until]
        low = min([low, *(m.index for m in heard)])
        warmup = (Segment(rate_rps=segments[0].rate_rps, duration_s=before_s, role="warmup"),) if before_s else ()
        tail = (msgspec.structs.replace(segments[at + 1], role="tail"),) if at + 1 < len(segments) else ()
        order = msgspec.structs.replace(
            self._order, repeat=self._order.repeat + self._next, segments=(*warmup, segments[at], *tail)
        )
        where = np.sign(plan.segment[low:until] - at) + (1 if warmup else 0)
        part = dataclasses.replace(plan.part_of(low, until), segment=where.astype(np.int32))
        tally = Tally(order, part, self._rules.slo, senders=whole.senders and whole.senders.part_of(low, until))
        for message in heard:
            _apply(tally, msgspec.structs.replace(message, index=message.index - low))
        return tally


def _apply(tally: Tally, message: Message) -> None:
    match message:
        case RequestHeld():
            tally.held(message)
        case RequestSent():
            tally.sent(message)
        case RequestFirst():
            tally.first(message)
        case RequestEnded():
            tally.ended(message)


class HeldRate:
    """The rate that is held and the one that is wanted next. `changed` is called when they come to differ."""

    def __init__(self, rate_rps: float, max_rps: float | None, changed: Callable[[], None]) -> None:
        self._max_rps = max_rps
        self._changed = changed
        self.now_rps = self.next_rps = rate_rps

    def change(self, factor: float) -> float:
        """Multiply the wanted rate, never beyond max_rps; returns it. Raises ValueError for a factor that is not above 0."""
        if not 0 < factor < float("inf"):
            raise ValueError(f"a rate cannot be changed by the factor {factor!r}")
        wanted = self.next_rps * factor
        self.next_rps = wanted if self._max_rps is None else min(wanted, self._max_rps)
        if self.next_rps != self.now_rps:
            self._changed()
        return self.next_rps
