"""The one reducer: apply(event) -> view(), with the account of the repeat that runs now.

The only mutable object of a run; live and recorded runs share it.
"""

import math
from collections import deque
from collections.abc import Iterable
from datetime import datetime
from functools import partial
from statistics import median
from typing import Literal

import msgspec

from core.facts import Fact, Said, fact, says
from core.judge import (
    CLOSING_S,
    REPORT_DELAY_S,
    Senders,
    Tally,
    closing_s,
    set_aside,
)
from core.prefixes import block_tokens
from core.records import (
    ASIDE,
    LoadReady,
    LoadState,
    LoadTick,
    RepeatOrder,
    RequestEnded,
    RequestFirst,
    RequestHeld,
    RequestSent,
    ServerSample,
)
from core.results import RepeatResult, StepResult
from core.run.at_once import TURNS, AtOnce
from core.run.events import (
    AnswerFound,
    CheckDone,
    ClosedMeasured,
    ClosedStarted,
    Event,
    Expected,
    LoadStateChanged,
    Note,
    RepeatJudged,
    RepeatStarted,
    RunEnded,
    RunStarted,
    SampleFailed,
    SearchRestarted,
    ServerKnown,
    ServerSampled,
    StepJudged,
    StepStarted,
    TwinRead,
    WorkersKnown,
    WorkloadKnown,
    time_of,
)
from core.run.live_repeat import LiveRepeat
from core.run.live_workers import workers_told
from core.run.outlook import Expects
from core.run.series import Series
from core.run.standing import Standing, Standings
from core.schedule import draw
from core.slo import tpot_s
from core.view import Line, Progress, RampSegment, RunView, StepView

LINES_KEPT = 200


