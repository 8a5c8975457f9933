"""A whole search in virtual time: the product's search, arrivals and judge against its simulated replica, without a socket.

The client is perfect here: every request leaves on time. How many repeats a step runs, and that a pass with too short a
warm-up is run once more, follows what the run does.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from statistics import NormalDist

import msgspec

from core import modes
from core.config import Lengths, Method, ProbeConfig, Safety, Slo, Target, Workload
from core.judge.idle import idle_speed
from core.judge.rate_verdicts import step_over, step_verdict, too_short_warmup
from core.judge.search.actions import Done, Hold, Ramp, Step
from core.judge.search.search import Search
from core.judge.search.windows import windows_of
from core.judge.tally import Tally
from core.judge.verdict import Decision, decide_ramp, decide_step, judge_repeat
from core.judge.window import token_costs
from core.records import (
    Ending,
    LoadDone,
    Phase,
    RepeatOrder,
    RequestEnded,
    RequestFirst,
    RequestRecord,
    RequestSent,
    Segment,
    ServerInfo,
)
from core.replica.catalog import Replica, TokenLengths
from core.results import Answer, JudgeRules, RepeatResult, StepResult, TokenCosts, TwinReading
from core.schedule import Plan, draw, fresh_draw
from core.twin import Emitted, TwinWindow, fast_engine
from tests.core.judge.queue_model import LONG_S, SHORT_S, SHORT_SHARE

POLL_S = 0.25
"""How often the judge is asked whether the repeat is decided."""
SETTLE_S = 1.0
"""Lost between two repeats: cancelling, reconnecting, reading the server."""

QUEUE_LENGTHS = TokenLengths(median=1000, sigma=1.0, maximum=100_000)
QUEUE_LENGTHS_SPLIT = 1000 * math.exp(NormalDist().inv_cdf(SHORT_SHARE))
"""Answers for `one_at_a_time`: a fifth of them is longer than this."""

Look = Callable[[Sequence[TwinWindow], Sequence[RequestRecord], float], TwinReading | None]
"""A twin: what it shows after these windows and their requests, with its knee looked for near a rate."""
Serve = Callable[[Plan], Iterator[Emitted]]
"""A server: for a plan, in order of time, who gets a first and who a last token."""


def batching(replica: Replica) -> Serve:
    """The simulated replica, starting empty for each plan."""
    return lambda plan: fast_engine(replica.engine, plan)


def one_at_a_time(plan: Plan) -> Iterator[Emitted]:
    """The queue of `queue_model`: one request at a time, whose first token comes when it starts. The longest answers of the plan
    are the long ones, so that a seed has the same service times at every rate."""
    asked = plan.output_tokens.tolist()
    free_s = 0.0
    for index, due_s in enumerate(plan.offsets_s.tolist()):
        start_s = max(free_s, due_s)
        free_s = start_s + (LONG_S if asked[index] > QUEUE_LENGTHS_SPLIT else SHORT_S)
        yield Emitted(start_s, [index], [])
        yield Emitted(free_s, [], [index])


def probe_of(replica: Replica, seed: int, method: Method | None = None) -> ProbeConfig:
    """What `demo NAME` would ask: the replica's own lengths and limits, quick mode unless another method is given."""
    return ProbeConfig(
        target=Target(url="http://127.0.0.1:8000"),
        slo=Slo(ttft_s=replica.ttft_s, tpot_s=replica.tpot_s, e2e_s=replica.e2e_s, target=replica.target),
        workload=Workload(input_tokens=lengths_of(replica.input_tokens), output_tokens=lengths_of(replica.output_tokens)),
        method=msgspec.structs.replace(method or Method(), seed=seed),
        safety=Safety(),
    )


def lengths_of(lengths: TokenLengths) -> Lengths:
    """The same lengths as what is asked for."""
    return Lengths(median=lengths.median, sigma=lengths.sigma, maximum=lengths.maximum, minimum=lengths.minimum)


