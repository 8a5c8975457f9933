"""The one reducer: apply(event) -> view(), with the account of the repeat that runs now.

The only mutable object of a run; live and recorded runs share it.
"""

import bisect
import math
from collections import deque
from datetime import datetime
from statistics import median
from typing import Literal

import msgspec
import numpy as np

from core.engine import BLOCK_TOKENS
from core.facts import Fact, Said, fact, says
from core.judge import (
    CLOSING_S,
    REPORT_DELAY_S,
    Tally,
    busiest_share,
    closing_s,
    drain_left_s,
    ramp_holds,
    replica_uses,
    set_aside,
    stalls_too_often,
)
from core.prefixes import block_tokens, shown_hit_frac
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
from core.results import Bounds, RepeatResult, StepResult
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
    WorkloadKnown,
    time_of,
)
from core.run.outlook import Expects
from core.run.series import Series
from core.run.standing import Sent, Standing, Standings
from core.schedule import draw
from core.shared_blocks import found_frac
from core.slo import tpot_s
from core.view import Line, Part, Progress, RampSegment, RepeatView, RunView, StepView


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
        self._capped = capped
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

    def held(self, event: RequestHeld) -> None:
        self.tally.held(event)
        self._due[event.index] = event.t_sched

    def sent(self, event: RequestSent) -> bool:
        """Whether it was held back before."""
        held = event.index in self._due
        self.tally.sent(event)
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
            at_gateway=self.tally.at_gateway if self._capped else None,
            errors=sum(self.tally.errors.values()),
            lateness_p99_s=self._lateness_p99_s(),
            decided=self.decided,
            drain_left_s=None if self._held or self.decided else drain_left_s(self.tally, now, self._drain_s),
            client_cpu_frac=max((tick.cpu_frac for tick in self._ticks), default=None),
            loop_lag_max_s=max(lags_s, default=None),
            stalled=stalls_too_often(lags_s, self.tally.slo.shortest_ttft_s),
            warmup=self._warmup(now),
            prefix_hit_frac=shown_hit_frac(self._first_sample, self._last_sample),
            planned_hit_frac=self._planned_hit_frac(elapsed_s),
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
        return self._late_p99_s[1]


def held_segments_s(order: RepeatOrder) -> tuple[tuple[float, float], ...]:
    """Begin and end of each measured segment, in seconds after the order's time zero."""
    spans, t_s = [], 0.0
    for segment in order.segments:
        if segment.role == "measured":
            spans.append((t_s, t_s + segment.duration_s))
        t_s += segment.duration_s
    return tuple(spans)


LINES_KEPT = 200


class State:
    """Everything known about a run so far, made from its events alone, in the order in which they were logged."""

    def __init__(self, *, keeps_records: bool = True) -> None:
        """`keeps_records` False: only for views, and not for a judge, who needs every request that has ended."""
        self._keeps_records = keeps_records
        self._version = 0
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
        self._advance(self._series, time_of(event))
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
        tally = Tally(order, plan, config.limits, self._closing_s, keeps_records=self._keeps_records and order.phase != "hold")
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