class State:
    """Everything known about a run so far, made from its events alone, in the order in which they were logged."""

    def __init__(self, *, keeps_records: bool = True) -> None:
        """`keeps_records` False: only for views, and not for a judge, who needs every request that has ended."""
        self._keeps_records = keeps_records
        self._version = 0
        self._newest_t = -math.inf
        self._known = RunView(version=0, now_s=0.0, bin_s=1.0)
        self._series: Series | None = None
        self._standing: Standing | None = None
        self._ended_at: float | None = None
        self._step: StepStarted | None = None
        self._expects = Expects()
        self._finished: list[RepeatResult] = []
        self._live: LiveRepeat | None = None
        self._steps: list[StepResult] = []
        self._ramp: tuple[RampSegment, ...] = ()
        self._lines: deque[Line] = deque(maxlen=LINES_KEPT)
        self._sample: ServerSample | None = None
        self._closing_s = 0.0
        self._beside = False
        """Whether the answer stands: what is measured after that is not drawn beside open arrivals, and counts nowhere."""
        self._singles: dict[int, float | None] = {}

    def apply(self, event: Event) -> None:
        """Take in one event. An event before RunStarted or of an unknown order changes nothing but the version."""
        self._version += 1
        if isinstance(event, RunStarted):
            self._start(event)
        if self._series is None:
            return
        t = time_of(event)
        self._newest_t = max(self._newest_t, t)
        self._advance(self._series, t)
        match event:
            case RequestHeld() | RequestSent() | RequestFirst() | RequestEnded():
                if not self._beside:
                    self._request(self._series, event)
            case ServerSampled(sample=sample):
                self._sample = sample
                if not self._beside:
                    self._series.sample(sample)
                if self._live is not None:
                    self._live.sample(sample)
                self._learn(metrics_error=None)
            case StepStarted() | RepeatStarted() | RepeatJudged() | StepJudged():
                self._progress(self._series, event)
            case _:
                self._fact(event)

    def apply_all(self, events: Iterable[Event]) -> None:
        """Take in many events: the same as `apply` of each, in a fraction of the time where most are of requests."""
        rest, together = iter(events), self._together(None)
        while (event := next(rest, None) if together is None else together.take(rest)) is not None:
            if together is not None:
                together.before(event)
            self.apply(event)
            if isinstance(event, TURNS):
                together = self._together(together)
        if together is not None:
            together.settle()

    def _together(self, before: AtOnce | None) -> AtOnce | None:
        """What takes in the requests of the repeat that runs; None where they have to be taken in one by one."""
        live, series, standing, config = self._live, self._series, self._standing, self._known.config
        if live is None or series is None or standing is None or config is None:
            return None
        if self._beside or self._keeps_records:
            return None
        if before is not None and before.live is live:
            return before
        return AtOnce(live, config.limits, series, standing, advance=partial(self._advance, series), took=self._took)

    def _took(self, events: int, newest_t: float, closing_s: float) -> None:
        self._version += events
        self._newest_t = max(self._newest_t, newest_t)
        self._closing_s = max(self._closing_s, closing_s)

    def view(self, now: float) -> RunView:
        """A frozen snapshot at monotonic time `now` (for a recorded run: the time of the event last applied).

        After the run's end `now` stands still, so that a reader who looks later sees the same.
        """
        if self._series is None:
            return msgspec.structs.replace(self._known, version=self._version)
        start = self._series.start
        now = max(now if self._ended_at is None else self._ended_at, start)
        live = self._live
        seen = now - REPORT_DELAY_S if self._ended_at is None else now
        progress = self._progress_at(now, start) if self._ended_at is None else None
        standings = self._standing.look(seen, self._lag_s) if self._standing else Standings((), ())
        return msgspec.structs.replace(
            self._known,
            version=self._version,
            now_s=now - start,
            bin_s=self._series.bin_s,
            current=self._step_view(now),
            steps=tuple(self._steps),
            ramp=(live.ramp(now) if live is not None else ()) or self._ramp,
            series=self._series.points(now, live.bounds(now) if live and not live.decided else None),
            outcomes=self._series.outcomes(now, standings.overdue),
            margins=standings.margins,
            sample=self._sample,
            sample_age_s=max(now - self._sample.t, 0.0) if self._sample else None,
            lines=tuple(self._lines),
            left_s=None if progress is None else progress.left_s,
            progress=progress,
        )

    @property
    def tally(self) -> Tally | None:
        """The account of the repeat that runs now."""
        return self._live.tally if self._live else None

    @property
    def applied(self) -> int:
        """How many events were taken in."""
        return self._version

    @property
    def newest_t(self) -> float:
        """The latest moment that one of them tells of, on their clock."""
        return self._newest_t

    @property
    def began(self) -> tuple[float, float | None]:
        """The run's start on the clock of its events, and in seconds since 1970; None where that is not known."""
        told = self._known.started_utc
        return (
            0.0 if self._series is None else self._series.start,
            None if told is None else datetime.fromisoformat(told).timestamp(),
        )

    @property
    def load(self) -> LoadState:
        """What the load does now."""
        return self._known.load

    def _learn(self, **facts: object) -> None:
        self._known = msgspec.structs.replace(self._known, **facts)

    def _start(self, event: RunStarted) -> None:
        self._series = Series(event.t)
        self._standing = Standing(event.config.limits)
        facts = {"started_utc": event.started_utc, "config": event.config, "client": event.client, "truth_rps": event.truth_rps}
        named = {"label": event.label, "utc_offset_s": event.utc_offset_s}
        self._learn(command=event.command or None, **named, **facts)

    def _advance(self, series: Series, t: float) -> None:
        """Move the time axis on; the account of the running repeat is looked at once at the end of each bin."""
        ends = series.ends_before(t) if self._live and not self._live.decided else []
        series.advance(t)
        for end in ends:
            if self._live and end > self._live.order.start_at:
                series.floor(end, self._live.bounds(end))

    def _request(self, series: Series, event: RequestHeld | RequestSent | RequestFirst | RequestEnded) -> None:
        """Requests of preflight belong to no repeat and leave no trace in plots and counts; how slowly answers close is kept,
        and the TPOT of those that had the server for themselves."""
        if isinstance(event, RequestEnded):
            self._closing_s = max(self._closing_s, closing_s(event))
            self._single(event)
        live, standing = self._live, self._standing
        if live is None or standing is None or event.order != live.order.order:
            if standing is not None and isinstance(event, RequestEnded):  # cut off, and told after its step was closed
                self._told_late(series, standing, event)
            return
        match event:
            case RequestHeld():
                live.held(event)
                sent, rate_rps = live.about(event)
                standing.sent(event, sent)
                series.held(event, rate_rps, sent.judged)
            case RequestSent():
                if live.sent(event):
                    standing.let_through(event)
                    series.let_through(event)
                else:
                    sent, rate_rps = live.about(event)
                    standing.sent(event, sent)
                    series.sent(event, rate_rps, sent.judged)
            case RequestFirst():
                t_sched = live.first(event)
                if t_sched is not None:
                    series.first(event, t_sched)
                    standing.first(event)
            case RequestEnded():
                had_first = live.ended(event)
                if had_first is not None:
                    if live.tally.traffic.has_left(event.index):
                        series.ended(event, had_first)
                    if (fate := standing.ended(event, self._lag_s)) is not None:
                        series.decided(fate.t_sched, fate.good)

    @property
    def _lag_s(self) -> float:
        """How long the end of an answer may lag behind its last token, as the account of a repeat has it."""
        return max(self._closing_s, CLOSING_S)

    def _told_late(self, series: Series, standing: Standing, event: RequestEnded) -> None:
        """The end of a request whose step is closed; of one that never came, or is of preflight, nothing is known."""
        if (fate := standing.ended(event, self._lag_s)) is not None:
            if fate.left:
                series.ended(event, fate.begun)
            series.decided(fate.t_sched, fate.good)

    def _progress(self, series: Series, event: StepStarted | RepeatStarted | RepeatJudged | StepJudged) -> None:
        match event:
            case StepStarted():
                self._step, self._finished, self._live = event, [], None
                self._expects.begin(event)
                series.step(event.t, event.step)
            case RepeatStarted(order=order) if order.phase in ASIDE:  # also asked after a repeat, which stays
                if order.phase == "single" and order.repeat > 0:  # the first one is not judged
                    self._singles[order.order] = None
            case RepeatStarted(order=order):
                self._live = self._begin(order)
            case RepeatJudged(result=result):
                if self._live is not None:
                    series.floor(event.t, self._live.bounds(event.t))
                    self._judge(self._live.order, result)
                    if self._live.order.phase != "hold":  # there the next segment is already being sent
                        self._live.decide(event.t, result.reason)
                if result.verdict in ("pass", "fail"):
                    self._finished.append(result)
            case StepJudged(result=result):
                self._steps.append(result)
                if self._live is not None and result.verdict in ("pass", "fail"):  # the rates of a void ramp say nothing
                    self._ramp = self._live.ramp(event.t) or self._ramp
                self._step, self._live = None, None
                self._say(event.t, _level(result), step_told(result), step=result.step)

    def _judge(self, order: RepeatOrder, result: RepeatResult) -> None:
        if self._standing is not None:
            repeat = result.index if order.phase == "hold" else order.repeat
            self._standing.judged(order.order, repeat, void=result.verdict == "void")

    def _begin(self, order: RepeatOrder) -> LiveRepeat | None:
        config = self._known.config
        if config is None:
            return None
        plan = draw(order, config.workload)
        keeps, senders = self._keeps_records and order.phase != "hold", Senders.among(self._known.workers, plan)
        tally = Tally(order, plan, config.limits, self._closing_s, keeps_records=keeps, senders=senders)
        capped, block = config.workload.gateway is not None, block_tokens(self._known.server)
        return LiveRepeat(order, tally, config.method.drain_s, self._sample, capped=capped, block=block)

    def _single(self, event: RequestEnded) -> None:
        if event.order in self._singles and event.ending == "ok":
            self._singles[event.order] = tpot_s(event)
            known = [tpot for tpot in self._singles.values() if tpot is not None]
            self._learn(single_tpot_s=median(known) if known else None)

    def _fact(self, event: Event) -> None:
        """What needs no reckoning; the end of an order matters to the judge alone."""
        match event:
            case LoadTick(order=order):
                if self._live is not None and self._live.order.order == order:
                    self._live.tick(event)
            case LoadReady(transport=transport):
                client = self._known.client
                self._learn(client=client and msgspec.structs.replace(client, transport=transport))
            case CheckDone(check=check):
                self._learn(checks=(*self._known.checks, check))
            case ServerKnown(info=info):
                self._learn(server=info)
            case WorkloadKnown():
                config = self._known.config
                self._learn(config=config and event.known(config))
            case WorkersKnown(t=t, workers=workers):
                self._learn(workers=workers)
                self._say(t, "info", workers_told(workers))
            case SampleFailed(t=t, reason=reason):
                self._learn(metrics_error=reason)
                self._say(t, "warn", reason)
            case LoadStateChanged(state=state):
                self._learn(load=state)
            case Expected():
                self._expects.told(event)
            case TwinRead(reading=reading):
                self._learn(twin=reading)
            case AnswerFound(answer=answer):
                self._beside = True
                self._learn(found=answer)
            case ClosedStarted(order=order):
                self._learn(closed_in_flight=order.in_flight)
            case ClosedMeasured(closed=closed):
                self._learn(closed_loop=closed, closed_in_flight=None)
            case SearchRestarted():
                self._learn(twin=None)
                self._steps = [set_aside(step) for step in self._steps]
                self._ramp = ()
                if self._standing is not None:
                    self._standing.forget()
            case Note(t=t, level=level, text=text):
                self._say(t, level, text)
            case RunEnded(t=t, answer=answer):
                self._ended_at = t
                started = t if self._series is None else self._series.start
                self._learn(answer=answer, duration_s=t - started)
            case _:
                pass

    def _say(self, t: float, level: Literal["info", "warn", "error"], text: Said, step: int | None = None) -> None:
        start = t if self._series is None else self._series.start
        if self._beside and level == "warn":  # it is not of what the answer rests on, beside which warnings stand
            level = "info"
        self._lines.append(Line(t_s=t - start, level=level, text=text, step=step))

    def _progress_at(self, now: float, start: float) -> Progress | None:
        live, config = self._live, self._known.config
        return self._expects.progress(now, start, 0.0 if live is None else live.window_left_s(now), config)

    def _step_view(self, now: float) -> StepView | None:
        step, live = self._step, self._live
        if step is None:
            return None
        ramping = live is not None and step.phase == "ramp"
        return StepView(
            step=step.step,
            phase=step.phase,
            rate_rps=live.rate_rps(now) if live is not None and ramping else step.rate_rps,
            repeats_planned=step.repeats,
            finished=tuple(result.attainment_interval for result in self._finished),
            live=live.view(now) if live is not None else None,
            verdicts=tuple(result.verdict for result in self._finished),
        )


def _level(result: StepResult) -> Literal["info", "warn"]:
    """A held rate that was left before anything was judged is as it was wanted: no warning, unless what there was is void or it
    was broken off."""
    if result.verdict == "unjudged" and result.phase == "hold" and not says(result.reason, "broken_off"):
        return "warn" if any(repeat.verdict == "void" for repeat in result.repeats) else "info"
    return "warn" if result.verdict in ("void", "unjudged") else "info"


def step_told(result: StepResult) -> Fact:
    """A judged step for the line of events."""
    figures = {"step": result.step, "phase": result.phase, "verdict": result.verdict, "rate_rps": result.rate_rps}
    return fact("step_judged", result.reason, **figures)
