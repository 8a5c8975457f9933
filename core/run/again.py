"""A recorded run judged again under other limits: each repeat by the judge of a live run, from the requests that were logged.

Load that was stopped, because the verdict by the limits of then was certain, was never sent: a repeat may stay undecided under
others. A repeat that was void stays so, and one that others made fail: neither rests on a limit.
"""

from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from core.config import ProbeConfig, Slo
from core.facts import Fact, fact, says
from core.judge import (
    CLOSING_S,
    REPORT_DELAY_S,
    Decision,
    RampOutcome,
    Senders,
    Tally,
    closing_s,
    decide_ramp,
    decide_step,
    idle_e2e_s,
    idle_speed,
    judge_repeat,
    ramp_outcome,
    rechecked,
    runaway,
    token_costs,
)
from core.length_classes import LengthClasses
from core.records import (
    ASIDE,
    LoadDone,
    LoadTick,
    RepeatOrder,
    RequestEnded,
    RequestFirst,
    RequestHeld,
    RequestSent,
    ServerInfo,
    ServerSample,
    WorkerInfo,
)
from core.results import Answer, JudgeRules, Knee, RepeatResult, StepResult
from core.run.conductor import CHECK_S, OrderRun
from core.run.events import (
    AnswerFound,
    Event,
    RepeatJudged,
    RepeatStarted,
    RunEnded,
    RunStarted,
    SearchRestarted,
    ServerKnown,
    ServerSampled,
    StepJudged,
    StepStarted,
    WorkersKnown,
    WorkloadKnown,
    time_of,
)
from core.run.hold import HeldOrder
from core.run.liveness import Liveness
from core.run.rules import rules_for
from core.schedule import draw

_JUDGED = ("pass", "fail")


class RepeatAgain(msgspec.Struct, frozen=True, kw_only=True):
    """A repeat as it was judged, and as it is now. `undecided`: why its requests do not tell; `now` has figures all the same."""

    then: RepeatResult
    now: RepeatResult
    undecided: Fact | None = None


class StepAgain(msgspec.Struct, frozen=True, kw_only=True):
    """A rate as it was judged, with its repeats. `planned`: how many repeats it was to have. `ramp`: what a ramp shows now; None of
    any other step, and of a ramp that was void."""

    then: StepResult
    repeats: tuple[RepeatAgain, ...]
    planned: int
    ramp: RampOutcome | None = None


class RunAgain(msgspec.Struct, frozen=True, kw_only=True):
    """A run judged again. `config`: as it was asked; `slo`: the limits of now, `limits` those with what kinds of request have of
    their own. `singles`: the single requests before the load."""

    config: ProbeConfig
    slo: Slo
    limits: Slo
    singles: tuple[RequestEnded, ...]
    steps: tuple[StepAgain, ...]
    answer: Answer | None
    knee: Knee