@dataclass
class VirtualRun:
    """One search from its single requests to its answer; `elapsed_s` is the virtual time since the load began, `expected_s`
    what was expected before it, `results` its steps. `twin` looks at the windows after each step, in no time."""

    config: ProbeConfig
    serve: Serve
    redo: bool = True
    twin: Look | None = None
    fresh: bool = True
    elapsed_s: float = 0.0
    orders: int = 0
    steps: int = 0
    redone: int = 0
    expected_s: float | None = None
    results: list[StepResult] = field(default_factory=list)
    windows: list[TwinWindow] = field(default_factory=list)
    records: list[RequestRecord] = field(default_factory=list)
    latest: list[RequestRecord] = field(default_factory=list)
    _costs: TokenCosts | None = None

    def answer(self) -> Answer:
        search = Search(self.config)
        singles = self._singles()
        search.observe_singles(singles)
        self._costs = token_costs(self.config.workload, idle_speed(singles))
        self.expected_s = search.expected_s()
        while True:
            match search.next(self.elapsed_s):
                case Done(answer=answer):
                    return answer
                case Ramp(segments=segments):
                    search.observe_ramp(*self._ramp(segments))
                case Step() as step:
                    result = self._step(step)
                    self.results.append(result)
                    passed = [repeat.e2e_s.mean for repeat in result.repeats if repeat.verdict == "pass"]
                    search.observe_step(result, passed[-1] if passed else None)
                    if self.twin is not None and (near_rps := search.near_rps) is not None:
                        search.observe_twin(self.twin(self.windows, self.records, near_rps))
                case Hold():
                    raise AssertionError("nobody asked to hold a rate")

    def _play(self, phase: Phase, repeat: int, segments: tuple[Segment, ...], offsets_s: tuple[float, ...] | None = None) -> "Play":
        self.orders += 1
        order = RepeatOrder(
            order=self.orders,
            phase=phase,
            step=self.steps,
            repeat=repeat,
            seed=self.config.method.seed_of_requests,
            arrival_seed=self.config.method.seed_of_arrivals,
            draw=fresh_draw(phase, self.steps) if self.fresh else None,
            segments=segments,
            offsets_s=offsets_s,
            start_at=0.0,
        )
        return Play(order, self.config, self.serve)

    def _singles(self) -> list[RequestRecord]:
        play = self._play("single", 0, (), (0.0, 1000.0, 2000.0))
        play.until(lambda now: None)
        self.elapsed_s += sum(record.t_end - record.t_sched for record in play.tally.records) + 2 * SETTLE_S
        return play.tally.records

    def _ramp(self, segments: tuple[Segment, ...]) -> tuple[float | None, float | None]:
        """The rates of the last segment before the failing one, and of that; None where there is none."""
        play = self._play("ramp", 0, segments)
        rules = JudgeRules(slo=self.config.limits)
        decision, now = play.until(lambda now: decide_ramp(play.tally, now, rules))
        self.elapsed_s += now + SETTLE_S
        if decision is None or decision.kind != "fail" or decision.segment is None:
            return segments[-1].rate_rps, None
        failed = decision.segment
        return segments[failed - 1].rate_rps if failed else None, segments[failed].rate_rps

    def _step(self, step: Step) -> StepResult:
        self.steps += 1
        results: list[RepeatResult] = []
        segments = step.segments
        while len(results) < step.repeats and not step_over(results, step.stop, step.repeats):
            result = self._judged(step, len(results), segments)
            needed_s = too_short_warmup(result) if self.redo else None
            if needed_s is not None:
                segments = modes.with_warmup(segments, needed_s, step.rate_rps, self.config.safety)
                self.redone += 1
                result = self._judged(step, len(results), segments)
            results.append(result)
        return _step_result(self.steps, step, results)

    def _judged(self, step: Step, index: int, segments: tuple[Segment, ...]) -> RepeatResult:
        rules = JudgeRules(slo=self.config.limits, curtail_pass=step.curtail_pass, reads_whole=step.reads_whole, costs=self._costs)
        play = self._play(step.phase, index, segments)
        decision, now = play.until(lambda now: decide_step(play.tally, now, rules, self.config.method.drain_s))
        done = play.abort(now)
        self.elapsed_s += now + SETTLE_S
        self.latest = play.tally.records
        result = judge_repeat(play.tally, decision, now, rules, (), (), done, ServerInfo(url=""))
        assert result.verdict in ("pass", "fail"), f"a perfect client leaves nothing to void: {result.reason}"
        if self.twin is not None:
            self._keep(play, result)
        return result

    def _keep(self, play: "Play", result: RepeatResult) -> None:
        """A window for the twin, in place of one that was done again."""
        order = play.tally.order
        window = windows_of([_step_result(order.step, _KEPT, [result])], self.config.slo.target)[0]
        from_s, to_s = play.tally.layout.window
        kept = TwinWindow(
            order=order,
            repeat=result.index,
            from_s=from_s,
            to_s=to_s,
            x=window.x,
            least=window.least,
            passed=window.passed,
        )
        self.windows = [each for each in self.windows if (each.order.step, each.repeat) != (order.step, result.index)] + [kept]
        self.records = [*self.records, *play.tally.records]


