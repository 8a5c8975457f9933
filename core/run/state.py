"""The one reducer: apply(event) -> view(). The only mutable object of a run; live and recorded runs share it."""

from collections import deque
from statistics import median
from typing import Literal

import msgspec

from core import prose
from core.facts import Fact, says
from core.judge.bracket import rate_text
from core.judge.slo import tpot_s
from core.judge.tally import Tally, closing_s
from core.load.arrivals import draw
from core.records import LoadReady, LoadState, LoadTick, RepeatOrder, RequestEnded, RequestFirst, RequestSent, ServerSample
from core.results import RepeatResult, StepResult
from core.run.events import (
    CheckDone,
    Event,
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
    time_of,
)
from core.run.live import LiveRepeat
from core.run.series import Series
from core.run.verdicts import set_aside
from core.run.view import Line, RampSegment, RunView, StepView

LINES_KEPT = 200


class State:
    """Everything known about a run so far, made from its events alone, in the order in which they were logged."""

    def __init__(self) -> None:
        self._version = 0
        self._known = RunView(version=0, now_s=0.0, bin_s=1.0)
        self._series: Series | None = None
        self._ended_at: float | None = None
        self._step: StepStarted | None = None
        self._finished: list[RepeatResult] = []
        self._live: LiveRepeat | None = None
        self._steps: list[StepResult] = []
        self._ramp: tuple[RampSegment, ...] = ()
        self._lines: deque[Line] = deque(maxlen=LINES_KEPT)
        self._sample: ServerSample | None = None
        self._closing_s = 0.0
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
            case RequestSent() | RequestFirst() | RequestEnded():
                self._request(self._series, event)
            case ServerSampled(sample=sample):
                self._sample = sample
                self._series.sample(sample)
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
        return msgspec.structs.replace(
            self._known,
            version=self._version,
            now_s=now - start,
            bin_s=self._series.bin_s,
            current=self._step_view(now),
            steps=tuple(self._steps),
            ramp=(live.ramp(now) if live is not None else ()) or self._ramp,
            series=self._series.points(now, live.bounds(now) if live and not live.decided else None),
            sample=self._sample,
            sample_age_s=max(now - self._sample.t, 0.0) if self._sample else None,
            lines=tuple(self._lines),
            left_s=self._left_s(now),
        )

    @property
    def tally(self) -> Tally | None:
        """The account of the repeat that runs now."""
        return self._live.tally if self._live else None

    @property
    def load(self) -> LoadState:
        """What the load does now."""
        return self._known.load

    def _learn(self, **facts: object) -> None:
        self._known = msgspec.structs.replace(self._known, **facts)

    def _start(self, event: RunStarted) -> None:
        self._series = Series(event.t)
        facts = {"started_utc": event.started_utc, "config": event.config, "client": event.client, "truth_rps": event.truth_rps}
        self._learn(command=event.command or None, **facts)

    def _advance(self, series: Series, t: float) -> None:
        """Move the time axis on; the account of the running repeat is looked at once at the end of each bin."""
        ends = series.ends_before(t) if self._live and not self._live.decided else []
        series.advance(t)
        for end in ends:
            if self._live and end > self._live.order.start_at:
                series.floor(end, self._live.bounds(end))

    def _request(self, series: Series, event: RequestSent | RequestFirst | RequestEnded) -> None:
        """Requests of preflight belong to no repeat and leave no trace in plots and counts; how slowly answers close is kept,
        and the TPOT of those that had the server for themselves."""
        if isinstance(event, RequestEnded):
            self._closing_s = max(self._closing_s, closing_s(event))
            self._single(event)
        live = self._live
        if live is None or event.order != live.order.order:
            return
        match event:
            case RequestSent():
                live.sent(event)
                series.sent(event)
            case RequestFirst():
                t_sched = live.first(event)
                if t_sched is not None:
                    series.first(event, t_sched)
            case RequestEnded():
                had_first = live.ended(event)
                if had_first is not None:
                    series.ended(event, had_first)

    def _progress(self, series: Series, event: StepStarted | RepeatStarted | RepeatJudged | StepJudged) -> None:
        match event:
            case StepStarted():
                self._step, self._finished, self._live = event, [], None
                series.step(event.t, event.step)
            case RepeatStarted(order=order) if order.phase in ("preflight", "single"):  # also asked after a repeat, which stays
                if order.phase == "single" and order.repeat > 0:  # the first one is not judged
                    self._singles[order.order] = None
            case RepeatStarted(order=order):
                self._live = self._begin(order)
            case RepeatJudged(result=result):
                if self._live is not None:
                    series.floor(event.t, self._live.bounds(event.t))
                    if self._live.order.phase != "hold":  # there the next segment is already being sent
                        self._live.decide(event.t, result.reason)
                if result.verdict in ("pass", "fail"):
                    self._finished.append(result)
            case StepJudged(result=result):
                self._steps.append(result)
                if self._live is not None and result.verdict in ("pass", "fail"):  # the rates of a void ramp say nothing
                    self._ramp = self._live.ramp(event.t) or self._ramp
                self._step, self._live = None, None
                self._say(event.t, _level(result), step_line(result), step=result.step)

    def _begin(self, order: RepeatOrder) -> LiveRepeat | None:
        config = self._known.config
        if config is None:
            return None
        plan = draw(order, config.workload)
        arrays = (plan.offsets_s, plan.segment, plan.output_tokens)
        tally = Tally(order, *arrays, config.slo, plan.input_tokens, self._closing_s, keeps_records=order.phase != "hold")
        return LiveRepeat(order, tally, config.method.drain_s)

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
            case SampleFailed(t=t, reason=reason):
                self._learn(metrics_error=reason)
                self._say(t, "warn", reason)
            case LoadStateChanged(state=state):
                self._learn(load=state)
            case SearchRestarted():
                self._steps = [set_aside(step) for step in self._steps]
                self._ramp = ()
            case Note(t=t, level=level, text=text):
                self._say(t, level, text, event.fact)
            case RunEnded(t=t, answer=answer):
                self._ended_at = t
                started = t if self._series is None else self._series.start
                self._learn(answer=answer, duration_s=t - started)
            case _:
                pass

    def _say(
        self, t: float, level: Literal["info", "warn", "error"], text: str, fact: Fact | None = None, step: int | None = None
    ) -> None:
        start = t if self._series is None else self._series.start
        self._lines.append(Line(t_s=t - start, level=level, text=text, fact=fact, step=step))

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

    def _left_s(self, now: float) -> float | None:
        """The estimate made at the step's start, counted down; it is not known between steps."""
        if self._step is None or self._step.left_s is None or self._ended_at is not None:
            return None
        return max(self._step.left_s - (now - self._step.t), 0.0)


def _level(result: StepResult) -> Literal["info", "warn"]:
    """A held rate that was left before anything was judged is as it was wanted: no warning, unless what there was is void or it
    was broken off."""
    if result.verdict == "unjudged" and result.phase == "hold" and not says(result.reason, "broken_off"):
        return "warn" if any(repeat.verdict == "void" for repeat in result.repeats) else "info"
    return "warn" if result.verdict in ("void", "unjudged") else "info"


def step_line(result: StepResult) -> str:
    """A judged step in one line."""
    what = "ramp" if result.phase == "ramp" else f"step {result.step}"
    return f"{what}: {result.verdict} at {rate_text(result.rate_rps)}: {prose.text(result.reason)}"