class _Open:
    """The repeat that is being replayed. It is decided as a live one: ten times a second, from what is known then."""

    def __init__(
        self, order: RepeatOrder, tally: Tally, rules: JudgeRules, drain_s: float, idle_s: float, held: HeldOrder | None
    ) -> None:
        self.order: Final = order
        self.tally: Final = tally
        self.held: Final = held
        self.run: Final = OrderRun(order, Liveness(idle_s))
        self.segments: list[RepeatResult] = []
        self.decision: Decision | None = None
        self.decided_at: float | None = None
        self._rules = rules
        self._drain_s = drain_s
        self._idle_s = idle_s
        self._next_look = 0.0

    def take(self, event: RequestHeld | RequestSent | RequestFirst | RequestEnded | LoadTick | LoadDone) -> None:
        """An event of this order."""
        self.run.liveness.message(event)
        match event:
            case LoadTick():
                self.run.ticks.append(event)
            case LoadDone():
                self.run.done = event
            case RequestHeld():
                self.tally.held(event)
            case RequestSent():
                self.tally.sent(event)
            case RequestFirst():
                self.tally.first(event)
            case RequestEnded():
                self.tally.ended(event)
        if self.held is not None:
            self.held.hear(event)

    def look(self, now: float) -> None:
        """Decide, if it can be decided now."""
        if self.decision is not None or now < self._next_look or self._stopped(now):
            return
        self._next_look = now + CHECK_S
        if self.held is not None:
            while (result := self.held.judge(self.run, self.tally, now)) is not None:
                self.segments.append(result)
            return
        self._decide(now)

    def _stopped(self, now: float) -> bool:
        """Whether its load was cut off: what time does to it from then on is not the server's doing."""
        stopped_at = self.tally.stopped_at
        return stopped_at is not None and now > stopped_at + REPORT_DELAY_S

    def _decide(self, now: float) -> None:
        decision = self._decision(now)
        # A window of which a part was never sent tells of no pass, however much time went by since.
        if decision is not None and (decision.kind in ("fail", "overload") or self._all_sent()):
            self.decision, self.decided_at = decision, now

    def _decision(self, now: float) -> Decision | None:
        if self.order.phase == "ramp":
            return decide_ramp(self.tally, now, self._rules, self._drain_s) or runaway(self.tally, now, self._idle_s)
        return decide_step(self.tally, now, self._rules, self._drain_s)

    def _all_sent(self) -> bool:
        bounds = self.tally.bounds(self.tally.layout.window[1])
        return bounds.sent == bounds.planned

    def judged(self, now: float, samples: list[ServerSample], server: ServerInfo) -> RepeatResult:
        """The result, from what came by `now`."""
        if self.decision is None and self.tally.stopped_at is not None:  # what came since the last look
            self._decide(self.tally.stopped_at + REPORT_DELAY_S)
        at = now if self.decided_at is None else self.decided_at
        return judge_repeat(self.tally, self.decision, at, self._rules, samples, self.run.ticks, self.run.done, server)

    def undecided(self, now: float) -> Fact:
        """How much its requests tell, where they decide nothing."""
        bounds, target = self.tally.bounds(now), self._rules.slo.target
        low, high = bounds.end
        return fact("again_undecided", low_frac=low, high_frac=high, target=target, sent=bounds.sent, planned=bounds.planned)


