"""One step of the search after another: its repeats, their verdicts, and what the step amounts to."""

import math
from collections.abc import Callable, Sequence
from typing import Literal, NoReturn

import msgspec

from core import modes
from core.config import ProbeConfig
from core.facts import Fact, Said, fact, says
from core.judge import (
    Decision,
    Hold,
    Interval,
    Ramp,
    Step,
    Tally,
    cut_off,
    decide_ramp,
    decide_step,
    floor_of,
    held,
    held_verdict,
    judge_repeat,
    ramp_outcome,
    rechecked,
    runaway,
    segment_at,
    spread_note,
    step_over,
    step_verdict,
)
from core.length_classes import LengthClasses
from core.records import MachineSample, Phase, RepeatOrder, Segment, ServerInfo
from core.results import JudgeRules, Knee, Outcome, RepeatResult, StepResult, StepVerdict, TokenCosts
from core.run.away import Absence, ServerAway
from core.run.between import Between
from core.run.blackout import Unserved, unserved
from core.run.conductor import Ask, Conductor, OrderRun
from core.run.drift import Drift
from core.run.ends import NoAnswer, SafetyStop
from core.run.events import Event, Note, RepeatJudged, StepJudged, StepStarted
from core.run.hold import HeldOrder, HeldRate
from core.run.limits import Others
from core.run.outlook import Outlook
from core.run.output_drift import OutputDrift
from core.run.restarts import Restarts
from core.run.rules import rules_for
from core.run.scraping import Readings
from core.run.state import State
from core.run.twin import TwinWatch
from core.schedule import fresh_draw, same_draw
from core.traffic import Given, TraceArrivals

HOLD_LEAD_S = 0.5
"""More time before the first send of a held rate: its plan of half a million requests takes 0.1 s to draw, in both processes."""