_KEPT = Step(phase="search", rate_rps=1.0, repeats=1, segments=(), curtail_pass=True)


def _step_result(number: int, step: Step, repeats: list[RepeatResult]) -> StepResult:
    verdict, reason = step_verdict(repeats)
    return StepResult(
        step=number, rate_rps=step.rate_rps, phase=step.phase, verdict=verdict, reason=reason, floor=None, repeats=tuple(repeats)
    )


class Play:
    """One order, played: the server's tokens become the events that the generator would report, and the tally counts them."""

    def __init__(self, order: RepeatOrder, config: ProbeConfig, serve: Serve) -> None:
        self.plan = draw(order, config.workload)
        self.tally = Tally(order, self.plan, config.limits)
        self._order = order.order
        self._emitted = serve(self.plan)
        self._due = self.plan.offsets_s.tolist()
        self._sent = 0
        self._first_at: dict[int, float] = {}
        self._open: set[int] = set()

    def until(self, decide: Callable[[float], Decision | None]) -> tuple[Decision | None, float]:
        """Play on until `decide(now)` says something; returns that and the time, or None when all requests have ended."""
        now = 0.0
        for t, first, last in self._emitted:
            while now < t:
                self._send(now)
                if (decision := decide(now)) is not None:
                    return decision, now
                now += POLL_S
            self._send(t)
            for index in first:
                self._first_at[index] = t
                self.tally.first(RequestFirst(order=self._order, index=index, t_first=t, first_tokens=1))
            for index in last:
                self._end(index, t, "ok")
        return decide(now), now

    def abort(self, now: float) -> LoadDone:
        """Cut off what is open, as the generator does when a repeat is decided."""
        for index in sorted(self._open):
            self._end(index, now, "aborted")
        return LoadDone(order=self._order, t=now, sent=self._sent, unsent=0, cpu_frac=0.0, loop_lag_max_s=0.0)

    def _send(self, now: float) -> None:
        while self._sent < len(self._due) and self._due[self._sent] <= now:
            due = self._due[self._sent]
            self.tally.sent(RequestSent(order=self._order, index=self._sent, t_sched=due, t_sent=due))
            self._open.add(self._sent)
            self._sent += 1

    def _end(self, index: int, t: float, ending: Ending) -> None:
        self._open.discard(index)
        first = self._first_at.get(index)
        asked = int(self.plan.output_tokens[index])
        self.tally.ended(
            RequestEnded(
                order=self._order,
                index=index,
                t_sched=self._due[index],
                t_sent=self._due[index],
                t_first=first,
                t_last=None if first is None else t,
                t_end=t,
                first_tokens=0 if first is None else 1,
                output_tokens=asked if ending == "ok" else int(first is not None),
                prompt_tokens=int(self.plan.input_tokens[index]),
                asked_input=int(self.plan.input_tokens[index]),
                asked_output=asked,
                ending=ending,
                finish_reason="length" if ending == "ok" else None,
            )
        )
