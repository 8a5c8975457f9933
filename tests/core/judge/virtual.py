"""A whole search in virtual time: the product's search, arrivals and judge against its simulated replica, without a socket.

A search of two or three minutes takes 0.2 s. The client is perfect here: every request leaves on time.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from core.config import Lengths, Method, ProbeConfig, Safety, Slo, Target, Workload
from core.judge.search import Done, Ramp, Search, Step
from core.judge.tally import Tally
from core.judge.verdict import Decision, decide_ramp, decide_step, judge_repeat
from core.load.arrivals import Plan, draw
from core.records import (
    Answer,
    Ending,
    JudgeRules,
    LoadDone,
    Phase,
    RepeatOrder,
    RepeatResult,
    RequestEnded,
    RequestFirst,
    RequestRecord,
    RequestSent,
    Segment,
    ServerInfo,
    StepResult,
    StepVerdict,
)
from core.replica.catalog import Replica, TokenLengths
from core.replica.scheduler import Scheduler, Sequence

POLL_S = 0.25
"""How often the judge is asked whether the repeat is decided."""
SETTLE_S = 1.0
"""Lost between two repeats: cancelling, reconnecting, reading the server."""

Serve = Callable[[Plan], Iterator[tuple[float, list[int]]]]
"""A server: for a plan, in order of time, (time, indices of requests that get one more token then)."""


def batching(replica: Replica) -> Serve:
    """The simulated replica, starting empty for each plan."""

    def serve(plan: Plan) -> Iterator[tuple[float, list[int]]]:
        scheduler = Scheduler(replica.engine)
        index_of: dict[Sequence, int] = {}
        for i, due_s in enumerate(plan.offsets_s.tolist()):
            sequence = Sequence(due_s, int(plan.input_tokens[i]), int(plan.output_tokens[i]))
            index_of[sequence] = i
            scheduler.submit(sequence)
        now = 0.0
        while (start_s := scheduler.next_start(now)) is not None:
            step = scheduler.step(start_s)
            now = step.end_s
            yield now, [index_of[sequence] for sequence in step.emitted]

    return serve


def probe_of(replica: Replica, seed: int) -> ProbeConfig:
    """What `demo NAME` would ask: the replica's own lengths and limits, quick mode."""
    return ProbeConfig(
        target=Target(url="http://127.0.0.1:8000"),
        slo=Slo(ttft_s=replica.ttft_s, tpot_s=replica.tpot_s, e2e_s=replica.e2e_s, target=replica.target),
        workload=Workload(input_tokens=_lengths(replica.input_tokens), output_tokens=_lengths(replica.output_tokens)),
        method=Method(seed=seed),
        safety=Safety(),
    )


def _lengths(lengths: TokenLengths) -> Lengths:
    return Lengths(median=lengths.median, sigma=lengths.sigma, maximum=lengths.maximum, minimum=lengths.minimum)


