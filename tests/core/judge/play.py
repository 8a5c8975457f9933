"""Requests written as a few numbers, and the events that a generator would report of them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from core.config import Slo, Stop
from core.judge.tally import Tally
from core.judge.workers import Senders
from core.records import (
    CountedBy,
    Ending,
    GapSummary,
    Phase,
    RepeatOrder,
    RequestEnded,
    RequestFirst,
    RequestHeld,
    RequestSent,
    Segment,
    ServerInfo,
    WorkerInfo,
)
from core.results import JudgeRules
from core.schedule import Plan
from core.workloads import COLD, Prefix

START = 1000.0
SERVER = ServerInfo(url="http://127.0.0.1:8000")
SLO = Slo(ttft_s=0.8, tpot_s=0.05)

RequestEvent = RequestHeld | RequestSent | RequestFirst | RequestEnded


@dataclass(frozen=True, kw_only=True)
class Request:
    """What becomes of one request. Times are seconds after it was due; None: did not come so far.

    `last` is the last token, `closing` how much later the body ended. `held`: a gateway's limit kept it from leaving for as long as
    it was late, or to its end. `known`: tokens at the beginning of its prompt that came before, by the trace that it is of.
    """

    late: float | None = 0.0
    first: float | None = 0.1
    last: float | None = 1.0
    end: float | None = None
    closing: float = 0.0
    first_tokens: int = 1
    output: int = 21
    asked: int = 21
    ending: Ending = "ok"
    error: str | None = None
    gaps: GapSummary = field(default_factory=GapSummary)
    prompt: int | None = 512
    cached: int | None = None
    asked_input: int = 512
    known: int | None = None
    usage: bool = True
    counted_by: CountedBy | None = None
    finish: str | None = "length"
    held: bool = False
    retries: int = 0

    def events(self, index: int, due: float, order: int = 7) -> list[RequestEvent]:
        events: list[RequestEvent] = []
        t_first = None if self.first is None else due + self.first
        t_last = None if self.last is None else due + self.last
        waited_s = 0.0 if not self.held else self.late if self.late is not None else self.end or 0.0
        if self.held:
            events.append(RequestHeld(order=order, index=index, t_sched=due, t=due))
        if self.late is not None:
            sent = RequestSent(order=order, index=index, t_sched=due, t_sent=due + self.late, gateway_wait_s=waited_s)
            events.append(sent)
        if t_first is not None:
            events.append(RequestFirst(order=order, index=index, t_first=t_first, first_tokens=self.first_tokens))
        t_end = due + self.end if self.end is not None else None if t_last is None else t_last + self.closing
        if t_end is not None:
            events.append(
                RequestEnded(
                    order=order,
                    index=index,
                    t_sched=due,
                    t_sent=None if self.late is None else due + self.late,
                    t_first=t_first,
                    t_last=t_last,
                    t_end=t_end,
                    first_tokens=self.first_tokens if self.first is not None else 0,
                    output_tokens=self.output if self.last is not None else 0,
                    prompt_tokens=self.prompt,
                    cached_tokens=self.cached,
                    asked_input=self.asked_input,
                    asked_output=self.asked,
                    ending=self.ending,
                    error=self.error,
                    finish_reason=self.finish if self.ending == "ok" else None,
                    gaps=self.gaps,
                    usage=self.usage,
                    counted_by=self.counted_by,
                    gateway_wait_s=waited_s,
                    retries=self.retries,
                )
            )
        return events


GOOD = Request()
SLOW = Request(first=0.9)
HANGS = Request(first=None, last=None)
REFUSED = Request(first=None, last=None, end=0.01, ending="http")


def record(request: Request, due: float = START, index: int = 0) -> RequestEnded:
    """The record of a request that ended."""
    ended = request.events(index, due)[-1]
    assert isinstance(ended, RequestEnded)
    return ended


def order(*segments: Segment, phase: Phase = "search") -> RepeatOrder:
    return RepeatOrder(order=7, phase=phase, step=1, repeat=0, seed=11, segments=segments, start_at=START)


def warmup(duration_s: float, rate_rps: float = 1.0) -> Segment:
    return Segment(rate_rps=rate_rps, duration_s=duration_s, role="warmup")


def measured(duration_s: float, rate_rps: float = 1.0) -> Segment:
    return Segment(rate_rps=rate_rps, duration_s=duration_s, role="measured")


def tail(duration_s: float = 100.0) -> Segment:
    return Segment(rate_rps=1.0, duration_s=duration_s, role="tail")


def plan_of(offsets_s: Sequence[float], segment: Sequence[int], asked: int | Sequence[int] = 21) -> Plan:
    """A plan made by hand; prompts are 512 tokens long."""
    output_tokens = np.full(len(offsets_s), asked, dtype=np.int64)
    return Plan(np.array(offsets_s), np.array(segment, dtype=np.int32), np.full(len(offsets_s), 512), output_tokens)


@dataclass(frozen=True)
class Play:
    """Segments, and the requests that are due in each of them at even distances, the first at its start."""

    segments: tuple[Segment, ...]
    requests: tuple[tuple[Request, ...], ...]
    phase: Phase = "search"

    @property
    def flat(self) -> list[Request]:
        return [request for part in self.requests for request in part]

    @property
    def offsets_s(self) -> list[float]:
        offsets, begin = [], 0.0
        for segment, part in zip(self.segments, self.requests, strict=True):
            offsets += [begin + segment.duration_s * i / len(part) for i in range(len(part))]
            begin += segment.duration_s
        return offsets

    def events(self) -> list[RequestEvent]:
        """All events in the order of time."""
        events = [e for i, (r, o) in enumerate(zip(self.flat, self.offsets_s, strict=True)) for e in r.events(i, START + o)]
        return sorted(events, key=time_of)

    def tally(self, slo: Slo = SLO, workers: Sequence[WorkerInfo] = ()) -> Tally:
        """`workers`: the machines that send, where several do."""
        known = [r.known for r in self.flat]
        plan = Plan(
            offsets_s=np.array(self.offsets_s, dtype=np.float64),
            segment=np.repeat(np.arange(len(self.segments)), [len(part) for part in self.requests]).astype(np.int32),
            input_tokens=np.array([r.asked_input for r in self.flat], dtype=np.int64),
            output_tokens=np.array([r.asked for r in self.flat], dtype=np.int64),
            known_tokens=np.array(known, dtype=np.int64) if None not in known else None,
        )
        return Tally(order(*self.segments, phase=self.phase), plan, slo, senders=Senders.among(workers, plan))

    def played(self, until: float = float("inf"), slo: Slo = SLO, workers: Sequence[WorkerInfo] = ()) -> Tally:
        """The tally with every event up to `until` seconds after the start applied."""
        tally = self.tally(slo, workers)
        apply(tally, (e for e in self.events() if time_of(e) <= START + until))
        return tally


def step(*requests: Request, measure_s: float = 10.0, warm: Sequence[Request] = (), warm_s: float = 2.0) -> Play:
    """A step whose window holds these requests."""
    segments = (warmup(warm_s), measured(measure_s), tail())
    return Play(segments, (tuple(warm), requests, ()))


def ramp(*parts: Sequence[Request], duration_s: float = 10.0) -> Play:
    """A ramp with one measured segment for each part; its rate doubles from 1/s."""
    segments = tuple(measured(duration_s, 2.0**i) for i in range(len(parts)))
    return Play(segments, tuple(tuple(part) for part in parts), phase="ramp")


def time_of(event: RequestEvent) -> float:
    match event:
        case RequestHeld():
            return event.t
        case RequestSent():
            return event.t_sent
        case RequestFirst():
            return event.t_first
        case RequestEnded():
            return event.t_end


def apply(tally: Tally, events: Iterable[RequestEvent]) -> None:
    for event in events:
        match event:
            case RequestHeld():
                tally.held(event)
            case RequestSent():
                tally.sent(event)
            case RequestFirst():
                tally.first(event)
            case RequestEnded():
                tally.ended(event)


def rules(
    slo: Slo = SLO, *, curtail_pass: bool = True, prefix: Prefix = COLD, strict: bool = False, stop: Stop = "exact"
) -> JudgeRules:
    return JudgeRules(slo=slo, curtail_pass=curtail_pass, prefix=prefix, strict=strict, stop=stop)


def aborted(play: Play, at: float, slo: Slo = SLO) -> Tally:
    """The tally of a play that was cut off `at` seconds after its start: what was open then, or waited, ended aborted."""
    tally = play.tally(slo)
    before = [e for e in play.events() if time_of(e) <= START + at]
    apply(tally, before)
    came = {e.index: e for e in before if isinstance(e, RequestHeld | RequestSent)}
    over = {e.index for e in before if isinstance(e, RequestEnded)}
    for index, e in came.items():
        if index not in over:
            t_first = next((f.t_first for f in before if isinstance(f, RequestFirst) and f.index == index), None)
            cut = RequestEnded(
                order=7,
                index=index,
                t_sched=e.t_sched,
                t_sent=e.t_sent if isinstance(e, RequestSent) else None,
                t_first=t_first,
                t_end=START + at,
                asked_input=play.flat[index].asked_input,
                asked_output=play.flat[index].asked,
                ending="aborted",
            )
            tally.ended(cut)
    return tally