class _StepEnded(Exception):
    """The user has ended the step that runs."""


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
        between: Between,
        absence: Absence,
        ask: Ask,
        emit: Callable[[Event], None],
        remark: Callable[[Fact], None],
        sync: Callable[[], None],
        clock: Callable[[], float],
        others: Others | None = None,
        machine: Callable[[], Sequence[MachineSample]] = tuple,
        outlook: Outlook | None = None,
        costs: TokenCosts | None = None,
        twin: TwinWatch | None = None,
        prefixes_known: bool = False,
        trace: TraceArrivals | None = None,
    ) -> None:
        """`ask` sends a single request while no load runs. `remark` is told what stands beside the run's answer. `machine`: the
        readings of a GPU or host exporter, the latest last. `costs`: what tells how much work a window brought. `twin` is
        told of each repeat. `prefixes_known`: the server has just been sent every shared prefix. `trace`: what arrives, where that
        is recorded."""
        self._twin = twin
        self._trace = trace
        self._planned: tuple[Segment, ...] = ()
        self._from_s = self._played_s = 0.0
        self._at: dict[tuple[Phase, float], list[int]] = {}
        self._costs = costs
        self._classes = LengthClasses.of(config.workload)
        self._others = others or Others(config.safety)
        self._config = config
        self._server = server
        self._idle_e2e_s = idle_e2e_s
        self._state = state
        self._conductor = conductor
        self._readings = readings
        self._between = between
        self._absence = absence
        self._ask = ask
        self._restarts = Restarts()
        self._drift = Drift(*state.began)
        self._output_drift = OutputDrift()
        self._emit = emit
        self._remark = remark
        self._sync = sync
        self._clock = clock
        self._machine = machine
        self._outlook = outlook or Outlook(emit, clock)
        self._count = 0
        self._open: StepStarted | None = None
        self._ended = False
        self._strict = config.method.mode == "acceptance"
        self._rules = self._rules_for()
        self._results: list[RepeatResult] = []
        self._stop: Literal["first_fail", "majority"] = "first_fail"
        self._recheck = False
        self._asked: OrderRun | None = None
        self._settling: OrderRun | None = None
        self._held_rate: HeldRate | None = None
        self._held_order: HeldOrder | None = None
        self._held: list[StepResult] = []
        self._sheds = False
        self._prefixes_known = prefixes_known or config.workload.prefix.kind != "shared"

    async def step(self, action: Step, left_s: float | None) -> StepResult:
        """Judge one rate, unless `end_step` ends that. Raises NoAnswer when a repeat is void twice or the server is frozen, and
        ServerAway when it is away."""
        rules = self._rules_for(curtail_pass=action.curtail_pass, reads_whole=action.reads_whole, strict=self._strict)
        started = self._start(action.phase, action.rate_rps, action.repeats, left_s, rules)
        self._stop = action.stop
        segments = self._planned = action.segments
        self._from_s = action.from_s
        try:
            for index in range(action.repeats):
                result, _ = await self._repeat(started, index, segments)
                if result.verdict == "unjudged" and result.warmup_needed_s is not None:  # its warm-up was too short
                    self._emit(Note(t=self._clock(), text=fact("warmup_again", result.reason, rate_rps=action.rate_rps)))
                    segments = modes.with_warmup(segments, result.warmup_needed_s, action.rate_rps, self._config.safety)
                    again = fact("left_warmup_again", rate_rps=action.rate_rps)
                    await self._repeat(started, index, segments, recheck=False, again=again)
                if step_over(self._results, action.stop, action.repeats):
                    break
        except _StepEnded:
            if not step_over(self._results, action.stop, action.repeats):
                return self._close(started.rate_rps, "unjudged", fact("user_ended"))
            self._ended = False  # its last repeat had its verdict before it was cut off
        return self._close(started.rate_rps, *step_verdict(self._results))

    def with_fewer(self) -> None:
        """Replicas were taken away: what follows is held against nothing that was before."""
        self._restarts.forget()
        self._drift = Drift(*self._state.began)

    @property
    def ended(self) -> bool:
        """Whether the last step was ended by `end_step`."""
        return self._ended

    def apart(self, knee: Knee) -> Fact | None:
        """What is to be said of a bracket that was not measured at one speed of the server."""
        return self._drift.apart(knee)

    def end_step(self) -> bool:
        """End the step that runs: its load is cut off at once, and it closes with the repeats that it has: as unjudged
        unless its verdict stood by then.

        A command between repeats runs to its end. Returns False, and does nothing, for a ramp, a held rate, where no step
        runs, and while the server is asked whether it is there at all.
        """
        if self._open is None or self._open.phase in ("ramp", "hold") or self._asked is not None:
            return False
        self._ended = True
        self._conductor.end()
        return True

    async def ramp(self, action: Ramp, left_s: float | None) -> tuple[float | None, float | None]:
        """Run the ramp: the rate of the last segment that held and of the one that failed, None where there is none. Raises as
        `step` does."""
        rules = self._rules_for()
        started = self._start("ramp", action.segments[0].rate_rps, 1, left_s, rules)
        _, run = await self._repeat(started, 0, action.segments)
        closed, passed_rps = self._close_ramp(started, run)
        return passed_rps, closed.rate_rps if closed.verdict == "fail" else None

    def _close_ramp(self, started: StepStarted, run: OrderRun) -> tuple[StepResult, float | None]:
        """The ramp as a step, and the rate of its last segment that held."""
        found = ramp_outcome(run.decision, run.decided_at, self._account(run), self._config.limits, self._clock())
        rate_rps = found.failed_rps or found.passed_rps or started.rate_rps
        verdict: StepVerdict = "pass" if found.failed_rps is None else "fail"
        return self._close(rate_rps, verdict, found.reason, found.floor), found.passed_rps

    async def hold(self, action: Hold) -> NoReturn:
        """Keep the rate until cancelled, and start a step of its own for each rate that `change_rate` asks for.

        Raises NoAnswer when the server is lost. One that is away is waited for.
        """
        segments, e2e_s = action.segments, self._idle_e2e_s
        warmup_s = sum(segment.duration_s for segment in segments if segment.role == "warmup")
        self._held_rate = rate = HeldRate(segments[-1].rate_rps, self._config.safety.max_rps, self._conductor.wind_down)
        while True:
            rules = self._rules_for(curtail_pass=False, strict=self._strict)
            started = self._start("hold", rate.now_rps, 0, None, rules)
            while rate.next_rps == rate.now_rps:
                await self._hold_order(started, segments)
            last = next((r for r in reversed(self._results) if r.warmup_needed_s is not None), None)
            if last is not None:
                e2e_s, warmup_s = last.e2e_s.mean or e2e_s, last.warmup_needed_s or warmup_s
            self._held.append(self._close(rate.now_rps, *held_verdict(self._results)))
            rate.now_rps = rate.next_rps
            within_s = max(segment.duration_s for segment in segments if segment.role == "measured")
            if self._config.safety.max_duration_s is None:
                within_s = math.inf
            measure_s = modes.rules_of(self._config.method).listed.measure_s
            most = modes.HOLD_REQUESTS if self._trace is None else modes.RECORDED_HOLD_REQUESTS
            segments = modes.hold_segments(
                measure_s, self._config.limits, self._config.safety, rate.now_rps, e2e_s, warmup_s, within_s, most=most
            )

    def change_rate(self, factor: float) -> float | None:
        """Multiply the held rate: what is open goes on to its end (at most the drain time), then the new rate starts.

        Returns the rate to come, or None when no rate is held.
        """
        if self._held_rate is None or self._open is None:
            return None
        before = self._held_rate.next_rps
        rate_rps = self._held_rate.change(factor)
        at_limit = rate_rps == self._config.safety.max_rps
        changed = fact("rate_next" if rate_rps != before else "rate_stays", rate_rps=rate_rps, at_limit=at_limit)
        self._emit(Note(t=self._clock(), text=changed))
        return rate_rps

    def held(self) -> tuple[Outcome, Fact] | None:
        """What became of the rates that were held, and whether that is an answer; None when none was."""
        if self._held_rate is None:
            return None
        rates = [(step.rate_rps, step.repeats) for step in self._held]
        return held(rates or [(self._held_rate.now_rps, self._results)])

    def break_off(
        self, how: Literal["stopped", "broken_off"], *, count_repeat: bool = True
    ) -> tuple[StepResult, float | None] | None:
        """Close the step that runs now, if any, and return it, with the rate that a ramp held; no load may run any more.

        Repeats that are finished are kept. It is unjudged, unless its verdict was certain by then (of a held rate: as its
        segments say). `count_repeat`: keep the figures of the repeat that was cut off, too.
        """
        started, run = self._open, self._settling or self._conductor.current
        if started is None:
            return None
        if started.phase == "hold":
            held, tally, run = self._held_order, self._state.tally, self._asked or run
            if held is not None and run is not None and tally is not None and count_repeat:
                for result in held.cut(run, tally, self._clock(), certain=self._asked is None):
                    self._keep(started, result, None)
            verdict, reason = held_verdict(self._results)
            told = reason if self._results or count_repeat else fact(how, reason)
            self._held.append(self._close(started.rate_rps, verdict, told))
            return self._held[-1], None
        if self._asked is not None:  # whether it was the load or the server is not known yet
            run, self._asked.decision, self._asked.stands = self._asked, None, False
        if count_repeat and run is not None and isinstance(run.order, RepeatOrder) and run.order.step == started.step:
            self._judge_cut(started, run)
            if started.phase == "ramp" and run.stands and self._results[-1].verdict != "void":
                return self._close_ramp(started, run)
        if started.phase != "ramp" and step_over(self._results, self._stop, started.repeats):
            return self._close(started.rate_rps, *step_verdict(self._results)), None
        cut = cut_off(self._results)
        return self._close(started.rate_rps, "unjudged", fact(how, cut) if cut else fact(how)), None

    def _judge_cut(self, started: StepStarted, run: OrderRun) -> None:
        """Judge what ran when the run ended, unless it was judged before; a decision counts if it stood by then."""
        if run.order.order in {result.order for result in self._results}:
            return
        if not run.stands:
            run.decision = None
        self._judge(started, run, recheck=self._recheck)

    def _rules_for(self, *, curtail_pass: bool = True, reads_whole: bool = False, strict: bool = False) -> JudgeRules:
        return rules_for(
            self._config,
            self._server,
            self._costs,
            self._classes,
            curtail_pass=curtail_pass,
            reads_whole=reads_whole,
            strict=strict,
        )

    def _start(self, phase: Phase, rate_rps: float, repeats: int, left_s: float | None, rules: JudgeRules) -> StepStarted:
        self._count += 1
        self._results, self._rules, self._ended = [], rules, False
        self._open = StepStarted(t=self._clock(), step=self._count, phase=phase, rate_rps=rate_rps, repeats=repeats, left_s=left_s)
        self._emit(self._open)
        return self._open

    async def _repeat(
        self,
        started: StepStarted,
        index: int,
        segments: tuple[Segment, ...],
        *,
        recheck: bool = True,
        again: Fact | None = None,
    ) -> tuple[RepeatResult, OrderRun]:
        """One repeat, done once more when it is void; the order's seeds are the same both times.

        `recheck`: of a full step, a pass whose warm-up was too short for its own latencies comes back as unjudged. `again`: why
        it is not the first one of this index.
        """
        result, self._recheck = None, recheck and started.phase != "ramp"
        for attempt in (1, 2):
            prepared = await self._between.prepare()
            await self._send_prefixes(anew=prepared)
            if self._ended:
                raise _StepEnded
            self._restarts.begin(self._readings.kept, ours=prepared)
            run = await self._load(started, index, segments, again)
            await self._settle(run)
            away = await self._away(started, run)
            result = self._judge(started, run, void=run.lost if away is None else away.fact, recheck=self._recheck)
            self._sync()
            if away is not None:
                self._restarts.forget()
                self._forget_prefixes()
                self._drift = Drift(*self._state.began)
                self._close(started.rate_rps, "void", result.reason)
                raise away
            if (restarted := self._restarts.ended(started.rate_rps, self._readings.judged)) is not None:
                self._remark(restarted)
            if run.lost is not None:
                self._close(started.rate_rps, "void", result.reason)
                raise NoAnswer(fact("server_unusable", run.lost))
            if self._ended:
                raise _StepEnded
            if result.verdict != "void":
                return result, run
            if says(result.reason, "recorded_lull"):  # it would play the same stretch again
                self._close(started.rate_rps, "void", result.reason)
                raise NoAnswer(fact("recording_unfit", result.reason, rate_rps=started.rate_rps))
            if attempt == 1:
                self._forget_prefixes()
                told = fact("done_again", result.reason, rate_rps=started.rate_rps)
                self._emit(Note(t=self._clock(), level="warn", text=told))
                again = fact("left_again", rate_rps=started.rate_rps)
        reason: Said = result.reason if result else ""
        self._close(started.rate_rps, "void", reason)
        raise NoAnswer(fact("void_twice", reason, rate_rps=started.rate_rps))

    async def _send_prefixes(self, *, anew: bool = False) -> None:
        """Have the server compute the shared prefixes that it may not know, before anything is judged: else the first window would
        find fewer of them in its cache than later ones. `anew`: it may have lost them."""
        if anew:
            self._forget_prefixes()
        if self._prefixes_known:
            return
        await self._conductor.prefixes(self._config)
        await self._readings.fresh(self._clock())
        self._prefixes_known = True

    def _forget_prefixes(self) -> None:
        self._prefixes_known = self._config.workload.prefix.kind != "shared"

    async def _settle(self, run: OrderRun) -> None:
        """Wait until nothing of an order is left in the server. One that is lost is not asked for anything."""
        cut_off = any(record.ending == "aborted" for record in self._account(run).records)
        self._settling = run
        await self._readings.settle(self._ask if run.lost is None else None, self._idle_e2e_s, cut_off=cut_off)
        self._settling = None

    async def _away(self, started: StepStarted, run: OrderRun) -> ServerAway | None:
        """Whether the server was away rather than overloaded, where the order failed and ended in errors: it is asked without
        load, which takes a second where it answers."""
        tally = self._account(run)
        last = unserved(tally.records, self._idle_e2e_s)
        failed = run.decision is not None and run.decision.kind in ("fail", "overload")
        if last is None or run.ended or not (failed or run.gone):
            return None
        rate_rps = started.rate_rps
        if started.phase == "ramp":
            rate_rps = tally.layout.segments[segment_at(tally, last.since)].rate_rps
        self._asked = run
        away = await self._away_from(run, rate_rps, last)
        self._asked = None
        return away

    async def _away_from(self, run: OrderRun, rate_rps: float, last: Unserved) -> ServerAway | None:
        """Whether an order whose last requests ended in such errors met a server that was away."""
        if run.gone:
            return ServerAway(rate_rps, last.since, last.words, "lost", last.alike)
        return await self._absence.found(rate_rps, last) if run.lost is None else None

    async def _load(self, started: StepStarted, index: int, segments: tuple[Segment, ...], again: Fact | None) -> OrderRun:
        await self._conductor.plan(segments)
        order, rules, drain_s = self._order(started, index, segments), self._rules, self._config.method.drain_s
        self._outlook.load(segments, order.start_at, again)

        def decide(now: float) -> Decision | None:
            tally = self._state.tally
            if tally is None:
                return None
            self._outlook.look(tally, rules, drain_s)
            if (backed_off := self._backed_off(tally, now)) is not None:
                return backed_off
            if started.phase == "ramp":
                return decide_ramp(tally, now, rules, drain_s) or runaway(tally, now, self._idle_e2e_s)
            return decide_step(tally, now, rules, drain_s)

        self._others.begin()
        return await self._conductor.run(order, decide, self._idle_e2e_s)

    def _backed_off(self, tally: Tally, now: float) -> Decision | None:
        """The rate fails, and its load ends, as soon as others suffer from it: it does not fit on top of them."""
        why = self._others.suffer(_servers_errors(tally), now)
        if why is None:
            return None
        at = segment_at(tally, now)
        reason = fact("backed_off", why, rate_rps=tally.layout.segments[at].rate_rps)
        self._emit(Note(t=now, level="warn", text=reason))
        return Decision(kind="fail", reason=reason, segment=at if tally.order.phase == "ramp" else None)

    def _order(self, started: StepStarted, index: int, segments: tuple[Segment, ...]) -> RepeatOrder:
        """The order to be run at once; the readings kept begin just before it."""
        before = self._conductor.current
        self._readings.keep_from_now(before.done.t if before is not None and before.done is not None else -math.inf)
        recorded = self._recorded(started.phase, index, segments)
        return RepeatOrder(
            order=self._conductor.next_order(),
            phase=started.phase,
            step=started.step,
            repeat=index,
            seed=self._config.method.seed_of_requests,
            arrival_seed=self._config.method.seed_of_arrivals,
            draw=self._draw(started),
            segments=segments,
            offsets_s=recorded.offsets_s if recorded else None,
            parts=recorded.parts if recorded else None,
            shared=recorded.shared if recorded else None,
            start_at=self._conductor.start_at() + (HOLD_LEAD_S if started.phase == "hold" else 0.0),
        )

    def _draw(self, started: StepStarted) -> int | None:
        if not self._config.method.one_draw:
            return fresh_draw(started.phase, started.step)
        steps = self._at.setdefault((started.phase, started.rate_rps), [])
        if started.step not in steps:
            steps.append(started.step)
        return same_draw(started.phase, steps.index(started.step))

    def _recorded(self, phase: Phase, index: int, segments: tuple[Segment, ...]) -> Given | None:
        """What arrives where it is recorded: a repeat has the stretch of its number, an order of a held rate goes on where the one
        before ended. A ramp only looks for the neighbourhood, and has drawn arrivals."""
        if self._trace is None or phase == "ramp":
            return None
        if phase != "hold":
            return self._trace.stretch(segments, index, self._planned, self._from_s)
        from_s = self._played_s
        self._played_s += modes.recorded_s(segments, self._trace.use.mean_rps)
        return self._trace.played(segments, from_s)

    async def _hold_order(self, started: StepStarted, segments: tuple[Segment, ...]) -> None:
        """One order of a held rate to its end: the last segment, or another rate being asked for."""
        await self._conductor.plan(segments)
        if self._held_rate is not None and self._held_rate.next_rps != started.rate_rps:
            return  # changed meanwhile, when there was nothing yet to be wound down
        await self._send_prefixes()
        order, drain_s = self._order(started, len(self._results), segments), self._config.method.drain_s
        read = self._readings.since, self._server, self._machine
        held = HeldOrder(order, self._rules, drain_s, *read, self._idle_e2e_s, sheds=self._sheds)
        self._held_order = held

        def decide(now: float) -> Decision | None:
            run, tally = self._conductor.current, self._state.tally
            if run is None or tally is None:
                return None
            if (why := self._others.suffer(_servers_errors(tally), now)) is not None:
                raise SafetyStop(fact("backed_off_held", why))
            while (result := held.judge(run, tally, now)) is not None:
                self._keep(started, result, held.account)
                self._sync()
            drained = run.wound_down_at is not None and now > run.wound_down_at + drain_s
            over = held.over or drained or held.dark
            return Decision(kind="complete", reason=fact("segments_judged")) if over else None

        self._others.begin()
        run = await self._conductor.run(order, decide, self._idle_e2e_s, held.hear)
        self._asked, last = run, held.unserved
        asks = last is not None and (run.gone or (held.asks and last.dark))
        away = await self._away_from(run, started.rate_rps, last) if last is not None and asks else None
        self._asked, self._sheds = None, (asks and away is None) or not held.asks
        if asks and away is None:
            held.believe()
        for result in held.cut(run, self._account(run), self._clock(), away=away):
            self._keep(started, result, None)
        self._held_order = None
        if away is not None:
            self._forget_prefixes()
            if (why := await self._absence.over(away)) is not None:
                self._held.append(self._close(started.rate_rps, "void", away.fact))
                raise NoAnswer(why)
            self._remark(away.was(self._clock(), held=True))
            return
        if run.lost is not None:
            self._held.append(self._close(started.rate_rps, "void", run.lost))
            raise NoAnswer(fact("server_unusable", run.lost))

    def _judge(
        self,
        started: StepStarted,
        run: OrderRun,
        *,
        void: Said | None = None,
        recheck: bool = False,
    ) -> RepeatResult:
        """`void`: why the server was not there to be judged."""
        tally, now = self._account(run), self._clock()
        at = now if run.decided_at is None else run.decided_at
        read = self._readings.judged, run.ticks, run.done, self._server, self._machine()
        result = judge_repeat(tally, run.decision, at, self._rules, *read)
        if (reason := void or run.lost) is not None:
            result = msgspec.structs.replace(result, verdict="void", reason=reason)
        if result.verdict == "pass" and self._readings.end_before(now if run.done is None else run.done.t):
            result = msgspec.structs.replace(result, warnings=(*result.warnings, fact("end_unread")))
        kept = self._keep(started, rechecked(result) if recheck else result, tally)
        if self._twin is not None:
            self._twin.judged(tally, kept)
        return kept

    def _keep(self, started: StepStarted, result: RepeatResult, tally: Tally | None) -> RepeatResult:
        """`tally`: its account, where there is one."""
        speed = None
        if tally is not None and result.verdict in ("pass", "fail"):
            speed = self._drift.judged(tally.records, started.rate_rps)
            result = msgspec.structs.replace(result, step_model=speed.steps)
        self._results.append(result)
        self._emit(RepeatJudged(t=self._clock(), step=started.step, result=result))
        self._outlook.judged(result)
        if speed is not None and speed.change is not None:
            self._remark(speed.change)
        if self._config.workload.natural and result.verdict in ("pass", "fail"):
            drifts = self._output_drift.judged(result.output_tokens, started.rate_rps)
            if drifts is not None:
                self._remark(drifts)
        return result

    def _account(self, run: OrderRun) -> Tally:
        if self._state.tally is None:
            raise RuntimeError(f"order {run.order.order} was run without an account")
        return self._state.tally

    def _close(self, rate_rps: float, verdict: StepVerdict, reason: Said, floor: Interval | None = None) -> StepResult:
        started, self._open = self._open, None
        if started is None:
            raise RuntimeError("a step was closed that was never begun")
        now = self._clock()
        if (spread := spread_note(self._results)) is not None:
            self._emit(Note(t=now, text=fact("at_rate", spread, rate_rps=rate_rps)))
        result = StepResult(
            step=started.step,
            rate_rps=rate_rps,
            phase=started.phase,
            verdict=verdict,
            reason=reason,
            floor=floor or floor_of(self._results),
            repeats=tuple(self._results),
            duration_s=now - started.t,
            set_aside=started.phase == "lost",
        )
        self._emit(StepJudged(t=now, result=result))
        self._outlook.closed(result)
        return result


def _servers_errors(tally: Tally) -> int:
    """Errors of an order so far, without those that are this machine's own fault."""
    return sum(n for ending, n in tally.errors.items() if ending != "client")