@dataclass
class VirtualRun:
    """One search from its single requests to its answer; `elapsed_s` is the virtual time since the load began."""

    config: ProbeConfig
    serve: Serve
    elapsed_s: float = 0.0
    orders: int = 0
    steps: int = 0

    def answer(self) -> Answer:
        search = Search(self.config)
        search.observe_singles(self._singles())
        while True:
            match search.next(self.elapsed_s):
                case Done(answer=answer):
                    return answer
                case Ramp(segments=segments):
                    failed = self._ramp(segments)
                    passed = len(segments) - 1 if failed is None else failed - 1
                    search.observe_ramp(
                        None if passed < 0 else segments[passed].rate_rps, None if failed is None else segments[failed].rate_rps
                    )
                case Step() as step:
                    repeats = self._repeats(step)
                    search.observe_step(_step_result(self.steps, step, repeats), repeats[-1].e2e_s.mean)

    def _play(self, phase: Phase, repeat: int, segments: tuple[Segment, ...], offsets_s: tuple[float, ...] | None = None) -> "Play":
        self.orders += 1
        order = RepeatOrder(
            order=self.orders,
            phase=phase,
            step=self.steps,
            repeat=repeat,
            seed=self.config.method.seed,
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

    def _ramp(self, segments: tuple[Segment, ...]) -> int | None:
        play = self._play("ramp", 0, segments)
        rules = JudgeRules(slo=self.config.slo)
        decision, now = play.until(lambda now: decide_ramp(play.tally, now, rules))
        self.elapsed_s += now + SETTLE_S
        return decision.segment if decision is not None and decision.kind == "fail" else None

    def _repeats(self, step: Step) -> list[RepeatResult]:
        self.steps += 1
        results: list[RepeatResult] = []
        while len(results) < step.repeats and all(r.verdict == "pass" for r in results):
            results.append(self._repeat(step, len(results)))
        return results

    def _repeat(self, step: Step, index: int) -> RepeatResult:
        rules = JudgeRules(slo=self.config.slo, curtail_pass=step.curtail_pass)
        play = self._play(step.phase, index, step.segments)
        decision, now = play.until(lambda now: decide_step(play.tally, now, rules, self.config.method.drain_s))
        done = play.abort(now)
        self.elapsed_s += now + SETTLE_S
        result = judge_repeat(play.tally, decision, now, rules, (), (), done, ServerInfo(url=""))
        assert result.verdict in ("pass", "fail"), f"a perfect client leaves nothing to void: {result.reason}"
        return result


def _step_result(number: int, step: Step, repeats: list[RepeatResult]) -> StepResult:
    verdict: StepVerdict = repeats[-1].verdict
    return StepResult(
        step=number,
        rate_rps=step.rate_rps,
        phase=step.phase,
        verdict=verdict,
        reason=repeats[-1].reason,
        floor=None,
        repeats=tuple(repeats),
    )


class Play:
    """One order, played: the server's tokens become the events that the generator would report, and the tally counts them."""

    def __init__(self, order: RepeatOrder, config: ProbeConfig, serve: Serve) -> None:
        self.plan = draw(order, config.workload)
        self.tally = Tally(order, self.plan.offsets_s, self.plan.segment, self.plan.output_tokens, config.slo)
        self._order = order.order
        self._tokens = serve(self.plan)
        self._due = self.plan.offsets_s.tolist()
        self._sent = 0
        self._first_at: dict[int, float] = {}
        self._left = self.plan.output_tokens.tolist()

    def until(self, decide: Callable[[float], Decision | None]) -> tuple[Decision | None, float]:
        """Play on until `decide(now)` says something; returns that and the time, or None when all requests have ended."""
        now = 0.0
        for t, indices in self._tokens:
            while now < t:
                self._send(now)
                if (decision := decide(now)) is not None:
                    return decision, now
                now += POLL_S
            self._send(t)
            for index in indices:
                self._token(index, t)
        return decide(now), now

    def abort(self, now: float) -> LoadDone:
        """Cut off what is open, as the generator does when a repeat is decided."""
        for index in self._first_at.keys() | range(self._sent):
            if self._left[index] > 0:
                self._end(index, now, "aborted")
        return LoadDone(order=self._order, t=now, sent=self._sent, unsent=0, cpu_frac=0.0, loop_lag_max_s=0.0)

    def _send(self, now: float) -> None:
        while self._sent < len(self._due) and self._due[self._sent] <= now:
            due = self._due[self._sent]
            self.tally.sent(RequestSent(order=self._order, index=self._sent, t_sched=due, t_sent=due))
            self._sent += 1

    def _token(self, index: int, t: float) -> None:
        self._left[index] -= 1
        if index not in self._first_at:
            self._first_at[index] = t
            self.tally.first(RequestFirst(order=self._order, index=index, t_first=t, first_tokens=1))
        if self._left[index] == 0:
            self._end(index, t, "ok")

    def _end(self, index: int, t: float, ending: Ending) -> None:
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
                output_tokens=asked - self._left[index],
                prompt_tokens=int(self.plan.input_tokens[index]),
                asked_input=int(self.plan.input_tokens[index]),
                asked_output=asked,
                ending=ending,
                finish_reason="length" if ending == "ok" else None,
            )
        )