class Again:
    """Feed it all events of a run in order; `run()` is what became of it. `change` makes the limits of now from those of then."""

    def __init__(self, change: Callable[[Slo], Slo]) -> None:
        self._change = change
        self._then: ProbeConfig | None = None
        self._config: ProbeConfig | None = None
        self._server = ServerInfo(url="")
        self._workers: tuple[WorkerInfo, ...] = ()
        self._samples: list[ServerSample] = []
        self._started: StepStarted | None = None
        self._open: _Open | None = None
        self._ramp: RampOutcome | None = None
        self._repeats: list[RepeatAgain] = []
        self._steps: list[StepAgain] = []
        self._now = 0.0
        self._closing_s = CLOSING_S
        self._singles: list[RequestEnded] = []
        self._single_orders: set[int] = set()
        self._answer: Answer | None = None

    def feed(self, event: Event) -> None:
        """The next event."""
        self._now = max(self._now, time_of(event))
        match event:
            case RequestHeld() | RequestSent() | RequestFirst() | RequestEnded() | LoadTick() | LoadDone():
                self._load(event)
            case ServerSampled(sample=sample):
                self._samples.append(sample)
                if self._open is not None:
                    self._open.run.liveness.sample(sample)
            case RepeatStarted(order=order):
                self._begin(order)
            case StepStarted():
                self._started, self._repeats, self._ramp = event, [], None
            case RepeatJudged(result=result):
                self._judge(result)
            case StepJudged(result=result):
                self._close(result)
            case _:
                self._learn(event)
        if self._open is not None:
            self._open.look(self._now)

    def run(self) -> RunAgain:
        """What became of it. Raises ValueError where no run began."""
        if self._then is None or self._config is None:
            raise ValueError("no run begins here")
        return RunAgain(
            config=self._then,
            slo=self._config.slo,
            limits=self._config.limits,
            singles=tuple(self._singles),
            steps=tuple(self._steps),
            answer=self._answer,
            knee=Knee() if self._answer is None else self._answer.knee,
        )

    def _learn(self, event: Event) -> None:
        match event:
            case RunStarted(config=config):
                self._then = config
                self._config = msgspec.structs.replace(config, slo=self._change(config.slo))
            case WorkloadKnown() if self._then is not None and self._config is not None:
                self._then, self._config = event.known(self._then), event.known(self._config)
            case ServerKnown(info=info):
                self._server = info
            case WorkersKnown(workers=workers):
                self._workers = workers
            case SearchRestarted():
                self._steps = []
            case AnswerFound(answer=answer) | RunEnded(answer=answer):
                self._answer, self._open = answer, None
            case _:
                pass

    def _load(self, event: RequestHeld | RequestSent | RequestFirst | RequestEnded | LoadTick | LoadDone) -> None:
        if isinstance(event, RequestEnded):
            self._closing_s = max(self._closing_s, closing_s(event))
            if event.order in self._single_orders:
                self._singles.append(event)
        if self._open is not None and event.order == self._open.order.order:
            self._open.take(event)

    def _begin(self, order: RepeatOrder) -> None:
        if order.phase in ASIDE:
            if order.phase == "single" and order.repeat > 0:  # the first one is not judged
                self._single_orders.add(order.order)
            return
        if self._config is None:
            return
        self._end_held()
        del self._samples[:-1]
        config, method = self._config, self._config.method
        speed, idle_s = idle_speed(self._singles), idle_e2e_s(self._singles) or 0.0
        rules = rules_for(
            config,
            self._server,
            token_costs(config.workload, speed),
            LengthClasses.of(config.workload),
            curtail_pass=order.phase in ("ramp", "search"),
            reads_whole=order.phase in ("confirm", "tighten") and order.draw is not None,
            strict=method.mode == "acceptance" and order.phase != "ramp",
        )
        held = None
        if order.phase == "hold":
            held = HeldOrder(order, rules, method.drain_s, self._since, self._server)
        plan = draw(order, config.workload)
        senders = Senders.among(self._workers, plan)
        tally = Tally(order, plan, config.limits, self._closing_s, keeps_records=held is None, senders=senders)
        self._open = _Open(order, tally, rules, method.drain_s, idle_s, held)

    def _since(self, t: float) -> list[ServerSample]:
        older = sum(sample.t <= t for sample in self._samples)
        return self._samples[max(older - 1, 0) :]

    def _judge(self, then: RepeatResult) -> None:
        """The repeat of `then`, once more; segments of a held rate are put together when their step is closed."""
        open_ = self._open
        if open_ is None or open_.held is not None:
            self._repeats.append(RepeatAgain(then=then, now=then))
            return
        self._open = None
        if open_.order.phase == "ramp":
            self._repeats.append(RepeatAgain(then=then, now=open_.judged(self._now, self._samples, self._server)))
            if then.verdict != "void" and open_.decision is not None:
                self._ramp = ramp_outcome(open_.decision, open_.decided_at, open_.tally, open_.tally.slo, self._now)
        elif then.verdict not in _JUDGED or says(then.reason, "backed_off"):
            self._repeats.append(RepeatAgain(then=then, now=then))
        else:
            now = open_.judged(self._now, self._samples, self._server)
            if then.verdict == "fail":  # a pass is doubted whose warm-up was too short; what passed then had been looked at
                now = rechecked(now)
            self._repeats.append(_repeat(then, now, open_.undecided(self._now)))

    def _end_held(self) -> None:
        """The segments of an order of a held rate beside those of then, with the one that was cut off."""
        open_ = self._open
        if open_ is None or open_.held is None:
            return
        self._open = None
        segments = iter([*open_.segments, *open_.held.cut(open_.run, open_.tally, self._now)])
        for at, each in enumerate(self._repeats):
            if each.then.order == open_.order.order and each.then.verdict in _JUDGED and (now := next(segments, None)) is not None:
                self._repeats[at] = _repeat(each.then, now, fact("undecided"))

    def _close(self, then: StepResult) -> None:
        self._end_held()
        planned = len(then.repeats) if self._started is None else self._started.repeats
        self._steps.append(StepAgain(then=then, repeats=tuple(self._repeats), planned=planned, ramp=self._ramp))
        self._repeats, self._ramp = [], None


def _repeat(then: RepeatResult, now: RepeatResult, undecided: Fact) -> RepeatAgain:
    """One that counted then, with why it does not now."""
    match now:
        case RepeatResult(verdict="unjudged", reason=Fact(code="warmup_short") as short):
            return RepeatAgain(then=then, now=now, undecided=short)
        case RepeatResult(verdict="void", reason=void):
            return RepeatAgain(then=then, now=now, undecided=fact("again_void", void))
        case RepeatResult(verdict="unjudged"):
            return RepeatAgain(then=then, now=now, undecided=undecided)
    return RepeatAgain(then=then, now=now)


def judged_again(events: Iterable[Event], change: Callable[[Slo], Slo]) -> RunAgain:
    """A run under other limits. Raises ValueError where no run begins, and UserError for limits that cannot be."""
    again = Again(change)
    for event in events:
        again.feed(event)
    return again.run()
