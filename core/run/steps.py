"""One step of the search after another: its repeats, their verdicts, and what the step amounts to."""

import math
from collections.abc import Callable, Sequence

import msgspec

from core.config import ProbeConfig
from core.judge.bracket import rate_text
from core.judge.search import Ramp, Step
from core.judge.slo import allowed_misses
from core.judge.stopping import REPORT_DELAY_S, out_of_reach
from core.judge.tally import Tally
from core.judge.verdict import Decision, decide_ramp, decide_step, judge_repeat
from core.records import JudgeRules, Phase, RepeatOrder, RepeatResult, Segment, ServerInfo, StepResult, StepVerdict
from core.run.conductor import Conductor, OrderRun
from core.run.events import Event, Note, RepeatJudged, StepJudged, StepStarted
from core.run.readings import Readings
from core.run.state import State

Interval = tuple[float, float]


class NoAnswer(Exception):
    """The run cannot come to an answer; the text is the whole message for the user."""


class Steps:
    """Runs steps and ramps on the conductor and judges them. Every step that was begun gets a verdict, also when cut off."""

    def __init__(
        self,
        config: ProbeConfig,
        server: ServerInfo,
        idle_e2e_s: float,
        *,
        state: State,
        conductor: Conductor,
        readings: Readings,
        emit: Callable[[Event], None],
        sync: Callable[[], None],
        clock: Callable[[], float],
    ) -> None:
        self._config = config
        self._server = server
        self._idle_e2e_s = idle_e2e_s
        self._state = state
        self._conductor = conductor
        self._readings = readings
        self._emit = emit
        self._sync = sync
        self._clock = clock
        self._count = 0
        self._open: StepStarted | None = None
        self._rules = JudgeRules(slo=config.slo)
        self._results: list[RepeatResult] = []

    async def step(self, action: Step, left_s: float | None) -> StepResult:
        """Judge one rate. Raises NoAnswer when a repeat is void twice or the server is lost."""
        rules = JudgeRules(slo=self._config.slo, curtail_pass=action.curtail_pass)
        started = self._start(action.phase, action.rate_rps, action.repeats, left_s, rules)
        for index in range(action.repeats):
            result, _ = await self._repeat(started, index, action.segments)
            if result.verdict == "fail":
                break
        return self._close(started.rate_rps, *step_verdict(self._results))

    async def ramp(self, action: Ramp, left_s: float | None) -> tuple[float | None, float | None]:
        """Run the ramp: the rate of the last segment that held and of the one that failed, None where there is none."""
        rules = JudgeRules(slo=self._config.slo)
        started = self._start("ramp", action.segments[0].rate_rps, 1, left_s, rules)
        _, run = await self._repeat(started, 0, action.segments)
        reason = run.decision.reason if run.decision else ""
        failed = failed_segment(run)
        held = [segment.rate_rps for segment in action.segments[:failed] if segment.role == "measured"]
        passed_rps = held[-1] if held else None
        if failed is None:
            self._close(passed_rps or started.rate_rps, "pass", reason)
            return passed_rps, None
        failed_rps = action.segments[failed].rate_rps
        bounds = self._account(run).bounds((run.decided_at or self._clock()) - REPORT_DELAY_S, failed)
        if bounds.bad > allowed_misses(bounds.planned, self._config.slo.target):
            reason = out_of_reach(bounds, self._config.slo.target)  # with what came in since the decision
        self._close(failed_rps, "fail", reason, bounds.end)
        return passed_rps, failed_rps

    def break_off(self, reason: str, *, count_repeat: bool = True) -> None:
        """Close the step that runs now, if any, as unjudged; no load may run any more. Repeats that are finished are kept.

        `count_repeat`: keep the figures of the repeat that was cut off, too.
        """
        started, run = self._open, self._conductor.current
        if started is None:
            return
        judged = {result.order for result in self._results}
        if count_repeat and run is not None and run.order.step == started.step and run.order.order not in judged:
            run.decision = None
            self._judge(started, run)
        self._close(started.rate_rps, "unjudged", reason)

    def _start(self, phase: Phase, rate_rps: float, repeats: int, left_s: float | None, rules: JudgeRules) -> StepStarted:
        self._count += 1
        self._results, self._rules = [], rules
        self._open = StepStarted(t=self._clock(), step=self._count, phase=phase, rate_rps=rate_rps, repeats=repeats, left_s=left_s)
        self._emit(self._open)
        return self._open

    async def _repeat(self, started: StepStarted, index: int, segments: tuple[Segment, ...]) -> tuple[RepeatResult, OrderRun]:
        """One repeat, done once more when it is void; the order's seeds are the same both times."""
        result = None
        for attempt in (1, 2):
            run = await self._load(started, index, segments)
            await self._readings.settle()
            result = self._judge(started, run)
            self._sync()
            if run.lost is not None:
                self._close(started.rate_rps, "void", result.reason)
                raise NoAnswer(f"No answer: {run.lost}. See to the server and run again; finished steps are kept.")
            if result.verdict != "void":
                return result, run
            if attempt == 1:
                text = f"A repeat at {rate_text(started.rate_rps)} does not count and is done again: {result.reason}"
                self._emit(Note(t=self._clock(), level="warn", text=text))
        reason = result.reason if result else ""
        self._close(started.rate_rps, "void", reason)
        raise NoAnswer(
            f"No answer: a repeat at {rate_text(started.rate_rps)} did not count twice in a row: {reason}. "
            "Mend that and run again; finished steps are kept."
        )

    async def _load(self, started: StepStarted, index: int, segments: tuple[Segment, ...]) -> OrderRun:
        before = self._conductor.current
        self._readings.keep_from_now(before.done.t if before is not None and before.done is not None else -math.inf)
        order = RepeatOrder(
            order=self._conductor.next_order(),
            phase=started.phase,
            step=started.step,
            repeat=index,
            seed=self._config.method.seed,
            segments=segments,
            start_at=self._conductor.start_at(),
        )
        rules, drain_s = self._rules, self._config.method.drain_s

        def decide(now: float) -> Decision | None:
            tally = self._state.tally
            if tally is None:
                return None
            return decide_ramp(tally, now, rules, drain_s) if started.phase == "ramp" else decide_step(tally, now, rules, drain_s)

        return await self._conductor.run(order, decide, self._idle_e2e_s)

    def _judge(self, started: StepStarted, run: OrderRun) -> RepeatResult:
        tally, now = self._account(run), self._clock()
        at = now if run.decided_at is None else run.decided_at
        result = judge_repeat(tally, run.decision, at, self._rules, self._readings.kept, run.ticks, run.done, self._server)
        if run.lost is not None:
            result = msgspec.structs.replace(result, verdict="void", reason=run.lost)
        self._results.append(result)
        self._emit(RepeatJudged(t=now, step=started.step, result=result))
        return result

    def _account(self, run: OrderRun) -> Tally:
        if self._state.tally is None:
            raise RuntimeError(f"order {run.order.order} was run without an account")
        return self._state.tally

    def _close(self, rate_rps: float, verdict: StepVerdict, reason: str, floor: Interval | None = None) -> StepResult:
        started, self._open = self._open, None
        if started is None:
            raise RuntimeError("a step was closed that was never begun")
        now = self._clock()
        result = StepResult(
            step=started.step,
            rate_rps=rate_rps,
            phase=started.phase,
            verdict=verdict,
            reason=reason,
            floor=floor or floor_of(self._results),
            repeats=tuple(self._results),
            duration_s=now - started.t,
        )
        self._emit(StepJudged(t=now, result=result))
        return result


def floor_of(results: Sequence[RepeatResult]) -> Interval | None:
    """The minimum attainment over the valid repeats, lower and upper ends each for themselves; None without any."""
    valid = [result.attainment_interval for result in results if result.verdict in ("pass", "fail")]
    return (min(low for low, _ in valid), min(high for _, high in valid)) if valid else None


def step_verdict(results: Sequence[RepeatResult]) -> tuple[StepVerdict, str]:
    """What the repeats of one rate amount to, with the reason. Void repeats were done again and do not count.

    fail: the first repeat failed, or at least two and at least half of them did; mixed: any other failing.
    """
    valid = [result for result in results if result.verdict in ("pass", "fail")]
    failed = [result for result in valid if result.verdict == "fail"]
    if not valid:
        return "unjudged", "no repeat was judged"
    if not failed:
        return "pass", valid[-1].reason if len(valid) == 1 else f"all {len(valid)} repeats passed"
    reason = failed[0].reason if len(valid) == 1 else f"{len(failed)} of {len(valid)} repeats failed: {failed[0].reason}"
    clear = valid[0] is failed[0] or (len(failed) >= 2 and 2 * len(failed) >= len(valid))
    return "fail" if clear else "mixed", reason


def failed_segment(run: OrderRun) -> int | None:
    """The segment of a ramp that is known to have failed; None where none is, for a rate that was not seen to fail is no end."""
    return None if run.decision is None else run.decision.segment
